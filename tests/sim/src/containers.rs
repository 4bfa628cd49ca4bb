//! The three functions, as containers that start, work on one invocation at a time, and go down.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use intake::{Intake, Receipt, Rejection};
use processor::Processor;
use replay::{Failure, Operation, Replay};
use serde_json::Value;
use shared::arrival::secrets::CachedSecrets;
use shared::effects::cap::Caps;
use shared::effects::contact::Contacts;
use shared::effects::findings::Findings;
use shared::effects::request::Partners;
use shared::ledger::batch::BatchStore;
use shared::ledger::queue::{DeadLetters, Queue, Ticks, Visibility};
use shared::ledger::{Admissions, Claims, Records, Rows};
use shared::limits::budget::Budgets;
use shared::limits::pressure::{Breakers, Gate, Slots};
use shared::limits::rates::{Limiter, Limits};
use shared::model::{
    Delivered, ModelBatches, ModelBoard, ModelBudgets, ModelCaps, ModelContacts, ModelLatest, ModelLedger, ModelLimits,
    ModelMetrics, ModelPlaces, ModelPressure, ModelQueue, ModelSecrets,
};
use shared::operate::stale::Latest;
use shared::operate::switchboard::{BoardStore, Boards, Switchboard};

use crate::mutation::Mutation;
use crate::partner::{OpeningConduct, Partner};
use crate::ports::{Seat, SimBoard, SimLedger, SimPartners, SimQueue, SimTables, SkewedClock};
use crate::scenario::FlowsVersion;
use crate::scheduler::Actor;

/// How long a worker's lease is. This and the numbers below are the template's: a test compares them.
pub const LEASE: Duration = Duration::from_secs(60);
/// How long a message that was received is hidden from others.
pub const VISIBILITY: Duration = Duration::from_secs(180);
/// How often the queue delivers a message before it gives up.
pub const MAX_RECEIVES: usize = 100;
/// How long the intake may take.
pub(crate) const INTAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the processor may take.
pub const PROCESSOR_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the replay may take.
pub(crate) const REPLAY_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything outside of the containers.
#[derive(Clone)]
pub struct Models {
    /// The ledger.
    pub ledger: ModelLedger,
    /// The queue of events.
    pub events: ModelQueue,
    pub(crate) letters: ModelQueue,
    pub(crate) limits: ModelLimits,
    pub(crate) pressure: ModelPressure,
    pub(crate) budgets: ModelBudgets,
    pub(crate) board: ModelBoard,
    pub(crate) contacts: ModelContacts,
    pub(crate) caps: ModelCaps,
    pub(crate) latest: ModelLatest,
    pub(crate) batches: ModelBatches,
    pub(crate) secrets: ModelSecrets,
    pub(crate) partner: Arc<Partner>,
}

/// The ports of a container. A mutation changes some.
pub struct ContainerPorts {
    /// Admits events.
    pub admissions: Box<dyn Admissions>,
    /// Reads the row of an event.
    pub rows: Box<dyn Rows>,
    /// Claims events, and writes what comes of them.
    pub claims: Box<dyn Claims>,
    /// The operators' side of the ledger.
    pub records: Box<dyn Records>,
    /// The queue of events, from its sender's side.
    pub queue: Box<dyn Queue>,
    /// The queue of events, from its consumer's side.
    pub visibility: Box<dyn Visibility>,
    /// Takes dead letters.
    pub dead_letters: Box<dyn DeadLetters>,
    /// The queue of dead letters, from its consumer's side.
    pub letters: Box<dyn Visibility>,
    /// Drives batches on.
    pub ticks: Box<dyn Ticks>,
    /// The batches.
    pub batches: Box<dyn BatchStore>,
    /// How much senders may send.
    pub sender_limits: Box<dyn Limits>,
    /// How often partners may be called.
    pub partner_limits: Box<dyn Limits>,
    /// How fast batches may replay.
    pub lane_limits: Box<dyn Limits>,
    /// How many calls a partner may have at once.
    pub slots: Box<dyn Slots>,
    /// Which partners are left alone.
    pub breakers: Box<dyn Breakers>,
    /// How many retries a contact has.
    pub budgets: Box<dyn Budgets>,
    /// What stands behind the switchboard.
    pub board: Box<dyn BoardStore>,
    /// The switchboard, to be written.
    pub boards: Box<dyn Boards>,
    /// The contacts.
    pub contacts: Box<dyn Contacts>,
    /// The caps.
    pub caps: Box<dyn Caps>,
    /// What was applied last.
    pub latest: Box<dyn Latest>,
    /// The partners.
    pub partners: Box<dyn Partners>,
}

/// What a container is started with.
pub(crate) struct Start {
    pub(crate) seat: Seat,
    pub(crate) models: Models,
    pub(crate) version: FlowsVersion,
    pub(crate) skew_millis: i64,
    pub(crate) mood: f64,
    pub(crate) opening: Option<OpeningConduct>,
    pub(crate) mutation: Mutation,
}

impl Start {
    fn clock(&self) -> SkewedClock {
        SkewedClock { clock: self.seat.scheduler.clock.clone(), skew_millis: self.skew_millis }
    }

    fn tables(&self) -> SimTables {
        let Models { limits, pressure, budgets, caps, board, contacts, latest, batches, secrets, .. } =
            self.models.clone();
        SimTables {
            seat: self.seat.clone(),
            limits,
            pressure,
            budgets,
            caps,
            board,
            contacts,
            latest,
            batches,
            secrets,
        }
    }

