//! Dead letters: each becomes a parked record.

use aws_lambda_events::sqs::SqsEvent;
use serde_json::Value;
use shared::adapters::lambda::{keep, received};
use shared::arrival::event::{Event, NotReadable};
use shared::arrival::key;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::retention::DEAD_LETTER_RETENTION;
use shared::base::time::Timestamp;
use shared::ledger::queue::{Received, Tick};
use shared::ledger::{LostAttempt, Reason, Row, State};
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::span::export_lost;
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
            kept.extend(leave_to_newer(replay, unit, letter, now).await);
            continue;
        };
        let parked = match park(replay, unit, &event, otherwise, now).await {
            Err(error) if is_lasting(&error) => park_otherwise(replay, unit, &letter, &event, otherwise, now).await,
            // A newer version wrote the row, and may come back to it for as long as the queue keeps the letter.
            Err(WriteError::NewerFormat) if is_deleted_soon(&letter, now) => {
                stand_in(replay, unit, &letter, &event, now).await
            }
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

/// Leaves a letter of a newer version to that version. Before the queue deletes it, another event is parked in its place.
/// Returns its id if it stays on the queue.
async fn leave_to_newer(replay: &Replay, unit: &WorkUnit<'_>, letter: Received, now: Timestamp) -> Option<String> {
    let message_id = &letter.message_id;
    unit.count(&Fact::NewerFormat);
    if !is_deleted_soon(&letter, now) {
        warn!(message_id, "a newer version sent this dead letter; it is left on the queue for that version");
        return Some(letter.message_id);
    }
    // The fields that this version knows may be there.
    let known = serde_json::from_str::<Event>(&letter.body);
    let event = known.unwrap_or_else(|_| Event::malformed(message_id, &letter.body, now));
    let (id, flow, trace_id) = (event.id.as_str(), &event.flow, event.trace.id());
    match park_beside(replay, unit, event.stand_in(message_id, &letter.body), Row::left_behind, now).await {
        Ok(_) => {
            let told = "no newer version came back for its dead letter; what it holds is parked";
            error!(message_id, event = id, flow, trace_id, "{told}");
            None
        }
        Err(error) => {
            let told = "the dead letter of a newer version was not parked; it stays on the queue and comes back";
            warn!(message_id, event = id, flow, trace_id, %error, "{told}");
            Some(letter.message_id)
        }
    }
}

fn is_deleted_soon(letter: &Received, now: Timestamp) -> bool {
    letter.is_deleted_soon(DEAD_LETTER_RETENTION, now)
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
    let ToPark { seen, row, lost } = match to_park(replay, event, otherwise, now).await? {
        Ok(to_park) => to_park,
        Err(fate) => return Ok(fate),
    };
    let next = row.park(now);
    let event = &Event { replay: next.replay, ..event.clone() };
    replay.records.park(seen.as_ref(), &next, event).await?;
    tell_lost(replay, &next, lost, now);
    count_parked(replay, unit, seen.as_ref(), &next, now);
    Ok(LetterFate::Parked)
}

/// The row of a letter as it is, if there is one, the row to park, and the attempts of a worker that was lost, if one had
/// the event last.
struct ToPark {
    seen: Option<Row>,
    row: Row,
    lost: Option<Vec<LostAttempt>>,
}

/// Exports the spans of a worker that was lost and that nobody follows. Whoever was lost before it has a successor, which
/// has exported them.
fn tell_lost(replay: &Replay, row: &Row, lost: Option<Vec<LostAttempt>>, now: Timestamp) {
    if let Some(attempts) = lost {
        export_lost(&*replay.spans, row, &attempts, now);
    }
}

/// What there is to park of a letter. The inner error is the fate of a letter that is not to be parked.
async fn to_park(
    replay: &Replay,
    event: &Event,
    otherwise: Reason,
    now: Timestamp,
) -> Result<Result<ToPark, LetterFate>, WriteError> {
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
    let is_lost = row.state == State::Running;
    let (row, attempts) = row.given_up(now);
    Ok(Ok(ToPark { seen, row, lost: is_lost.then_some(attempts) }))
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
    let ToPark { seen, row, lost } = match to_park(replay, event, otherwise, now).await? {
        Ok(to_park) => to_park,
        Err(fate) => return Ok(fate),
    };
    let next = row.park_without_payload(now);
    replay.records.replace(seen.as_ref(), &next).await?;
    tell_lost(replay, &next, lost, now);
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
    let is_replay = row.replay > 0;
    unit.count(&match is_replay && was.is_some_and(|was| was.was_parked_at().is_some()) {
        true => Fact::DeadAgain(name, death.reason),
        false => Fact::Dead(name, death.reason),
    });
    if let Some(slo) = flow.and_then(|flow| flow.slo.as_ref()).filter(|_| !is_replay) {
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
    // Its row may have been found broken while it waited, under the number before.
    let as_it_waited = event.wake.checked_sub(1).map(|wake| EventId::named(stand_in_name(wake, &event.id)));
    if let Some(other) = as_it_waited
        && replay.records.row(&other).await?.is_some()
    {
        return Ok(LetterFate::StoodIn);
    }
    let row = |other: &Event, now| Row::stand_in(other, &event.id, now);
    park_beside(replay, unit, event.stand_in(&letter.message_id, &letter.body), row, now).await?;
    Ok(LetterFate::StoodIn)
}

/// The name of the event that stands in for one which waits under this wake number.
fn stand_in_name(wake: u32, of: &EventId) -> String {
    format!("w{wake}-{of}")
}

/// A waiting event whose row is broken for good.
pub(crate) struct Lost<'l> {
    pub(crate) id: &'l EventId,
    /// The row, if it can be read.
    pub(crate) row: Option<&'l Row>,
    /// The payload, if it is there and can be read.
    pub(crate) kept: Option<Event>,
}

impl Lost<'_> {
    /// The event, or what is known of it.
    pub(crate) fn event(&self) -> Event {
        let unknown = || Event::malformed(self.id.as_str(), "", Timestamp::from_secs(0));
        let of_row = |row: &Row| {
            let (flow, source) = (row.flow.clone(), row.source.clone());
            let (received_at, trace, wake) = (row.received_at, row.trace.clone(), row.wake);
            let group = row.wait.as_ref().map(|wait| wait.group.clone()).unwrap_or_default();
            Event { flow, source, received_at, trace, wake, group, ..unknown() }
        };
        self.kept.clone().unwrap_or_else(|| self.row.map_or_else(unknown, of_row))
    }
}

