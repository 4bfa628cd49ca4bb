//! The containers of a stage: they start, work on one invocation at a time, and go down.

use std::sync::Arc;
use std::time::Duration;

use processor::process_batch;
use replay::{Operation, operate, park_batch};
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::format::FORMAT;
use shared::base::machine::Chance;
use shared::base::time::Timestamp;
use shared::model::{Delivered, ModelQueue};
use shared::operate::metric::{Metrics, Tally};

use super::calls::StageCalls;
use super::delivery::{self, DeliveryAnswer, HttpDelivery};
use super::{CONTAINERS, FlowStage, Who};
use crate::containers::{INTAKE_TIMEOUT, Invocation, LoadedFunction, PROCESSOR_TIMEOUT, REPLAY_TIMEOUT};
use crate::mutation::Mutation;
use crate::ports::Seat;
use crate::wiring::ContainerStart;

/// A container of a stage.
pub(super) struct StageContainer {
    function: LoadedFunction,
    busy: Option<Invocation<StageEnd>>,
    /// When the platform ends its invocation.
    pub(super) deadline: Option<Timestamp>,
    /// The delivery or the operation that it works on.
    act: Option<usize>,
}

/// How an invocation ended.
pub(super) enum StageEnd {
    Answered(usize, DeliveryAnswer),
    Operated(usize, Value),
    Processed(Vec<Delivered>, Vec<String>),
    Parked(Vec<Delivered>, Vec<String>),
    Woken,
}

impl FlowStage {
    /// Whether a container of a function does nothing now, or can be started.
    pub(super) fn has_idle(&self, kind: fn(usize) -> Who) -> bool {
        (0..CONTAINERS)
            .any(|number| self.containers.get(&kind(number)).is_none_or(|container| container.busy.is_none()))
    }

    pub(super) fn take_delivery(&mut self, number: usize, delivery: HttpDelivery) {
        let Some((who, LoadedFunction::Intake(intake))) = self.loaded(Who::Intake) else {
            self.answers.insert(number, DeliveryAnswer::unavailable());
            return;
        };
        self.scheduler.note(Who::Sender(number), "deliver", &who.to_string(), &delivery.path, None);
        let work = async move { StageEnd::Answered(number, delivery::answer(&intake, delivery).await) };
        self.invoke(who, INTAKE_TIMEOUT, Some(number), work);
    }

    pub(super) fn take_operation(&mut self, number: usize, operation: Value) {
        let Some((who, LoadedFunction::Replay(replay))) = self.loaded(Who::Replay) else {
            self.operated.insert(number, json!({"error": "no container of the replay function is free"}));
            return;
        };
        let name = operation["op"].as_str().unwrap_or_default().to_owned();
        self.scheduler.note(Who::Operator(number), "asks", &who.to_string(), &name, None);
        let work = async move { StageEnd::Operated(number, replay::handle(&replay, operation).await) };
        self.invoke(who, REPLAY_TIMEOUT, Some(number), work);
    }

    pub(super) fn receive_events(&mut self) -> bool {
        let Some((who, LoadedFunction::Processor(processor))) = self.loaded(Who::Processor) else {
            return false;
        };
        let batch = self.receive(&self.models.events.clone(), who);
        if batch.is_empty() {
            return false;
        }
        for event in batch.iter().filter_map(|delivered| serde_json::from_str::<Event>(&delivered.body).ok()) {
            self.seen().events.insert((event.trace.id(), event.id));
        }
        let deadline = self.now() + PROCESSOR_TIMEOUT;
        let work = async move {
            let messages = batch.iter().map(Delivered::received).collect();
            let kept = process_batch(&processor, messages, deadline).await;
            StageEnd::Processed(batch, kept)
        };
        self.invoke(who, PROCESSOR_TIMEOUT, None, work);
        true
    }

    pub(super) fn receive_letters(&mut self) -> bool {
        let Some((who, LoadedFunction::Replay(replay))) = self.loaded(Who::Replay) else {
            return false;
        };
        let batch = self.receive(&self.models.letters.clone(), who);
        if batch.is_empty() {
            return false;
        }
        let work = async move {
            let kept = park_batch(&replay, batch.iter().map(Delivered::received).collect()).await;
            StageEnd::Parked(batch, kept)
        };
        self.invoke(who, REPLAY_TIMEOUT, None, work);
        true
    }

    pub(super) fn wake(&mut self) {
        let Some((who, LoadedFunction::Replay(replay))) = self.loaded(Who::Replay) else {
            return;
        };
        self.scheduler.note(Who::Cloud, "wakes", &who.to_string(), "", None);
        let work = async move {
            // What it says of a port that did not answer is in the timeline; it comes again.
            drop(operate(&replay, Operation::Wake).await);
            StageEnd::Woken
        };
        self.invoke(who, REPLAY_TIMEOUT, None, work);
    }

    fn receive(&self, queue: &ModelQueue, who: Who) -> Vec<Delivered> {
        let due = queue.next_receipt().is_some_and(|at| at <= self.now());
        let batch = if due { queue.receive(10) } else { Vec::new() };
        for delivered in &batch {
            let outcome = format!("{} the {}. time", delivered.receipt, delivered.receives);
            self.scheduler.note(Who::Cloud, "receive", &format!("{} for {who}", delivered.message_id), &outcome, None);
        }
        batch
    }

