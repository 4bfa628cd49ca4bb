//! The event source mappings: they receive batches, invoke, and delete what was done.

use std::time::Duration;

use processor::{Processor, process_batch};
use replay::park_batch;
use shared::base::time::Timestamp;
use shared::ledger::queue::Received;
use shared::model::{Delivered, ModelQueue};

use super::containers::{Ended, Function, PROCESSOR_TIMEOUT, REPLAY_TIMEOUT};
use super::mutants::Handler;
use super::scheduler::Actor;
use super::timeline::Who;
use super::world::World;

/// How often a delete is lost, so that the message comes again.
const LOST_DELETES: f64 = 0.03;

/// How long a mapping waits when all containers are busy.
const BUSY: Duration = Duration::from_millis(700);

impl World {
    pub(super) fn receive_events(&mut self) {
        if !self.polls_now(Actor::Events) {
            return;
        }
        let Some((who, Function::Processor(processor))) = self.idle(|who| matches!(who, Who::Processor(_))) else {
            return self.poll_at(Actor::Events, BUSY);
        };
        let batch = self.receive(&self.models.events.clone(), who);
        if batch.is_empty() {
            return;
        }
        let deadline = self.scheduler.now() + PROCESSOR_TIMEOUT;
        let handler = self.setup.mutant.handler;
        let work = async move {
            let messages = batch.iter().map(Delivered::received).collect();
            let kept = handled(handler, &processor, messages, deadline).await;
            Ended::Processed(batch, kept)
        };
        self.invoke(who, PROCESSOR_TIMEOUT, None, work);
    }

    pub(super) fn receive_letters(&mut self) {
        if !self.polls_now(Actor::Letters) {
            return;
        }
        let Some((who, Function::Replay(replay))) = self.idle(|who| matches!(who, Who::Replay(_))) else {
            return self.poll_at(Actor::Letters, BUSY);
        };
        let batch = self.receive(&self.models.letters.clone(), who);
        if batch.is_empty() {
            return;
        }
        batch.iter().for_each(|letter| self.oracle.given_up(&letter.body));
        let handler = self.setup.mutant.handler;
        let work = async move {
            let kept = park_batch(&replay, batch.iter().map(Delivered::received).collect()).await;
            let kept = if handler == Handler::OmitsUnparked { Vec::new() } else { kept };
            Ended::Parked(batch, kept)
        };
        self.invoke(who, REPLAY_TIMEOUT, None, work);
    }

    fn receive(&self, queue: &ModelQueue, who: Who) -> Vec<Delivered> {
        let most = usize::try_from(1 + self.scheduler.below(10)).unwrap_or(1);
        let batch = queue.receive(most);
        for delivered in &batch {
            let about = format!("{} for {who}", delivered.message_id);
            let outcome = format!("{} the {}. time", delivered.receipt, delivered.receives);
            self.scheduler.note(Who::Cloud, "receive", &about, &outcome, None);
        }
        batch
    }

    /// Deletes what was not kept. A delete that is lost is a duplicate delivery.
    pub(super) fn delete(&mut self, queue: &ModelQueue, batch: Vec<Delivered>, kept: &[String]) {
        for delivered in batch.iter().filter(|delivered| !kept.contains(&delivered.message_id)) {
            if !self.scheduler.healed() && self.scheduler.happens(LOST_DELETES) {
                self.scheduler.note(Who::Cloud, "delete", &delivered.message_id, "lost", None);
                continue;
            }
            self.scheduler.note(Who::Cloud, "delete", &delivered.message_id, &delivered.receipt, None);
            queue.delete(&delivered.receipt);
        }
    }
}

async fn handled(handler: Handler, processor: &Processor, batch: Vec<Received>, deadline: Timestamp) -> Vec<String> {
    match handler {
        Handler::OneByOne => {
            let mut kept = Vec::new();
            for message in batch {
                kept.extend(process_batch(processor, vec![message], deadline).await);
            }
            kept
        }
        Handler::OmitsAFailure => process_batch(processor, batch, deadline).await.into_iter().skip(1).collect(),
        Handler::Whole | Handler::OmitsUnparked | Handler::AnyHash | Handler::AnyPlan | Handler::Unscheduled => {
            process_batch(processor, batch, deadline).await
        }
    }
}
