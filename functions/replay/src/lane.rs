//! The replay lane: batches of replays, slowly and one after the other.
//!
//! A message on the dead letter queue drives the lane, a *tick*, in a message group of its own: so as a rule one
//! container works on it at a time. A tick replays as many events of the oldest batch as the rate
//! allows and comes back when it allows more, until no batch is left. A crash brings the tick back, and the
//! ledger says what was replayed: nothing is repeated, and nothing is lost.
//!
//! The queue delivers a tick to a second container when the first one stands still for too long. So each count
//! is a conditional write that checks the batch's bounds and whether it was stopped, and each replay reads
//! the row again.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::time::Timestamp;
use shared::ledger::batch::{Batch, BatchProgress, Batches, Filter};
use shared::ledger::queue::{OUTAGE_DELAY, Tick};
use shared::ledger::{Declined, Row, SignOff};
use shared::limits::rates::{Decision, Rate};
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::requeue::{Record, RequeueError};
use tracing::{info, warn};

use crate::operations::{Failure, decline};
use crate::{Replay, invalid, send_again};

/// The most events that one tick replays: it ends well within an invocation.
const MAX_TICK: u32 = 20;

/// The number of parked events that a tick looks at.
pub(crate) const PAGE: usize = 100;

/// The most batches that run or wait for their turn.
pub(crate) const MAX_RUNNING: usize = 5;

/// Opens a batch of replays, and sends the tick that drives it.
pub(crate) async fn open(
    replay: &Replay,
    filter: Filter,
    max: u32,
    per_minute: u32,
    sign_off: SignOff<'_>,
) -> Result<Value, Failure> {
    if !(1..=Batch::MAX_EVENTS).contains(&max) || !(1..=Batch::MAX_RATE).contains(&per_minute) {
        let (most, fastest) = (Batch::MAX_EVENTS, Batch::MAX_RATE);
        return Err(decline(format!("`max` must be from 1 to {most}, and `rate` from 1 to {fastest} a minute")));
    }
    let started_at = replay.clock.now();
    let batch = Batch {
        id: format!("{:x}-{:04x}", started_at.millis(), replay.chance.bits() & 0xffff),
        filter,
        max,
        per_minute,
        by: sign_off.by.to_owned(),
        why: sign_off.why.to_owned(),
        started_at,
        replayed: 0,
        passed: None,
        progress: BatchProgress::Running,
        stopped_by: None,
    };
    let (batches, version) = read(replay).await?;
    if batches.all().iter().filter(|batch| batch.progress == BatchProgress::Running).count() >= MAX_RUNNING {
        return Err(decline(format!(
            "{MAX_RUNNING} batches are open already: no batch was opened; stop one, or wait for one"
        )));
    }
    replay.batches.put(&batches.with(batch.clone()), version).await?;
    info!(batch = batch.id, by = sign_off.by, "a batch of replays was opened");
    // The batch is open, whether or not its tick was sent: an operator who heard otherwise would open a second one.
    if let Err(error) = send_tick(replay, &batch).await {
        let told = "the tick of a new batch was not sent; the schedule sends one within ten minutes";
        warn!(batch = batch.id, %error, "{told}");
    }
    Ok(json!(batch))
}

pub(crate) async fn send_tick(replay: &Replay, batch: &Batch) -> Result<(), Unavailable> {
    replay.ticks.send(&Tick { batch: batch.id.clone() }).await
}

/// Stops a batch. Events that are on their way go on, and so does an event that is counted already.
pub(crate) async fn stop(replay: &Replay, id: &str, sign_off: SignOff<'_>) -> Result<Value, Failure> {
    change(replay, id, |batch| batch.stop(sign_off)).await?;
    info!(batch = id, by = sign_off.by, "a batch of replays was stopped");
    Ok(json!({"id": id, "progress": BatchProgress::Stopped}))
}

/// The newest batches.
pub(crate) async fn status(replay: &Replay) -> Result<Value, Failure> {
    Ok(json!(read(replay).await?.0))
}

/// One tick: replays what the rate allows. Returns the delay until the tick comes back, or `None` if no batch is
/// left.
pub(crate) async fn tick(replay: &Replay, unit: &WorkUnit<'_>, tick: &Tick) -> Option<Duration> {
    match work(replay, unit).await {
        Ok(rest) => rest,
        // The batch was stopped, or another container was faster: what is written decides.
        Err(Failure::Declined(declined)) => {
            info!(batch = tick.batch, %declined, "the batch has changed meanwhile; the lane reads it again at once");
            Some(Duration::ZERO)
        }
        Err(Failure::Unavailable(error)) => {
            warn!(batch = tick.batch, %error, "the lane could not go on with its batch; it tries again in 10 s");
            Some(OUTAGE_DELAY)
        }
    }
}

/// Works on the oldest running batch: one after the other, so that the rate of one is in force.
async fn work(replay: &Replay, unit: &WorkUnit<'_>) -> Result<Option<Duration>, Failure> {
    let (batches, _) = read(replay).await?;
    let Some(batch) = batches.running() else { return Ok(None) };
    // The oldest first: they have waited longest, and order is kept in a group.
    let since = batch.passed.unwrap_or(Timestamp::from_secs(0));
    let rows = replay.records.parked_between(since, batch.started_at, PAGE).await?;
    let mut sent = 0;
    for row in rows.iter().filter(|row| batch.takes(row)) {
        if sent == MAX_TICK.min(batch.left()) {
            break;
        }
        // An event that would be declined costs the batch nothing: neither its count nor its rate. Operators act
        // meanwhile, and an event that died again since it was listed is not part of the batch any more.
        let Some(record) = replayable(replay, row).await?.filter(|record| batch.takes(&record.row)) else { continue };
        if let Some(rest) = wait_for_rate(replay, batch, row).await? {
            return Ok(Some(rest));
        }
        change(replay, &batch.id, |batch| batch.count(row.listed_at)).await?;
        send(replay, unit, batch, record).await?;
        replay.sleep.sleep(jitter(replay)).await;
        sent += 1;
    }
    if sent == 0 {
        next_page_or_end(replay, unit, batch, &rows).await?;
    }
    Ok(Some(Duration::ZERO))
}

