//! How a container is wired: the models outside of it, its ports over them, and the function that gets the ports.

use std::collections::BTreeSet;
use std::sync::Arc;

use intake::Intake;
use processor::Processor;
use replay::{Figures, Replay};
use shared::arrival::secrets::CachedSecrets;
use shared::arrival::window::Windows;
use shared::base::document::DocumentStore;
use shared::effects::cap::Caps;
use shared::effects::contact::Contacts;
use shared::effects::enrichment::Findings;
use shared::effects::invocation::TeamFunctions;
use shared::effects::request::Partners;
use shared::effects::token::{TokenStore, Tokens};
use shared::ledger::batch::Batches;
use shared::ledger::queue::{DeadLetters, Queue, Ticks, Visibility};
use shared::ledger::{Admissions, Claims, Lines, Records, Rows};
use shared::limits::budget::Budgets;
use shared::limits::pressure::{Breakers, Gate, Slots};
use shared::limits::rates::{Limiter, Limits};
use shared::model::{
    ModelBudgets, ModelCaps, ModelContacts, ModelCrypto, ModelDocument, ModelLatest, ModelLedger, ModelLimits,
    ModelMetrics, ModelPlaces, ModelPressure, ModelQueue, ModelSecrets, ModelTokens, ModelWindows,
};
use shared::operate::stale_guard::Latest;
use shared::operate::switchboard::{Board, Switchboard};

use crate::containers::{LEASE, PROCESSOR_TIMEOUT};
use crate::mutation::Mutation;
use crate::partner::{OpeningConduct, Partner, PartnerOutage};
use crate::ports::{
    Seat, SimBoard, SimFunctions, SimLedger, SimPartners, SimQueue, SimTables, SimWindows, SkewedClock,
};
use crate::scenario::FlowsVersion;

/// Everything outside of the containers.
#[derive(Clone)]
pub struct Models {
    /// The ledger.
    pub ledger: ModelLedger,
    /// The anchors of keys with a window.
    pub windows: ModelWindows,
    /// The queue of events.
    pub events: ModelQueue,
    pub(crate) letters: ModelQueue,
    pub(crate) limits: ModelLimits,
    pub(crate) pressure: ModelPressure,
    pub(crate) budgets: ModelBudgets,
    pub(crate) board: ModelDocument<Board>,
    /// The contacts.
    pub contacts: ModelContacts,
    pub(crate) caps: ModelCaps,
    pub(crate) latest: ModelLatest,
    pub(crate) batches: ModelDocument<Batches>,
    pub(crate) secrets: ModelSecrets,
    pub(crate) tokens: ModelTokens,
    pub(crate) partner: Arc<Partner>,
}

/// The ports of a container. A mutation changes some.
pub struct ContainerPorts {
    /// Admits events.
    pub admissions: Box<dyn Admissions>,
    /// The anchors of keys with a window.
    pub windows: Box<dyn Windows>,
    /// Reads the row of an event.
    pub rows: Box<dyn Rows>,
    /// Claims events, and writes what comes of them.
    pub claims: Box<dyn Claims>,
    /// The operators' side of the ledger.
    pub records: Box<dyn Records>,
    /// The lists and lines of events that wait.
    pub lines: Box<dyn Lines>,
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
    pub batches: Box<dyn DocumentStore<Batches>>,
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
    pub board: Box<dyn DocumentStore<Board>>,
    /// The switchboard, to be written.
    pub boards: Box<dyn DocumentStore<Board>>,
    /// The contacts.
    pub contacts: Box<dyn Contacts>,
    /// The caps.
    pub caps: Box<dyn Caps>,
    /// What was applied last.
    pub latest: Box<dyn Latest>,
    /// The tokens that containers share.
    pub tokens: Box<dyn TokenStore>,
    /// The partners.
    pub partners: Box<dyn Partners>,
    /// The team's own functions.
    pub functions: Box<dyn TeamFunctions>,
}

/// What a container is started with.
pub(crate) struct ContainerStart {
    pub(crate) seat: Seat,
    pub(crate) models: Models,
    pub(crate) version: FlowsVersion,
    /// The format that the container's version of the code writes.
    pub(crate) format: u32,
    pub(crate) skew_millis: i64,
    pub(crate) mood: f64,
    pub(crate) opening: Option<OpeningConduct>,
    pub(crate) outages: Arc<[PartnerOutage]>,
    pub(crate) mutation: Mutation,
}

