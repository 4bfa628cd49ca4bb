//! An SQS FIFO queue in memory: high throughput mode, with a dead letter queue behind it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::{ModelClock, locked};
use crate::arrival::event::Event;
use crate::base::errors::Unavailable;
use crate::base::machine::Clock;
use crate::base::retention::{DEDUPLICATION_WINDOW, QUEUE_RETENTION};
use crate::base::time::Timestamp;
use crate::ledger::queue::{DeadLetter, DeadLetters, Depth, Depths, Queue, Received, Tick, Ticks, Visibility};

/// A FIFO queue in memory.
#[derive(Clone, Debug)]
pub struct ModelQueue {
    clock: ModelClock,
    visibility: Duration,
    redrive: Option<(usize, Box<ModelQueue>)>,
    limits: QueueLimits,
    state: Arc<Mutex<State>>,
}

/// How much a queue bears. SQS says nothing when it is full: it delivers nothing, as if there were nothing.
#[derive(Clone, Copy, Debug)]
struct QueueLimits {
    /// The most messages in flight.
    in_flight: usize,
    /// The number of messages, from the first, among which free groups are looked for.
    searched: usize,
    /// How long a message is kept.
    retention: Duration,
}

/// What AWS documents for a FIFO queue, and its longest retention.
const REAL_LIMITS: QueueLimits =
    QueueLimits { in_flight: 120_000, searched: 120_000, retention: Duration::from_secs(14 * 86_400) };

#[derive(Debug, Default)]
struct State {
    messages: Vec<Message>,
    /// The sent messages by group and id: the deduplication scope is the message group.
    sent: BTreeMap<(String, String), Timestamp>,
    last: u64,
}

#[derive(Clone, Debug)]
struct Message {
    delivered: Delivered,
    deduplication_id: String,
    sent_at: Timestamp,
    visible_at: Timestamp,
}

/// A message in a consumer's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The message's id.
    pub message_id: String,
    /// The receipt of this delivery.
    pub receipt: String,
    /// The message group.
    pub group: String,
    /// The body.
    pub body: String,
    /// The attributes that the message was sent with.
    pub attributes: BTreeMap<String, String>,
    /// The number of receives, this one included.
    pub receives: usize,
}

impl Delivered {
    /// The message as a function receives it.
    pub fn received(&self) -> Received {
        let Delivered { message_id, receipt, group, body, .. } = self.clone();
        Received { message_id, receipt, group, body }
    }
}

impl ModelQueue {
    /// A queue with this visibility timeout.
    pub fn new(clock: ModelClock, visibility: Duration) -> Self {
        Self { clock, visibility, redrive: None, limits: REAL_LIMITS, state: Arc::default() }
    }

    /// The queue of events: with a dead letter queue behind it, which gets a message after so many receives, and with a
    /// shorter retention.
    #[must_use]
    pub fn redrive_to(mut self, dead_letters: ModelQueue, max_receives: usize) -> Self {
        self.redrive = Some((max_receives, Box::new(dead_letters)));
        self.limits.retention = QUEUE_RETENTION;
        self
    }

    /// The queue with so many messages in flight at most, and so many among which it looks for free groups.
    #[must_use]
    pub fn limited_to(mut self, messages: usize) -> Self {
        self.limits = QueueLimits { in_flight: messages, searched: messages, ..self.limits };
        self
    }

    /// Sends a message, unless its deduplication id was sent to its group within five minutes.
    pub fn put(&self, group: &str, deduplication_id: &str, body: &str, attributes: BTreeMap<String, String>) {
        let now = self.clock.now();
        let mut state = locked(&self.state);
        let id = (group.to_owned(), deduplication_id.to_owned());
        if state.sent.get(&id).is_some_and(|sent| now.since(*sent) < DEDUPLICATION_WINDOW) {
            return;
        }
        state.sent.insert(id, now);
        let message_id = state.next("message");
        let delivered = Delivered {
            message_id,
            receipt: String::new(),
            group: group.to_owned(),
            body: body.to_owned(),
            attributes,
            receives: 0,
        };
        state.messages.push(Message {
            delivered,
            deduplication_id: deduplication_id.to_owned(),
            sent_at: now,
            visible_at: now,
        });
    }

    /// Receives up to `max` messages. A group of which any message is in flight is withheld.
    pub fn receive(&self, max: usize) -> Vec<Delivered> {
        let now = self.clock.now();
        let mut state = locked(&self.state);
        state.messages.retain(|message| message.sent_at + self.limits.retention > now);
        let withheld = state.in_flight(now);
        let hidden = state.messages.iter().filter(|message| message.visible_at > now).count();
        let max = max.min(self.limits.in_flight.saturating_sub(hidden));
        let mut batch = Vec::new();
        for (place, mut message) in std::mem::take(&mut state.messages).into_iter().enumerate() {
            let found = place < self.limits.searched && !withheld.contains(&message.delivered.group);
            if batch.len() < max && found {
                if self.gives_up_on(&message) {
                    continue;
                }
                message.visible_at = now + self.visibility;
                message.delivered.receives += 1;
                message.delivered.receipt = state.next("receipt");
                batch.push(message.delivered.clone());
            }
            state.messages.push(message);
        }
        batch
    }

