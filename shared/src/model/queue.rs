//! An SQS FIFO queue in memory: high throughput mode, with a dead letter queue behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;

use super::queue_limits::{LONGEST_HIDDEN, QueueLimits, SentMessage, refused};
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

#[derive(Debug, Default)]
struct State {
    messages: Vec<Message>,
    /// The sent messages by group and id: the deduplication scope is the message group.
    sent: BTreeMap<(String, String), Timestamp>,
    last: u64,
    /// The messages whose retention has ended, since this was last asked.
    expired: Vec<Delivered>,
    /// What [`ModelQueue::next_receipt`] found, until something changes.
    next: Option<NextReceipt>,
}

/// When the next message can be received.
#[derive(Clone, Copy, Debug)]
enum NextReceipt {
    Now,
    At(Timestamp),
    Never,
}

#[derive(Clone, Debug)]
struct Message {
    delivered: Delivered,
    deduplication_id: String,
    sent_at: Timestamp,
    received_at: Timestamp,
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
    /// The moment when the message was sent.
    pub sent_at: Option<Timestamp>,
    /// The moment of the first receive.
    pub first_received_at: Option<Timestamp>,
}

impl Delivered {
    /// The message as a function receives it.
    pub fn received(&self) -> Received {
        let Delivered { message_id, receipt, group, body, sent_at, first_received_at, .. } = self.clone();
        Received { message_id, receipt, group, body, sent_at, first_received_at }
    }
}

impl ModelQueue {
    /// A queue with this visibility timeout.
    pub fn new(clock: ModelClock, visibility: Duration) -> Self {
        Self { clock, visibility, redrive: None, limits: QueueLimits::REAL, state: Arc::default() }
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
    pub fn limited_to(self, messages: usize) -> Self {
        let limits = QueueLimits { in_flight: messages, searched: messages, ..self.limits };
        self.with_limits(limits)
    }

    /// The queue with these limits.
    #[must_use]
    pub fn with_limits(self, limits: QueueLimits) -> Self {
        Self { limits, ..self }
    }

    /// The queue's limits.
    pub fn limits(&self) -> QueueLimits {
        self.limits
    }

    /// Sends a message, unless its deduplication id was sent to its group within five minutes. It is refused where SQS
    /// does not take it.
    pub fn put(
        &self,
        group: &str,
        deduplication_id: &str,
        body: &str,
        attributes: BTreeMap<String, String>,
    ) -> Result<(), Unavailable> {
        let now = self.clock.now();
        let (body, attributes) = self.limits.taken(SentMessage { group, deduplication_id, body, attributes })?;
        let mut state = self.changed();
        let id = (group.to_owned(), deduplication_id.to_owned());
        if state.sent.get(&id).is_some_and(|sent| now.since(*sent) < DEDUPLICATION_WINDOW) {
            return Ok(());
        }
        state.sent.insert(id, now);
        let message_id = state.next("message");
        let (receipt, group) = (String::new(), group.to_owned());
        let (sent_at, first_received_at) = (Some(now), None);
        let delivered =
            Delivered { message_id, receipt, group, body, attributes, receives: 0, sent_at, first_received_at };
        let deduplication_id = deduplication_id.to_owned();
        state.messages.push(Message { delivered, deduplication_id, sent_at: now, received_at: now, visible_at: now });
        Ok(())
    }

    /// The state, which is about to be changed. What is too old is gone.
    fn changed(&self) -> MutexGuard<'_, State> {
        let oldest = self.clock.now();
        let mut state = locked(&self.state);
        state.next = None;
        state.expire(|message| message.sent_at + self.limits.retention <= oldest);
        state
    }

    /// Receives up to `max` messages. A group of which any message is in flight is withheld.
    pub fn receive(&self, max: usize) -> Vec<Delivered> {
        let now = self.clock.now();
        let mut state = self.changed();
        let withheld = state.in_flight(now);
        let hidden = state.messages.iter().filter(|message| message.visible_at > now).count();
        let max = max.min(self.limits.in_flight.saturating_sub(hidden));
        let (mut batch, mut place, mut searched) = (Vec::new(), 0, self.limits.searched);
        while batch.len() < max && searched > 0 && place < state.messages.len() {
            searched -= 1;
            if withheld.contains(&state.messages[place].delivered.group) {
                place += 1;
            } else if self.gives_up_on(&state.messages[place]) {
                state.messages.remove(place);
            } else {
                let receipt = state.next("receipt");
                let message = &mut state.messages[place];
                (message.received_at, message.visible_at) = (now, now + self.visibility);
                message.delivered.receives += 1;
                message.delivered.first_received_at.get_or_insert(now);
                message.delivered.receipt = receipt;
                batch.push(message.delivered.clone());
                place += 1;
            }
        }
        batch
    }

