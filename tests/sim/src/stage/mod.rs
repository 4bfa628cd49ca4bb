//! The three functions on a stage: what is given is played, in order and on virtual time, and what came of it is seen.
//!
//! A [`FlowStage`] is the simulation without chance and without judges: the same containers, models, faults and scheduler.
//! Whoever directs it says what senders deliver and when, what operators do, how the [`Cast`] of partners reacts to each
//! call, and which calls of ports go wrong. So the same direction is the same play, line by line, and it takes the
//! milliseconds that its work takes.
//!
//! # Layout
//!
//! - `delivery`: deliveries as their sources sign them, through the gateway, and the answers to them.
//! - `cast`: the partners: what a call asks, and what comes back.
//! - `calls`: the partners and the functions of the team, as a container calls them.
//! - `containers`: the containers of the stage, and their invocations.
//!
//! Deliberately absent: the schedule, which comes only when it is called; jitter, which is always the longest.

mod calls;
mod cast;
mod containers;
mod delivery;

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::executor::block_on;
use serde_json::Value;
use shared::base::document::DocumentStore as _;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::effects::contact::{BadContact, Contacts as _};
use shared::ledger::{Row, WaitsFor};
use shared::model::{
    ModelBudgets, ModelCaps, ModelContacts, ModelDocument, ModelLatest, ModelLedger, ModelLimits, ModelPressure,
    ModelQueue, ModelTokens, ModelWindows, RowChange,
};
use shared::operate::switchboard::Board;

pub use cast::{CallPurpose, Cast, CastEnd, MadeCall, Reaction, success_body};
pub use delivery::{DeliveryAnswer, HttpDelivery, Posted, SenderSigning};

use crate::containers::{MAX_RECEIVES, VISIBILITY};
use crate::faults::{FaultPlan, FaultProfile, PlannedFault, RunFaults};
use crate::lane::WOKEN_EVERY;
use crate::oracle::Oracle;
use crate::partner::Partner;
use crate::scenario::{FlowsVersion, KnownContact};
use crate::scheduler::{Actor, Due, Scheduler};
use crate::timeline::{Timeline, Who};
use crate::wiring::Models;
use crate::world::secrets;
use containers::StageContainer;

/// How many containers each function has at most: as many as the template lets the processor have at once.
const CONTAINERS: usize = 10;

/// How much longer than any key the anchors of its window are kept.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(86_400);

/// The containers of a function, by their numbers.
type Consumer = fn(usize) -> Who;

/// What is played.
pub struct FlowStage {
    scheduler: Arc<Scheduler>,
    oracle: Arc<Oracle>,
    models: Models,
    version: FlowsVersion,
    cast: Arc<dyn Cast>,
    /// What is seen by whom a container calls.
    seen: Arc<Mutex<Seen>>,
    containers: BTreeMap<Who, StageContainer>,
    acts: BTreeMap<usize, Act>,
    last_act: usize,
    invocations: u64,
    answers: BTreeMap<usize, DeliveryAnswer>,
    operated: BTreeMap<usize, Value>,
    changes: Vec<RowChange>,
    /// The next tick of the wakes, while anything waits for one.
    wake_at: Option<Timestamp>,
    runtime: tokio::runtime::Runtime,
}

/// Something that happens at its moment.
enum Act {
    Deliver(HttpDelivery),
    Operate(Value),
}

/// What the calls to partners leave.
#[derive(Default)]
pub(crate) struct Seen {
    /// The calls, in order.
    pub(crate) calls: Vec<MadeCall>,
    /// How many there were, also of those that are forgotten.
    pub(crate) made: usize,
    /// The events that were received, behind their traces. Those of one delivery have one trace.
    pub(crate) events: BTreeSet<(String, EventId)>,
}

impl Seen {
    /// The events of a trace.
    pub(crate) fn events_of(&self, trace: &str) -> Vec<EventId> {
        let behind = self.events.range((trace.to_owned(), EventId::named(""))..);
        behind.take_while(|(known, _)| known == trace).map(|(_, event)| event.clone()).collect()
    }
}

/// What the stage of a run is made of.
pub struct StageSetup {
    /// The flows.
    pub version: FlowsVersion,
    /// When the play begins.
    pub starts_at: Timestamp,
    /// What goes wrong with which call of a port.
    pub faults: Vec<PlannedFault>,
    /// The partners.
    pub cast: Arc<dyn Cast>,
    /// Whether the timeline is kept. Without it, a long play needs no memory for it.
    pub timeline: bool,
}

impl FlowStage {
    /// A stage on which nothing has happened.
    pub fn new(setup: StageSetup) -> Self {
        let StageSetup { version, starts_at, faults, cast, timeline } = setup;
        let faults = RunFaults::new(FaultPlan::At(faults), FaultProfile::calm());
        let scheduler = Scheduler::in_order(starts_at, faults);
        scheduler.keep_timeline(timeline);
        let models = models(&scheduler, &version);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        FlowStage {
            oracle: Oracle::blind(),
            models,
            version,
            cast,
            seen: Arc::default(),
            containers: BTreeMap::new(),
            acts: BTreeMap::new(),
            last_act: 0,
            invocations: 0,
            answers: BTreeMap::new(),
            operated: BTreeMap::new(),
            changes: Vec::new(),
            wake_at: None,
            runtime: runtime.expect("a runtime needs nothing of the machine but a clock"),
            scheduler,
        }
    }

