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

use super::flows::Version;
use super::mutants::Mutant;
use super::partner::{Illness, Partner};
use super::ports::{Seat, SimBoard, SimLedger, SimPartners, SimQueue, SimTables, SkewedClock};
use super::scheduler::Actor;

/// The template's numbers. A test beside the template's others compares them.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const VISIBILITY: Duration = Duration::from_secs(180);
pub(crate) const MAX_RECEIVES: usize = 100;
pub(super) const INTAKE_TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const PROCESSOR_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const REPLAY_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything outside of the containers.
#[derive(Clone)]
pub(super) struct Models {
    pub(super) ledger: ModelLedger,
    pub(super) events: ModelQueue,
    pub(super) letters: ModelQueue,
    pub(super) limits: ModelLimits,
    pub(super) pressure: ModelPressure,
    pub(super) budgets: ModelBudgets,
    pub(super) board: ModelBoard,
    pub(super) contacts: ModelContacts,
    pub(super) caps: ModelCaps,
    pub(super) latest: ModelLatest,
    pub(super) batches: ModelBatches,
    pub(super) secrets: ModelSecrets,
    pub(super) partner: Arc<Partner>,
}

/// A container's ports. A mutant changes some.
pub(super) struct Ports {
    pub(super) admissions: Box<dyn Admissions>,
    pub(super) rows: Box<dyn Rows>,
    pub(super) claims: Box<dyn Claims>,
    pub(super) records: Box<dyn Records>,
    pub(super) queue: Box<dyn Queue>,
    pub(super) visibility: Box<dyn Visibility>,
    pub(super) dead_letters: Box<dyn DeadLetters>,
    /// The queue of dead letters, from its consumer's side.
    pub(super) letters: Box<dyn Visibility>,
    pub(super) ticks: Box<dyn Ticks>,
    pub(super) batches: Box<dyn BatchStore>,
    pub(super) sender_limits: Box<dyn Limits>,
    pub(super) partner_limits: Box<dyn Limits>,
    pub(super) lane_limits: Box<dyn Limits>,
    pub(super) slots: Box<dyn Slots>,
    pub(super) breakers: Box<dyn Breakers>,
    pub(super) budgets: Box<dyn Budgets>,
    /// What stands behind the switchboard.
    pub(super) board: Box<dyn BoardStore>,
    pub(super) boards: Box<dyn Boards>,
    pub(super) contacts: Box<dyn Contacts>,
    pub(super) caps: Box<dyn Caps>,
    pub(super) latest: Box<dyn Latest>,
    pub(super) partners: Box<dyn Partners>,
}

/// What a container is started with.
pub(super) struct Start {
    pub(super) seat: Seat,
    pub(super) models: Models,
    pub(super) version: Version,
    pub(super) skew_millis: i64,
    pub(super) mood: f64,
    pub(super) illness: Option<Illness>,
    pub(super) mutant: &'static Mutant,
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

    fn ports(&self) -> Ports {
        let (seat, models) = (&self.seat, &self.models);
        let ledger = SimLedger { seat: seat.clone(), ledger: models.ledger.clone(), rules: self.mutant.rules };
        let queue = SimQueue { seat: seat.clone(), queue: models.events.clone() };
        let tables = self.tables();
        let letters = SimQueue { seat: seat.clone(), queue: models.letters.clone() };
        let (partner, mood, illness) = (Arc::clone(&models.partner), self.mood, self.illness);
        let partners = SimPartners { seat: seat.clone(), partner, mood, illness };
        let ports = Ports {
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
        (self.mutant.ports)(ports, models)
    }

    pub(super) fn intake(self) -> Intake {
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

    pub(super) fn processor(self) -> Processor {
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

    pub(super) fn replay(self) -> Replay {
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
pub(super) enum Function {
    Intake(Arc<Intake>),
    Processor(Arc<Processor>),
    Replay(Arc<Replay>),
}

/// One container.
pub(super) struct Container {
    pub(super) function: Function,
    pub(super) busy: Option<Invocation>,
}

/// How an invocation ended.
pub(super) enum Ended {
    Answered(usize, Result<Receipt, Rejection>),
    Processed(Vec<Delivered>, Vec<String>),
    Parked(Vec<Delivered>, Vec<String>),
    Operated(usize, Operation, Result<Value, Failure>),
    Scheduled(Result<Value, Failure>),
}

/// An invocation at work.
pub(super) struct Invocation {
    pub(super) number: u64,
    work: Pin<Box<dyn Future<Output = Ended> + Send>>,
    woken: Arc<Woken>,
    /// Who finds out if it is lost.
    pub(super) caller: Option<Actor>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Invocation {
    pub(super) fn new(number: u64, caller: Option<Actor>, work: impl Future<Output = Ended> + Send + 'static) -> Self {
        Invocation { number, work: Box::pin(work), woken: Arc::default(), caller }
    }

    /// Works until it waits for its turn again, or has ended.
    pub(super) fn go_on(&mut self) -> Option<Ended> {
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
