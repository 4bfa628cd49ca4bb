//! Mutants of the queues.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use shared::arrival::event::Event;
use shared::base::errors::Unavailable;
use shared::base::time::Timestamp;
use shared::ledger::queue::{DeadLetter, DeadLetters, Queue, Visibility};
use shared::ledger::{Admission, Admissions, Row};
use shared::model::ModelQueue;

use sim::mutation::{ContainerPorts, Models};

/// The row that is written only after its message is sent.
type Held = Arc<Mutex<Option<(Row, Timestamp)>>>;

/// Sends before the row is written.
pub(super) fn send_first(ports: ContainerPorts, _: &Models) -> ContainerPorts {
    let (held, admissions): (Held, Arc<dyn Admissions>) = (Held::default(), ports.admissions.into());
    ContainerPorts {
        admissions: Box::new(Later(Arc::clone(&held), Arc::clone(&admissions))),
        queue: Box::new(Sooner(ports.queue, held, admissions)),
        ..ports
    }
}

struct Later(Held, Arc<dyn Admissions>);

#[async_trait]
impl Admissions for Later {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        *self.0.lock().expect("nobody panics") = Some((row.clone(), now));
        Ok(Admission::New)
    }

    async fn admit_parked(&self, row: &Row, event: &Event, now: Timestamp) -> Result<bool, Unavailable> {
        self.1.admit_parked(row, event, now).await
    }
}

struct Sooner(Box<dyn Queue>, Held, Arc<dyn Admissions>);

#[async_trait]
impl Queue for Sooner {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        self.0.send(event).await?;
        let held = self.1.lock().expect("nobody panics").take();
        if let Some((row, now)) = held {
            self.2.admit(&row, now).await?;
        }
        Ok(())
    }

    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>> {
        self.0.send_all(events).await
    }
}

/// Does not look at what the queue answers.
pub(super) struct IgnoresSendErrors(pub(super) Box<dyn Queue>);

#[async_trait]
impl Queue for IgnoresSendErrors {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        self.0.send(event).await.or(Ok(()))
    }

    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>> {
        self.0.send_all(events).await
    }
}

/// Sends a replay under the id of the first message.
pub(super) struct SameId(pub(super) ModelQueue, pub(super) Box<dyn Queue>);

#[async_trait]
impl Queue for SameId {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        if event.replay == 0 {
            return self.1.send(event).await;
        }
        let body = serde_json::to_string(event).expect("an event is JSON");
        let first = Event { replay: 0, ..event.clone() }.deduplication_id();
        self.0.put(&event.group, &first, &body, BTreeMap::new())
    }

    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>> {
        self.1.send_all(events).await
    }
}

/// Says that it has sent an event whose shape was parked, and has not. The first version of the flow `shaped` takes
/// only what is large.
pub(super) struct NoParkedShapes(pub(super) Box<dyn Queue>);

#[async_trait]
impl Queue for NoParkedShapes {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        let was_parked = event.flow == "shaped" && event.is_replay() && event.payload["data"]["large"] == false;
        if was_parked { Ok(()) } else { self.0.send(event).await }
    }

    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>> {
        self.0.send_all(events).await
    }
}

/// Lets whatever is deferred come back within a second.
pub(super) struct AtOnce(pub(super) Box<dyn Visibility>);

#[async_trait]
impl Visibility for AtOnce {
    async fn postpone(&self, receipt: &str, delay: Duration) -> Result<(), Unavailable> {
        self.0.postpone(receipt, delay.min(Duration::from_secs(1))).await
    }
}

/// Buries without a letter.
pub(super) struct NoLetters;

#[async_trait]
impl DeadLetters for NoLetters {
    async fn bury(&self, _: &DeadLetter) -> Result<(), Unavailable> {
        Ok(())
    }
}
