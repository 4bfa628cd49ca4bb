//! The queues, one step at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures::executor::block_on;
use shared::arrival::event::Event;
use shared::base::errors::Unavailable;
use shared::ledger::Reason;
use shared::ledger::queue::{DeadLetter, DeadLetters, Queue, Tick, Ticks, Visibility};
use shared::model::ModelQueue;

use super::{PortCall, Seat, short, told};

/// A queue as one container sees it: that of events, or that of dead letters.
#[derive(Clone)]
pub(crate) struct SimQueue {
    pub(crate) seat: Seat,
    pub(crate) queue: ModelQueue,
    /// The deduplication id of an event.
    pub(crate) deduplication_id: fn(&Event) -> String,
    /// The format of the messages that the container's version of the code sends.
    pub(crate) format: u32,
}

/// Sends an event under this id.
fn put(queue: &ModelQueue, event: &Event, deduplication_id: &str) -> Result<(), Unavailable> {
    let body = serde_json::to_string(event).expect("an event is JSON");
    queue.put(&event.group, deduplication_id, &body, BTreeMap::new())
}

#[async_trait]
impl Queue for SimQueue {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        let event = &Event { format: self.format, ..event.clone() };
        let (queue, late, id) = (self.queue.clone(), event.clone(), (self.deduplication_id)(event));
        let about = format!("{} r{}", short(event.id.as_str()), event.replay);
        let again = {
            let id = id.clone();
            move || put(&queue, &late, &id).unwrap_or_default()
        };
        let send = async {
            self.seat.oracle.sent(event, &self.seat.scheduler);
            put(&self.queue, event, &id)?;
            self.seat.oracle.wake_sent(event, &self.queue, &self.seat);
            Ok(())
        };
        self.seat.call(PortCall::of("send", &about).with_echo(again), send, told).await?
    }
}

#[async_trait]
impl Visibility for SimQueue {
    async fn postpone(&self, receipt: &str, delay: Duration) -> Result<(), Unavailable> {
        // SQS counts whole seconds, and the adapter rounds up.
        let delay = Duration::from_secs(delay.as_secs() + u64::from(delay.subsec_nanos() > 0));
        let about = format!("{receipt} {} s", delay.as_secs());
        self.seat.call(PortCall::of("postpone", &about), self.queue.postpone(receipt, delay), told).await?
    }
}

#[async_trait]
impl DeadLetters for SimQueue {
    async fn bury(&self, letter: &DeadLetter) -> Result<(), Unavailable> {
        if !matches!(letter.death.reason, Reason::Malformed | Reason::Orphaned | Reason::Unreadable) {
            self.seat.oracle.buried(letter, &self.seat.scheduler);
        }
        let about = format!("{} {}", short(&letter.deduplication_id), letter.death.reason.as_str());
        self.seat.call(PortCall::of("bury", &about), self.queue.bury(letter), told).await?
    }
}

#[async_trait]
impl Ticks for SimQueue {
    async fn send(&self, tick: &Tick) -> Result<(), Unavailable> {
        let (queue, late) = (self.queue.clone(), tick.clone());
        let again = move || drop(block_on(Ticks::send(&queue, &late)));
        let call = PortCall::of("send tick", &tick.batch).with_echo(again);
        self.seat.call(call, Ticks::send(&self.queue, tick), told).await?
    }
}
