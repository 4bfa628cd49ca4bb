//! An export on the simulation's stage: the real functions, on the export's own clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use sha2::{Digest, Sha256};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::flows::contract::Contracts;
use shared::flows::{Field, Flow, Flows};
use shared::ledger::{Progress, Row, State};
use sim::stage::{Cast, DeliveryAnswer, FlowStage, HttpDelivery, Posted, StageSetup};
use sim::{FlowsVersion, KnownContact};

use super::early::EarlyLines;
use super::export::{Export, ExportLine, moment_of};
use super::fate::{DeliveryFates, EventFate};
use super::order::{EntityId, EntityOrder, entity_of};
use super::report::RehearsalReport;
use super::route::{ChosenRoute, posted};
use crate::flows::keys::compared;
use crate::scenarios::script::ScriptedCast;
use crate::scenarios::written::{Keeps, WrittenReaction};

/// How often what the product would have forgotten is forgotten, in lines.
const FORGETS_EVERY: usize = 500;

/// How often a delivery that is over its source's rate is sent again.
const THROTTLED_TIMES: usize = 1000;

/// How long after the last line what is under way has to come to its end.
const LONGEST: Duration = Duration::from_secs(40 * 86_400);

/// What an export is rehearsed with.
pub struct RehearsalSetup<'r> {
    /// The flows.
    pub flows: &'r Flows,
    /// Whose lines they are.
    pub route: ChosenRoute<'r>,
    /// The field that says when an event happened.
    pub at: &'r Field,
    /// When the export begins, where its lines do not say it.
    pub starts_at: Option<Timestamp>,
    /// Whatever is around the flows.
    pub world: &'r RehearsalWorld,
}

/// The partners and the contacts of a rehearsal.
#[derive(Default)]
pub struct RehearsalWorld {
    /// What partners answer, in order, by integration.
    pub partners: BTreeMap<String, Vec<WrittenReaction>>,
    /// What partners really keep, by integration, where that is not what the flows declare.
    pub keeps: BTreeMap<String, Keeps>,
    /// Who is known when the export begins.
    pub contacts: Vec<KnownContact>,
}

/// Sends an export through flows. It tells now and then how much of it was read.
pub fn rehearse(
    mut export: Export,
    setup: &RehearsalSetup<'_>,
    mut progress: impl FnMut(u64),
) -> Result<RehearsalReport> {
    let began = Instant::now();
    let mut early = EarlyLines::default();
    let mut rehearsal = setup.starts_at.map(|at| Rehearsal::new(setup, at)).transpose()?;
    while let Some(line) = export.next_line()? {
        // The clock begins with the first event that says when it was.
        if let (None, Some(starts_at)) = (&rehearsal, line.moment(setup.at)) {
            rehearsal = Some(Rehearsal::new(setup, starts_at)?);
        }
        let Some(running) = &mut rehearsal else {
            early.keep(line, setup.at)?;
            continue;
        };
        for line in early.take().into_iter().chain([line]) {
            running.take(&line)?;
        }
        if running.report.lines.is_multiple_of(FORGETS_EVERY) {
            progress(export.position());
        }
    }
    early.end(setup.at)?;
    let report = rehearsal.map(Rehearsal::finish).unwrap_or_default();
    Ok(RehearsalReport { took: began.elapsed(), ..report })
}

struct Rehearsal<'r> {
    stage: FlowStage,
    cast: Arc<ScriptedCast>,
    setup: &'r RehearsalSetup<'r>,
    report: RehearsalReport,
    order: EntityOrder,
    /// The newest moment that a line names.
    newest: Timestamp,
    /// The events that are not settled, by their ids.
    open: BTreeMap<String, OpenEvent>,
    /// How many events were accepted.
    accepted: u64,
    /// The events that the ledger still knows.
    known: BTreeMap<String, KnownEvent>,
    contracts: Contracts,
}

/// An event that the ledger knows: its row is reduced to what its sender is told.
#[derive(Clone, Copy)]
struct KnownEvent {
    /// A hash of its payload, where its flow is known.
    payload: Option<u64>,
    /// How many effects it did, once it is settled.
    done: usize,
}

/// An event that is not settled.
struct OpenEvent {
    entity: Option<EntityId>,
    /// Its place among all accepted events.
    place: u64,
    state: State,
    /// How many deliveries of it followed the first.
    duplicates: usize,
    acted: bool,
}

