//! The replay lane: batches of replays, slowly and one after the other.
//!
//! A message on the dead letter queue drives the lane, a *tick*, in a message group of its own: so one
//! container works on it at a time, as a rule. A tick replays as many events of the oldest batch as the rate
//! allows and comes back when it allows more, until no batch is left. A crash brings the tick back, and the
//! ledger says what was replayed: nothing is repeated, and nothing is lost.
//!
//! The queue hands a tick to a second container when the first one stands still for too long. So each count
//! is a conditional write that knows the batch's bounds and whether it was stopped, and each replay looks at
//! the row again.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::time::Timestamp;
use shared::ledger::batch::{Batch, Batches, Filter, Progress};
use shared::ledger::queue::Tick;
use shared::ledger::{Reason, Refusal, Row, State, Word};
use shared::limits::rates::{Decision, Rate};
use shared::operate::requeue::{Record, RequeueError, end, unsent};
use tracing::{info, warn};

use crate::lists::both_ends;
use crate::operations::{Failure, refuse};
use crate::{Replay, send};

/// How many events one tick replays at most: it ends well within an invocation.
const MAX_TICK: u32 = 20;

/// How many parked events a tick looks at.
const PAGE: usize = 100;

/// The most batches that wait for each other.
const MAX_RUNNING: usize = 5;

/// What the schedule replays at most, each time.
const SCHEDULED: usize = 20;

/// How often the schedule replays one event at most. What three replays did not heal is a human's.
const SCHEDULED_REPLAYS: u32 = 3;

/// How long the lane rests when something did not answer.
const OUTAGE: Duration = Duration::from_secs(10);

/// Opens a batch, and sets the lane going.
pub(crate) async fn open(
    replay: &Replay,
    filter: Filter,
    max: u32,
    per_minute: u32,
    word: Word<'_>,
) -> Result<Value, Failure> {
    if !(1..=Batch::MOST).contains(&max) || !(1..=Batch::FASTEST).contains(&per_minute) {
        let (most, fastest) = (Batch::MOST, Batch::FASTEST);
        return Err(refuse(format!("`max` must be from 1 to {most}, and `rate` from 1 to {fastest} a minute")));
    }
    let started_at = replay.clock.now();
    let batch = Batch {
        id: format!("{:x}-{:04x}", started_at.millis(), replay.chance.bits() & 0xffff),
        filter,
        max,
        per_minute,
        by: word.by.to_owned(),
        why: word.why.to_owned(),
        started_at,
        replayed: 0,
        passed: None,
        progress: Progress::Running,
        stopped_by: None,
    };
    let (batches, version) = read(replay).await?;
    if batches.all().iter().filter(|batch| batch.progress == Progress::Running).count() >= MAX_RUNNING {
        return Err(refuse(format!("{MAX_RUNNING} batches wait already: stop one, or wait for one")));
    }
    replay.batches.put(&batches.with(batch.clone()), version).await?;
    info!(batch = batch.id, by = word.by, "batch opened");
    // It is opened, whatever becomes of its tick: who heard otherwise would open a second one.
    if let Err(error) = drive(replay, &batch).await {
        warn!(batch = batch.id, %error, "the schedule sets the lane going");
    }
    Ok(json!(batch))
}

async fn drive(replay: &Replay, batch: &Batch) -> Result<(), Unavailable> {
    replay.ticks.send(&Tick { batch: batch.id.clone() }).await
}

/// Stops a batch. What is on its way goes on, and so does an event that is counted already.
pub(crate) async fn stop(replay: &Replay, id: &str, word: Word<'_>) -> Result<Value, Failure> {
    change(replay, id, |batch| batch.stop(word)).await?;
    info!(batch = id, by = word.by, "batch stopped");
    Ok(json!({"id": id, "progress": Progress::Stopped}))
}

/// The newest batches.
pub(crate) async fn status(replay: &Replay) -> Result<Value, Failure> {
    Ok(json!(read(replay).await?.0))
}