    fn ports(&self) -> ContainerPorts {
        let (seat, models) = (&self.seat, &self.models);
        let ledger = SimLedger { seat: seat.clone(), ledger: models.ledger.clone(), rules: self.mutation.rules };
        let queue = SimQueue { seat: seat.clone(), queue: models.events.clone() };
        let tables = self.tables();
        let letters = SimQueue { seat: seat.clone(), queue: models.letters.clone() };
        let (partner, mood, opening) = (Arc::clone(&models.partner), self.mood, self.opening);
        let partners = SimPartners { seat: seat.clone(), partner, mood, opening };
        let ports = ContainerPorts {
            admissions: Box::new(ledger.clone()),
            rows: Box::new(ledger.clone()),
            claims: Box::new(ledger.clone()),
            records: Box::new(ledger),
            queue: Box::new(queue.clone()),
            visibility: Box::new(queue),
            dead_letters: Box::new(letters.clone()),
            letters: Box::new(letters.clone()),
            ticks: Box::new(letters),
            batches: Box::new(tables.clone()),
            sender_limits: Box::new(tables.clone()),
            partner_limits: Box::new(tables.clone()),
            lane_limits: Box::new(tables.clone()),
            slots: Box::new(tables.clone()),
            breakers: Box::new(tables.clone()),
            budgets: Box::new(tables.clone()),
            board: Box::new(SimBoard(tables.clone())),
            boards: Box::new(tables.clone()),
            contacts: Box::new(tables.clone()),
            caps: Box::new(tables.clone()),
            latest: Box::new(tables),
            partners: Box::new(partners),
        };
        (self.mutation.ports)(ports, models)
    }

    pub(crate) fn intake(self) -> Intake {
        let ports = self.ports();
        Intake {
            ledger: ports.admissions,
            rows: ports.rows,
            queue: ports.queue,
            limiter: Limiter::new(ports.sender_limits),
            secrets: Box::new(CachedSecrets::new(self.tables(), self.clock())),
            clock: Box::new(self.clock()),
            chance: Box::new(self.seat.scheduler.new_chance()),
            flows: self.version.flows,
            contracts: self.version.contracts,
        }
    }

    pub(crate) fn processor(self) -> Processor {
        let ports = self.ports();
        let chance = self.seat.scheduler.new_chance();
        Processor {
            lease: LEASE,
            ledger: ports.claims,
            visibility: ports.visibility,
            dead_letters: ports.dead_letters,
            switchboard: Switchboard::new(ports.board),
            boards: ports.boards,
            caps: ports.caps,
            records: ports.records,
            queue: ports.queue,
            found: Findings::default(),
            places: Some(Box::new(ModelPlaces)),
            contacts: ports.contacts,
            metrics: Box::new(ModelMetrics::default()),
            latest: ports.latest,
            budgets: ports.budgets,
            gate: Gate::new(ports.partner_limits, ports.slots, ports.breakers, Box::new(chance.clone())),
            secrets: Box::new(CachedSecrets::new(self.tables(), self.clock())),
            partners: ports.partners,
            clock: Box::new(self.clock()),
            chance: Box::new(chance),
            flows: self.version.flows,
        }
    }

    pub(crate) fn replay(self) -> Replay {
        let ports = self.ports();
        Replay {
            // Nobody here looks at a console.
            depths: Box::new(self.models.events.clone()),
            records: ports.records,
            queue: ports.queue,
            boards: ports.boards,
            latest: ports.latest,
            batches: ports.batches,
            ticks: ports.ticks,
            visibility: ports.letters,
            limiter: Limiter::new(ports.lane_limits),
            chance: Box::new(self.seat.scheduler.new_chance()),
            sleep: Box::new(self.seat.clone()),
            clock: Box::new(self.clock()),
            flows: self.version.flows,
        }
    }
}

/// A function that is loaded.
#[derive(Clone)]
pub(crate) enum LoadedFunction {
    Intake(Arc<Intake>),
    Processor(Arc<Processor>),
    Replay(Arc<Replay>),
}

/// One container.
pub(crate) struct Container {
    pub(crate) function: LoadedFunction,
    pub(crate) busy: Option<Invocation>,
}

/// How an invocation ended.
pub(crate) enum InvocationEnd {
    Answered(usize, Result<Receipt, Rejection>),
    Processed(Vec<Delivered>, Vec<String>),
    Parked(Vec<Delivered>, Vec<String>),
    Operated(usize, Operation, Result<Value, Failure>),
    Scheduled(Result<Value, Failure>),
}

/// An invocation at work.
pub(crate) struct Invocation {
    pub(crate) number: u64,
    work: Pin<Box<dyn Future<Output = InvocationEnd> + Send>>,
    woken: Arc<Woken>,
    /// Who finds out if it is lost.
    pub(crate) caller: Option<Actor>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Invocation {
    pub(crate) fn new(
        number: u64,
        caller: Option<Actor>,
        work: impl Future<Output = InvocationEnd> + Send + 'static,
    ) -> Self {
        Invocation { number, work: Box::pin(work), woken: Arc::default(), caller }
    }

    /// Works until it waits for its turn again, or has ended.
    pub(crate) fn go_on(&mut self) -> Option<InvocationEnd> {
        let waker = Waker::from(Arc::clone(&self.woken));
        loop {
            self.woken.0.store(false, Ordering::SeqCst);
            if let Poll::Ready(ended) = self.work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(ended);
            }
            if !self.woken.0.load(Ordering::SeqCst) {
                return None;
            }
        }
    }
}