    /// Moves a message that was received too often, as it is: SQS adds no reason.
    fn gives_up_on(&self, message: &Message) -> bool {
        let Some((max_receives, dead_letters)) = &self.redrive else { return false };
        let given_up = message.delivered.receives >= *max_receives;
        if given_up {
            let Delivered { group, body, attributes, .. } = message.delivered.clone();
            let moved = dead_letters.put(&group, &message.deduplication_id, &body, attributes);
            moved.expect("what one queue took the other takes");
        }
        given_up
    }

    /// Deletes a received message. A receipt that is no longer the newest deletes nothing.
    pub fn delete(&self, receipt: &str) {
        self.changed().messages.retain(|message| message.delivered.receipt != receipt);
    }

    /// The messages whose retention has ended since the last call: they are gone, and SQS says nothing of it.
    pub fn take_expired(&self) -> Vec<Delivered> {
        std::mem::take(&mut locked(&self.state).expired)
    }

    /// Forgets the deduplication ids that SQS forgets, too.
    pub fn forget_expired(&self) {
        let now = self.clock.now();
        locked(&self.state).sent.retain(|_, sent| now.since(*sent) < DEDUPLICATION_WINDOW);
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
        let mut state = self.changed();
        let group = state.in_flight(now).pop_first();
        let again = state.messages.iter_mut().filter(|message| Some(&message.delivered.group) == group.as_ref());
        again.for_each(|message| message.visible_at = message.visible_at.min(now));
    }

    /// The moment when the next message can be received, if there is any.
    pub fn next_receipt(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        let mut state = locked(&self.state);
        let known = state.next.filter(|next| !matches!(next, NextReceipt::At(at) if *at <= now));
        let next = known.unwrap_or_else(|| state.next_receipt(&self.limits, now));
        state.next = Some(next);
        match next {
            NextReceipt::Now => Some(now),
            NextReceipt::At(at) => Some(at),
            NextReceipt::Never => None,
        }
    }

    /// The moment when the next hidden message becomes visible, if any is hidden.
    pub fn next_visible(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        locked(&self.state).messages.iter().map(|message| message.visible_at).filter(|at| *at > now).min()
    }
}

impl State {
    fn expire(&mut self, too_old: impl Fn(&Message) -> bool) {
        let gone = self.messages.extract_if(.., |message| too_old(message));
        self.expired.extend(gone.map(|message| message.delivered));
    }

    fn next_receipt(&self, limits: &QueueLimits, now: Timestamp) -> NextReceipt {
        let withheld = self.in_flight(now);
        let hidden = self.messages.iter().filter(|message| message.visible_at > now).count();
        let mut searched = self.messages.iter().take(limits.searched);
        if hidden < limits.in_flight && searched.any(|message| !withheld.contains(&message.delivered.group)) {
            return NextReceipt::Now;
        }
        let visible = self.messages.iter().map(|message| message.visible_at).filter(|at| *at > now);
        visible.min().map_or(NextReceipt::Never, NextReceipt::At)
    }

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
        self.put(&event.group, &event.deduplication_id(), &body, BTreeMap::new())
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

/// The longest delay that the adapter asks for.
const MAX_VISIBILITY: Duration = Duration::from_secs(12 * 3600 - 15 * 60);

#[async_trait]
impl Visibility for ModelQueue {
    async fn postpone(&self, receipt: &str, delay: Duration) -> Result<(), Unavailable> {
        let visible_at = self.clock.now() + delay.min(MAX_VISIBILITY);
        let mut state = self.changed();
        let found = state.messages.iter_mut().find(|message| message.delivered.receipt == receipt);
        let Some(message) = found else { return Ok(()) };
        if visible_at > message.received_at + LONGEST_HIDDEN {
            return Err(refused("InvalidParameterValue"));
        }
        message.visible_at = visible_at;
        Ok(())
    }
}

#[async_trait]
impl Ticks for ModelQueue {
    async fn send(&self, tick: &Tick) -> Result<(), Unavailable> {
        let body = serde_json::to_string(tick).unwrap_or_default();
        self.put("lane", &format!("tick-{}", tick.batch), &body, BTreeMap::new())
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
        // The adapter sends a dash for an empty text, which SQS refuses.
        attributes.values_mut().filter(|value| value.is_empty()).for_each(|value| *value = "-".into());
        self.put(&letter.group, &letter.deduplication_id, &letter.body, attributes)
    }
}