/// One tick: replays what the rate allows. Says how long the lane rests, or that there is nothing to do.
pub(crate) async fn tick(replay: &Replay) -> Option<Duration> {
    match work(replay).await {
        Ok(rest) => rest,
        // It was stopped, or another container was faster: what is written decides.
        Err(Failure::Refused(refusal)) => {
            info!(%refusal, "the lane looks again");
            Some(Duration::ZERO)
        }
        Err(Failure::Unavailable(error)) => {
            warn!(%error, "the lane rests");
            Some(OUTAGE)
        }
    }
}

/// Works on the oldest batch that goes on: one after the other, so that the rate of one is in force.
async fn work(replay: &Replay) -> Result<Option<Duration>, Failure> {
    let (batches, _) = read(replay).await?;
    let Some(batch) = batches.running() else { return Ok(None) };
    // The oldest first: they have waited longest, and order is kept in a group.
    let since = batch.passed.unwrap_or(Timestamp::from_secs(0));
    let rows = replay.records.waiting(since, batch.started_at, PAGE).await?;
    let mut sent = 0;
    for row in rows.iter().filter(|row| batch.takes(row)) {
        if sent == MAX_TICK.min(batch.left()) {
            break;
        }
        // What would be refused costs the batch nothing: neither its count nor its rate. Others act meanwhile, and
        // what died again since it was listed is not part of the batch any more.
        let Some(record) = ready(replay, row).await?.filter(|record| batch.takes(&record.row)) else { continue };
        if let Some(rest) = over_rate(replay, batch, row).await? {
            return Ok(Some(rest));
        }
        change(replay, &batch.id, |batch| batch.count(row.parked_at)).await?;
        send(replay, batch, record).await?;
        replay.pause.sleep(jitter(replay)).await;
        sent += 1;
    }
    if sent == 0 {
        turn_the_page(replay, batch, &rows).await?;
    }
    Ok(Some(Duration::ZERO))
}

