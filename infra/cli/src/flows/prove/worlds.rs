//! The worlds that a flow is put into: what senders do, how badly partners behave, what goes wrong with our own calls.
//!
//! Each world is a scenario, as an author would write it: what breaks in it is repeated by `flows test`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use shared::base::machine::Chance as _;
use shared::base::time::{Timestamp, Unit};
use shared::flows::contract::Contracts;
use shared::flows::{Effect, Field, FieldStep, Flow, Flows, Meaning, PartnerAnswer};
use shared::model::ModelChance;

use super::aims::Aim;
use super::judge::events_in;
use super::other_values::others_of;
use super::truth::Truth;
use crate::scenarios::written::{Statements, WrittenSpan};

/// A world: a scenario without its expectation, and what has to be true in it besides.
#[derive(Clone, Debug)]
pub(super) struct SmallWorld {
    /// What it is about, as a sentence: "it …".
    pub(super) it: String,
    /// The scenario.
    pub(super) scenario: Value,
    /// The deliveries, in order.
    pub(super) sent: Vec<Sent>,
    /// Whether nothing goes wrong in it: then no event may die.
    pub(super) is_calm: bool,
    /// What it is made to show, if that is one thing.
    pub(super) aim: Option<Aim>,
}

impl SmallWorld {
    /// Whether what an operator asks for may be lost on its way.
    pub(super) fn loses_operations(&self) -> bool {
        let faults = self.scenario["faults"].as_array().into_iter().flatten();
        faults.filter_map(|fault| fault["at"].as_str()).any(|at| at.starts_with("replay "))
    }

    /// Adds steps, each of which comes when all before it is at rest.
    pub(super) fn then(&mut self, steps: Vec<Value>) {
        self.scenario["given"].as_array_mut().expect("steps").extend(steps);
    }
}

/// A delivery of a world.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sent {
    /// Its body.
    pub(super) body: Value,
    /// How long after the beginning it comes.
    pub(super) at: Duration,
}

/// What the worlds of a flow are made of.
pub(super) struct Maker<'m> {
    pub(super) flows: &'m Flows,
    pub(super) flow: &'m Flow,
    pub(super) event: &'m Value,
    pub(super) stated: &'m Statements,
    pub(super) truth: &'m Truth,
    /// When scenarios of the file begin.
    pub(super) starts_at: Timestamp,
    pub(super) contracts: Contracts,
}

/// How long after a delivery its sender sends it again.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(600)];