    /// Moves a message that was received too often, as it is: SQS adds no reason.
    fn gives_up_on(&self, message: &Message) -> bool {
        let Some((max_receives, dead_letters)) = &self.redrive else { return false };
        let given_up = message.delivered.receives >= *max_receives;
        if given_up {
            let Delivered { group, body, attributes, .. } = message.delivered.clone();
            dead_letters.put(&group, &message.deduplication_id, &body, attributes);
        }
        given_up
    }

    /// Deletes a received message. A receipt that is no longer the newest deletes nothing.
    pub fn delete(&self, receipt: &str) {
        locked(&self.state).messages.retain(|message| message.delivered.receipt != receipt);
    }

    /// The number of messages, in flight or not.
    pub fn depth(&self) -> usize {
        locked(&self.state).messages.len()
    }

    /// Whether a message with this body is on the queue, in flight or not.
    pub fn holds(&self, body: &str) -> bool {
        locked(&self.state).messages.iter().any(|message| message.delivered.body == body)
    }

    /// Delivers the first group in flight again before its time, as a queue that delivers at least
    /// once may do.
    pub fn deliver_again(&self) {
        let now = self.clock.now();
        let mut state = locked(&self.state);
        let group = state.in_flight(now).pop_first();
        let again = state.messages.iter_mut().filter(|message| Some(&message.delivered.group) == group.as_ref());
        again.for_each(|message| message.visible_at = message.visible_at.min(now));
    }

    /// The moment when the next message can be received, if there is any.
    pub fn next_receipt(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        let state = locked(&self.state);
        let withheld = state.in_flight(now);
        let hidden = state.messages.iter().filter(|message| message.visible_at > now).count();
        let mut searched = state.messages.iter().take(self.limits.searched);
        let free =
            hidden < self.limits.in_flight && searched.any(|message| !withheld.contains(&message.delivered.group));
        if free { Some(now) } else { state.messages.iter().map(|m| m.visible_at).filter(|at| *at > now).min() }
    }

    /// The moment when the next hidden message becomes visible, if any is hidden.
    pub fn next_visible(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        locked(&self.state).messages.iter().map(|message| message.visible_at).filter(|at| *at > now).min()
    }
}

impl State {
    /// The groups of which a message is in a consumer's hands.
    fn in_flight(&self, now: Timestamp) -> BTreeSet<String> {
        let hidden = self.messages.iter().filter(|message| message.visible_at > now);
        hidden.map(|message| message.delivered.group.clone()).collect()
    }

    fn next(&mut self, what: &str) -> String {
        self.last += 1;
        format!("{what}-{}", self.last)
    }
}

#[async_trait]
impl Queue for ModelQueue {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        let body = serde_json::to_string(event).expect("an event is JSON");
        self.put(&event.group, &event.deduplication_id(), &body, BTreeMap::new());
        Ok(())
    }
}

#[async_trait]
impl Depths for ModelQueue {
    async fn depth(&self) -> Result<Depth, Unavailable> {
        let now = self.clock.now();
        let state = locked(&self.state);
        let in_flight = state.messages.iter().filter(|message| message.visible_at > now).count();
        Ok(Depth { queued: state.messages.len() - in_flight, in_flight })
    }
}

#[async_trait]
impl Visibility for ModelQueue {
    async fn postpone(&self, receipt: &str, delay: Duration) -> Result<(), Unavailable> {
        let visible_at = self.clock.now() + delay;
        let mut state = locked(&self.state);
        let found = state.messages.iter_mut().find(|message| message.delivered.receipt == receipt);
        found.into_iter().for_each(|message| message.visible_at = visible_at);
        Ok(())
    }
}

#[async_trait]
impl Ticks for ModelQueue {
    async fn send(&self, tick: &Tick) -> Result<(), Unavailable> {
        let body = serde_json::to_string(tick).unwrap_or_default();
        self.put("lane", &format!("tick-{}", tick.batch), &body, BTreeMap::new());
        Ok(())
    }
}

#[async_trait]
impl DeadLetters for ModelQueue {
    async fn bury(&self, letter: &DeadLetter) -> Result<(), Unavailable> {
        let death = &letter.death;
        let mut attributes = BTreeMap::from([
            ("reason".to_owned(), death.reason.as_str().to_owned()),
            ("error".to_owned(), death.error.clone()),
            ("attempts".to_owned(), death.attempts.to_string()),
            ("died_at".to_owned(), death.at.to_string()),
        ]);
        attributes.extend(death.effect.clone().map(|effect| ("effect".to_owned(), effect)));
        self.put(&letter.group, &letter.deduplication_id, &letter.body, attributes);
        Ok(())
    }
}
