//! One run: containers, queues, senders and operators, until everything is at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use shared::arrival::signature::receivers_secret;
use shared::base::format::FORMAT;
use shared::base::time::Timestamp;
use shared::flows::{Flows, Scheme};
use shared::model::{
    ModelBudgets, ModelCaps, ModelDocument, ModelLatest, ModelLedger, ModelLimits, ModelPressure, ModelQueue,
    ModelSecrets, ModelTokens, ModelWindows, QueueLimits,
};

use crate::containers::{Container, Invocation, InvocationEnd, LoadedFunction, VISIBILITY};
use crate::faults::RunFaults;
use crate::operators::SimOperator;
use crate::oracle::{Oracle, REST};
use crate::partner::Partner;
use crate::ports::Seat;
use crate::run::{BrokenInvariant, RunReport, RunSetup};
use crate::scheduler::{Actor, Due, Scheduler};
use crate::senders::senders_secret;
use crate::timeline::Who;
use crate::wiring::{ContainerStart, Models};

/// How much longer dead letters are kept than events, at least.
const LETTERS_LONGER: u32 = 3;

/// A run under way.
pub(crate) struct SimWorld {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) oracle: Arc<Oracle>,
    pub(crate) models: Models,
    pub(crate) setup: RunSetup,
    pub(crate) operators: Vec<SimOperator>,
    pub(crate) containers: BTreeMap<Who, Container>,
    /// The messages that are in the hands of a version which does not know their format: their containers, and receipts.
    pub(crate) too_new: BTreeSet<(Who, String)>,
    /// Which version of the flows new containers have.
    pub(crate) deployed: usize,
    invocations: u64,
    /// How many batches of events were handled.
    pub(crate) batches: usize,
    /// How often the schedule came.
    pub(crate) schedules: u32,
    /// Whether the next wakes are on the agenda.
    pub(crate) wakes_later: bool,
    /// When the queue of events and that of dead letters are polled next.
    polls: [Option<Timestamp>; 2],
    /// Whether the index of lists may show what was.
    lags: bool,
}

impl SimWorld {
    pub(crate) fn new(setup: RunSetup) -> Self {
        let faults = RunFaults::new(setup.plan.clone(), setup.profile.clone());
        let scheduler = Scheduler::new(setup.seed, setup.scenario.starts_at, faults, setup.stores.faulty);
        let limits = setup.stores.queue;
        let letters = QueueLimits { retention: LETTERS_LONGER * limits.retention, ..limits };
        let letters = ModelQueue::new(scheduler.clock.clone(), VISIBILITY).with_limits(letters);
        let versions: Vec<Flows> = setup.versions.iter().map(|version| version.flows.clone()).collect();
        let ledger = ModelLedger::default();
        let models = Models {
            caps: ModelCaps::beside(ledger.clone()),
            batches: ModelDocument::default(),
            ledger,
            windows: ModelWindows::default(),
            events: ModelQueue::new(scheduler.clock.clone(), VISIBILITY)
                .redrive_to(letters.clone(), setup.max_receives)
                .with_limits(limits),
            letters,
            limits: ModelLimits::default(),
            pressure: ModelPressure::default(),
            budgets: ModelBudgets::default(),
            latest: ModelLatest::default(),
            tokens: ModelTokens::default(),
            board: ModelDocument::default(),
            contacts: setup.scenario.known_contacts(),
            secrets: secrets(&versions),
            partner: Partner::new(versions.clone(), setup.scenario.listings.clone()),
        };
        models.ledger.lag(setup.stores.lag, scheduler.new_chance());
        models.ledger.limit_rows(setup.stores.largest_row);
        let oracle = Oracle::new(
            models.ledger.clone(),
            Arc::clone(&models.partner),
            models.contacts.clone(),
            models.latest.clone(),
            versions,
            setup.stores.lag > 0.0,
        );
        // One more closes: it comes at the end.
        let operators = (0..=setup.operators).map(|_| SimOperator::default()).collect();
        let (containers, too_new, polls) = (BTreeMap::new(), BTreeSet::new(), [None; 2]);
        let (deployed, invocations, batches, schedules) = (0, 0, 0, 0);
        SimWorld {
            scheduler,
            oracle,
            models,
            setup,
            operators,
            containers,
            too_new,
            deployed,
            invocations,
            batches,
            schedules,
            wakes_later: false,
            polls,
            lags: true,
        }
    }