impl Maker<'_> {
    /// The event alone, at every hour of its day: whatever waits for its time must have it.
    pub(super) fn hours(&self) -> Vec<SmallWorld> {
        let day = self.starts_at.floor(Unit::Day.duration());
        let hours = (0..24).map(|hour| {
            let starts_at = day + Duration::from_secs(hour * 3600);
            let sent = Sent { body: self.begun_at(starts_at), at: Duration::ZERO };
            let mut world = self.of(format!("does what it should at {hour:02}:00"), vec![sent]);
            world.scenario["starts_at"] = json!(starts_at.to_string());
            world.is_calm = true;
            world.aim = Some(Aim::Calm);
            world
        });
        hours.collect()
    }

    /// The event as it is when its scenario begins then: the moment that its key reads is as far from that as it was.
    fn begun_at(&self, starts_at: Timestamp) -> Value {
        let key = &self.flow.key;
        let window = key.window.as_ref().and_then(|window| window.field.as_ref());
        let mut body = self.event.clone();
        for field in window.into_iter().chain(key.bucket.as_ref().map(|bucket| &bucket.field)) {
            let text = field.of(&body).and_then(Value::as_str);
            let Some(moment) = text.filter(|text| text.contains('T')).and_then(Timestamp::parse) else { continue };
            let moved = moment.millis() + starts_at.millis() - self.starts_at.millis();
            let _ = field.set(&mut body, json!(Timestamp::from_millis(moved).to_string()));
        }
        body
    }

    /// Whether the schema takes the events in a body.
    fn takes(&self, body: &Value) -> bool {
        let events = events_in(self.flows, self.flow, body);
        events.into_iter().all(|event| self.contracts.admit(self.flow, event).is_ok())
    }

    /// The event without each field that it need not have.
    pub(super) fn without_optional_fields(&self) -> Vec<SmallWorld> {
        let mut fields = optional_fields(&self.flow.schema, self.event, &[]);
        // A schema may say elsewhere that a field must be there, as by `contains`.
        fields.retain(|field| {
            let mut without = self.event.clone();
            field.remove(&mut without).is_some() && self.takes(&without)
        });
        let worlds = fields.into_iter().map(|field| {
            let mut world = self.of(format!("needs no `{field}`"), vec![self.first()]);
            world.scenario["given"] = json!([{"at": "0ms", "deliver": {"without": [field.to_string()]}}]);
            world.is_calm = true;
            world
        });
        worlds.collect()
    }

    /// The event, and the same event again in each way in which its sender may send it again.
    pub(super) fn repetitions(&self) -> Vec<SmallWorld> {
        let latest = self.stated.again_within.map(|span| span.0.saturating_sub(Duration::from_secs(60)));
        let again = |after: Duration, aim: Option<Aim>| {
            let it = format!("does nothing twice for what comes again after {}", WrittenSpan(after));
            let mut world = self.of(it, vec![self.first(), Sent { at: after, ..self.first() }]);
            world.aim = aim;
            world
        };
        let mut worlds: Vec<SmallWorld> =
            latest.map(|after| again(after, Some(Aim::AgainWithin))).into_iter().collect();
        let Some(identity) = &self.stated.identity else {
            worlds.extend(AGAIN.map(|after| again(after, None)));
            return worlds;
        };
        let within = identity.within.map(|span| span.0);
        let last = within.map(|within| within.saturating_sub(Duration::from_secs(1)));
        for after in [Some(Duration::from_secs(1)), last].into_iter().flatten() {
            worlds.push(again(after, Some(Aim::Identity)));
        }
        for after in [Some(Duration::from_secs(1)), last, latest].into_iter().flatten() {
            for field in self.other_fields(&identity.fields) {
                let shift = within.unwrap_or(Duration::from_secs(1)).min(after);
                let Some(body) = self.varied(&field, 1, shift) else { continue };
                let again = Sent { body, at: after };
                let it = format!(
                    "does nothing twice for what comes again after {} with another `{field}`",
                    WrittenSpan(after)
                );
                worlds.push(self.of(it, vec![self.first(), again]));
            }
        }
        let mut resent = self.of(
            "does nothing twice for what comes again as another delivery".into(),
            vec![self.first(), Sent { at: AGAIN[0], ..self.first() }],
        );
        resent.scenario["given"][1]["deliver"]["id"] = json!("msg_2");
        resent.scenario["given"][1]["deliver"]["key"] = resent.scenario["given"][0]["deliver"]["key"].clone();
        worlds.push(resent);
        worlds
    }

    /// Two events that differ in what makes them two: both must act.
    pub(super) fn others(&self) -> Vec<SmallWorld> {
        let fields = self.stated.identity.iter().flat_map(|identity| &identity.fields);
        let may_differ = fields.filter(|field| !self.stated.fixed.contains(field));
        let worlds = may_differ.filter_map(|field| {
            let body = self.varied(field, 1, Duration::from_secs(1))?;
            let other = Sent { body, at: AGAIN[0] };
            let mut world = self.of(format!("acts on what has another `{field}`"), vec![self.first(), other]);
            named_apart(&mut world);
            world.is_calm = true;
            world.aim = Some(Aim::EachActs(field.to_string()));
            Some(world)
        });
        worlds.collect()
    }

    /// More events for one person than a cap allows, which differ in all that may differ, within the time that the cap looks
    /// back on.
    pub(super) fn crowds(&self) -> Vec<SmallWorld> {
        let mut worlds = Vec::new();
        for protected in &self.stated.protects {
            for cap in self.flow.caps().filter(|cap| cap.channel == protected.channel) {
                let others = self.other_fields(&protected.who);
                let apart = (cap.per / (cap.limit + 2)).min(AGAIN[1]);
                let sent = (0..=cap.limit + 1).map(|number| {
                    let at = apart * number;
                    Sent { body: self.varied_where_it_can_be(&others, u64::from(number), at), at }
                });
                let it = format!("reaches nobody more than {} times by {}", cap.limit, protected.channel);
                let mut world = self.of(it, sent.collect());
                named_apart(&mut world);
                world.aim = Some(Aim::Protected(protected.channel.clone()));
                worlds.push(world);
            }
        }
        worlds
    }

    /// Each bad behaviour of each partner, and two in a row of those that leave us in doubt; and a partner that does what it
    /// is asked for, does not say so, and is down for long after that.
    pub(super) fn bad_partners(&self) -> Vec<SmallWorld> {
        let mut worlds = Vec::new();
        for effect in self.flow.effects.iter().filter(|effect| effect.integration().is_some()) {
            worlds.extend(self.menu(effect).into_iter().map(|reaction| self.with_answers(effect, vec![reaction])));
            let doubtful =
                [self.silent(effect, true), self.about_the_call(effect, json!({"status": 503, "acted": true}))];
            for first in doubtful.iter().filter(|_| self.truth.leaves_503_open(effect)) {
                worlds.extend(doubtful.iter().map(|next| self.with_answers(effect, vec![first.clone(), next.clone()])));
            }
            let down = self.about_the_call(effect, json!({"status": 503, "acted": false, "times": 60}));
            worlds.push(self.with_answers(effect, vec![self.silent(effect, true), down]));
        }
        worlds
    }

    /// A world drawn from a seed: a few deliveries, bad answers, a fault or two, a pause, and the schedule. What operators
    /// do about its events, `operators` adds once it was played.
    pub(super) fn drawn(&self, chance: &ModelChance, seed: u64, calls: &[(String, String)]) -> SmallWorld {
        let below = |end: usize| below(chance, end);
        let mut sent = vec![self.first()];
        for _ in 0..below(3) {
            let at =
                sent.last().map_or(Duration::ZERO, |last| last.at) + Duration::from_millis(chance.bits() % 900_000);
            let others = self.other_fields(&[]);
            let body = match below(3) {
                0 => self.first().body,
                _ => others
                    .get(below(others.len()))
                    .and_then(|field| self.varied(field, 1 + below(3) as u64, Duration::from_secs(1)))
                    .unwrap_or_else(|| self.first().body),
            };
            sent.push(Sent { body, at });
        }
        let mut world = self.of(format!("keeps its promises in world {seed}"), sent);
        let mut partners: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for effect in self.flow.effects.iter().filter(|effect| effect.integration().is_some()) {
            let menu = self.menu(effect);
            let lines = partners.entry(effect.integration().unwrap_or_default().to_owned()).or_default();
            lines.extend((0..below(4)).map(|_| menu[below(menu.len())].clone()));
            if effect.lookup.is_some() && below(2) == 0 {
                lines.push(json!({"lookup": true, "status": 503, "times": 1 + below(3)}));
            }
        }
        partners.retain(|_, lines| !lines.is_empty());
        world.scenario["partners"] = json!(partners);
        let faults = (0..below(3)).filter(|_| !calls.is_empty()).map(|_| {
            let (function, call) = &calls[below(calls.len())];
            json!({"at": format!("{function} {call}"), "nth": 1 + below(3), "fault": FAULTS[below(FAULTS.len())]})
        });
        world.scenario["faults"] = faults.collect();
        let given = world.scenario["given"].as_array_mut().expect("steps");
        if below(4) == 0 {
            let at = Duration::from_millis(chance.bits() % 5_000);
            let place = 1 + world.sent[1..].iter().filter(|sent| sent.at <= at).count();
            let pause = json!({"at": WrittenSpan(at).to_string(), "pause": {"flow": self.flow.name, "for": "10m"}});
            given.insert(place, pause);
        }
        if below(3) == 0 {
            given.push(json!({"schedule": true}));
        }
        world
    }

    /// A world in which one call of ours goes wrong, too.
    pub(super) fn with_fault(&self, base: &SmallWorld, at: &PlannedCall, fault: &str) -> SmallWorld {
        let PlannedCall { function, call, nth } = at;
        let mut world = base.clone();
        world.it = format!("bears that `{function} {call}` goes wrong ({fault})");
        world.scenario["it"] = json!(world.it);
        world.scenario["faults"] = json!([{"at": format!("{function} {call}"), "nth": nth, "fault": fault}]);
        world.aim = None;
        world
    }

    /// The world in which nobody hears what came of an effect's first call. What was done is found where a lookup can say
    /// so by itself; otherwise, it was not done.
    pub(super) fn in_doubt(&self, effect: &Effect) -> SmallWorld {
        let by_expression = effect.lookup.as_ref().is_some_and(|lookup| lookup.found.pointer().is_none());
        self.with_answers(effect, vec![self.silent(effect, !by_expression)])
    }

    /// The world in which nothing goes wrong, and the sender sends again: its calls are those that can.
    pub(super) fn plain(&self) -> SmallWorld {
        self.of("does what it should".into(), vec![self.first(), Sent { at: AGAIN[1], ..self.first() }])
    }

    fn with_answers(&self, effect: &Effect, answers: Vec<Value>) -> SmallWorld {
        let told: Vec<String> = answers.iter().map(described).collect();
        let mut world = self.of(format!("bears `{}` that {}", effect.id, told.join(", then ")), vec![self.first()]);
        world.scenario["partners"] = json!({ effect.integration().unwrap_or_default(): answers });
        world.aim = Some(Aim::Effect(effect.id.clone()));
        world
    }

    fn of(&self, it: String, sent: Vec<Sent>) -> SmallWorld {
        let steps = sent.iter().map(|sent| {
            let mut deliver = json!({});
            let changed = changes(self.event, &sent.body);
            if !changed.is_empty() {
                deliver["with"] = Value::Object(changed);
            }
            json!({"at": WrittenSpan(sent.at).to_string(), "deliver": deliver})
        });
        let mut scenario = json!({"it": it, "given": steps.collect::<Vec<_>>()});
        if !self.truth.keeps.is_empty() {
            scenario["keeps"] = json!(self.truth.keeps);
        }
        SmallWorld { it, scenario, sent, is_calm: false, aim: None }
    }

    fn first(&self) -> Sent {
        Sent { body: self.event.clone(), at: Duration::ZERO }
    }

    /// The fields of the event that are none of these, as far as they may differ.
    fn other_fields(&self, fields: &[Field]) -> Vec<Field> {
        let named = self.flows.source(&self.flow.on.source).and_then(|source| source.type_at.as_ref());
        let mut all = leaves(self.event);
        // What the schema does not list is dropped before anything looks at it.
        all.retain(|field| !field.in_schema(&self.flow.schema).is_null());
        all.retain(|field| !fields.contains(field) && named != Some(field) && !self.stated.fixed.contains(field));
        all
    }

    /// The event with another value in a field: nothing, if the schema takes no other.
    fn varied(&self, field: &Field, by: u64, shift: Duration) -> Option<Value> {
        self.with_another(self.event, field, by, shift)
    }

    /// The event with another value in each of these fields of which the schema takes one, `at` so long after the first.
    fn varied_where_it_can_be(&self, fields: &[Field], by: u64, at: Duration) -> Value {
        let fields = fields.iter().filter(|_| by > 0);
        fields.fold(self.event.clone(), |body, field| self.with_another(&body, field, by, at).unwrap_or(body))
    }

    fn with_another(&self, body: &Value, field: &Field, by: u64, shift: Duration) -> Option<Value> {
        let others = others_of(field.of(body)?, field.in_schema(&self.flow.schema), by, shift);
        others.into_iter().find_map(|other| {
            let mut body = body.clone();
            field.set(&mut body, other)?;
            self.takes(&body).then_some(body)
        })
    }

    /// How badly a partner may behave, with what it really keeps.
    fn menu(&self, effect: &Effect) -> Vec<Value> {
        let mut menu = vec![
            json!({"then": "unreachable"}),
            self.silent(effect, true),
            self.silent(effect, false),
            json!({"then": "reset", "acted": true}),
            json!({"then": "reset", "acted": false}),
            json!({"then": "crash", "acted": true}),
            json!({"then": "crash", "acted": false}),
            json!({"after": "1s900ms"}),
        ];
        for status in STATUSES {
            let answer = PartnerAnswer { status, ..PartnerAnswer::default() };
            for acted in self.truth.may_have_acted(effect, &answer) {
                menu.push(json!({"status": status, "acted": acted}));
            }
        }
        let no = PartnerAnswer { status: 200, body: Some(json!({"ok": false})), ..PartnerAnswer::default() };
        if self.truth.meaning(effect, &no) != Meaning::Done {
            let bodies = self.truth.may_have_acted(effect, &no);
            menu.extend(bodies.into_iter().map(|acted| json!({"status": 200, "body": {"ok": false}, "acted": acted})));
        }
        menu.into_iter().map(|reaction| self.about_the_call(effect, reaction)).collect()
    }

    fn silent(&self, effect: &Effect, acted: bool) -> Value {
        let mut silent = json!({"then": "silence", "acted": acted});
        if let Some(settles) = self.truth.settles(effect).filter(|_| acted) {
            silent["found_after"] = json!(WrittenSpan(settles).to_string());
        }
        self.about_the_call(effect, silent)
    }

    /// A line about the calls of one effect: not about its lookups, nor about what others ask the same partner.
    fn about_the_call(&self, effect: &Effect, mut reaction: Value) -> Value {
        reaction["effect"] = json!(effect.id);
        if effect.lookup.is_some() {
            reaction["lookup"] = json!(false);
        }
        reaction
    }
}

