//! The schedule, and operators who work on many at once: they open batches and stop them, and plan now what they
//! apply later.

use std::time::Duration;

use futures::executor::block_on;
use replay::{Failure, Operation, PlanSeen, operate};
use serde_json::Value;
use shared::base::document::DocumentStore as _;
use shared::base::id::EventId;
use shared::ledger::batch::{Batch, BatchProgress, Batches, Filter};
use shared::ledger::{Row, State};
use shared::model::LARGEST_ITEM;

use crate::containers::{InvocationEnd, LoadedFunction, REPLAY_TIMEOUT};
use crate::mutation::Handling;
use crate::operators::{OperatorAct, drop_it};
use crate::oracle::stands_in_for;
use crate::scheduler::Actor;
use crate::timeline::Who;
use crate::world::SimWorld;

/// How often the schedule comes: the template's number.
pub const SCHEDULED_EVERY: Duration = Duration::from_secs(600);

/// How often waiting events are woken: the template's number.
pub const WOKEN_EVERY: Duration = Duration::from_secs(60);

/// How often the schedule comes at the end, while it has something to do: until the longest time for which a key is hot.
const LAST_SCHEDULES: u32 = 28;

/// How often an operator stops a batch that goes on.
const STOPS: f64 = 0.3;

/// A plan that an operator holds: what it is called, and what it saw.
#[derive(Clone)]
pub(crate) struct HeldPlan {
    name: String,
    events: Vec<PlanSeen>,
}

impl SimWorld {
    pub(crate) fn run_the_schedule(&mut self) {
        let Some((who, LoadedFunction::Replay(replay))) = self.idle(|who| matches!(who, Who::Replay(_))) else {
            return self.later(Duration::from_secs(1), Actor::Schedule);
        };
        self.schedules += 1;
        if self.setup.mutation.handling == Handling::Unscheduled {
            return;
        }
        if self.schedules < self.setup.schedules {
            self.later(self.setup.pace.schedules, Actor::Schedule);
        }
        self.scheduler.note(Who::Cloud, "schedule", &who.to_string(), "", None);
        let work = async move { InvocationEnd::Scheduled(operate(&replay, Operation::Schedule).await) };
        self.invoke(who, REPLAY_TIMEOUT, None, work);
    }

    /// Puts the next tick of the wakes on the agenda, while anything waits. In truth it always comes: a tick at which
    /// nothing waits is one read.
    pub(crate) fn wake_later(&mut self) {
        if !self.wakes_later && self.models.ledger.has_waiting() && !self.waits_for_good() {
            self.wakes_later = true;
            self.later(self.setup.pace.wakes, Actor::Wake);
        }
    }

    /// Whether nothing waits but events whose rows are broken or full, and which others stand in for.
    fn waits_for_good(&self) -> bool {
        if self.scheduler.broken().is_none() && self.setup.stores.largest_row == LARGEST_ITEM {
            return false;
        }
        let rows = self.models.ledger.rows();
        let stood_in = |row: &Row| rows.iter().any(|other| stands_in_for(other, &row.id));
        rows.iter().filter(|row| row.stands_in_line()).all(stood_in)
    }

    pub(crate) fn wake(&mut self) {
        let Some((who, LoadedFunction::Replay(replay))) = self.idle(|who| matches!(who, Who::Replay(_))) else {
            return self.later(Duration::from_secs(1), Actor::Wake);
        };
        if self.setup.mutation.handling == Handling::Unwoken {
            return;
        }
        self.wakes_later = false;
        self.scheduler.note(Who::Cloud, "wakes", &who.to_string(), "", None);
        let work = async move { InvocationEnd::Scheduled(operate(&replay, Operation::Wake).await) };
        self.invoke(who, REPLAY_TIMEOUT, None, work);
    }

    pub(crate) fn was_scheduled(&mut self, answer: &Result<Value, Failure>) {
        let told = answer.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        self.scheduler.note(Who::Cloud, "scheduled", "", &told, None);
    }

