//! The replay lane: batches of replays, slowly and one after the other.
//!
//! A batch is driven by one message on the dead letter queue, a *tick*, in a message group of its own: so
//! one container works on the lane at a time. A tick replays as many events as the rate allows and comes
//! back when it allows more; the last one is deleted. A crash brings the tick back, and the ledger says
//! what was replayed: nothing is repeated, and nothing is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use shared::batch::{Batch, Batches, Filter, Progress};
use shared::ledger::{Reason, Row};
use shared::limit::{Decision, Rate};
use shared::ports::{Tick, WriteError};
use shared::requeue::{RequeueError, end};
use tracing::{info, warn};

use crate::lists::scan;
use crate::operations::{Failure, check_words, refuse};
use crate::{Replay, send};

/// How many events one tick replays at most: it ends well within an invocation.
const MAX_TICK: usize = 20;

/// The most that a batch may replay.
const MAX_BATCH: u32 = 10_000;

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
    by: &str,
    why: &str,
) -> Result<Value, Failure> {
    check_words(by, why)?;
    if !(1..=MAX_BATCH).contains(&max) || !(1..=600).contains(&per_minute) {
        return Err(refuse(format!("`max` must be from 1 to {MAX_BATCH}, and `rate` from 1 to 600 a minute")));
    }
    let started_at = replay.clock.now();
    let batch = Batch {
        id: format!("{:x}-{:04x}", started_at.millis(), replay.chance.bits() & 0xffff),
        filter,
        max,
        per_minute,
        by: by.to_owned(),
        why: why.to_owned(),
        started_at,
        replayed: 0,
        progress: Progress::Running,
    };
    let (batches, version) = read(replay).await?;
    if batches.all().iter().filter(|batch| batch.progress == Progress::Running).count() >= MAX_RUNNING {
        return Err(refuse("five batches wait already: stop one, or wait for one"));
    }
    replay.batches.put(&batches.with(batch.clone()), version).await?;
    replay.ticks.send(&Tick { batch: batch.id.clone() }).await?;
    info!(batch = batch.id, by, "batch opened");
    Ok(json!(batch))
}

/// Stops a batch. What is on its way goes on.
pub(crate) async fn stop(replay: &Replay, id: &str, by: &str, why: &str) -> Result<Value, Failure> {
    check_words(by, why)?;
    change(replay, id, |batch| batch.progress = Progress::Stopped).await?;
    info!(batch = id, by, "batch stopped");
    Ok(json!({"id": id, "progress": Progress::Stopped}))
}

/// The newest batches.
pub(crate) async fn status(replay: &Replay) -> Result<Value, Failure> {
    Ok(json!(read(replay).await?.0))
}

/// One tick: replays what the rate allows. Says how long the lane rests, or that the batch is at its end.
pub(crate) async fn tick(replay: &Replay, tick: &Tick) -> Option<Duration> {
    match work(replay, &tick.batch).await {
        Ok(rest) => rest,
        Err(failure) => {
            warn!(batch = tick.batch, %failure, "the lane rests");
            Some(OUTAGE)
        }
    }
}

async fn work(replay: &Replay, id: &str) -> Result<Option<Duration>, Failure> {
    let (batches, _) = read(replay).await?;
    let Some(batch) = batches.all().iter().find(|batch| batch.id == id) else { return Ok(None) };
    if batch.progress != Progress::Running {
        return Ok(None);
    }
    let (mut rows, _) = scan(replay, &batch.filter).await?;
    rows.retain(|row| batch.takes(row));
    // The oldest first: they have waited longest, and order is kept in a group.
    rows.reverse();
    rows.truncate(MAX_TICK.min(usize::try_from(batch.left()).unwrap_or(MAX_TICK)));
    if rows.is_empty() {
        change(replay, id, |batch| batch.progress = Progress::Done).await?;
        info!(batch = id, "batch done");
        return Ok(None);
    }
    for row in &rows {
        if let Some(rest) = over_rate(replay, batch, row).await? {
            return Ok(Some(rest));
        }
        send(replay, batch, row).await?;
        replay.pause.nap(jitter(replay)).await;
    }
    Ok(Some(Duration::ZERO))
}