impl<'r> Rehearsal<'r> {
    fn new(setup: &'r RehearsalSetup<'r>, starts_at: Timestamp) -> Result<Self> {
        let cast = Arc::new(ScriptedCast::new(&setup.world.partners, &setup.world.keeps));
        let stage = FlowStage::new(StageSetup {
            version: FlowsVersion::of(setup.flows.clone()),
            starts_at,
            faults: Vec::new(),
            cast: Arc::clone(&cast) as Arc<dyn Cast>,
            timeline: false,
        });
        for contact in &setup.world.contacts {
            stage.know(contact).map_err(|why| anyhow!("a contact cannot be kept: {why}"))?;
        }
        let report = RehearsalReport { starts_at: starts_at.to_string(), ..RehearsalReport::default() };
        let (order, open) = (EntityOrder::default(), BTreeMap::new());
        let (known, contracts) = (BTreeMap::new(), Contracts::of(setup.flows));
        Ok(Rehearsal { stage, cast, setup, report, order, newest: starts_at, open, accepted: 0, known, contracts })
    }

    fn take(&mut self, line: &ExportLine) -> Result<()> {
        self.report.lines += 1;
        match line.moment(self.setup.at) {
            Some(moment) if moment >= self.newest => {
                self.newest = moment;
                // A source over its rate may have taken the clock further.
                self.stage.play_until(moment.max(self.stage.now()));
            }
            Some(_) => self.report.behind_the_clock += 1,
            None => self.report.without_moment += 1,
        }
        let posted = posted(line, self.setup.flows, self.setup.route)?;
        match self.deliver(&posted)? {
            Some(fates) => self.note(line, &posted.source, fates),
            // The line is none that its sender could have signed: a form without fields, a place for the proof that is none.
            None => self.reject("malformed"),
        }
        self.look();
        if self.report.lines.is_multiple_of(FORGETS_EVERY) {
            self.stage.forget_expired();
            let stage = &self.stage;
            self.known.retain(|id, _| stage.row(&EventId::named(id.clone())).is_some());
        }
        Ok(())
    }

    /// Delivers a line, again and again while its source is over its rate.
    fn deliver(&mut self, posted: &Posted) -> Result<Option<DeliveryFates>> {
        let (mut fates, mut was_throttled) = (None, false);
        for _ in 0..THROTTLED_TIMES {
            let now = self.stage.now();
            let Some(delivery) = HttpDelivery::signed(self.setup.flows, posted, now) else { return Ok(None) };
            let number = self.stage.deliver(now, delivery);
            self.stage.play_until(now);
            let answer = self.stage.answer(number).cloned().context("the intake gave no answer")?;
            self.stage.forget(number);
            let heard = fates_of(&answer).after(fates.take());
            if answer.status != 429 {
                return Ok(Some(heard));
            }
            self.report.throttled += usize::from(!was_throttled);
            (fates, was_throttled) = (Some(heard), true);
            self.stage.play_until(now + Duration::from_secs(1));
        }
        bail!("a source is over its rate however long it waits: look at `rate` in sources.yaml")
    }

    fn note(&mut self, line: &ExportLine, source: &str, fates: DeliveryFates) {
        let events = self.setup.flows.source(source).map(|source| line.events(source)).unwrap_or_default();
        for (number, fates) in fates.0.into_iter().enumerate() {
            self.report.events += 1;
            let event = events.get(number).unwrap_or(&Value::Null);
            for fate in fates {
                match fate {
                    EventFate::Accepted(id) => self.accept(id, event, line),
                    EventFate::Duplicate(id) => self.repeat(&id, event),
                    EventFate::Ignored => self.report.ignored += 1,
                    EventFate::Rejected(problem) => *self.report.rejected.entry(problem).or_default() += 1,
                }
            }
        }
    }

    /// A hash of what an event's flow reads of it, without the moment of the key's window: two deliveries may differ in it.
    fn payload_of(&self, flow: &Flow, event: &Value) -> Option<u64> {
        let (_, payload) = self.contracts.admit(flow, event.clone()).ok()?;
        let hash = Sha256::digest(compared(flow, payload).to_string());
        Some(u64::from_be_bytes(hash[..8].try_into().ok()?))
    }

    fn reject(&mut self, problem: &str) {
        self.report.events += 1;
        *self.report.rejected.entry(problem.to_owned()).or_default() += 1;
    }