    /// The time on stage.
    pub fn now(&self) -> Timestamp {
        self.scheduler.now()
    }

    /// Makes a contact known, as of long before.
    pub fn know(&self, contact: &KnownContact) -> Result<(), BadContact> {
        let upsert = contact.upsert()?;
        let written =
            block_on(self.models.contacts.upsert(&upsert, &EventId::named("before"), Timestamp::from_secs(0)));
        written.expect("the model answers");
        Ok(())
    }

    /// Has a delivery arrive at a moment, or now if that has passed. The number names it.
    pub fn deliver(&mut self, at: Timestamp, delivery: HttpDelivery) -> usize {
        let number = self.act_at(at, Act::Deliver(delivery));
        self.scheduler.after(at.since(self.now()), Due::Act(Actor::Sender(number)));
        number
    }

    /// Has an operator ask for something at a moment, or now if that has passed: an operation of the replay function.
    pub fn operate(&mut self, at: Timestamp, operation: Value) -> usize {
        let number = self.act_at(at, Act::Operate(operation));
        self.scheduler.after(at.since(self.now()), Due::Act(Actor::Operator(number)));
        number
    }

    /// Plays what is due until this moment.
    pub fn play_until(&mut self, until: Timestamp) {
        while self.next_at().is_some_and(|at| at <= until) && self.step() {}
        self.scheduler.clock.advance(until.since(self.now()));
    }

    /// Plays until nothing is left to do, or until this moment. Says whether all is at rest: what waits for an operator
    /// rests.
    pub fn play_to_rest(&mut self, until: Timestamp) -> bool {
        loop {
            match self.next_at() {
                None => return true,
                Some(at) if at > until => return false,
                Some(_) if self.step() => (),
                Some(_) => return true,
            }
        }
    }

    /// The answer to a delivery, once there is one.
    pub fn answer(&self, delivery: usize) -> Option<&DeliveryAnswer> {
        self.answers.get(&delivery)
    }

    /// What came of an operation, once something did.
    pub fn outcome(&self, operation: usize) -> Option<&Value> {
        self.operated.get(&operation)
    }

    /// Forgets what became of a delivery or an operation.
    pub fn forget(&mut self, number: usize) {
        self.answers.remove(&number);
        self.operated.remove(&number);
    }

    /// The calls of partners and functions, in order.
    pub fn calls(&self) -> Vec<MadeCall> {
        self.seen().calls.clone()
    }

    /// The calls since this was last asked.
    pub fn take_calls(&self) -> Vec<MadeCall> {
        std::mem::take(&mut self.seen().calls)
    }

    /// Forgets what the product's tables and queues forget in time, as of now.
    pub fn forget_expired(&mut self) {
        let longest = self.version.flows().all().map(|flow| flow.ttl).max().unwrap_or_default();
        self.models.ledger.forget_expired(self.now());
        self.models.windows.forget_before(self.now() - longest.saturating_add(FORGOTTEN_AFTER));
        self.models.events.forget_expired();
        self.models.letters.forget_expired();
    }

    /// Forgets of an event that is settled which calls are its, and all of its row that a repetition is not told.
    pub fn forget_event(&mut self, row: &Row) {
        self.models.ledger.reduce(&row.id);
        self.seen().events.remove(&(row.trace.id(), row.id.clone()));
    }

    /// The writes of rows since this was last asked.
    pub fn take_changes(&mut self) -> Vec<RowChange> {
        std::mem::take(&mut self.changes)
    }

    /// The row of an event.
    pub fn row(&self, id: &EventId) -> Option<Row> {
        self.models.ledger.get(id)
    }

    /// All rows.
    pub fn rows(&self) -> Vec<Row> {
        self.models.ledger.rows()
    }

    /// What happened, line by line.
    pub fn timeline(&self) -> Timeline {
        self.scheduler.timeline()
    }

    /// The calls of our own tables and queues, and of partners, in order: the function, and the call's name. Each may go
    /// wrong. Nothing, where no timeline is kept.
    pub fn port_calls(&self) -> Vec<(&'static str, &'static str)> {
        self.scheduler.port_calls()
    }

    /// The planned faults that nothing went wrong by, by their places, each with how often its call was made.
    pub fn faults_left(&self) -> Vec<(usize, usize)> {
        self.scheduler.faults_left()
    }

