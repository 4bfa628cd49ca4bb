//! The ledger's ports, one for each function's use of it.

use async_trait::async_trait;

use super::{Claim, Closed, InLine, Lease, Line, Listed, NotClaimed, PassedOver, Row, WaitsFor};
use crate::arrival::event::Event;
use crate::base::errors::{Unavailable, WriteError};
use crate::base::id::EventId;
use crate::base::time::Timestamp;

/// The result of an admission.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// The event is new, and its row is written.
    New,
    /// The event was accepted before: this is its row.
    Duplicate(Box<Row>),
}

/// The intake's side of the ledger.
#[async_trait]
pub trait Admissions: Send + Sync {
    /// Writes a new event's row unless there is one already. One conditional write, no read.
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable>;

    /// Writes the row of an event that is parked from the start, and its payload beside it, unless there is a row
    /// already. Both are written or neither. Returns whether the event is new.
    async fn admit_parked(&self, row: &Row, event: &Event, now: Timestamp) -> Result<bool, Unavailable>;
}

/// The processor's side of the ledger.
#[async_trait]
pub trait Claims: Send + Sync {
    /// Claims an event for a message, if the row stands for that message ([`Row::stands_for`]) and no other worker holds
    /// it. The first claim fixes the payload that the row stands for. One conditional update, no read.
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable>;

    /// Records the lease's progress. The lease goes on.
    async fn record(&self, lease: &Lease) -> Result<(), WriteError>;

    /// Writes the closed row of a lease.
    async fn close(&self, closed: &Closed) -> Result<(), WriteError>;
}

/// The ledger's rows, read-only.
#[async_trait]
pub trait Rows: Send + Sync {
    /// The row of an event.
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable>;

    /// The row of an event of this source. A store that can leaves out another source's row by itself: to its reader,
    /// that row and none are the same answer, of the same size, after the same work.
    async fn row_from(&self, source: &str, id: &EventId) -> Result<Option<Row>, Unavailable> {
        Ok(self.row(id).await?.filter(|row| row.source == source))
    }

    /// The rows of earlier events under the same key, the newest first: their keys had ended when the next one came, and
    /// people may still want to see them.
    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable>;
}

/// The ledger for operators: parked rows, kept payloads, and changes to both.
#[async_trait]
pub trait Records: Rows {
    /// The newest parked rows, newest first.
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable>;

    /// The oldest parked rows, oldest first, of those that were parked from `since` to `until`.
    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable>;

    /// Parks an event: `next` in the place of `seen`, as [`Records::replace`] writes it, and its payload. Both or
    /// neither: the kept payload is the one that the row stands for.
    async fn park(&self, seen: Option<&Row>, next: &Row, event: &Event) -> Result<(), WriteError>;

    /// Keeps the payload of an event that a worker holds, before the worker parks it.
    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable>;

    /// The payload of a parked event.
    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable>;

    /// Deletes the payload that is kept under the event's replay and wake numbers: it is on its way again, and may have
    /// been parked anew or have left the queue again meanwhile.
    async fn forget(&self, event: &Event) -> Result<(), Unavailable>;

    /// Writes `next` in the place of `seen`, or as a new row where none was seen. `Fenced` if the row has changed
    /// since.
    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError>;
}

/// The ledger for events that wait: their lists, and the line of each entity.
#[async_trait]
pub trait Lines: Send + Sync {
    /// Writes the closed row of an event that leaves the queue to wait, with its payload and its place in its entity's
    /// line. All of it or nothing. `Fenced` if the lease was lost.
    async fn wait(&self, closed: &Closed, event: &Event) -> Result<(), WriteError>;

    /// The first in an entity's line. The read sees every write before it.
    async fn first(&self, line: &Line) -> Result<Option<InLine>, Unavailable>;

    /// The last in an entity's line. The read sees every write before it.
    async fn last(&self, line: &Line) -> Result<Option<InLine>, Unavailable>;

    /// Takes an event out of its line, unless it has joined it again since, under a higher wake number.
    async fn leave(&self, line: &Line, place: &InLine) -> Result<(), Unavailable>;

    /// The rows that wait for this, of those that are listed for a moment up to `until`: the earliest first, and of one
    /// moment in the order of their places. The index may lag behind the rows.
    async fn listed(&self, on: &WaitsFor, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        Ok(self.listed_past(&PassedOver::default(), on, until, limit).await?.rows)
    }

    /// The same of the rows that are not passed over, and what of the list cannot be read. A store may stop after it has
    /// passed over very many.
    async fn listed_past(
        &self,
        passed: &PassedOver,
        on: &WaitsFor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Listed, Unavailable>;
}
