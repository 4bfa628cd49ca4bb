//! The queues beside the ledger: of events, and of dead letters, whose messages also drive batches of replays.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Death;
use crate::arrival::event::Event;
use crate::base::errors::Unavailable;

/// How long a message waits when what it needs did not answer.
pub const OUTAGE_DELAY: Duration = Duration::from_secs(10);

/// A message as a queue handed it over.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its id, for the batch's report.
    pub message_id: String,
    /// Its receipt, to change its visibility.
    pub receipt: String,
    /// Its message group.
    pub group: String,
    /// Its body, which may be anything.
    pub body: String,
}

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

/// How many events there are on the queue, about: the queue counts as it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Those that wait for their turn.
    pub queued: usize,
    /// Those that somebody works on, or that wait for another try.
    pub in_flight: usize,
}

/// The queue of events, to look at.
#[async_trait]
pub trait Depths: Send + Sync {
    /// How much is on it now.
    async fn depth(&self) -> Result<Depth, Unavailable>;
}

/// The queue of events, from its consumer's side.
#[async_trait]
pub trait Visibility: Send + Sync {
    /// Makes a received message visible again after `delay`.
    async fn postpone(&self, receipt: &str, delay: Duration) -> Result<(), Unavailable>;
}

/// The queue of dead letters.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Sends a dead letter with its context.
    async fn bury(&self, letter: &DeadLetter) -> Result<(), Unavailable>;
}

/// A message that is given up on, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// The message's body, as it was received.
    pub body: String,
    /// Its message group.
    pub group: String,
    /// What the queue deduplicates by.
    pub deduplication_id: String,
    /// Why it is dead.
    pub death: Death,
}

/// What drives a batch of replays: a message on the dead letter queue that comes back until it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// The batch's id.
    pub batch: String,
}

/// The lane's own messages.
#[async_trait]
pub trait Ticks: Send + Sync {
    /// Sends a tick.
    async fn send(&self, tick: &Tick) -> Result<(), Unavailable>;
}
