//! The schedule: every ten minutes it repairs what crashes left behind, lets questions lapse, and replays events
//! that may succeed now.

use std::time::Duration;

use serde_json::{Value, json};
use shared::base::time::Timestamp;
use shared::ledger::batch::{Batch, Filter};
use shared::ledger::{Reason, Row, SignOff, State};
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::requeue::{end, unsent};
use shared::operate::switchboard;
use tracing::warn;

use crate::Replay;
use crate::lane::{MAX_RUNNING, PAGE, open, read, replayable, send_tick, was_done};
use crate::lists::{all_waiting, both_ends};
use crate::operations::Failure;
use crate::plans::may_call_again;

/// The most events that the schedule replays, each time.
const MAX_SCHEDULED: usize = 20;

/// The reasons of events that may have healed. An unknown outcome is among them where the partner still honours our
/// key: the same call again is harmless, and may clear it up.
const HEALING: [Reason; 2] = [Reason::AttemptsSpent, Reason::UnknownOutcome];

/// The most replays of one event by the schedule. An event that three replays did not settle is left to an operator.
const MAX_REPLAYS: u32 = 3;

/// Sends a tick if a batch runs: its own tick may be lost.
async fn drive_lane(replay: &Replay, unit: &WorkUnit<'_>) -> Result<(), Failure> {
    let (batches, _) = read(replay).await?;
    unit.count(&Fact::Batches(batches.open(), batches.stalled(replay.clock.now())));
    match batches.running() {
        Some(batch) => Ok(send_tick(replay, batch).await?),
        None => Ok(()),
    }
}

/// Does the schedule's work: it drives the lane on, sends the events whose senders crashed, turns expired questions
/// into no-ops, and replays events that may succeed now.
pub(crate) async fn run_schedule(replay: &Replay, unit: &WorkUnit<'_>) -> Result<Value, Failure> {
    // A crash between a batch and its tick leaves a batch without a tick, and the queue forgets a tick
    // after two weeks. One tick too many is harmless: the next invocation deletes it.
    let driven = drive_lane(replay, unit).await;
    let now = replay.clock.now();
    let rows = both_ends(replay).await?;
    count_parked(unit, &rows, now);
    let mut sent = 0;
    for row in rows.iter().filter(|row| row.state == State::Queued) {
        sent += u32::from(was_done(unsent(&*replay.records, &*replay.queue, &row.id).await)?);
    }
    let mut lapsed = 0;
    for row in rows.iter().filter(|row| row.has_lapsed(now)) {
        let retention = replay.flows.remembered(&row.flow);
        lapsed += u32::from(was_done(end(&*replay.records, &row.id, |row| row.lapsed(retention, now)).await)?);
    }
    driven?;
    let opened = open_healing_batches(replay, &rows).await?;
    unit.count(&Fact::ScheduleRan);
    count_waiting(replay, unit).await;
    Ok(json!({"sent": sent, "lapsed": lapsed, "opened": opened}))
}

/// Counts what is parked, and what awaits an answer: of a very long list, as many as are looked through.
fn count_parked(unit: &WorkUnit<'_>, rows: &[Row], now: Timestamp) {
    let parked = || rows.iter().filter(|row| row.state == State::Dead);
    let oldest = parked().filter_map(|row| row.listed_at).min();
    unit.count(&Fact::ParkedNow(parked().count() as u64, oldest.map_or(Duration::ZERO, |oldest| now.since(oldest))));
    let asked = rows.iter().filter(|row| row.state == State::AwaitingApproval).count();
    unit.count(&Fact::AwaitingApprovalNow(asked as u64));
}

/// Counts what waits. The schedule's work is done: it does not fail because of a number.
async fn count_waiting(replay: &Replay, unit: &WorkUnit<'_>) {
    let counted = async {
        let (board, _) = switchboard::look(&*replay.boards).await?;
        Ok::<_, Failure>(all_waiting(replay, &board).await?.len())
    };
    match counted.await {
        Ok(waiting) => unit.count(&Fact::WaitingNow(waiting as u64)),
        Err(error) => warn!(%error, "the waiting events were not counted; the schedule counts them next time"),
    }
}

/// Opens batches for events that may succeed now: the partner failed as often as the policy allows, and did not
/// reject them. The schedule waits until no operator's batch is running.
async fn open_healing_batches(replay: &Replay, rows: &[Row]) -> Result<Vec<Value>, Failure> {
    let mut opened = Vec::new();
    if read(replay).await?.0.running().is_some() {
        return Ok(opened);
    }
    let sign_off = SignOff { by: "schedule", why: "it may have healed" };
    let mut left = MAX_SCHEDULED;
    let flows = replay.flows.all().filter(|flow| flow.auto_replay);
    for (flow, reason) in flows.flat_map(|flow| HEALING.map(|reason| (flow, reason))) {
        if opened.len() == MAX_RUNNING {
            break;
        }
        let filter = Filter {
            flow: Some(flow.name.clone()),
            reason: Some(reason),
            replays: Some(MAX_REPLAYS - 1),
            ..Filter::default()
        };
        let healing = |row: &&Row| filter.takes(row) && row.may_replay().is_ok() && may_call_again(replay, row);
        let count = replayable_among(replay, rows.iter().filter(healing), left).await?;
        left -= count;
        if let Ok(max @ 1..) = u32::try_from(count) {
            opened.push(open(replay, filter, max, Batch::DEFAULT_RATE, sign_off).await?);
        }
    }
    Ok(opened)
}

/// The number of these events that a batch could send, up to `most`. Stale events stay parked, and must not take
/// the place of others each time.
async fn replayable_among<'r>(
    replay: &Replay,
    rows: impl Iterator<Item = &'r Row>,
    most: usize,
) -> Result<usize, Failure> {
    let mut count = 0;
    for row in rows.take(PAGE) {
        if count == most {
            break;
        }
        count += usize::from(replayable(replay, row).await?.is_some());
    }
    Ok(count)
}
