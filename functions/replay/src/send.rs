//! Sending an event through the queue again, if it is not stale.

use shared::event::Event;
use shared::key::EventId;
use shared::latest;
use shared::ledger::{Refusal, Row};
use shared::ports::Unavailable;
use shared::requeue::{RequeueError, requeue};

use crate::{Replay, version};

/// Sends a parked event through the queue again, as the row that `next` makes of it. Where somebody says
/// which version of the row was `seen`, another one is refused: who comes second hears of the first.
///
/// What a newer event has overtaken is refused here, where somebody hears it. The processor asks again: it
/// alone knows what was applied before its turn.
pub(crate) async fn again(
    replay: &Replay,
    id: &EventId,
    seen: Option<&str>,
    next: impl FnOnce(Row) -> Result<Row, Refusal>,
) -> Result<Row, RequeueError> {
    if replay.flows.all().any(|flow| flow.latest_wins)
        && let Some(event) = replay.records.kept(id).await?
        && let Some(why) = overtaken(replay, &event).await?
    {
        return Err(Refusal(format!("{id} is stale: {why}")).into());
    }
    requeue(&*replay.records, &*replay.queue, id, |row| version::check(row, seen), next).await
}

/// Whether a replay of an event would be refused, whatever its row says: its payload is gone, or it is stale.
pub(crate) async fn is_held_back(replay: &Replay, id: &EventId) -> Result<bool, Unavailable> {
    match replay.records.kept(id).await? {
        Some(event) => Ok(overtaken(replay, &event).await?.is_some()),
        None => Ok(true),
    }
}

/// Why a replay of an event would be held back, if a newer one of its entity was applied.
pub(crate) async fn overtaken(replay: &Replay, event: &Event) -> Result<Option<String>, Unavailable> {
    if !replay.flows.flow(&event.flow).is_some_and(|flow| flow.latest_wins) {
        return Ok(None);
    }
    Ok(latest::overtaken(event, replay.latest.applied(&latest::key(event)).await?))
}