    /// The flows.
    pub fn version(&self) -> &FlowsVersion {
        &self.version
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn act_at(&mut self, at: Timestamp, act: Act) -> usize {
        debug_assert!(at >= Timestamp::from_secs(0), "a moment");
        self.last_act += 1;
        self.acts.insert(self.last_act, act);
        self.last_act
    }

    /// When something is due next.
    fn next_at(&self) -> Option<Timestamp> {
        let now = self.now();
        let deadlines = self.containers.values().filter_map(|container| container.deadline);
        let polls = self.queues().into_iter().filter(|(_, kind)| self.has_idle(*kind));
        let polls = polls.filter_map(|(queue, _)| queue.next_receipt());
        let due = self.scheduler.next_at().into_iter().chain(deadlines).chain(polls).chain(self.next_wake());
        due.min().map(|at| at.max(now))
    }

    /// One step. Says whether there was one.
    fn step(&mut self) -> bool {
        let Some(at) = self.next_at() else { return false };
        self.wake_at = self.next_wake();
        if self.scheduler.next_at().is_some_and(|due| due <= at) {
            match self.scheduler.next() {
                Some(Due::Resume(point)) => self.go_on(point),
                Some(Due::Land(land)) => land(),
                Some(Due::Act(Actor::Sender(number) | Actor::Operator(number))) => self.act(number),
                Some(Due::Act(_)) | None => (),
            }
        } else {
            self.scheduler.clock.advance(at.since(self.now()));
            self.work();
        }
        for who in self.scheduler.crashed() {
            self.lose(who, "went down");
        }
        self.look();
        true
    }

    /// What the platform does of itself: it ends what takes too long, polls the queues, and wakes what waits.
    fn work(&mut self) {
        let now = self.now();
        let late = self.containers.iter().find(|(_, container)| container.deadline.is_some_and(|at| at <= now));
        if let Some(who) = late.map(|(who, _)| *who) {
            return self.lose(who, "ran out of time");
        }
        if self.receive_events() || self.receive_letters() {
            return;
        }
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
            self.wake();
        }
    }

    fn act(&mut self, number: usize) {
        match self.acts.remove(&number) {
            Some(Act::Deliver(delivery)) => self.take_delivery(number, delivery),
            Some(Act::Operate(operation)) => self.take_operation(number, operation),
            None => (),
        }
    }

    /// Looks at the writes that landed.
    fn look(&mut self) {
        let changes = self.models.ledger.take_changes();
        self.changes.extend(changes);
    }

    /// The next tick at which a wake has something to do.
    fn next_wake(&self) -> Option<Timestamp> {
        if !self.models.ledger.has_waiting() {
            return None;
        }
        let now = self.now();
        // Reading it is dear, and most of what waits does so for a moment.
        let board = LazyCell::new(|| self.board());
        let tick = |at: Timestamp| {
            let every = WOKEN_EVERY.as_millis();
            let passed = at.max(now).since(self.scheduler.starts_at()).as_millis();
            let ticks = u64::try_from(passed.div_ceil(every)).unwrap_or(u64::MAX).max(1);
            self.scheduler.starts_at() + WOKEN_EVERY.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
        };
        let moment = |row: &Row| match &row.wait.as_ref().filter(|_| row.stands_in_line())?.on {
            _ if row.is_woken() => row.listed_at,
            WaitsFor::Moment => row.listed_at,
            WaitsFor::Flow(flow) => match board.paused_flow(flow, now) {
                Some(pause) => pause.until,
                None => Some(now + Duration::from_millis(1)),
            },
            WaitsFor::Integration(name) => match board.paused_integration(name, now) {
                Some(pause) => pause.until,
                None => Some(now + Duration::from_millis(1)),
            },
        };
        let next = self.models.ledger.waiting_rows().iter().filter_map(moment).min().map(tick);
        match (self.wake_at, next) {
            (Some(planned), Some(next)) => Some(planned.min(next)),
            (_, next) => next,
        }
    }

    fn board(&self) -> Board {
        let stored = block_on(self.models.board.read()).expect("the model answers");
        stored.and_then(|stored| Board::read(&stored.text).ok()).unwrap_or_default()
    }

    fn queues(&self) -> [(&ModelQueue, Consumer); 2] {
        [(&self.models.events, Who::Processor), (&self.models.letters, Who::Replay)]
    }
}

/// Everything outside of the containers, with nothing in it.
fn models(scheduler: &Scheduler, version: &FlowsVersion) -> Models {
    let letters = ModelQueue::new(scheduler.clock.clone(), VISIBILITY);
    let ledger = ModelLedger::default();
    let flows = version.flows().clone();
    let secrets = secrets(std::slice::from_ref(&flows));
    for (name, partner) in flows.integrations() {
        for secret in partner.vars.secrets() {
            secrets.put(&format!("integrations/{name}/vars/{secret}"), "secret");
        }
    }
    Models {
        caps: ModelCaps::beside(ledger.clone()),
        batches: ModelDocument::default(),
        ledger,
        windows: ModelWindows::default(),
        events: ModelQueue::new(scheduler.clock.clone(), VISIBILITY).redrive_to(letters.clone(), MAX_RECEIVES),
        letters,
        limits: ModelLimits::default(),
        pressure: ModelPressure::default(),
        budgets: ModelBudgets::default(),
        latest: ModelLatest::default(),
        tokens: ModelTokens::default(),
        board: ModelDocument::default(),
        contacts: ModelContacts::default(),
        secrets,
        partner: Partner::new(vec![flows], BTreeMap::new()),
    }
}