    fn accept(&mut self, id: String, event: &Value, line: &ExportLine) {
        self.report.accepted += 1;
        self.accepted += 1;
        let row = self.stage.row(&EventId::named(id.clone()));
        let flow = row.and_then(|row| self.setup.flows.flow(&row.flow));
        let entity = flow.and_then(|flow| entity_of(flow, event));
        let moment = moment_of(event, self.setup.at).or_else(|| line.moment(self.setup.at));
        let payload = flow.and_then(|flow| self.payload_of(flow, event));
        self.known.insert(id.clone(), KnownEvent { payload, done: 0 });
        if let Some(entity) = entity {
            self.order.accepted(entity, moment, &mut self.report);
        }
        let (place, state) = (self.accepted, State::Queued);
        self.open.insert(id, OpenEvent { entity, place, state, duplicates: 0, acted: false });
    }

    /// Counts a duplicate, and what it would have done once more: what its event did, or will have done. What has another
    /// payload may be no duplicate, but an event that is lost.
    fn repeat(&mut self, id: &str, event: &Value) {
        let row = self.stage.row(&EventId::named(id.to_owned()));
        let flow = row.and_then(|row| self.setup.flows.flow(&row.flow));
        let payload = flow.and_then(|flow| self.payload_of(flow, event));
        let known = self.known.get(id).copied();
        let first = known.and_then(|known| known.payload);
        if payload.is_some_and(|payload| first.is_some_and(|first| first != payload)) {
            self.report.other_payloads += 1;
            return;
        }
        self.report.duplicates += 1;
        match self.open.get_mut(id) {
            Some(open) => open.duplicates += 1,
            None => self.report.effects_spared += known.map_or(0, |known| known.done),
        }
    }

    /// Counts what became of events, and forgets what nobody asks about any more.
    fn look(&mut self) {
        for call in self.stage.take_calls() {
            if let Some(purpose) = call.purpose.filter(|purpose| !purpose.asks) {
                self.acted(purpose.event.as_str());
            }
            *self.report.calls.entry(call.integration).or_default() += 1;
        }
        for change in self.stage.take_changes() {
            let row = change.after;
            match row.state.is_settled() || row.state == State::Dead {
                // A row that is dead is written once more when its record is made.
                true if change.before.is_some_and(|before| before.state == row.state) => (),
                true => self.settle(&row),
                false => self.open.get_mut(row.id.as_str()).into_iter().for_each(|open| open.state = row.state),
            }
        }
    }

    fn acted(&mut self, id: &str) {
        let Some(open) = self.open.get_mut(id).filter(|open| !open.acted) else { return };
        open.acted = true;
        if let Some(entity) = open.entity {
            self.order.acted(entity, open.place, &mut self.report);
        }
    }

    fn settle(&mut self, row: &Row) {
        match (&row.noop, &row.death) {
            (Some(noop), _) if row.state == State::Noop => {
                *self.report.noop.entry(noop.guard.clone()).or_default() += 1;
            }
            (_, Some(death)) if row.state == State::Dead => {
                *self.report.dead.entry(death.reason.as_str().to_owned()).or_default() += 1;
            }
            _ => self.report.succeeded += 1,
        }
        let duplicates = self.open.remove(row.id.as_str()).map_or(0, |open| open.duplicates);
        let done = effects_done(row);
        self.report.effects_spared += duplicates * done;
        self.known.get_mut(row.id.as_str()).into_iter().for_each(|known| known.done = done);
        self.cast.forget(&row.id);
        self.stage.forget_event(row);
    }

    fn finish(mut self) -> RehearsalReport {
        self.stage.play_to_rest(self.stage.now() + LONGEST);
        self.look();
        self.report.entities = self.order.len();
        for (id, open) in std::mem::take(&mut self.open) {
            *self.report.open.entry(open.state.as_str().to_owned()).or_default() += 1;
            let row = self.stage.row(&EventId::named(id));
            self.report.effects_spared += open.duplicates * row.as_ref().map_or(0, effects_done);
        }
        self.report
    }
}

fn fates_of(answer: &DeliveryAnswer) -> DeliveryFates {
    let replayed = answer.headers.get("idempotent-replayed").is_some_and(|value| value == "true");
    DeliveryFates::of(answer.status, replayed, &answer.body)
}

/// How many effects an event did.
fn effects_done(row: &Row) -> usize {
    row.effects.values().filter(|entry| matches!(entry.progress, Progress::Done { .. })).count()
}
