//! The queues beside the ledger: of events, and of dead letters, whose messages also drive batches of replays.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Death;
use crate::arrival::event::Event;
use crate::base::errors::Unavailable;

/// The delay of a message when a port that it needs did not answer.
pub const OUTAGE_DELAY: Duration = Duration::from_secs(10);

/// A message as the queue delivered it.
#[derive(Clone)]
pub struct Received {
    /// The message's id, for the batch's report.
    pub message_id: String,
    /// The message's receipt, to change its visibility.
    pub receipt: String,
    /// The message's group.
    pub group: String,
    /// The message's body, which may be anything.
    pub body: String,
}

crate::base::masked::prints_only!(Received as "Received", message_id, group);

/// The queue of events.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends an event to its group.
    async fn send(&self, event: &Event) -> Result<(), Unavailable>;

    /// Sends many, in order. One answer for each: what the queue did not take is not sent.
    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>> {
        let mut sent = Vec::with_capacity(events.len());
        for event in events {
            sent.push(self.send(event).await);
        }
        sent
    }
}

/// The number of events on the queue. It is approximate: SQS counts while messages move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// The events that are visible, or wait behind another of their group.
    pub queued: usize,
    /// The events that a worker has received, or that wait for a retry.
    pub in_flight: usize,
}

/// The depth of the queue of events.
#[async_trait]
pub trait Depths: Send + Sync {
    /// The depth of the queue now.
    async fn depth(&self) -> Result<Depth, Unavailable>;
}

/// The visibility of a queue's messages, for its consumer.
#[async_trait]
pub trait Visibility: Send + Sync {
    /// Makes a received message visible again after `delay`.
    async fn postpone(&self, receipt: &str, delay: Duration) -> Result<(), Unavailable>;
}

/// The queue of dead letters, for its senders.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Sends a dead letter with its context.
    async fn bury(&self, letter: &DeadLetter) -> Result<(), Unavailable>;
}

/// A message that was given up on, and the reason.
#[derive(Clone, PartialEq)]
pub struct DeadLetter {
    /// The message's body, as it was received.
    pub body: String,
    /// The message's group.
    pub group: String,
    /// The deduplication id of the letter.
    pub deduplication_id: String,
    /// The reason why the event is dead.
    pub death: Death,
}

crate::base::masked::prints_only!(DeadLetter as "DeadLetter", deduplication_id, death);

/// A message on the dead letter queue that drives the batches of replays. It comes back until no batch is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// The batch's id.
    pub batch: String,
}

/// The sender of ticks.
#[async_trait]
pub trait Ticks: Send + Sync {
    /// Sends a tick.
    async fn send(&self, tick: &Tick) -> Result<(), Unavailable>;
}
