//! The ledger in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::event::Event;
use crate::key::EventId;
use crate::ledger::{Claim, Closed, Found, Lease, Row};
use crate::ports::{Admission, Admissions, Claims, Records, Rows, Unavailable, WriteError};
use crate::time::Timestamp;

/// The ledger in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelLedger(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<EventId, Row>,
    payloads: BTreeMap<EventId, Event>,
    writes: usize,
}

impl ModelLedger {
    /// How many writes were tried, refused ones included: each is charged.
    pub fn writes(&self) -> usize {
        locked(&self.0).writes
    }

    /// All rows.
    pub fn rows(&self) -> Vec<Row> {
        locked(&self.0).rows.values().cloned().collect()
    }

    /// Whether a write under this lease would land.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        let row = lease.row();
        let table = locked(&self.0);
        table.rows.get(&row.id).is_some_and(|current| current.epoch == row.epoch && current.step <= row.step)
    }

    fn held(&self, row: &Row) -> Result<(), WriteError> {
        let mut table = locked(&self.0);
        table.writes += 1;
        let current = table.rows.get(&row.id).ok_or(WriteError::Fenced)?;
        if current.epoch != row.epoch || current.step > row.step {
            return Err(WriteError::Fenced);
        }
        table.rows.insert(row.id.clone(), row.clone());
        Ok(())
    }
}

#[async_trait]
impl Admissions for ModelLedger {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        let mut table = locked(&self.0);
        table.writes += 1;
        match table.rows.get(&row.id) {
            Some(current) if !current.forgotten(now) => Ok(Admission::Duplicate(Box::new(current.clone()))),
            _ => {
                table.rows.insert(row.id.clone(), row.clone());
                Ok(Admission::New)
            }
        }
    }
}

#[async_trait]
impl Claims for ModelLedger {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, Found>, Unavailable> {
        let mut table = locked(&self.0);
        table.writes += 1;
        let Some(row) = table.rows.get(id).cloned() else { return Ok(Err(Found::Nothing)) };
        if !row.claimable(claim.now) {
            return Ok(Err(row.refused()));
        }
        let lease = Lease::won(row, claim);
        table.rows.insert(id.clone(), lease.row().clone());
        Ok(Ok(lease))
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.held(lease.row())
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.held(closed.row())
    }
}

#[async_trait]
impl Rows for ModelLedger {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        Ok(locked(&self.0).rows.get(id).cloned())
    }
}

#[async_trait]
impl Records for ModelLedger {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        let mut rows: Vec<Row> = self.rows().into_iter().filter(|row| row.parked.is_some()).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.parked_at));
        rows.truncate(limit);
        Ok(rows)
    }

    async fn keep(&self, event: &Event, _expires_at: i64) -> Result<(), Unavailable> {
        let mut table = locked(&self.0);
        table.writes += 1;
        table.payloads.insert(event.id.clone(), event.clone());
        Ok(())
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        Ok(locked(&self.0).payloads.get(id).cloned())
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        let mut table = locked(&self.0);
        table.writes += 1;
        if table.payloads.get(&event.id).is_some_and(|kept| kept.replay == event.replay) {
            table.payloads.remove(&event.id);
        }
        Ok(())
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        let mut table = locked(&self.0);
        table.writes += 1;
        let current = table.rows.get(&next.id).map(|row| (row.epoch, row.step));
        if current != seen.map(|row| (row.epoch, row.step)) {
            return Err(WriteError::Fenced);
        }
        table.rows.insert(next.id.clone(), next.clone());
        Ok(())
    }
}
