//! What all stages are given: the ports, one event at work, and its run under a lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use shared::arrival::event::Event;
use shared::arrival::secrets::Secrets;
use shared::base::machine::{Chance, Clock};
use shared::base::time::Timestamp;
use shared::effects::cap::Caps;
use shared::effects::contact::{ContactId, Contacts};
use shared::effects::findings::{Findings, Places};
use shared::effects::request::Partners;
use shared::flows::template::TemplateError;
use shared::flows::{ContactRef, Flow, Flows};
use shared::ledger::queue::{DeadLetters, Queue, Received, Visibility};
use shared::ledger::{Claims, Lease, Records};
use shared::limits::budget::Budgets;
use shared::limits::pressure::{Gate, Permit};
use shared::operate::metric::{Fact, Metrics};
use shared::operate::stale::{self, Latest};
use shared::operate::switchboard::{Boards, InForce, Switchboard};

/// What the processor works with.
pub struct Processor {
    /// The flows and their integrations.
    pub flows: Flows,
    /// How long a claim holds.
    pub lease: Duration,
    /// The ledger.
    pub ledger: Box<dyn Claims>,
    /// The queue of events, to postpone what came too early.
    pub visibility: Box<dyn Visibility>,
    /// The queue of dead letters.
    pub dead_letters: Box<dyn DeadLetters>,
    /// What operators have switched.
    pub switchboard: Switchboard,
    /// The switchboard, to turn safe mode on when a partner is not well.
    pub boards: Box<dyn Boards>,
    /// How often each entity was reached.
    pub caps: Box<dyn Caps>,
    /// Where what awaits an approval is kept.
    pub records: Box<dyn Records>,
    /// The queue of events, to send on what was approved.
    pub queue: Box<dyn Queue>,
    /// What was found out lately.
    pub found: Findings,
    /// Where IP addresses are, if that is known.
    pub places: Option<Box<dyn Places>>,
    /// What was applied last, of each entity.
    pub latest: Box<dyn Latest>,
    /// What is left of each contact's retries.
    pub budgets: Box<dyn Budgets>,
    /// Who may call a partner now.
    pub gate: Gate,
    /// What proves us to the partners.
    pub secrets: Box<dyn Secrets>,
    /// The partners' APIs.
    pub partners: Box<dyn Partners>,
    /// The time.
    pub clock: Box<dyn Clock>,
    /// Our contacts.
    pub contacts: Box<dyn Contacts>,
    /// What is counted.
    pub metrics: Box<dyn Metrics>,
    /// Chance, for jitter and spans.
    pub chance: Box<dyn Chance>,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFate {
    /// The queue may delete it.
    Done,
    /// It comes back after this long.
    RedeliverAfter(Duration),
    /// It comes back when its visibility timeout ends: nobody knows enough to say when it should.
    LeaveToRedeliver,
}

/// What an invocation keeps for its last writes.
pub(crate) const LAST_WRITES: Duration = Duration::from_millis(500);

/// One event at work.
pub(crate) struct Work<'w> {
    pub(crate) processor: &'w Processor,
    pub(crate) message: &'w Received,
    pub(crate) event: &'w Event,
    pub(crate) deadline: Timestamp,
    pub(crate) board: Arc<InForce>,
}

impl Work<'_> {
    pub(crate) fn now(&self) -> Timestamp {
        self.processor.clock.now()
    }

    pub(crate) fn count(&self, fact: Fact<'_>) {
        self.processor.metrics.put(&fact);
    }

    /// What a log line names its event by: the event's id, its flow, its trace.
    pub(crate) fn ids(&self) -> (&str, &str, String) {
        (self.event.id.as_str(), &self.event.flow, self.event.trace.id())
    }

    /// Whether the invocation lasts long enough for any one effect of the flow.
    pub(crate) fn has_time(&self, flow: Option<&Flow>) -> bool {
        let effects = flow.into_iter().flat_map(|flow| &flow.effects);
        let partners = effects.filter_map(|effect| self.processor.flows.partner_of(effect));
        let longest = partners.map(|partner| partner.timeout).max().unwrap_or_default();
        self.deadline.since(self.now()) >= longest + LAST_WRITES
    }

    /// Whether something is asked or found out before the first effect.
    pub(crate) fn needs_preparation(&self, flow: &Flow) -> bool {
        flow.needs_preparation() || stale::is_judged(flow, self.event)
    }

    /// Whether a flow's safe mode is on.
    pub(crate) fn in_safe_mode(&self, flow: &Flow) -> bool {
        flow.safe_mode.is_some() && self.board.board().safe_mode(&flow.name, self.now()).is_some()
    }

    /// The id of the event's contact, if it has a proper one.
    pub(crate) fn contact_id(&self, contact: &ContactRef, lease: &Lease) -> Result<Option<ContactId>, TemplateError> {
        let scope = lease.row().scope_of(self.event);
        let (tenant, email) = contact.named(&scope)?;
        Ok(ContactId::of(&tenant, &email).ok())
    }
}

/// What lets effects be called, by their ids.
pub(crate) type Permits = BTreeMap<String, Permit>;

/// An event's run under one lease: what the stages work on.
pub(crate) struct Run<'r> {
    pub(crate) work: &'r Work<'r>,
    /// The event's flow, as its mode says.
    pub(crate) flow: &'r Flow,
    pub(crate) lease: Lease,
    /// Those of the effects that are intended and not called yet.
    pub(crate) permits: Permits,
}

impl<'r> Run<'r> {
    pub(crate) fn new(work: &'r Work<'r>, flow: &'r Flow, lease: Lease) -> Self {
        Run { work, flow, lease, permits: Permits::new() }
    }
}
