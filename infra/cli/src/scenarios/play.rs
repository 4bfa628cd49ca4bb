//! A scenario on the simulation's stage, and what was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value, json};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::flows::{Field, FieldStep, Flow, Flows, Guarantee, Header};
use shared::ledger::Row;
use shared::operate::approval::Question;
use sim::stage::{Cast, DeliveryAnswer, FlowStage, HttpDelivery, MadeCall, Posted, StageSetup};
use sim::{Fault, FlowsVersion, KnownContact, PlannedFault, Timeline};

use super::coverage::Covered;
use super::folder::ReadScenarios;
use super::script::{Act, ScriptedCast};
use super::written::{
    FaultKind, SignedAs, Step, SwitchStep, WrittenContact, WrittenDelivery, WrittenFault, WrittenMoment,
    WrittenScenario, WrittenVerdict,
};

/// When a scenario begins that does not say when: a Monday morning.
pub(crate) const STARTS_AT: Timestamp = Timestamp::from_secs(1_794_819_600);

/// The longest that a scenario takes on its own clock. Whatever waits longer is given up on long before.
const LONGEST: Duration = Duration::from_secs(40 * 86_400);

/// What was seen of a scenario.
pub struct Observed {
    /// When it began.
    pub starts_at: Timestamp,
    /// The answers to the deliveries, in order.
    pub answers: Vec<DeliveryAnswer>,
    /// The calls of partners and functions, in order.
    pub calls: Vec<MadeCall>,
    /// The rows of the events, in the order in which they were accepted.
    pub rows: Vec<Row>,
    /// What operators asked for, and why it was declined where that was not expected. By the numbers of the steps.
    pub declined: Vec<(usize, String)>,
    /// The integrations with answers that nothing was left to ask for.
    pub unused: Vec<String>,
    /// How often each integration was asked by an effect's lookup, and the scenario had no answer for it.
    pub unanswered: BTreeMap<(String, String), usize>,
    /// The faults that nothing went wrong by, by their places, each with how often its call was made.
    pub not_struck: Vec<(usize, usize)>,
    /// What partners really did for events of the file's flow, and that was new.
    pub acts: Vec<Act>,
    /// The calls of our own that may go wrong, in order: the function, and the call's name.
    pub port_calls: Vec<(String, String)>,
    /// Whether all was at rest at the end.
    pub rests: bool,
    /// The parts of flows that were touched.
    pub covered: BTreeSet<Covered>,
    /// What happened, line by line.
    pub timeline: Timeline,
}

/// Plays a scenario of a file.
pub fn play(version: &FlowsVersion, read: &ReadScenarios, scenario: &WrittenScenario) -> Result<Observed> {
    let cast = Arc::new(ScriptedCast::new(&scenario.partners, &scenario.keeps));
    let mut observed = play_with(version, read, scenario, Arc::clone(&cast) as Arc<dyn Cast>)?;
    observed.unused = cast.left();
    observed.unanswered = cast.unanswered();
    observed.acts = cast.acts().into_iter().filter(|act| act.flow == read.written.flow).collect();
    Ok(observed)
}

/// Plays a scenario of a file before these partners.
pub fn play_with(
    version: &FlowsVersion,
    read: &ReadScenarios,
    scenario: &WrittenScenario,
    cast: Arc<dyn Cast>,
) -> Result<Observed> {
    Player::new(version, read, scenario, cast)?.play()
}

struct Player<'p> {
    stage: FlowStage,
    flows: &'p Flows,
    flow: &'p Flow,
    read: &'p ReadScenarios,
    scenario: &'p WrittenScenario,
    starts_at: Timestamp,
    deliveries: Vec<usize>,
    /// The operations, with their steps and what they are declined with.
    operations: Vec<(usize, usize, Option<String>)>,
    rests: bool,
}