/// A number below another, by chance.
pub(super) fn below(chance: &ModelChance, end: usize) -> usize {
    usize::try_from(chance.bits() % (end.max(1) as u64)).unwrap_or_default()
}

/// One call of our own tables, queues and partners.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedCall {
    pub(super) function: String,
    pub(super) call: String,
    /// Which of these calls, counted from 1.
    pub(super) nth: usize,
}

/// Gives each delivery a name of its own, as senders do that send several things.
fn named_apart(world: &mut SmallWorld) {
    for (number, step) in world.scenario["given"].as_array_mut().into_iter().flatten().enumerate().skip(1) {
        step["deliver"]["id"] = json!(format!("msg_{}", number + 1));
        step["deliver"]["key"] = json!(format!("key-{}", number + 1));
    }
}

/// The faults of one call of ours.
pub(super) const FAULTS: [&str; 6] =
    ["crash_before", "crash_after", "time_out_undone", "time_out_done", "throttle", "again"];

/// What partners answer with when not all is well.
const STATUSES: [u16; 14] = [303, 400, 401, 404, 408, 409, 422, 423, 425, 429, 500, 502, 503, 504];

fn described(reaction: &Value) -> String {
    let what = match (&reaction["then"], &reaction["status"]) {
        (Value::String(then), _) => match then.as_str() {
            "silence" => "says nothing".to_owned(),
            "reset" => "loses the connection".to_owned(),
            "crash" => "answers when the processor is gone".to_owned(),
            _ => "is not there".to_owned(),
        },
        (_, Value::Number(status)) => format!("answers {status}"),
        _ => "is slow".to_owned(),
    };
    match reaction["acted"] {
        Value::Bool(true) => format!("acts and {what}"),
        Value::Bool(false) if reaction["then"] != "unreachable" => format!("does nothing and {what}"),
        _ => what,
    }
}

