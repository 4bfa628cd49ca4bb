//! Operators' changes to a parked event: it goes through the queue again, or is settled.

use crate::arrival::event::Event;
use crate::base::errors::{Unavailable, WriteError};
use crate::base::id::EventId;
use crate::ledger::queue::Queue;
use crate::ledger::{Declined, Records, Row, State};

/// The reason why an event was not sent again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequeueError {
    /// The operation is declined; the sentence says why.
    #[error(transparent)]
    Declined(#[from] Declined),
    /// Another writer changed the row meanwhile, or the ledger or the queue did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<Unavailable> for RequeueError {
    fn from(unavailable: Unavailable) -> Self {
        WriteError::Unavailable(unavailable).into()
    }
}

/// The ledger's record of an event: its row, and its payload for as long as it is kept.
#[derive(Clone, Debug)]
pub struct Record {
    /// The row, as it was read.
    pub row: Row,
    /// The event, if its payload is kept.
    pub event: Option<Event>,
}

impl Record {
    /// Reads the record of an event.
    pub async fn read(records: &dyn Records, id: &EventId) -> Result<Self, RequeueError> {
        Ok(Record { row: find(records, id).await?, event: records.kept(id).await? })
    }

    /// Sends a parked event through the queue again, as the row that `next` makes of it.
    ///
    /// The row is written first, under the next replay number; then the message, whose deduplication id carries
    /// that number, because the queue still remembers the last one. A crash between the two leaves the event
    /// listed as queued; the same request sends it, and so does [`unsent`].
    pub async fn send(
        self,
        records: &dyn Records,
        queue: &dyn Queue,
        next: impl FnOnce(Row) -> Result<Row, Declined>,
    ) -> Result<Row, RequeueError> {
        let Record { row, event } = self;
        let gone = || {
            let why = match row.state {
                State::Dead if !row.is_parked() => "its dead letter is not taken in yet; try again in a few minutes",
                // The row was read before another operator's change, or it has outlived its payload.
                State::Dead | State::AwaitingApproval => {
                    "it has changed meanwhile, or its 90 days are over; look again before you decide"
                }
                State::Waiting => "it has changed meanwhile; look again before you decide",
                State::Queued | State::Running | State::Retrying => "it is on its way through the queue",
                State::Succeeded | State::Noop | State::Dropped => "it is settled, and there is nothing to send",
            };
            Declined(format!("{} is {}, and its payload is not kept: {why}", row.id, row.state.as_str()))
        };
        let kept = event.ok_or_else(gone)?;
        // If the kept payload is of the row's own replay, it was kept after the row was read: the event has died again
        // since, and deleting its payload would leave a dead letter that cannot be replayed.
        let unsent = row.state == State::Queued && row.is_parked() && kept.replay < row.replay;
        let next = if unsent {
            row
        } else {
            let next = next(row.clone())?;
            records.replace(Some(&row), &next).await?;
            next
        };
        queue.send(&kept.again(next.replay, next.wake)).await?;
        records.forget(&kept).await?;
        Ok(next)
    }
}

/// Sends an event whose row says `queued`, but whose message was never sent.
pub async fn unsent(records: &dyn Records, queue: &dyn Queue, id: &EventId) -> Result<Row, RequeueError> {
    let sent = |row: Row| Err(Declined(format!("{} is {}: its message was sent already", row.id, row.state.as_str())));
    Record::read(records, id).await?.send(records, queue, sent).await
}

/// Settles a parked event, as the row that `next` makes of it, and deletes its payload.
///
/// The row is written first. A crash between the two leaves a payload that is never read again.
pub async fn end(
    records: &dyn Records,
    id: &EventId,
    next: impl FnOnce(Row) -> Result<Row, Declined>,
) -> Result<Row, RequeueError> {
    let row = find(records, id).await?;
    let next = next(row.clone())?;
    records.replace(Some(&row), &next).await?;
    if let Some(kept) = records.kept(id).await? {
        records.forget(&kept).await?;
    }
    Ok(next)
}

/// Reads the row of an event.
pub async fn find(records: &dyn Records, id: &EventId) -> Result<Row, RequeueError> {
    Ok(records.row(id).await?.ok_or_else(|| Declined(unknown(id)))?)
}

/// Says that there is no such event, and what is wrong with an id that no event can have.
fn unknown(id: &EventId) -> String {
    let told = format!("there is no event {id}: the id is wrong, or the ledger has forgotten it");
    match id.as_str().split('.').next().unwrap_or_default() {
        cut if cut.len() != ID_DIGITS && cut.chars().all(|c| c.is_ascii_hexdigit()) => {
            let digits = cut.len();
            format!("{told}. An id has {ID_DIGITS} hex digits, and this has {digits}: `dead list` prints it whole")
        }
        _ => told,
    }
}

/// How many hex digits the id of an event has.
const ID_DIGITS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_id_is_told_from_one_that_is_forgotten() {
        let told = |id: &str| unknown(&EventId::named(id));
        assert!(told("1b16f576").ends_with("An id has 64 hex digits, and this has 8: `dead list` prints it whole"));
        assert!(
            told(&"a".repeat(64)).ends_with("forgotten it") && told(&format!("{}.2", "a".repeat(64))).ends_with("it")
        );
        assert!(told("message-1").ends_with("forgotten it"), "a row that stands in has an id of its own");
    }
}
