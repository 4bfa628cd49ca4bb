//! Dead letters: each becomes a parked record.

use aws_lambda_events::sqs::SqsEvent;
use serde_json::Value;
use shared::adapters::lambda::{keep, received};
use shared::arrival::event::{Event, NotReadable};
use shared::arrival::key;
use shared::base::errors::WriteError;
use shared::base::time::Timestamp;
use shared::ledger::queue::{Received, Tick};
use shared::ledger::{Reason, Row, State};
use shared::operate::metric::{Fact, WorkUnit};
use tracing::{error, info, warn};

use crate::{Replay, lane};

pub(crate) async fn handle(replay: &Replay, batch: SqsEvent) -> Value {
    let kept = keep(park_batch(replay, received(batch)).await);
    serde_json::to_value(kept).unwrap_or_default()
}

/// Parks each letter. Returns the ids of the messages that stay on the queue.
pub async fn park_batch(replay: &Replay, letters: Vec<Received>) -> Vec<String> {
    let unit = &WorkUnit::new(&*replay.metrics);
    let mut kept = Vec::new();
    let (mut ticks, mut dead) = (Vec::new(), Vec::new());
    for letter in letters {
        match serde_json::from_str::<Tick>(&letter.body) {
            Ok(tick) => ticks.push((tick, letter)),
            Err(_) => dead.push(letter),
        }
    }
    for letter in dead {
        let now = replay.clock.now();
        let Some((event, otherwise)) = event_of(&letter, now) else {
            let message_id = &letter.message_id;
            warn!(message_id, "a newer version sent this dead letter; it is left on the queue for that version");
            kept.push(letter.message_id);
            continue;
        };
        let parked = match park(replay, unit, &event, otherwise, now).await {
            Err(error) if is_lasting(&error) => park_otherwise(replay, unit, &letter, &event, otherwise, now).await,
            parked => parked,
        };
        match parked {
            Ok(LetterFate::StoodIn) => {
                let trace_id = event.trace.id();
                let told = "the row of a dead letter cannot be read, or takes no more; its message is parked beside it";
                error!(event = %event.id, flow = event.flow, trace_id, "{told}");
            }
            Ok(LetterFate::WithoutPayload) => {
                let trace_id = event.trace.id();
                let told = "the ledger does not take the payload of a dead letter; its event is parked without it";
                error!(event = %event.id, flow = event.flow, trace_id, "{told}");
                unit.count(&Fact::NotKept);
            }
            Ok(LetterFate::MadeUp) => {
                let trace_id = event.trace.id();
                let told = "a dead letter was made up: its payload is not its event's; nothing was changed";
                warn!(event = %event.id, flow = event.flow, trace_id, "{told}");
            }
            Ok(taken) => {
                let trace_id = event.trace.id();
                info!(event = %event.id, flow = event.flow, trace_id, "{}", taken.told());
            }
            Err(error) => {
                let trace_id = event.trace.id();
                let told = "the dead letter was not parked; it stays on the queue and comes back";
                warn!(event = %event.id, flow = event.flow, trace_id, %error, "{told}");
                kept.push(letter.message_id);
            }
        }
    }
    // Dead letters come first: the lane has time. One tick drives it, and the others are deleted.
    if let Some((tick, letter)) = ticks.into_iter().next() {
        kept.extend(drive_lane(replay, unit, tick, letter).await);
    }
    kept
}

/// Works on the lane. A tick that is kept comes back when the lane may go on.
async fn drive_lane(replay: &Replay, unit: &WorkUnit<'_>, tick: Tick, letter: Received) -> Option<String> {
    let wait = lane::tick(replay, unit, &tick).await?;
    if let Err(error) = replay.visibility.postpone(&letter.receipt, wait).await {
        let told = "the lane's tick was not postponed; its batch goes on when the visibility timeout ends";
        warn!(batch = tick.batch, %error, "{told}");
    }
    Some(letter.message_id)
}

/// Parks one event: its payload and its row at once, so that every listed event can be replayed, with the payload
/// that its row stands for. Doing it twice changes nothing. A letter without a row is dead for the reason `otherwise`.
async fn park(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    event: &Event,
    otherwise: Reason,
    now: Timestamp,
) -> Result<LetterFate, WriteError> {
    let (seen, row) = match to_park(replay, event, otherwise, now).await? {
        Ok(rows) => rows,
        Err(fate) => return Ok(fate),
    };
    let next = row.park(now);
    let event = &Event { replay: next.replay, ..event.clone() };
    replay.records.park(seen.as_ref(), &next, event).await?;
    count_parked(replay, unit, seen.as_ref(), &next, now);
    Ok(LetterFate::Parked)
}

/// The row of a letter as it is, if there is one, and the row to park. The inner error is the fate of a letter that is not
/// to be parked.
async fn to_park(
    replay: &Replay,
    event: &Event,
    otherwise: Reason,
    now: Timestamp,
) -> Result<Result<(Option<Row>, Row), LetterFate>, WriteError> {
    let seen = replay.records.row(&event.id).await?;
    let row = match &seen {
        None => Row::unaccounted(event, otherwise, now),
        Some(row) if has_moved_on(row, event) => return Ok(Err(LetterFate::Copy)),
        Some(row) if is_superseded(row, event) => return Ok(Err(LetterFate::Superseded)),
        Some(row) if is_made_up(row, event) => return Ok(Err(LetterFate::MadeUp)),
        // The queue gave up on the event while a worker still holds it. The lease ends before the letter
        // comes back.
        Some(row) if row.state != State::Dead && !row.claimable(now) => return Err(WriteError::Fenced),
        Some(row) => row.clone().with_payload_of(event),
    };
    Ok(Ok((seen, row)))
}