    /// Starts the containers, and puts the first things on the agenda.
    pub(crate) fn open(&mut self) {
        for number in 0..self.setup.containers {
            for who in [Who::Intake(number), Who::Processor(number), Who::Replay(number)] {
                self.start(who);
            }
        }
        for sender in 0..self.setup.senders.len() {
            self.later(self.setup.senders[sender].first_at, Actor::Sender(sender));
        }
        for (number, (at, _)) in self.setup.orders.iter().enumerate() {
            self.later(*at, Actor::Order(number));
        }
        for operator in 0..self.setup.operators {
            let first = self.scheduler.between(Duration::from_secs(10), Duration::from_secs(300));
            self.later(first, Actor::Operator(operator));
        }
        if self.setup.schedules > 0 {
            self.later(self.setup.pace.schedules, Actor::Schedule);
        }
        for (number, (at, _)) in self.setup.stores.deletions.iter().enumerate() {
            self.later(*at, Actor::Expiry(number));
        }
        if self.setup.ends_back {
            self.later(self.setup.profile.heals_after + Duration::from_secs(1), Actor::Deploy);
        }
        if self.setup.versions.len() > 1 {
            let at = self.scheduler.between(Duration::ZERO, Duration::from_secs(120));
            self.later(at, Actor::Deploy);
        }
        if self.setup.profile.redelivery > 0.0 {
            self.later(Duration::from_secs(1), Actor::Redelivery);
        }
    }

    pub(crate) fn later(&self, delay: Duration, actor: Actor) {
        self.scheduler.after(delay, Due::Act(actor));
    }

    /// One step after the other, until nothing is on the agenda.
    pub(crate) fn play(&mut self) {
        let end = self.setup.scenario.starts_at + self.setup.lasts() + self.setup.rest_within;
        while self.scheduler.violation().is_none() {
            self.heal_index();
            self.poll_later();
            self.wake_later();
            let Some(due) = self.scheduler.next() else {
                if self.close() {
                    continue;
                }
                return self.at_rest();
            };
            if self.scheduler.now() > end {
                return self.scheduler.violated(BrokenInvariant { invariant: REST, seen: format!("not by {end}") });
            }
            match due {
                Due::Resume(point) => self.go_on(point),
                Due::Land(land) => {
                    land();
                    self.oracle.observe(&self.scheduler, None);
                }
                Due::Act(actor) => self.act(actor),
            }
            for who in self.scheduler.crashed() {
                self.lose(who);
            }
        }
    }

    /// Once all is healed, the index shows what is.
    fn heal_index(&mut self) {
        if self.lags && self.scheduler.healed() {
            self.lags = false;
            self.models.ledger.lag(0.0, self.scheduler.new_chance());
        }
    }

    /// How the run went. Once all is at rest, the oracle judges the end.
    pub(crate) fn report(self) -> RunReport {
        if self.scheduler.violation().is_none()
            && let Err(violation) = self.oracle.judge_the_end(&self.models.partner, &self.scheduler)
        {
            self.scheduler.violated(violation);
        }
        RunReport {
            violation: self.scheduler.violation(),
            calls: self.scheduler.calls(),
            settled: self.oracle.settled_events(),
            done: self.oracle.done_effects(),
            batches: self.batches,
            timeline: self.scheduler.timeline(),
        }
    }

    fn at_rest(&self) {
        let busy = self.containers.iter().find(|(_, container)| container.busy.is_some());
        if let Some((who, _)) = busy {
            self.scheduler.violated(BrokenInvariant { invariant: REST, seen: format!("{who} never ended") });
        }
    }

    fn act(&mut self, actor: Actor) {
        match actor {
            Actor::Sender(sender) => self.post(sender),
            Actor::Operator(operator) => self.operate(operator),
            Actor::Order(number) => self.order(number),
            Actor::Press(question) => self.press(question),
            Actor::Schedule => self.run_the_schedule(),
            Actor::Wake => self.wake(),
            Actor::Events => self.receive_events(),
            Actor::Letters => self.receive_letters(),
            Actor::Deploy => self.deploy(),
            Actor::Redelivery => self.redeliver(),
            Actor::Expiry(number) => self.delete_expired(number),
            Actor::Platform(who, number) => {
                let running = self.containers.get(&who).and_then(|container| container.busy.as_ref());
                if running.is_some_and(|invocation| invocation.number == number) {
                    self.scheduler.note(Who::Cloud, "time-out", &who.to_string(), "ended", None);
                    self.lose(who);
                }
            }
        }
    }

    /// Puts the next poll of each queue on the agenda, when there is something to receive before it.
    fn poll_later(&mut self) {
        let queues = [(&self.models.events, Actor::Events), (&self.models.letters, Actor::Letters)];
        let mut sooner = Vec::new();
        for ((queue, actor), poll) in queues.into_iter().zip(self.polls) {
            let at = queue.next_receipt();
            sooner.extend(at.filter(|at| poll.is_none_or(|poll| *at + self.setup.slack < poll)).map(|at| (actor, at)));
        }
        for (actor, at) in sooner {
            let slack = self.scheduler.between(Duration::ZERO, self.setup.slack);
            self.poll_at(actor, at.since(self.scheduler.now()) + slack);
        }
    }

    /// Puts the next poll of a queue on the agenda, in the place of a later one.
    pub(crate) fn poll_at(&mut self, actor: Actor, after: Duration) {
        self.polls[usize::from(actor == Actor::Letters)] = Some(self.scheduler.now() + after);
        self.later(after, actor);
    }

    /// Whether this is the poll that was wanted, and not one in whose place another came.
    pub(crate) fn polls_now(&mut self, actor: Actor) -> bool {
        let poll = &mut self.polls[usize::from(actor == Actor::Letters)];
        poll.take_if(|at| *at <= self.scheduler.now()).is_some()
    }

