//! Records of parked events that are kept carelessly.

use async_trait::async_trait;
use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{Reason, Records, Row, Rows, State};

/// The records, but for one thing.
pub(super) struct CarelessRecords {
    pub(super) records: Box<dyn Records>,
    pub(super) how: How,
}

/// What is left undone.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum How {
    /// The payload of a dead letter is not kept.
    KeepsNoPayload,
    /// Says that it dropped an event.
    DropsNothing,
    /// Says of every event that the queue gave up on that it crashed.
    SaysCrashed,
    /// What stands in for an event whose row is broken is not written.
    LetsBrokenGo,
    /// Takes everything to have been parked when it came.
    Timeless,
}

impl CarelessRecords {
    pub(super) fn over(records: Box<dyn Records>, how: How) -> Box<dyn Records> {
        Box::new(Self { records, how })
    }

    fn timed(&self, row: Row) -> Row {
        if self.how != How::Timeless {
            return row;
        }
        let listed_at = row.listed_at.map(|_| row.received_at);
        Row { listed_at, queued_at: row.received_at, ..row }
    }
}

#[async_trait]
impl Rows for CarelessRecords {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        Ok(self.records.row(id).await?.map(|row| self.timed(row)))
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        self.records.older(id).await
    }
}

#[async_trait]
impl Records for CarelessRecords {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.records.parked(limit).await
    }

    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        let rows = match self.how {
            How::Timeless => self.records.parked(limit).await?,
            _ => self.records.parked_between(since, until, limit).await?,
        };
        Ok(rows.into_iter().map(|row| self.timed(row)).collect())
    }

    async fn park(&self, seen: Option<&Row>, next: &Row, event: &Event) -> Result<(), WriteError> {
        match self.how {
            How::KeepsNoPayload => self.records.replace(seen, next).await,
            How::SaysCrashed => {
                let mut next = next.clone();
                next.death.iter_mut().filter(|death| death.reason == Reason::Undelivered).for_each(|death| {
                    death.reason = Reason::Crashed;
                });
                self.records.park(seen, &next, event).await
            }
            How::LetsBrokenGo if next.death.as_ref().is_some_and(|death| death.reason == Reason::Unreadable) => Ok(()),
            _ => self.records.park(seen, next, event).await,
        }
    }

    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable> {
        if self.how == How::KeepsNoPayload { Ok(()) } else { self.records.keep(event, expires_at).await }
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        self.records.kept(id).await
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        self.records.forget(event).await
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        let undone = self.how == How::DropsNothing && next.state == State::Dropped;
        if undone { Ok(()) } else { self.records.replace(seen, next).await }
    }
}