    /// When all else is at rest, the schedule drives on what nothing else drives.
    pub(crate) fn schedule_once_more(&mut self) -> bool {
        let unsent = |row: &Row| row.state == State::Queued && row.is_parked() && !self.scheduler.is_broken(&row.id);
        let waits = self.running().next().is_some() || self.models.ledger.rows().iter().any(unsent);
        let wanted = waits && self.schedules < self.setup.schedules + LAST_SCHEDULES;
        if wanted {
            self.later(SCHEDULED_EVERY, Actor::Schedule);
        }
        wanted
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = Batch> {
        let stored = block_on(self.models.batches.read()).expect("the model answers");
        let batches =
            stored.map(|stored| Batches::read(&stored.text).expect("a document of batches")).unwrap_or_default();
        batches.all().to_vec().into_iter().filter(|batch| batch.progress == BatchProgress::Running)
    }

    /// One act of a script, if there is anything to do it with.
    pub(crate) fn perform(&self, act: OperatorAct, number: usize) -> Option<Operation> {
        match act {
            OperatorAct::OpenBatch => Some(open_for_all()),
            OperatorAct::StopBatch => self.stop_a_batch(),
            OperatorAct::MakePlan => self.plan(),
            OperatorAct::ApplyPlan => self.apply(number),
            OperatorAct::TakeOneOn => Some(self.take_on(&self.first_parked()?)),
            OperatorAct::DropOne => Some(drop_it(&self.first_parked()?)),
            OperatorAct::RunSchedule => Some(Operation::Schedule),
        }
    }

    pub(crate) fn work_on_many(&self, number: usize) -> Option<Operation> {
        if self.running().next().is_some() && self.scheduler.happens(STOPS) {
            return self.stop_a_batch();
        }
        match self.scheduler.below(4) {
            0 => self.open_a_batch(),
            1 => self.apply(number).or_else(|| self.plan()),
            _ => None,
        }
    }

    /// A batch of what is like something that is parked, in its flow or in what it died of.
    fn open_a_batch(&self) -> Option<Operation> {
        let rows: Vec<Row> = self.models.ledger.rows().into_iter().filter(|row| row.death.is_some()).collect();
        let row = rows.get(self.index(rows.len() as u64))?;
        let flow = self.scheduler.happens(0.3).then(|| row.flow.clone());
        let reason = row.death.as_ref().map(|death| death.reason).filter(|_| self.scheduler.happens(0.3));
        let only = Filter { flow, reason, ..Filter::default() };
        let (max, rate) = ([1, 2, 5, 20][self.index(4)], [5, 5, 12, 60, 600][self.index(5)]);
        Some(Operation::Batch { only, max, rate, by: "ada".into(), reason: "they are back".into() })
    }

    fn stop_a_batch(&self) -> Option<Operation> {
        let Batch { id: batch, .. } = self.running().next()?;
        Some(Operation::Stop { batch, by: "ada".into(), reason: "too soon".into() })
    }

    fn plan(&self) -> Option<Operation> {
        self.first_parked()?;
        let max = 1 + self.index(3);
        Some(Operation::Plan { ids: Vec::new(), only: Filter::default(), max, with_new: false })
    }

    /// An operator has made a plan.
    pub(crate) fn planned(&mut self, number: usize, plan: &Value) {
        let name = self.oracle.planned(plan);
        let seen = |event: &Value| {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            PlanSeen { id: EventId::named(text("id")), hash: text("hash") }
        };
        let events: Vec<PlanSeen> = plan["events"].as_array().into_iter().flatten().map(seen).collect();
        self.operators[number].plan = (!events.is_empty()).then_some(HeldPlan { name, events });
    }

    fn apply(&self, number: usize) -> Option<Operation> {
        let HeldPlan { name, events } = self.operators[number].plan.clone()?;
        Some(Operation::Apply { events, by: "ada".into(), reason: name, with_new: false })
    }

    fn first_parked(&self) -> Option<Row> {
        self.models.ledger.rows().into_iter().find(|row| row.is_parked() && !self.scheduler.is_broken(&row.id))
    }

    fn index(&self, end: u64) -> usize {
        usize::try_from(self.scheduler.below(end)).unwrap_or_default()
    }
}

/// A batch of everything, slow enough to be stopped.
fn open_for_all() -> Operation {
    let only = Filter::default();
    Operation::Batch { only, max: 20, rate: 5, by: "ada".into(), reason: "they are back".into() }
}