/// Parks a letter that can never be parked as others are. Its row may be the fault, or its payload: if the row alone is
/// taken, it is the payload.
async fn park_otherwise(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    letter: &Received,
    event: &Event,
    otherwise: Reason,
    now: Timestamp,
) -> Result<LetterFate, WriteError> {
    match park_without_payload(replay, unit, event, otherwise, now).await {
        Err(error) if is_lasting(&error) => stand_in(replay, unit, letter, event, now).await,
        parked => parked,
    }
}

/// Parks the row of a letter alone. The payload is lost with the letter.
async fn park_without_payload(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    event: &Event,
    otherwise: Reason,
    now: Timestamp,
) -> Result<LetterFate, WriteError> {
    let (seen, row) = match to_park(replay, event, otherwise, now).await? {
        Ok(rows) => rows,
        Err(fate) => return Ok(fate),
    };
    let next = row.park_without_payload(now);
    replay.records.replace(seen.as_ref(), &next).await?;
    count_parked(replay, unit, seen.as_ref(), &next, now);
    Ok(LetterFate::WithoutPayload)
}

/// Counts an event that was parked. The processor has counted the death of those that it buried itself.
fn count_parked(replay: &Replay, unit: &WorkUnit<'_>, was: Option<&Row>, row: &Row, now: Timestamp) {
    let Some(death) = &row.death else { return };
    let first_failed_at = row.first_failed_at().unwrap_or(now);
    unit.count(&Fact::Parked(death.reason, now.since(first_failed_at)));
    if was.is_some_and(|was| was.state == State::Dead) {
        return;
    }
    let flow = replay.flows.flow(&row.flow);
    let name = flow.map_or("(unknown)", |flow| &flow.name);
    if row.replay > 0 {
        return unit.count(&Fact::DeadAgain(name, death.reason));
    }
    unit.count(&Fact::Dead(name, death.reason));
    if let Some(slo) = flow.and_then(|flow| flow.slo.as_ref()) {
        unit.count(&Fact::ServiceLevel(name, Some(slo.spent_by_dying())));
    }
}

/// Whether the same write would fail again, until somebody mends what is stored.
fn is_lasting(error: &WriteError) -> bool {
    matches!(error, WriteError::Unavailable(unavailable) if unavailable.is_lasting())
}

/// Parks a letter whose row can never be: under the message's own id, with the whole message. The row stays as it is.
async fn stand_in(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    letter: &Received,
    event: &Event,
    now: Timestamp,
) -> Result<LetterFate, WriteError> {
    let other = event.stand_in(&letter.message_id, &letter.body);
    let seen = replay.records.row(&other.id).await?;
    if seen.is_none() {
        let row = Row::stand_in(&other, &event.id, now).park(now);
        replay.records.park(None, &row, &other).await?;
        count_parked(replay, unit, None, &row, now);
    }
    Ok(LetterFate::StoodIn)
}

/// What became of a letter.
enum LetterFate {
    /// Its event is parked.
    Parked,
    /// Its event is settled, parked already, or replayed since.
    Copy,
    /// Its event was worked on with another payload.
    Superseded,
    /// The ledger does not take its payload: its event is parked without it.
    WithoutPayload,
    /// Its row cannot be read or written: another one stands in for it.
    StoodIn,
    /// Its payload is not the one that it names, or that its row stands for: our functions did not send it.
    MadeUp,
}

impl LetterFate {
    fn told(&self) -> &'static str {
        match self {
            LetterFate::Parked => "a dead letter was taken in; its event is parked",
            LetterFate::Copy => "a dead letter was deleted: its event is settled, parked already, or replayed since",
            LetterFate::Superseded => "a dead letter was deleted: its event was worked on with another payload",
            LetterFate::MadeUp => "a dead letter was made up",
            LetterFate::WithoutPayload => "a dead letter was parked without its payload",
            LetterFate::StoodIn => "a dead letter was parked beside its row",
        }
    }
}

/// Whether the letter is a copy: of an event that is settled, parked already, waiting, or replayed or woken since.
fn has_moved_on(row: &Row, event: &Event) -> bool {
    match row.state {
        State::Succeeded | State::Noop | State::AwaitingApproval | State::Waiting | State::Dropped => true,
        State::Dead => row.is_parked(),
        State::Queued | State::Running | State::Retrying => (event.replay, event.wake) < (row.replay, row.wake),
    }
}

/// Whether the row does not stand for the letter's message: it must neither bury the event nor take the place of its
/// payload. The message that the row stands for is on the queue, or comes as a letter of its own. If no message was
/// ever claimed, the row stands for any: this one may be the only one that was sent.
///
/// Letters of an older version are believed: a message from before a replay could claim the event then.
fn is_superseded(row: &Row, event: &Event) -> bool {
    event.fingerprint.is_some() && !row.stands_for(event.replay, event.wake, event.fingerprint.as_deref())
}

/// Whether the letter's payload has another fingerprint than the letter says, or, where it says none, than its row. Who
/// may invoke this function could otherwise put any payload in the place of an event's own.
fn is_made_up(row: &Row, event: &Event) -> bool {
    let payload = key::fingerprint(&event.payload);
    match &event.fingerprint {
        Some(stated) => *stated != payload,
        None => row.fingerprint != payload,
    }
}

/// The event of a letter, and why it is dead if the ledger does not know it. `None` for a letter of a newer version.
fn event_of(letter: &Received, now: Timestamp) -> Option<(Event, Reason)> {
    match Event::read(&letter.body) {
        Ok(event) => Some((event, Reason::Orphaned)),
        Err(NotReadable::NewerFormat(_)) => None,
        Err(NotReadable::Malformed) => {
            Some((Event::malformed(&letter.message_id, &letter.body, now), Reason::Malformed))
        }
    }
}