    /// A container that does nothing now, by chance.
    pub(crate) fn idle(&self, kind: fn(&Who) -> bool) -> Option<(Who, LoadedFunction)> {
        let idle = self.containers.iter().filter(|(who, container)| kind(who) && container.busy.is_none());
        let idle: Vec<_> = idle.map(|(who, container)| (*who, container.function.clone())).collect();
        let chosen = usize::try_from(self.scheduler.below(idle.len() as u64)).unwrap_or_default();
        idle.into_iter().nth(chosen)
    }

    /// Begins an invocation, which the platform ends after `timeout`, as a rule.
    pub(crate) fn invoke(
        &mut self,
        who: Who,
        timeout: Duration,
        caller: Option<Actor>,
        work: impl Future<Output = InvocationEnd> + Send + 'static,
    ) {
        self.invocations += 1;
        let invocation = Invocation::new(self.invocations, caller, work);
        let zombie = !self.scheduler.healed() && self.scheduler.happens(self.setup.profile.zombie);
        if !zombie {
            self.later(timeout, Actor::Platform(who, self.invocations));
        }
        let container = self.containers.get_mut(&who).expect("an idle container");
        container.busy = Some(invocation);
        self.poll(who);
    }

    fn go_on(&mut self, point: u64) {
        if let Some(who) = self.scheduler.resume(point) {
            self.poll(who);
        }
    }

    fn poll(&mut self, who: Who) {
        let container = self.containers.get_mut(&who).expect("a container");
        let ended = container.busy.as_mut().and_then(Invocation::go_on);
        self.oracle.observe(&self.scheduler, Some(who));
        if let Some(ended) = ended {
            container.busy = None;
            self.scheduler.stall(who, false);
            if self.scheduler.happens(0.2) {
                self.start(who);
            }
            self.ended(who, ended);
        }
    }

    fn ended(&mut self, who: Who, ended: InvocationEnd) {
        match ended {
            InvocationEnd::Answered(sender, answer) => self.answered(sender, answer),
            InvocationEnd::Operated(operator, operation, answer) => self.operated(operator, operation, answer),
            InvocationEnd::Scheduled(answer) => self.was_scheduled(&answer),
            InvocationEnd::Processed(batch, kept) => self.delete(&self.models.events.clone(), who, batch, &kept),
            InvocationEnd::Parked(batch, kept) => self.delete(&self.models.letters.clone(), who, batch, &kept),
        }
    }

    /// A container goes down, and another starts in its place.
    fn lose(&mut self, who: Who) {
        let container = self.containers.get_mut(&who).expect("a container");
        let lost = container.busy.take();
        self.scheduler.stall(who, false);
        if let Some(caller) = lost.and_then(|lost| lost.caller) {
            self.later(self.scheduler.between(Duration::from_secs(1), Duration::from_secs(5)), caller);
        }
        self.start(who);
    }

    /// Whether the newest of several versions is deployed.
    fn is_newest(&self) -> bool {
        self.deployed > 0 && self.deployed + 1 == self.setup.versions.len()
    }

    fn start(&mut self, who: Who) {
        self.oracle.started(who);
        let skew = i64::try_from(self.setup.profile.skew.as_millis()).unwrap_or_default();
        let skew_millis = i64::try_from(self.scheduler.below(2 * skew.unsigned_abs() + 1)).unwrap_or_default() - skew;
        let format = FORMAT + u32::from(self.is_newest() && self.setup.formats);
        let start = ContainerStart {
            seat: Seat { scheduler: Arc::clone(&self.scheduler), oracle: Arc::clone(&self.oracle), who },
            models: self.models.clone(),
            version: self.setup.versions[self.deployed].clone(),
            format,
            skew_millis,
            mood: self.setup.profile.partner,
            opening: self.setup.opening,
            outages: self.setup.outages.clone().into(),
            mutation: self.setup.mutation,
        };
        let function = match who {
            Who::Intake(_) => LoadedFunction::Intake(Arc::new(start.intake())),
            Who::Processor(_) => LoadedFunction::Processor(Arc::new(start.processor())),
            _ => LoadedFunction::Replay(Arc::new(start.replay())),
        };
        self.containers.insert(who, Container { function, format, busy: None });
    }
}

/// What every sender and every partner of any version is known by.
pub(crate) fn secrets(versions: &[Flows]) -> ModelSecrets {
    let secrets = ModelSecrets::default();
    // Senders sign as the first version that has their source says.
    let sources: BTreeMap<&str, &Scheme> =
        versions.iter().rev().flat_map(Flows::sources).map(|(name, source)| (name, &source.scheme)).collect();
    let partners: BTreeSet<&str> =
        versions.iter().flat_map(|flows| flows.integrations().map(|(name, _)| name)).collect();
    for (source, scheme) in sources {
        let kept = receivers_secret(scheme, &senders_secret(scheme)).expect("a private key has a public one");
        secrets.put(&format!("sources/{source}"), kept.expose());
    }
    partners.iter().for_each(|partner| secrets.put(&format!("integrations/{partner}"), "token"));
    secrets
}