impl<'p> Player<'p> {
    fn new(
        version: &'p FlowsVersion,
        read: &'p ReadScenarios,
        scenario: &'p WrittenScenario,
        cast: Arc<dyn Cast>,
    ) -> Result<Self> {
        let flows = version.flows();
        let flow =
            flows.flow(&read.written.flow).with_context(|| format!("there is no flow `{}`", read.written.flow))?;
        for integration in scenario.partners.keys().chain(scenario.keeps.keys()) {
            if flows.integration(integration).is_none() {
                bail!("the scenario names `{integration}`, and there is no such integration");
            }
        }
        let starts_at = scenario.starts_at.or(read.written.starts_at).map_or(STARTS_AT, |WrittenMoment(at)| at);
        let faults = scenario.faults.iter().map(planned).collect::<Result<Vec<_>>>()?;
        let stage = FlowStage::new(StageSetup { version: version.clone(), starts_at, faults, cast, timeline: true });
        for contact in read.written.contacts.iter().chain(&scenario.contacts) {
            stage.know(&known(contact)).map_err(|why| anyhow!("a contact cannot be kept: {why}"))?;
        }
        let (deliveries, operations) = (Vec::new(), Vec::new());
        Ok(Player { stage, flows, flow, read, scenario, starts_at, deliveries, operations, rests: true })
    }

    fn play(mut self) -> Result<Observed> {
        let once = [Step { deliver: Some(WrittenDelivery::default()), ..Step::default() }];
        let given = if self.scenario.given.is_empty() { &once[..] } else { &self.scenario.given[..] };
        for (number, step) in given.iter().enumerate() {
            self.step(number, step).with_context(|| format!("step {} of `given`", number + 1))?;
        }
        self.rests = self.stage.play_to_rest(self.starts_at + LONGEST);
        Ok(self.observed())
    }

    fn step(&mut self, number: usize, step: &Step) -> Result<()> {
        match step.at {
            Some(at) => {
                let at = self.starts_at + at.0;
                if at < self.stage.now() {
                    bail!(
                        "comes at {} after the beginning, and what stands before it took longer",
                        step.at.unwrap_or_default()
                    );
                }
                // What is due at that moment waits: this is the cause, and that may be its effect.
                self.stage.play_until(at);
            }
            None if number > 0 => drop(self.stage.play_to_rest(self.starts_at + LONGEST)),
            None => (),
        }
        let now = self.stage.now();
        if let Some(delivery) = &step.deliver {
            for _ in 0..delivery.times.unwrap_or(1) {
                let made = self.delivery(delivery, now)?;
                let delivered = self.stage.deliver(now, made);
                self.deliveries.push(delivered);
                if delivery.times.is_some() {
                    self.stage.play_until(now);
                }
            }
        }
        if let Some(wait) = step.wait {
            self.stage.play_until(now + wait.0);
        }
        if let Some(operation) = self.operation(step)? {
            let operated = self.stage.operate(now, operation);
            self.operations.push((operated, number, step.declined.clone()));
            self.stage.play_until(now);
        }
        Ok(())
    }

    fn delivery(&self, written: &WrittenDelivery, now: Timestamp) -> Result<HttpDelivery> {
        let body = self.body(written)?;
        let source = written.source.clone().unwrap_or_else(|| self.flow.on.source.clone());
        let of = self.flows.source(&source).with_context(|| format!("there is no source `{source}`"))?;
        let body = body.map(|body| of.as_posted(body));
        let named = body.as_ref().is_ok_and(|body| of.names_types(body));
        let event_type = written.event_type.clone();
        let usual = || (!named).then(|| self.flow.on.event_type.clone());
        let event_type = event_type.or_else(usual);
        let key = match (&written.key, self.flow.key.header) {
            (Some(key), _) => Some(key.clone()),
            (None, Header::Required) => Some("key-1".to_owned()),
            (None, _) => None,
        };
        let headers = written.headers.clone().into_iter().chain(key.map(|key| ("idempotency-key".to_owned(), key)));
        let delivery_id = written.id.clone().unwrap_or_else(|| "msg_1".into());
        let body = body.map_or_else(String::into_bytes, |body| body.to_string().into_bytes());
        let posted = Posted { source, event_type, delivery_id, headers: headers.collect(), body, batch: false };
        let signed_at = if written.signed == SignedAs::HourAgo { now - Duration::from_secs(3600) } else { now };
        let signed = HttpDelivery::signed(self.flows, &posted, signed_at);
        let mut signed = signed.context("its source cannot sign it")?;
        match written.signed {
            SignedAs::Well | SignedAs::HourAgo => (),
            SignedAs::Badly => signed.body.push(b' '),
            SignedAs::Not => signed.headers.retain(|(name, _)| name == "content-type"),
        }
        Ok(signed)
    }

