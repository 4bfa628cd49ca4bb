//! Sending an event through the queue again, if it is not stale.

use shared::arrival::invalid::InvalidBody;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::ledger::{Declined, Row};
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::requeue::{Record, RequeueError};
use shared::operate::span::export_sent;
use shared::operate::stale_guard;

use crate::{Replay, invalid, row_version};

/// Sends a parked event through the queue again, as the row that `next` makes of it. If `seen` names a version
/// of the row, another one is declined: the second of two operators hears of the first.
///
/// A stale event is declined here, where an operator hears it. The processor checks again: it
/// alone knows what was applied before the event's turn.
pub(crate) async fn send_again(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    id: &EventId,
    seen: Option<&str>,
    next: impl FnOnce(Row) -> Result<Row, Declined>,
) -> Result<Row, RequeueError> {
    let record = current(replay, id, seen).await.inspect_err(|error| count_unsent(unit, error))?;
    send(replay, unit, record, next).await
}

/// The record of an event that is as the operator saw it, and not stale.
async fn current(replay: &Replay, id: &EventId, seen: Option<&str>) -> Result<Record, RequeueError> {
    let record = Record::read(&*replay.records, id).await?;
    row_version::check(&record.row, seen)?;
    match overtaken(replay, &record).await? {
        Some(why) => Err(Declined(format!("{id} is stale: {why}; a replay would undo it, so `drop` this one")).into()),
        None => Ok(record),
    }
}

/// Sends a parked event through the queue again: its own message, or that of the event that it stands for.
pub(crate) async fn send(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    record: Record,
    next: impl FnOnce(Row) -> Result<Row, Declined>,
) -> Result<Row, RequeueError> {
    let (now, parked_at) = (replay.clock.now(), record.row.listed_at);
    let sent = match record.row.is_invalid() {
        true => invalid::send(replay, record, next).await,
        false => record.send(&*replay.records, &*replay.queue, next).await,
    };
    match &sent {
        Ok(row) => {
            unit.count(&Fact::Replayed(now.since(parked_at.unwrap_or(now))));
            export_sent(&*replay.spans, row, now, replay.clock.now());
        }
        Err(error) => count_unsent(unit, error),
    }
    sent
}

/// Counts an event that was not sent: because it cannot be as it is, or because a port did not answer.
fn count_unsent(unit: &WorkUnit<'_>, error: &RequeueError) {
    unit.count(&match error {
        RequeueError::Write(WriteError::Unavailable(_)) => Fact::ReplayFailed,
        _ => Fact::ReplaysSkipped(1),
    });
}

/// The reason why an event is stale, if a newer one of its entity was applied.
pub(crate) async fn overtaken(replay: &Replay, record: &Record) -> Result<Option<String>, Unavailable> {
    let Some((flow, kept)) = replay.flows.flow(&record.row.flow).zip(record.event.as_ref()) else { return Ok(None) };
    let event = match record.row.is_invalid() {
        true => InvalidBody::fitted(kept, flow).ok().map(|(event, _)| event),
        false => Some(kept.clone()),
    };
    match event {
        Some(event) => stale_guard::overtaken(&*replay.latest, flow, &event, record.row.received_at).await,
        None => Ok(None),
    }
}