/// The fields of a body that differ from those of another, by their names.
fn changes(from: &Value, to: &Value) -> Map<String, Value> {
    let changed = leaves(to).into_iter().filter(|field| field.of(from) != field.of(to));
    changed.filter_map(|field| Some((field.to_string(), field.of(to)?.clone()))).collect()
}

/// The places of all plain values that can be named.
fn leaves(value: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    find_leaves(value, &mut Vec::new(), &mut found);
    found.retain(|field| field.to_string().parse().as_ref() == Ok(field));
    found
}

fn find_leaves(value: &Value, above: &mut Vec<FieldStep>, found: &mut Vec<Field>) {
    let mut inside = |step: FieldStep, value: &Value| {
        above.push(step);
        find_leaves(value, above, found);
        above.pop();
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| inside(FieldStep::Name(name.clone()), value));
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| inside(FieldStep::Item(at), value)),
        Value::Null => (),
        _ => found.push(Field::from(above.clone())),
    }
}

/// The optional fields of a schema that an event has.
fn optional_fields(schema: &Value, event: &Value, above: &[FieldStep]) -> Vec<Field> {
    let below = |step: FieldStep| [above, &[step]].concat();
    if let Value::Array(items) = event {
        let of_item = |(at, item)| optional_fields(&schema["items"], item, &below(FieldStep::Item(at)));
        return items.iter().enumerate().flat_map(of_item).collect();
    }
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut found = Vec::new();
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let Some(value) = event.get(name) else { continue };
        let place = below(FieldStep::Name(name.clone()));
        if !required.contains(&name.as_str()) {
            found.push(Field::from(place.clone()));
        }
        found.extend(optional_fields(inner, value, &place));
    }
    found
}
