//! The queues beside the ledger: of events, and of dead letters, whose messages also drive batches of replays.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Death;
use crate::arrival::event::Event;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

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
    /// The moment when the message was sent, if the queue says so. Its retention counts from there.
    pub sent_at: Option<Timestamp>,
    /// The moment when the message was received for the first time, if the queue says so.
    pub first_received_at: Option<Timestamp>,
}

impl Received {
    /// Whether a queue that keeps its messages for so long deletes this one within a day, and says nothing of it.
    pub fn is_deleted_soon(&self, retention: Duration, now: Timestamp) -> bool {
        self.sent_at.is_some_and(|at| now.since(at) + Duration::from_secs(24 * 3600) > retention)
    }
}

crate::base::masked::prints_only!(Received as "Received", message_id, group);

/// The queue of events.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends an event to its group.
    async fn send(&self, event: &Event) -> Result<(), Unavailable>;

    /// Sends many, those of a group in order. One answer for each: what the queue did not take is not sent.
    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>> {
        let mut sent = Vec::with_capacity(events.len());
        for event in events {
            sent.push(self.send(event).await);
        }
        sent
    }
}

/// The most messages that the queue takes at once.
const BATCH: usize = 10;

/// The most bytes that the queue takes at once: a mebibyte, less what may stand around a body.
const BATCH_BYTES: usize = 1024 * 1024 - 16 * 1024;

/// The most batches that are on their way to the queue at once.
const MAX_LANES: usize = 8;

/// How messages, given by their groups and sizes, go to the queue: lanes side by side, in each of them batch after batch, of
/// places from 0. The messages of a group are in one lane, so that they arrive in order.
pub fn lanes(messages: &[(&str, usize)]) -> Vec<Vec<Vec<usize>>> {
    let count = messages.len().div_ceil(BATCH).min(MAX_LANES);
    let mut lanes: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut lane_of: HashMap<&str, usize> = HashMap::new();
    for (place, (group, _)) in messages.iter().enumerate() {
        let shortest = || (0..count).min_by_key(|lane| lanes[*lane].len()).unwrap_or_default();
        let lane = *lane_of.entry(group).or_insert_with(shortest);
        lanes[lane].push(place);
    }
    lanes.into_iter().map(|lane| batches(&lane, messages)).collect()
}

fn batches(lane: &[usize], messages: &[(&str, usize)]) -> Vec<Vec<usize>> {
    let (mut batches, mut bytes) = (Vec::<Vec<usize>>::new(), 0);
    for place in lane {
        let size = messages[*place].1;
        match batches.last_mut().filter(|last| last.len() < BATCH && bytes + size <= BATCH_BYTES) {
            Some(last) => {
                last.push(*place);
                bytes += size;
            }
            None => {
                batches.push(vec![*place]);
                bytes = size;
            }
        }
    }
    batches
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of_groups(groups: &[usize], size: usize) -> Vec<Vec<Vec<usize>>> {
        let names: Vec<String> = groups.iter().map(usize::to_string).collect();
        let messages: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), size)).collect();
        lanes(&messages)
    }

    /// How many batches follow one another at most.
    fn longest(lanes: &[Vec<Vec<usize>>]) -> usize {
        lanes.iter().map(Vec::len).max().unwrap_or_default()
    }

    #[test]
    fn a_thousand_messages_go_in_thirteen_rounds_and_ten_in_one_call() {
        let different: Vec<usize> = (0..1000).collect();
        assert_eq!(longest(&of_groups(&different, 500)), 13);
        assert_eq!(of_groups(&different[..10], 500), [[different[..10].to_vec()]]);
        assert_eq!(longest(&of_groups(&[7; 1000], 500)), 100, "one group is in one lane");
        assert!(of_groups(&[], 0).is_empty());
    }

    #[test]
    fn every_message_goes_once_and_those_of_a_group_in_order() {
        let groups: Vec<usize> = (0..237).map(|n| n * n % 7).collect();
        let lanes = of_groups(&groups, 500);
        let mut all: Vec<usize> = lanes.iter().flatten().flatten().copied().collect();
        for group in 0..7 {
            let with = |lane: &&Vec<Vec<usize>>| lane.iter().flatten().any(|place| groups[*place] == group);
            assert!(lanes.iter().filter(with).count() <= 1, "{group}");
        }
        assert!(lanes.iter().all(|lane| lane.iter().flatten().is_sorted()));
        all.sort_unstable();
        assert_eq!(all, (0..237).collect::<Vec<_>>());
    }

    #[test]
    fn large_messages_are_fewer_in_a_batch() {
        let lanes = of_groups(&[7; 10], 248 * 1024);
        assert_eq!(lanes[0].iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2]);
    }
}