impl ContainerStart {
    fn clock(&self) -> SkewedClock {
        SkewedClock { clock: self.seat.scheduler.clock.clone(), skew_millis: self.skew_millis }
    }

    fn tables(&self) -> SimTables {
        let Models { limits, pressure, budgets, caps, board, contacts, latest, batches, secrets, tokens, .. } =
            self.models.clone();
        let caps = caps.in_format(self.format);
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
            tokens,
        }
    }

    fn flow_names(&self) -> Arc<BTreeSet<String>> {
        Arc::new(self.version.flows.all().map(|flow| flow.name.clone()).collect())
    }

    fn ports(&self) -> ContainerPorts {
        let (seat, models) = (&self.seat, &self.models);
        let ledger = SimLedger {
            seat: seat.clone(),
            ledger: models.ledger.in_format(self.format),
            rules: self.mutation.rules,
            flows: self.flow_names(),
        };
        let deduplication_id = self.mutation.deduplication_id;
        let format = self.format;
        let queue = SimQueue { seat: seat.clone(), queue: models.events.clone(), deduplication_id, format };
        let tables = self.tables();
        let letters = SimQueue { seat: seat.clone(), queue: models.letters.clone(), deduplication_id, format };
        let (partner, mood, opening) = (Arc::clone(&models.partner), self.mood, self.opening);
        let partners = SimPartners { seat: seat.clone(), partner, mood, opening, outages: Arc::clone(&self.outages) };
        let ports = ContainerPorts {
            admissions: Box::new(ledger.clone()),
            windows: Box::new(SimWindows { seat: seat.clone(), windows: models.windows.clone() }),
            rows: Box::new(ledger.clone()),
            claims: Box::new(ledger.clone()),
            lines: Box::new(ledger.clone()),
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
            latest: Box::new(tables.clone()),
            tokens: Box::new(tables),
            functions: Box::new(SimFunctions(partners.clone())),
            partners: Box::new(partners),
        };
        (self.mutation.ports)(ports, models)
    }

    pub(crate) fn intake(self) -> Intake {
        let ports = self.ports();
        Intake {
            ledger: ports.admissions,
            windows: ports.windows,
            rows: ports.rows,
            queue: ports.queue,
            limiter: Limiter::new(ports.sender_limits),
            secrets: Box::new(CachedSecrets::new(self.tables(), self.clock())),
            public_url: None,
            metrics: Box::new(ModelMetrics::default()),
            sampling: shared::operate::log::LogSampling::ALL,
            spans: Box::new(None::<shared::model::ModelSpans>),
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
            timeout: PROCESSOR_TIMEOUT,
            ledger: ports.claims,
            visibility: ports.visibility,
            dead_letters: ports.dead_letters,
            switchboard: Switchboard::new(ports.board),
            boards: ports.boards,
            caps: ports.caps,
            records: ports.records,
            lines: ports.lines,
            queue: ports.queue,
            told: Default::default(),
            found: Findings::default(),
            places: Some(Box::new(ModelPlaces)),
            contacts: ports.contacts,
            metrics: Box::new(ModelMetrics::default()),
            sampling: shared::operate::log::LogSampling::ALL,
            spans: Box::new(None::<shared::model::ModelSpans>),
            latest: ports.latest,
            budgets: ports.budgets,
            gate: Gate::new(ports.partner_limits, ports.slots, ports.breakers, Box::new(chance.clone())),
            secrets: Box::new(CachedSecrets::new(self.tables(), self.clock())),
            tokens: Tokens::new(ports.tokens, Box::new(ModelCrypto)),
            partners: ports.partners,
            functions: ports.functions,
            sleep: Box::new(self.seat.clone()),
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
            lines: ports.lines,
            metrics: Box::new(ModelMetrics::default()),
            figures: Figures::new(Box::new(ModelMetrics::default())),
            breakers: ports.breakers,
            queue: ports.queue,
            boards: ports.boards,
            latest: ports.latest,
            windows: ports.windows,
            contacts: ports.contacts,
            spans: Box::new(None::<shared::model::ModelSpans>),
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
