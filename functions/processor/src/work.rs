//! The context of all stages: the ports, one event at work, and its run under a lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use shared::arrival::event::Event;
use shared::arrival::secrets::Secrets;
use shared::base::document::DocumentStore;
use shared::base::id::EventId;
use shared::base::machine::{Chance, Clock, Sleep};
use shared::base::span_ids::SpanIds;
use shared::base::time::Timestamp;
use shared::effects::cap::Caps;
use shared::effects::contact::{ContactId, Contacts};
use shared::effects::enrichment::{Findings, Places};
use shared::effects::invocation::TeamFunctions;
use shared::effects::request::Partners;
use shared::effects::token::Tokens;
use shared::flows::template::TemplateError;
use shared::flows::{ContactRef, Effect, Flow, Flows, OverlongTimeout};
use shared::ledger::queue::{DeadLetters, Queue, Received, Visibility};
use shared::ledger::{Claims, Lease, Lines, Records, Row};
use shared::limits::budget::Budgets;
use shared::limits::pressure::{Gate, Permit};
use shared::operate::log::LogSampling;
use shared::operate::metric::{Fact, Metrics, WorkUnit};
use shared::operate::span::Spans;
use shared::operate::stale_guard::{self, Latest};
use shared::operate::switchboard::{Board, InForce, Switchboard};
use tracing::error;

use crate::ended::Ended;

/// The ports of the processor.
pub struct Processor {
    /// The flows and their integrations.
    pub flows: Flows,
    /// The length of a lease.
    pub lease: Duration,
    /// The longest time of an invocation.
    pub timeout: Duration,
    /// The ledger, to claim events.
    pub ledger: Box<dyn Claims>,
    /// The visibility of events' messages, to postpone those that came too early.
    pub visibility: Box<dyn Visibility>,
    /// The queue of dead letters.
    pub dead_letters: Box<dyn DeadLetters>,
    /// The switchboard in force.
    pub switchboard: Switchboard,
    /// The switchboard's store, to turn safe mode on when a breaker opens, and to mark flows of which events wait.
    pub boards: Box<dyn DocumentStore<Board>>,
    /// The counters of frequency caps.
    pub caps: Box<dyn Caps>,
    /// The ledger's records, for events that await approval.
    pub records: Box<dyn Records>,
    /// The lines of waiting events.
    pub lines: Box<dyn Lines>,
    /// The queue of events, to send approved ones again.
    pub queue: Box<dyn Queue>,
    /// The events that this container has told of, and does not tell of again with each redelivery.
    pub told: ToldOnce,
    /// The cache of enrichments.
    pub found: Findings,
    /// The database of places, if one is configured.
    pub places: Option<Box<dyn Places>>,
    /// The event that was applied last, for each entity.
    pub latest: Box<dyn Latest>,
    /// The retry budgets of contacts.
    pub budgets: Box<dyn Budgets>,
    /// The gate that gives permits to call partners.
    pub gate: Gate,
    /// The secrets that authenticate us to partners.
    pub secrets: Box<dyn Secrets>,
    /// The tokens that are fetched for secrets.
    pub tokens: Tokens,
    /// The partners' APIs.
    pub partners: Box<dyn Partners>,
    /// The team's own functions.
    pub functions: Box<dyn TeamFunctions>,
    /// Short sleeps, to notice a call that takes long.
    pub sleep: Box<dyn Sleep>,
    /// The clock.
    pub clock: Box<dyn Clock>,
    /// The contacts of all tenants.
    pub contacts: Box<dyn Contacts>,
    /// The metrics.
    pub metrics: Box<dyn Metrics>,
    /// The exporter of spans.
    pub spans: Box<dyn Spans>,
    /// Which successes are logged.
    pub sampling: LogSampling,
    /// Random numbers, for jitter and spans.
    pub chance: Box<dyn Chance>,
}

/// Tells once, at the start, which integrations no invocation has time for. The others go on.
pub fn tell_misfits(processor: &Processor) {
    let unit = WorkUnit::new(&*processor.metrics);
    for misfit in processor.flows.misfits(processor.timeout) {
        let told =
            "the timeout of an integration does not fit into the processor's: its events are parked as misconfigured";
        error!(integration = misfit.integration, %misfit, "{told}");
        unit.count(&Fact::OverlongTimeout(misfit.integration));
    }
}

/// The events that were told of once. It forgets them when there are many: then each is told of once more.
#[derive(Debug, Default)]
pub struct ToldOnce(Mutex<BTreeSet<EventId>>);

/// The most events that are remembered as told of.
const MAX_TOLD: usize = 1000;

