//! What operators do to a parked event: it goes through the queue again, or comes to its end.

use crate::arrival::event::Event;
use crate::base::errors::{Unavailable, WriteError};
use crate::base::id::EventId;
use crate::ledger::queue::Queue;
use crate::ledger::{Declined, Records, Row, State};

/// Why an event was not sent again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequeueError {
    /// It must not be; the sentence says why.
    #[error(transparent)]
    Declined(#[from] Declined),
    /// Somebody else changed it meanwhile, or the ledger or the queue did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<Unavailable> for RequeueError {
    fn from(unavailable: Unavailable) -> Self {
        WriteError::Unavailable(unavailable).into()
    }
}

/// What the ledger has of an event: its row, and its payload for as long as it is kept.
#[derive(Clone, Debug)]
pub struct Record {
    /// The row, as it was read.
    pub row: Row,
    /// The event, if its payload is kept.
    pub event: Option<Event>,
}

impl Record {
    /// The record of this event.
    pub async fn read(records: &dyn Records, id: &EventId) -> Result<Self, RequeueError> {
        Ok(Record { row: find(records, id).await?, event: records.kept(id).await? })
    }

    /// Sends a parked event through the queue again, as the row that `next` makes of it.
    ///
    /// The row goes first, under the next number; then the message, whose deduplication id carries that
    /// number, because the queue still remembers the last one. A crash between the two leaves the event
    /// listed as queued, and the same request sends it, or [`unsent`].
    pub async fn send(
        self,
        records: &dyn Records,
        queue: &dyn Queue,
        next: impl FnOnce(Row) -> Result<Row, Declined>,
    ) -> Result<Row, RequeueError> {
        let Record { row, event } = self;
        let gone = || Declined(format!("the payload of {} is not kept: it is on its way, or too old", row.id));
        let kept = event.ok_or_else(gone)?;
        // A payload of the row's own replay was kept after the row was read: the event has died again since,
        // and forgetting it would leave a dead letter that nobody can replay.
        let unsent = row.state == State::Queued && row.parked.is_some() && kept.replay < row.replay;
        let next = if unsent {
            row
        } else {
            let next = next(row.clone())?;
            records.replace(Some(&row), &next).await?;
            next
        };
        queue.send(&Event { replay: next.replay, ..kept.clone() }).await?;
        records.forget(&kept).await?;
        Ok(next)
    }
}

/// Sends an event on its way whose row says that it is, but which nobody sent.
pub async fn unsent(records: &dyn Records, queue: &dyn Queue, id: &EventId) -> Result<Row, RequeueError> {
    let sent = |row: Row| Err(Declined(format!("{} is {}, and was sent", row.id, row.state.as_str())));
    Record::read(records, id).await?.send(records, queue, sent).await
}

/// Brings a parked event to its end, as the row that `next` makes of it, and forgets its payload.
///
/// The row goes first. A crash between the two leaves a payload that nobody asks for any more.
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

/// The row of an event.
pub async fn find(records: &dyn Records, id: &EventId) -> Result<Row, RequeueError> {
    Ok(records.row(id).await?.ok_or_else(|| Declined(format!("there is no event {id}")))?)
}