/// Parks an event that waits, and whose row is broken for good, beside it. Says whether this was the first time.
pub(crate) async fn stand_in_for_waiting(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    lost: &Lost<'_>,
    now: Timestamp,
) -> Result<bool, Unavailable> {
    let event = lost.event();
    let body = lost.kept.as_ref().map(|kept| serde_json::to_string(kept).unwrap_or_default());
    let other = event.stand_in(&stand_in_name(event.wake, lost.id), body.as_deref().unwrap_or_default());
    let row = |other: &Event, now| match body {
        Some(_) => Row::stand_in(other, lost.id, now),
        None => Row::stand_in(other, lost.id, now).without_payload(),
    };
    match park_beside(replay, unit, other, row, now).await {
        Ok(is_new) => Ok(is_new),
        // Another container was faster.
        Err(WriteError::Fenced | WriteError::NewerFormat) => Ok(false),
        Err(WriteError::Unavailable(unavailable)) => Err(unavailable),
    }
}

/// Parks a woken event whose payload is gone, or cannot be read, if its row is as it was seen. Says whether it was.
pub(crate) async fn park_for_lost_payload(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    row: &Row,
    now: Timestamp,
) -> Result<bool, Unavailable> {
    let next = row.clone().park_for_lost_payload(now);
    match replay.records.replace(Some(row), &next).await {
        Ok(()) => {
            count_parked(replay, unit, Some(row), &next, now);
            unit.count(&Fact::NotKept);
            Ok(true)
        }
        Err(WriteError::Fenced | WriteError::NewerFormat) => Ok(false),
        Err(WriteError::Unavailable(unavailable)) => Err(unavailable),
    }
}

/// Parks another event in the place of one, as the row that `row` makes of it, unless it is there already. Says whether it
/// was not.
async fn park_beside(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    other: Event,
    row: impl FnOnce(&Event, Timestamp) -> Row,
    now: Timestamp,
) -> Result<bool, WriteError> {
    if replay.records.row(&other.id).await?.is_some() {
        return Ok(false);
    }
    let row = row(&other, now).park(now);
    replay.records.park(None, &row, &other).await?;
    count_parked(replay, unit, None, &row, now);
    Ok(true)
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