impl ToldOnce {
    /// Whether the event was not told of yet.
    pub(crate) fn is_new(&self, event: &EventId) -> bool {
        let mut told = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if told.len() >= MAX_TOLD {
            told.clear();
        }
        told.insert(event.clone())
    }
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFate {
    /// The queue may delete the message.
    Done,
    /// The message comes back after this long.
    RedeliverAfter(Duration),
    /// The message comes back when its visibility timeout ends: the worker does not know enough to choose a delay.
    LeaveToRedeliver,
}

/// How long a message waits that only a newer version of the code may go on with. A deploy takes minutes, and after a
/// roll-back a day of such waits fits into the receives that the queue allows.
pub(crate) const NEWER_FORMAT_DELAY: Duration = Duration::from_secs(15 * 60);

/// The time that an invocation keeps for its last writes.
pub(crate) const LAST_WRITES: Duration = Duration::from_millis(500);

/// One event at work.
pub(crate) struct Work<'w> {
    pub(crate) processor: &'w Processor,
    pub(crate) message: &'w Received,
    pub(crate) event: &'w Event,
    pub(crate) deadline: Timestamp,
    pub(crate) board: Arc<InForce>,
    pub(crate) unit: &'w WorkUnit<'w>,
    /// How the work has ended, for its line in the log.
    pub(crate) end: Mutex<Option<Ended>>,
    /// The number of the claim, once it is won: the row's epoch.
    pub(crate) claim: OnceLock<u64>,
    /// The ids of the event's spans, once one is needed.
    pub(crate) span_ids: OnceLock<SpanIds>,
    /// How many requests for tokens were made, for their spans.
    pub(crate) token_requests: AtomicU64,
}

impl Work<'_> {
    pub(crate) fn now(&self) -> Timestamp {
        self.processor.clock.now()
    }

    pub(crate) fn count(&self, fact: Fact<'_>) {
        self.unit.count(&fact);
    }

    /// Notes how the work ends, for its line in the log.
    pub(crate) fn ends(&self, end: Ended) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    /// How the work has ended, if that is known.
    pub(crate) fn take_end(&self) -> Option<Ended> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The ids of the event in log lines: the event's id, its flow, its trace.
    pub(crate) fn ids(&self) -> (&str, &str, String) {
        (self.event.id.as_str(), &self.event.flow, self.event.trace.id())
    }

    /// The ids of the event's spans.
    pub(crate) fn span_ids(&self) -> SpanIds {
        *self.span_ids.get_or_init(|| self.event.span_ids())
    }

    /// Whether the invocation lasts long enough for any one call of the flow.
    pub(crate) fn has_time(&self, flow: Option<&Flow>) -> bool {
        let asked = flow.into_iter().flat_map(Flow::integrations);
        let partners = asked.filter_map(|name| self.processor.flows.integration(name));
        let longest = partners.map(|partner| partner.timeout).max().unwrap_or_default();
        self.deadline.since(self.now()) >= longest + LAST_WRITES
    }

    /// The integration of the flow that no invocation has time for, if it has one.
    pub(crate) fn misfit(&self, flow: &Flow) -> Option<OverlongTimeout<'_>> {
        self.processor.flows.misfit_of(flow, self.processor.timeout)
    }

    /// Whether a guard, an enrichment or an approval stands before the first effect.
    pub(crate) fn needs_preparation(&self, flow: &Flow) -> bool {
        flow.needs_preparation() || stale_guard::is_judged(flow, self.event)
    }

    /// Whether another event of the entity may wait, and goes first: the flow has its mark, or the event was woken itself.
    pub(crate) fn may_wait(&self, flow: &Flow) -> bool {
        self.event.wake > 0 || self.board.may_wait(&flow.name, self.now())
    }

    /// Whether the flow did not have this effect when it accepted the event. An event of an older version does not say.
    pub(crate) fn is_new(&self, effect: &Effect) -> bool {
        self.event.effects.as_deref().is_some_and(|accepted| effect.is_new_since(accepted))
    }

    /// Why the event is not done, though all that surely has to be done is: an effect of its flow may be one that is done
    /// under a name which the flow has no more. A replay is of what its operator saw in the plan.
    pub(crate) fn maybe_renamed(&self, row: &Row) -> Option<String> {
        let flow = self.processor.flows.flow(&self.event.flow).filter(|_| !self.event.is_replay())?;
        let new = row.maybe_renamed(flow, self.event.effects.as_deref());
        let new: Vec<&str> = new.into_iter().map(|effect| effect.id.as_str()).collect();
        (!new.is_empty()).then(|| {
            let (new, gone) = (new.join("`, `"), row.done_under_lost_names(flow).join("`, `"));
            format!(
                "`{gone}` happened, or may have, and the flow has it no more; `{new}` may be the same, and was not done"
            )
        })
    }

    /// Whether a flow's safe mode is on.
    pub(crate) fn in_safe_mode(&self, flow: &Flow) -> bool {
        flow.safe_mode.is_some() && self.board.board().safe_mode(&flow.name, self.now()).is_some()
    }

    /// The id of the event's contact, if it has a usable one.
    pub(crate) fn contact_id(&self, contact: &ContactRef, lease: &Lease) -> Result<Option<ContactId>, TemplateError> {
        let scope = lease.row().scope_of(self.event);
        let (tenant, email) = contact.named(&scope)?;
        Ok(ContactId::of(&tenant, &email).ok())
    }
}

/// The permits of effects, by the effects' ids.
pub(crate) type Permits = BTreeMap<String, Permit>;

/// An event's run under one lease: the stages work on it.
pub(crate) struct Run<'r> {
    pub(crate) work: &'r Work<'r>,
    /// The event's flow, in safe mode where the event is.
    pub(crate) flow: &'r Flow,
    pub(crate) lease: Lease,
    /// The permits of the effects that are intended and not called yet.
    pub(crate) permits: Permits,
}

impl<'r> Run<'r> {
    pub(crate) fn new(work: &'r Work<'r>, flow: &'r Flow, lease: Lease, permits: Permits) -> Self {
        Run { work, flow, lease, permits }
    }
}