    /// The body: JSON, or a text that is none.
    fn body(&self, written: &WrittenDelivery) -> Result<Result<Value, String>> {
        if let Some(text) = &written.text {
            return Ok(Err(text.clone()));
        }
        let own = written.body.as_ref().or(self.read.written.event.as_ref());
        let own = own.context("there is no event: the file names none in `event`, and the delivery has no `body`")?;
        let mut body = self.read.event(own)?;
        for (field, value) in &written.with {
            set(&mut body, field, Some(value.clone()))?;
        }
        for field in &written.without {
            set(&mut body, field, None)?;
        }
        self.fill_in(&mut body)?;
        Ok(Ok(body))
    }

    /// Puts what only the play knows in the place of its name: `{question 1}` is what a button below a question carries.
    fn fill_in(&self, value: &mut Value) -> Result<()> {
        match value {
            Value::Object(fields) => fields.values_mut().try_for_each(|value| self.fill_in(value)),
            Value::Array(items) => items.iter_mut().try_for_each(|value| self.fill_in(value)),
            Value::String(text) => {
                let number = text.strip_prefix("{question ").and_then(|rest| rest.strip_suffix('}'));
                if let Some(number) = number {
                    let question =
                        self.question(number.parse().context("`{question …}` needs the number of an event")?)?;
                    let named = |name: &str| question[name].as_str().unwrap_or_default().to_owned();
                    *text = Question { id: EventId::named(named("id")), hash: named("hash") }.to_value();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn operation(&self, step: &Step) -> Result<Option<Value>> {
        let flow = &self.flow.name;
        let mut operation = match step {
            Step { pause: Some(switch), .. } => switched("pause", switch),
            Step { resume: Some(switch), .. } => switched("resume", switch),
            Step { safe_mode: Some(SwitchStep { span, .. }), .. } => {
                let span = span.map_or("1h".into(), |span| span.to_string());
                json!({"op": "safe_mode", "flow": flow, "for": span})
            }
            Step { policy: Some(retry), .. } => json!({"op": "policy", "flow": flow, "retry": retry}),
            Step { replay: Some(event), .. } => json!({"op": "replay", "id": self.event(*event)?.id}),
            Step { drop: Some(event), .. } => json!({"op": "drop", "id": self.event(*event)?.id}),
            Step { approve: Some(event), .. } => json!({"op": "approve", "questions": [self.question(*event)?]}),
            Step { reject: Some(event), .. } => json!({"op": "reject", "questions": [self.question(*event)?]}),
            Step { resolve: Some(WrittenVerdict { event, effect, happened }), .. } => {
                let row = self.event(event.unwrap_or(1))?;
                let verdict = happened.as_ref().map_or(json!("did_not_happen"), |result| json!({ "happened": result }));
                let version = format!("{}.{}", row.epoch, row.step);
                json!({"op": "resolve", "id": row.id, "effect": effect, "verdict": verdict, "version": version})
            }
            Step { contact: Some(WrittenContact { tenant, email, fields }), .. } => {
                json!({"op": "set_contact", "tenant": tenant, "email": email, "fields": fields})
            }
            Step { schedule: Some(true), .. } => return Ok(Some(json!({"op": "schedule"}))),
            _ => return Ok(None),
        };
        operation["by"] = json!("ada");
        operation["reason"] = json!("as the scenario says");
        Ok(Some(operation))
    }

    fn question(&self, event: usize) -> Result<Value> {
        let row = self.event(event)?;
        let ask = row.ask.as_ref().with_context(|| format!("event {event} asks nobody"))?;
        Ok(json!({"id": row.id, "hash": ask.hash}))
    }

    /// The row of an event, by its number in the order in which events were accepted.
    fn event(&self, number: usize) -> Result<Row> {
        let rows = self.accepted();
        let row = number.checked_sub(1).and_then(|index| rows.get(index).cloned());
        row.with_context(|| format!("there is no event {number}: {} were accepted until then", rows.len()))
    }

    fn accepted(&self) -> Vec<Row> {
        let mut ids: Vec<EventId> = Vec::new();
        for answer in self.deliveries.iter().filter_map(|number| self.stage.answer(*number)) {
            for id in answer.accepted().into_iter().map(EventId::named) {
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
        }
        ids.iter().filter_map(|id| self.stage.row(id)).collect()
    }

    fn observed(mut self) -> Observed {
        let heard = |number: &usize| self.stage.answer(*number).cloned();
        let answers: Vec<DeliveryAnswer> = self.deliveries.iter().filter_map(heard).collect();
        let mut declined = Vec::new();
        for (number, step, expected) in &self.operations {
            let told = self.stage.outcome(*number).map(error_of).unwrap_or_default();
            match (told, expected) {
                (Some(why), Some(part)) if why.contains(part.as_str()) => (),
                (None, None) => (),
                (Some(why), _) => declined.push((*step, format!("what the operator asks for is declined: {why}"))),
                (None, Some(part)) => declined
                    .push((*step, format!("what the operator asks for is done, and not declined with `{part}`"))),
            }
        }
        let (calls, rows, changes) = (self.stage.calls(), self.accepted(), self.stage.take_changes());
        let covered = Covered::of(self.flows, &answers, &calls, &changes, &self.flow.name);
        Observed {
            starts_at: self.starts_at,
            answers,
            calls,
            rows,
            declined,
            unused: Vec::new(),
            unanswered: BTreeMap::new(),
            not_struck: self.stage.faults_left(),
            acts: Vec::new(),
            port_calls: self
                .stage
                .port_calls()
                .into_iter()
                .map(|(function, call)| (function.into(), call.into()))
                .collect(),
            rests: self.rests,
            covered,
            timeline: self.stage.timeline(),
        }
    }
}

/// Why an operation was not done, where it was not.
fn error_of(outcome: &Value) -> Option<String> {
    let places = [outcome, &outcome["answered"][0], &outcome["applied"][0]];
    // What is shown of an event has its last error.
    let declined = |place: &&Value| place.get("state").is_none();
    places.into_iter().filter(declined).find_map(|place| place["error"].as_str().map(str::to_owned))
}

fn switched(op: &str, SwitchStep { flow, integration, span }: &SwitchStep) -> Value {
    let mut operation = Map::from_iter([("op".to_owned(), json!(op))]);
    let span = span.map(|span| span.to_string());
    for (name, value) in [("flow", flow), ("integration", integration), ("for", &span)] {
        operation.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    Value::Object(operation)
}

/// A contact as the stage knows it.
pub(crate) fn known(WrittenContact { tenant, email, fields }: &WrittenContact) -> KnownContact {
    KnownContact { tenant: tenant.clone(), email: email.clone(), fields: fields.clone() }
}

fn planned(written: &WrittenFault) -> Result<PlannedFault> {
    let WrittenFault { at, nth, fault } = written;
    let parts = at.split_once(' ').filter(|(function, _)| ["intake", "processor", "replay"].contains(function));
    let (function, call) = parts
        .with_context(|| format!("`{at}` names no call: write the function and its call, as `processor record`"))?;
    Ok(PlannedFault { function: function.into(), call: call.into(), nth: nth.unwrap_or(1), fault: (*fault).into() })
}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Self {
        match kind {
            FaultKind::CrashBefore => Fault::CrashBefore,
            FaultKind::CrashAfter => Fault::CrashAfter,
            FaultKind::TimeOutUndone => Fault::TimeOutUndone,
            FaultKind::TimeOutDone => Fault::TimeOutDone,
            FaultKind::Throttle => Fault::Throttle,
            FaultKind::Again => Fault::Echo,
        }
    }
}

/// Sets a field of a body, given as `data.items[0].id`, or takes it away.
pub fn set(body: &mut Value, field: &str, value: Option<Value>) -> Result<()> {
    let place = place_of(body, field)?;
    match value {
        Some(value) => place.set(body, value).with_context(|| format!("the event has no place for `{field}`")),
        None => {
            let gone = place.remove(body).with_context(|| format!("the event has no `{field}` that could be left out"));
            gone.map(drop)
        }
    }
}

/// The place of a field in a body. Where a list stands, `items.0` is its first item as `items[0]` is.
fn place_of(body: &Value, field: &str) -> Result<Field> {
    let written: Field = field.parse().map_err(anyhow::Error::msg)?;
    let mut here = Some(body);
    let steps = written.steps().iter().map(|step| {
        let step = match (step, here) {
            (FieldStep::Name(name), Some(Value::Array(_))) => {
                name.parse().map_or_else(|_| step.clone(), FieldStep::Item)
            }
            _ => step.clone(),
        };
        here = here.and_then(|value| Field::from(vec![step.clone()]).of(value));
        step
    });
    Ok(Field::from(steps.collect::<Vec<_>>()))
}

/// The guarantee of each effect of a flow, for people.
pub fn guarantees(flow: &Flow) -> BTreeMap<&str, Guarantee> {
    flow.effects.iter().map(|effect| (effect.id.as_str(), effect.guarantee)).collect()
}
