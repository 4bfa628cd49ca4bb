//! Sending an event through the queue again, if it is not stale.

use shared::base::errors::Unavailable;
use shared::base::id::EventId;
use shared::ledger::{Declined, Row};
use shared::operate::requeue::{Record, RequeueError};
use shared::operate::stale;

use crate::{Replay, version};

/// Sends a parked event through the queue again, as the row that `next` makes of it. Where somebody says
/// which version of the row was `seen`, another one is refused: who comes second hears of the first.
///
/// What a newer event has overtaken is refused here, where somebody hears it. The processor asks again: it
/// alone knows what was applied before its turn.
pub(crate) async fn send_again(
    replay: &Replay,
    id: &EventId,
    seen: Option<&str>,
    next: impl FnOnce(Row) -> Result<Row, Declined>,
) -> Result<Row, RequeueError> {
    let record = Record::read(&*replay.records, id).await?;
    version::check(&record.row, seen)?;
    if let Some(why) = overtaken(replay, &record).await? {
        return Err(Declined(format!("{id} is stale: {why}")).into());
    }
    record.send(&*replay.records, &*replay.queue, next).await
}

/// Why a replay of an event would be held back, if a newer one of its entity was applied.
pub(crate) async fn overtaken(replay: &Replay, record: &Record) -> Result<Option<String>, Unavailable> {
    match replay.flows.flow(&record.row.flow).zip(record.event.as_ref()) {
        Some((flow, event)) => stale::overtaken(&*replay.latest, flow, event).await,
        None => Ok(None),
    }
}