/// Replays one event of a batch. It is counted first: a crash between leaves one fewer replayed than the
/// batch may, never one more.
async fn send(replay: &Replay, batch: &Batch, row: &Row) -> Result<(), Failure> {
    change(replay, &batch.id, |batch| batch.replayed += 1).await?;
    let (by, why) = (format!("{} (batch {})", batch.by, batch.id), &batch.why);
    let now = replay.clock.now();
    match send::again(replay, &row.id, |row| row.replayed(&by, why, now)).await {
        // Somebody else was faster, or it cannot be replayed after all.
        Ok(_) | Err(RequeueError::Refused(_) | RequeueError::Write(WriteError::Fenced)) => Ok(()),
        Err(RequeueError::Write(WriteError::Unavailable(unavailable))) => Err(unavailable.into()),
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

/// What the schedule does: questions that nobody answered in time are no-ops, and flows that say so have
/// what may heal by itself replayed.
pub(crate) async fn scheduled(replay: &Replay) -> Result<Value, Failure> {
    let now = replay.clock.now();
    let (rows, _) = scan(replay, &Filter::default()).await?;
    let mut lapsed = 0;
    for row in rows.iter().filter(|row| row.has_lapsed(now)) {
        let ttl = replay.flows.remembered(&row.flow);
        match end(&*replay.records, &row.id, |row| row.lapsed(ttl, now)).await {
            Ok(_) => lapsed += 1,
            // Somebody answered after all.
            Err(RequeueError::Refused(_) | RequeueError::Write(WriteError::Fenced)) => (),
            Err(RequeueError::Write(WriteError::Unavailable(unavailable))) => return Err(unavailable.into()),
        }
    }
    Ok(json!({"lapsed": lapsed, "opened": heal(replay, &rows).await?}))
}

/// Replays what may have healed by itself: what failed as often as the policy allows, and was not refused. It
/// waits for its turn behind what operators want.
async fn heal(replay: &Replay, rows: &[Row]) -> Result<Vec<Value>, Failure> {
    let mut opened = Vec::new();
    if read(replay).await?.0.running().is_some() {
        return Ok(opened);
    }
    let mut left = SCHEDULED;
    for flow in replay.flows.all().filter(|flow| flow.auto_replay) {
        let filter = Filter {
            flow: Some(flow.name.clone()),
            reason: Some(Reason::AttemptsSpent),
            replays: Some(SCHEDULED_REPLAYS - 1),
            ..Filter::default()
        };
        let count = rows.iter().filter(|row| filter.takes(row)).take(left).count();
        left -= count;
        if let Ok(max @ 1..) = u32::try_from(count) {
            opened.push(open(replay, filter, max, DEFAULT_RATE, "schedule", "it may have healed").await?);
        }
    }
    Ok(opened)
}

/// How many replays a minute an integration gets, unless the operator says otherwise.
pub(crate) const DEFAULT_RATE: u32 = 5;

async fn read(replay: &Replay) -> Result<(Batches, u64), Failure> {
    let stored = replay.batches.read().await?;
    Ok(stored.map_or_else(Default::default, |stored| (Batches::read(&stored.text), stored.version)))
}

/// Changes a batch under its document's version.
async fn change(replay: &Replay, id: &str, change: impl Fn(&mut Batch)) -> Result<(), Failure> {
    for _ in 0..5 {
        let (batches, version) = read(replay).await?;
        let next = batches.changed(id, &change).ok_or_else(|| refuse(format!("there is no batch {id}")))?;
        match replay.batches.put(&next, version).await {
            Err(WriteError::Fenced) => continue,
            written => return Ok(written.map(drop)?),
        }
    }
    Err(refuse("others are changing batches right now: try again"))
}
