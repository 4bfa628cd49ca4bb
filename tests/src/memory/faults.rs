//! Ports that fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use shared::arrival::event::Event;
use shared::arrival::secrets::Secrets;
use shared::arrival::signature::Secret;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::queue::Queue;
use shared::ledger::{Admission, Admissions, Claim, Claims, Closed, Lease, NotClaimed, Records, Row, Rows};
use shared::model::{ModelClock, ModelLedger, ModelQueue};

fn down() -> Unavailable {
    Unavailable { port: "the port", why: "it is down".into() }
}

/// A port that does not answer.
pub(crate) struct OutOfService;

#[async_trait]
impl Admissions for OutOfService {
    async fn admit(&self, _: &Row, _: Timestamp) -> Result<Admission, Unavailable> {
        Err(down())
    }

    async fn admit_parked(&self, _: &Row, _: &Event, _: Timestamp) -> Result<bool, Unavailable> {
        Err(down())
    }
}

#[async_trait]
impl Queue for OutOfService {
    async fn send(&self, _: &Event) -> Result<(), Unavailable> {
        Err(down())
    }
}

#[async_trait]
impl Secrets for OutOfService {
    async fn live(&self, _: &str) -> Result<Vec<Secret>, Unavailable> {
        Err(down())
    }

    async fn renewed(&self, _: &str) -> Result<Option<Vec<Secret>>, Unavailable> {
        Err(down())
    }
}

/// A queue that does not take some of what it is sent, by its number from 0.
pub(crate) struct FaultyQueue {
    queue: ModelQueue,
    refused: Vec<usize>,
    sent: AtomicUsize,
}

impl FaultyQueue {
    pub(crate) fn refusing(queue: ModelQueue, refused: &[usize]) -> Self {
        Self { queue, refused: refused.to_vec(), sent: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Queue for FaultyQueue {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        let number = self.sent.fetch_add(1, Ordering::SeqCst);
        if self.refused.contains(&number) { Err(down()) } else { self.queue.send(event).await }
    }
}

/// A ledger that takes its time, for ever.
pub(crate) struct Slow;

#[async_trait]
impl Admissions for Slow {
    async fn admit(&self, _: &Row, _: Timestamp) -> Result<Admission, Unavailable> {
        std::future::pending().await
    }

    async fn admit_parked(&self, _: &Row, _: &Event, _: Timestamp) -> Result<bool, Unavailable> {
        std::future::pending().await
    }
}

/// A ledger whose first claim takes this long.
pub(crate) struct SlowFirstClaim {
    pub(crate) ledger: ModelLedger,
    pub(crate) clock: ModelClock,
    pub(crate) time: Mutex<Duration>,
}

#[async_trait]
impl Claims for SlowFirstClaim {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable> {
        let claimed = self.ledger.claim(id, claim).await;
        let time = std::mem::take(&mut *self.time.lock().expect("no panic"));
        self.clock.advance(time);
        claimed
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.ledger.record(lease).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.ledger.close(closed).await
    }
}

/// A ledger whose row was read long ago.
pub(crate) struct StaleRow {
    pub(crate) ledger: ModelLedger,
    pub(crate) row: Row,
}

#[async_trait]
impl Rows for StaleRow {
    async fn row(&self, _: &EventId) -> Result<Option<Row>, Unavailable> {
        Ok(Some(self.row.clone()))
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        self.ledger.older(id).await
    }
}

#[async_trait]
impl Records for StaleRow {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.ledger.parked(limit).await
    }

    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.ledger.parked_between(since, until, limit).await
    }

    async fn park(&self, seen: Option<&Row>, next: &Row, event: &Event) -> Result<(), WriteError> {
        self.ledger.park(seen, next, event).await
    }

    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable> {
        self.ledger.keep(event, expires_at).await
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        self.ledger.kept(id).await
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        self.ledger.forget(event).await
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        self.ledger.replace(seen, next).await
    }
}
