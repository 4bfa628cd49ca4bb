//! The event source mappings: they receive batches, invoke, and delete what was done.

use std::time::Duration;

use futures::executor::block_on;
use processor::{Processor, process_batch};
use replay::park_batch;
use shared::arrival::event::Event;
use shared::base::format::FORMAT;
use shared::base::time::Timestamp;
use shared::ledger::Records as _;
use shared::ledger::queue::Received;
use shared::model::{Delivered, ModelLedger, ModelQueue};

use crate::containers::{InvocationEnd, LoadedFunction, MAX_RECEIVES, PROCESSOR_TIMEOUT, REPLAY_TIMEOUT};
use crate::mutation::Handling;
use crate::oracle::NEWER_KEPT;
use crate::run::BrokenInvariant;
use crate::scheduler::Actor;
use crate::timeline::Who;
use crate::world::SimWorld;

/// How often a delete is lost, so that the message comes again.
const LOST_DELETES: f64 = 0.03;

/// How long a mapping waits when all containers are busy.
const BUSY: Duration = Duration::from_millis(700);

impl SimWorld {
    pub(crate) fn receive_events(&mut self) {
        if !self.polls_now(Actor::Events) {
            return;
        }
        let Some((who, LoadedFunction::Processor(processor))) = self.idle(|who| matches!(who, Who::Processor(_)))
        else {
            return self.poll_at(Actor::Events, BUSY);
        };
        let batch = self.receive(&self.models.events.clone(), who);
        if batch.is_empty() {
            return;
        }
        self.batches += 1;
        self.oracle.hands(who, &batch, &self.scheduler);
        let deadline = self.scheduler.now() + PROCESSOR_TIMEOUT;
        let handling = self.setup.mutation.handling;
        let work = async move {
            let messages = batch.iter().map(Delivered::received).collect();
            let kept = handled(handling, &processor, messages, deadline).await;
            InvocationEnd::Processed(batch, kept)
        };
        self.invoke(who, PROCESSOR_TIMEOUT, None, work);
    }

    pub(crate) fn receive_letters(&mut self) {
        if !self.polls_now(Actor::Letters) {
            return;
        }
        let Some((who, LoadedFunction::Replay(replay))) = self.idle(|who| matches!(who, Who::Replay(_))) else {
            return self.poll_at(Actor::Letters, BUSY);
        };
        let batch = self.receive(&self.models.letters.clone(), who);
        if batch.is_empty() {
            return;
        }
        let is_early = self.setup.max_receives < MAX_RECEIVES;
        batch.iter().for_each(|letter| self.oracle.given_up(letter, is_early, &self.scheduler));
        let handling = self.setup.mutation.handling;
        let ledger = self.models.ledger.clone();
        let work = async move {
            let kept = park_batch(&replay, batch.iter().map(Delivered::received).collect()).await;
            if handling == Handling::OverwritesKept {
                batch.iter().for_each(|letter| overwrite_kept(&ledger, letter));
            }
            let kept = if handling == Handling::OmitsUnparked { Vec::new() } else { kept };
            InvocationEnd::Parked(batch, kept)
        };
        self.invoke(who, REPLAY_TIMEOUT, None, work);
    }

    fn receive(&mut self, queue: &ModelQueue, who: Who) -> Vec<Delivered> {
        let most = usize::try_from(1 + self.scheduler.below(10)).unwrap_or(1);
        let mut batch = queue.receive(most);
        if self.setup.formats {
            let known = self.containers.get(&who).map_or(FORMAT, |container| container.format);
            batch.iter_mut().for_each(|delivered| self.read_by(who, known, delivered));
        }
        self.oracle.expired(&queue.take_expired(), &self.scheduler);
        for delivered in &batch {
            let about = format!("{} for {who}", delivered.message_id);
            let outcome = format!("{} the {}. time", delivered.receipt, delivered.receives);
            self.scheduler.note(Who::Cloud, "receive", &about, &outcome, None);
        }
        batch
    }

    /// A version that knows a message's format reads it as its own: it is the same code as every other version here. One that
    /// does not must leave it.
    fn read_by(&mut self, who: Who, known: u32, delivered: &mut Delivered) {
        let Ok(event) = serde_json::from_str::<Event>(&delivered.body) else { return };
        if event.format > known {
            self.too_new.insert((who, delivered.receipt.clone()));
        } else {
            let event = Event { format: event.format.min(FORMAT), ..event };
            delivered.body = serde_json::to_string(&event).expect("an event is JSON");
        }
    }

    /// Deletes what was not kept. A delete that is lost is a duplicate delivery.
    pub(crate) fn delete(&mut self, queue: &ModelQueue, who: Who, batch: Vec<Delivered>, kept: &[String]) {
        for delivered in batch.iter().filter(|delivered| !kept.contains(&delivered.message_id)) {
            if !self.scheduler.healed() && self.scheduler.happens(LOST_DELETES) {
                self.scheduler.note(Who::Cloud, "delete", &delivered.message_id, "lost", None);
                continue;
            }
            if self.too_new.contains(&(who, delivered.receipt.clone())) {
                let seen =
                    format!("{} is of a newer format, and an older version has it deleted", delivered.message_id);
                self.scheduler.violated(BrokenInvariant { invariant: NEWER_KEPT, seen });
            }
            self.scheduler.note(Who::Cloud, "delete", &delivered.message_id, &delivered.receipt, None);
            queue.delete(&delivered.receipt);
        }
    }
}

/// Puts the payload of a letter in the place of the one that is kept of its event.
fn overwrite_kept(ledger: &ModelLedger, letter: &Delivered) {
    let Ok(event) = serde_json::from_str::<Event>(&letter.body) else { return };
    if let Some(Event { replay, .. }) = ledger.payload(&event.id) {
        block_on(ledger.keep(&Event { replay, ..event }, 0)).expect("the model answers");
    }
}

async fn handled(handling: Handling, processor: &Processor, batch: Vec<Received>, deadline: Timestamp) -> Vec<String> {
    match handling {
        Handling::OneByOne => {
            let mut kept = Vec::new();
            for message in batch {
                kept.extend(process_batch(processor, vec![message], deadline).await);
            }
            kept
        }
        Handling::OmitsAFailure => process_batch(processor, batch, deadline).await.into_iter().skip(1).collect(),
        Handling::Product
        | Handling::OmitsUnparked
        | Handling::OverwritesKept
        | Handling::AnyHash
        | Handling::AnyPlan
        | Handling::Unscheduled
        | Handling::Unwoken => process_batch(processor, batch, deadline).await,
    }
}