/// The record of a row that was listed, unless it is gone, its payload is, or it is stale.
async fn ready(replay: &Replay, row: &Row) -> Result<Option<Record>, Failure> {
    let record = match Record::read(&*replay.records, &row.id).await {
        Ok(record) => record,
        Err(RequeueError::Refused(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let held_back = record.event.is_none() || send::overtaken(replay, &record).await?.is_some();
    Ok((!held_back).then_some(record))
}

/// There is nothing to replay on this page: the batch looks at the next one, or is at its end.
async fn turn_the_page(replay: &Replay, batch: &Batch, rows: &[Row]) -> Result<(), Failure> {
    match rows.last() {
        Some(last) if batch.left() > 0 && rows.len() == PAGE => {
            let on = last.parked_at.max(batch.passed.map(|at| at + Duration::from_millis(1)));
            change(replay, &batch.id, |batch| batch.pass(on)).await
        }
        _ => {
            change(replay, &batch.id, Batch::end).await?;
            info!(batch = batch.id, "batch done");
            Ok(())
        }
    }
}

/// Replays one event of a batch. It was counted first: a crash between leaves one fewer replayed than the
/// batch may, never one more.
async fn send(replay: &Replay, batch: &Batch, record: Record) -> Result<(), Failure> {
    let now = replay.clock.now();
    acted(record.send(&*replay.records, &*replay.queue, |row| batch.again(row, now)).await)?;
    Ok(())
}

/// Whether it was done: somebody else may have been faster, or it could not be done after all.
fn acted(done: Result<Row, RequeueError>) -> Result<bool, Unavailable> {
    match done {
        Ok(_) => Ok(true),
        Err(RequeueError::Refused(_) | RequeueError::Write(WriteError::Fenced)) => Ok(false),
        Err(RequeueError::Write(WriteError::Unavailable(unavailable))) => Err(unavailable),
    }
}

/// How long to wait before the event's partners may be called once more by a replay.
async fn over_rate(replay: &Replay, batch: &Batch, row: &Row) -> Result<Option<Duration>, Failure> {
    let flow = replay.flows.flow(&row.flow);
    let partners: BTreeSet<&str> =
        flow.into_iter().flat_map(|flow| &flow.effects).filter_map(|effect| effect.integration()).collect();
    let rate = Rate::per_minute(batch.per_minute);
    for partner in partners {
        match replay.limiter.admit(&format!("replay/{partner}"), &rate, replay.clock.now()).await? {
            Decision::Admitted { .. } => (),
            Decision::Denied { retry_after, .. } => return Ok(Some(retry_after)),
        }
    }
    Ok(None)
}

/// From 200 to 600 milliseconds, so that partners do not feel a beat.
fn jitter(replay: &Replay) -> Duration {
    Duration::from_millis(200) + Duration::from_millis(400).mul_f64(replay.chance.unit())
}

/// What the schedule does: the lane is driven on, what somebody crashed over is sent, questions that nobody
/// answered in time are no-ops, and what may have healed by itself is replayed.
pub(crate) async fn scheduled(replay: &Replay) -> Result<Value, Failure> {
    // A crash between a batch and its tick leaves a batch that nothing drives, and the queue forgets a tick
    // after two weeks. One too many is harmless: it goes with the next that comes.
    if let Some(batch) = read(replay).await?.0.running() {
        drive(replay, batch).await?;
    }
    let now = replay.clock.now();
    let rows = both_ends(replay).await?;
    let mut sent = 0;
    for row in rows.iter().filter(|row| row.state == State::Queued) {
        sent += u32::from(acted(unsent(&*replay.records, &*replay.queue, &row.id).await)?);
    }
    let mut lapsed = 0;
    for row in rows.iter().filter(|row| row.has_lapsed(now)) {
        let ttl = replay.flows.remembered(&row.flow);
        lapsed += u32::from(acted(end(&*replay.records, &row.id, |row| row.lapsed(ttl, now)).await)?);
    }
    Ok(json!({"sent": sent, "lapsed": lapsed, "opened": heal(replay, &rows).await?}))
}

/// Replays what may have healed by itself: what failed as often as the policy allows, and was not refused. It
/// waits for its turn behind what operators want.
async fn heal(replay: &Replay, rows: &[Row]) -> Result<Vec<Value>, Failure> {
    let mut opened = Vec::new();
    if read(replay).await?.0.running().is_some() {
        return Ok(opened);
    }
    let word = Word { by: "schedule", why: "it may have healed" };
    let mut left = SCHEDULED;
    for flow in replay.flows.all().filter(|flow| flow.auto_replay) {
        if opened.len() == MAX_RUNNING {
            break;
        }
        let filter = Filter {
            flow: Some(flow.name.clone()),
            reason: Some(Reason::AttemptsSpent),
            replays: Some(SCHEDULED_REPLAYS - 1),
            ..Filter::default()
        };
        let healing = |row: &&Row| filter.takes(row) && row.may_replay().is_ok();
        let count = ready_among(replay, rows.iter().filter(healing), left).await?;
        left -= count;
        if let Ok(max @ 1..) = u32::try_from(count) {
            opened.push(open(replay, filter, max, Batch::DEFAULT_RATE, word).await?);
        }
    }
    Ok(opened)
}

/// How many of these a batch could send, as far as it matters. What is stale stays parked, and must not take the
/// place of others each time.
async fn ready_among<'r>(replay: &Replay, rows: impl Iterator<Item = &'r Row>, most: usize) -> Result<usize, Failure> {
    let mut count = 0;
    for row in rows.take(PAGE) {
        if count == most {
            break;
        }
        count += usize::from(ready(replay, row).await?.is_some());
    }
    Ok(count)
}

async fn read(replay: &Replay) -> Result<(Batches, u64), Failure> {
    let stored = replay.batches.read().await?;
    Ok(stored.map_or_else(Default::default, |stored| (Batches::read(&stored.text), stored.version)))
}

/// Changes a batch under its document's version.
async fn change(replay: &Replay, id: &str, change: impl Fn(&mut Batch) -> Result<(), Refusal>) -> Result<(), Failure> {
    for _ in 0..5 {
        let (batches, version) = read(replay).await?;
        let next = batches.changed(id, &change)?;
        match replay.batches.put(&next, version).await {
            Err(WriteError::Fenced) => continue,
            written => return Ok(written.map(drop)?),
        }
    }
    Err(refuse("others are changing batches right now: try again"))
}