    /// A container that does nothing now: the first that is there, else a new one.
    fn loaded(&mut self, kind: fn(usize) -> Who) -> Option<(Who, LoadedFunction)> {
        let idle = |who: &Who| self.containers.get(who).is_none_or(|container| container.busy.is_none());
        let who = (0..CONTAINERS).map(kind).find(idle)?;
        if !self.containers.contains_key(&who) {
            self.start(who);
        }
        Some((who, self.containers[&who].function.clone()))
    }

    fn invoke(
        &mut self,
        who: Who,
        timeout: Duration,
        act: Option<usize>,
        work: impl Future<Output = StageEnd> + 'static,
    ) {
        self.invocations += 1;
        let deadline = self.now() + timeout;
        let container = self.containers.get_mut(&who).expect("an idle container");
        container.busy = Some(Invocation::new(self.invocations, None, work));
        (container.deadline, container.act) = (Some(deadline), act);
        self.poll(who);
    }

    pub(super) fn go_on(&mut self, point: u64) {
        if let Some(who) = self.scheduler.resume(point) {
            self.poll(who);
        }
    }

    fn poll(&mut self, who: Who) {
        // The intake bounds its own time by the runtime's clock, which must be there. On stage it never strikes.
        let runtime = self.runtime.enter();
        let container = self.containers.get_mut(&who).expect("a container");
        let ended = container.busy.as_mut().and_then(Invocation::go_on);
        drop(runtime);
        if let Some(ended) = ended {
            container.release();
            self.scheduler.stall(who, false);
            self.ended(ended);
        }
    }

    fn ended(&mut self, ended: StageEnd) {
        match ended {
            StageEnd::Answered(number, answer) => {
                self.scheduler.note(Who::Sender(number), "hears", "", &answer.status.to_string(), None);
                self.answers.insert(number, answer);
            }
            StageEnd::Operated(number, outcome) => {
                let told = outcome["error"].as_str().unwrap_or("done").to_owned();
                self.scheduler.note(Who::Operator(number), "hears", "", &told, None);
                self.operated.insert(number, outcome);
            }
            StageEnd::Processed(batch, kept) => delete(&self.models.events, &batch, &kept),
            StageEnd::Parked(batch, kept) => delete(&self.models.letters, &batch, &kept),
            StageEnd::Woken => (),
        }
    }

    /// A container goes down, and another starts in its place. Whoever asked it something hears nothing.
    pub(super) fn lose(&mut self, who: Who, why: &str) {
        self.scheduler.note(Who::Cloud, "lost", &who.to_string(), why, None);
        let lost = self.containers.get_mut(&who).and_then(|container| container.act.take());
        match (who, lost) {
            (Who::Intake(_), Some(number)) => drop(self.answers.insert(number, DeliveryAnswer::unavailable())),
            (_, Some(number)) => drop(self.operated.insert(number, json!({"error": "the function was lost"}))),
            (_, None) => (),
        }
        self.scheduler.stall(who, false);
        self.start(who);
    }

    pub(super) fn start(&mut self, who: Who) {
        let seat = Seat { scheduler: Arc::clone(&self.scheduler), oracle: Arc::clone(&self.oracle), who };
        let start = ContainerStart {
            seat: seat.clone(),
            models: self.models.clone(),
            version: self.version.clone(),
            format: FORMAT,
            skew_millis: 0,
            mood: 0.0,
            opening: None,
            outages: Arc::from([]),
            mutation: Mutation::NONE,
        };
        let function = match who {
            Who::Intake(_) => {
                let mut intake = start.intake();
                intake.metrics = Box::new(Uncounted);
                LoadedFunction::Intake(Arc::new(intake))
            }
            Who::Processor(_) => {
                let mut processor = start.processor();
                let calls = StageCalls {
                    seat,
                    cast: Arc::clone(&self.cast),
                    seen: Arc::clone(&self.seen),
                    flows: self.version.flows().clone(),
                    ledger: self.models.ledger.clone(),
                };
                processor.partners = Box::new(calls.clone());
                processor.functions = Box::new(calls);
                processor.metrics = Box::new(Uncounted);
                processor.chance = Box::new(LongestJitter(processor.chance));
                LoadedFunction::Processor(Arc::new(processor))
            }
            _ => {
                let mut replay = start.replay();
                replay.metrics = Box::new(Uncounted);
                LoadedFunction::Replay(Arc::new(replay))
            }
        };
        self.containers.insert(who, StageContainer { function, busy: None, deadline: None, act: None });
    }
}

impl StageContainer {
    fn release(&mut self) {
        self.busy = None;
        self.deadline = None;
        self.act = None;
    }
}

fn delete(queue: &ModelQueue, batch: &[Delivered], kept: &[String]) {
    for delivered in batch.iter().filter(|delivered| !kept.contains(&delivered.message_id)) {
        queue.delete(&delivered.receipt);
    }
}

/// Chance of which every share is the whole: a delay that is drawn is its ceiling. What only has to differ still does.
struct LongestJitter(Box<dyn Chance>);

impl Chance for LongestJitter {
    fn bits(&self) -> u64 {
        self.0.bits()
    }

    fn unit(&self) -> f64 {
        1.0
    }
}

/// Metrics that nobody reads.
struct Uncounted;

impl Metrics for Uncounted {
    fn put(&self, _: &Tally) {}
}