/// The record of a listed row, unless the row or its payload is gone, or the event is stale or still invalid. Of a flow
/// that this version does not have, it does not know the partners, and so not their rates: such an event stays parked.
pub(crate) async fn replayable(replay: &Replay, row: &Row) -> Result<Option<Record>, Failure> {
    let record = match Record::read(&*replay.records, &row.id).await {
        Ok(record) => record,
        Err(RequeueError::Declined(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let held_back = record.event.is_none()
        || replay.flows.flow(&record.row.flow).is_none()
        || send_again::overtaken(replay, &record).await?.is_some()
        || record.row.is_invalid() && invalid::placed(replay, &record.row, record.event.as_ref()).await?.is_err();
    Ok((!held_back).then_some(record))
}

/// Moves the batch to the next page, or ends it: this page has nothing to replay.
async fn next_page_or_end(replay: &Replay, unit: &WorkUnit<'_>, batch: &Batch, rows: &[Row]) -> Result<(), Failure> {
    // Those that the lane may still send are all held back: it does not come back to this page.
    let held_back = rows.iter().filter(|row| batch.left() > 0 && batch.takes(row)).count();
    if held_back > 0 {
        unit.count(&Fact::ReplaysSkipped(held_back as u64));
    }
    match rows.last() {
        Some(last) if batch.left() > 0 && rows.len() == PAGE => {
            let on = last.listed_at.max(batch.passed.map(|at| at + Duration::from_millis(1)));
            change(replay, &batch.id, |batch| batch.pass(on)).await
        }
        _ => {
            change(replay, &batch.id, Batch::end).await?;
            info!(batch = batch.id, "a batch of replays is done");
            Ok(())
        }
    }
}

/// Replays one event of a batch. It was counted first: a crash between leaves one fewer replayed than the
/// batch may, never one more.
async fn send(replay: &Replay, unit: &WorkUnit<'_>, batch: &Batch, record: Record) -> Result<(), Failure> {
    let now = replay.clock.now();
    match send_again::send(replay, unit, record, |row| batch.again(row, now)).await {
        // Only the newer version can replay it: the batch waits for a container of that version.
        Err(RequeueError::Write(WriteError::NewerFormat)) => {
            let why = "a newer version wrote the row of the batch's next event".into();
            Err(Unavailable { port: "the lane", why }.into())
        }
        sent => Ok(was_done(sent).map(drop)?),
    }
}

/// Whether the change was made: another writer may have been faster, or the change was declined.
pub(crate) fn was_done(done: Result<Row, RequeueError>) -> Result<bool, Unavailable> {
    match done {
        Ok(_) => Ok(true),
        Err(RequeueError::Declined(_) | RequeueError::Write(WriteError::Fenced | WriteError::NewerFormat)) => Ok(false),
        Err(RequeueError::Write(WriteError::Unavailable(unavailable))) => Err(unavailable),
    }
}

/// The delay until the event's partners may be called once more by a replay.
async fn wait_for_rate(replay: &Replay, batch: &Batch, row: &Row) -> Result<Option<Duration>, Failure> {
    let flow = replay.flows.flow(&row.flow);
    let partners: BTreeSet<&str> =
        flow.into_iter().flat_map(|flow| &flow.effects).filter_map(|effect| effect.integration()).collect();
    let rate = Rate::per_minute(batch.per_minute);
    for partner in partners {
        match replay.limiter.admit(&format!("replay/{partner}"), &rate, replay.clock.now()).await? {
            Decision::Admitted { .. } => (),
            Decision::Throttled { retry_after, .. } => return Ok(Some(retry_after)),
        }
    }
    Ok(None)
}

/// A random pause of 200 to 600 milliseconds, so that a partner sees no regular bursts.
fn jitter(replay: &Replay) -> Duration {
    Duration::from_millis(200) + Duration::from_millis(400).mul_f64(replay.chance.unit())
}

pub(crate) async fn read(replay: &Replay) -> Result<(Batches, u64), Failure> {
    let Some(stored) = replay.batches.read().await? else { return Ok(Default::default()) };
    let batches =
        stored.to_change().map_err(|newer| format!("of the document of batches: {newer}")).and_then(Batches::read);
    Ok((batches.map_err(|why| Unavailable { port: "the lane", why })?, stored.version))
}

/// Changes a batch under its document's version.
async fn change(replay: &Replay, id: &str, change: impl Fn(&mut Batch) -> Result<(), Declined>) -> Result<(), Failure> {
    for _ in 0..5 {
        let (batches, version) = read(replay).await?;
        let next = batches.changed(id, &change)?;
        match replay.batches.put(&next, version).await {
            Err(WriteError::Fenced) => continue,
            written => return Ok(written.map(drop)?),
        }
    }
    Err(decline("the batches are being changed by others at this moment: nothing was changed; try again"))
}
