//! The worlds that a flow is put into: what senders do, how badly partners behave, what goes wrong with our own calls.
//!
//! Each world is a scenario, as an author would write it: what breaks in it is repeated by `flows test`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use shared::base::machine::Chance as _;
use shared::base::time::Timestamp;
use shared::flows::contract::Contracts;
use shared::flows::{Effect, Field, FieldStep, Flow, Flows, Guard, Meaning, PartnerAnswer};
use shared::model::ModelChance;

use super::judge::events_in;
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
}

/// How long after a delivery its sender sends it again.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(600)];

impl Maker<'_> {
    /// The event alone, at every hour of a day: whatever waits for its time must have it.
    pub(super) fn hours(&self) -> Vec<SmallWorld> {
        let hours = (0..24).map(|hour| {
            let starts_at = format!("2026-11-16T{hour:02}:00:00Z");
            let mut world = self.of(format!("does what it should at {hour:02}:00"), vec![self.first()]);
            world.scenario["starts_at"] = json!(starts_at);
            world.is_calm = true;
            world
        });
        hours.collect()
    }

    /// The event without each field that it need not have.
    pub(super) fn without_optional_fields(&self) -> Vec<SmallWorld> {
        let contracts = Contracts::of_flow(self.flow);
        let fits = |event: Value| contracts.admit(self.flow, event).is_ok();
        let mut fields = optional_fields(&self.flow.schema, self.event, &[]);
        // A schema may say elsewhere that a field must be there, as by `contains`.
        fields.retain(|field| {
            let mut without = self.event.clone();
            field.remove(&mut without).is_some() && events_in(self.flows, self.flow, &without).into_iter().all(fits)
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
        let Some(identity) = &self.stated.identity else {
            let worlds = AGAIN.map(|after| {
                let again = Sent { at: after, ..self.first() };
                self.of(
                    format!("does nothing twice for the same body after {}", WrittenSpan(after)),
                    vec![self.first(), again],
                )
            });
            return worlds.into();
        };
        let mut worlds = Vec::new();
        let within = identity.within.map(|span| span.0);
        let last = within.map(|within| within.saturating_sub(Duration::from_secs(1)));
        let latest = self.stated.again_within.map(|span| span.0.saturating_sub(Duration::from_secs(60)));
        let offsets: Vec<Duration> = [Some(Duration::from_secs(1)), last, latest].into_iter().flatten().collect();
        for after in offsets {
            let same = Sent { at: after, ..self.first() };
            worlds.push(self.of(
                format!("does nothing twice for what comes again after {}", WrittenSpan(after)),
                vec![self.first(), same],
            ));
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
        let worlds = fields.filter_map(|field| {
            let body = self.varied(field, 1, Duration::from_secs(1))?;
            let other = Sent { body, at: AGAIN[0] };
            let mut world = self.of(format!("acts on what has another `{field}`"), vec![self.first(), other]);
            named_apart(&mut world);
            world.is_calm = true;
            Some(world)
        });
        worlds.collect()
    }

    /// More events for one person than a cap allows, which differ in all that may differ.
    pub(super) fn crowds(&self) -> Vec<SmallWorld> {
        let mut worlds = Vec::new();
        for protected in &self.stated.protects {
            let caps = self.flow.guards.iter().filter_map(|guard| match guard {
                Guard::Cap(cap) if cap.channel == protected.channel => Some(cap),
                _ => None,
            });
            for cap in caps {
                let others = self.other_fields(&protected.who);
                let sent: Option<Vec<Sent>> = (0..=cap.limit + 1)
                    .map(|number| {
                        let at = Duration::from_secs(u64::from(number) * 600);
                        Some(Sent { body: self.varied_where_it_can_be(&others, u64::from(number)), at })
                    })
                    .collect();
                let it = format!("reaches nobody more than {} times by {}", cap.limit, protected.channel);
                worlds.extend(sent.map(|sent| {
                    let mut world = self.of(it, sent);
                    named_apart(&mut world);
                    world
                }));
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

    /// A world drawn from a seed: a few deliveries, bad answers, a fault or two, and what operators do.
    pub(super) fn drawn(&self, seed: u64, calls: &[(String, String)]) -> SmallWorld {
        let chance = ModelChance::seeded(seed ^ 0x9e37);
        let below = |end: usize| usize::try_from(chance.bits() % (end.max(1) as u64)).unwrap_or_default();
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
        if below(3) == 0 {
            let given = world.scenario["given"].as_array_mut().expect("steps");
            given.push(json!({"schedule": true}));
        }
        world
    }

    /// The world in which one call of ours goes wrong. Its sender sends again, as senders do that hear nothing good.
    pub(super) fn with_fault(&self, function: &str, call: &str, nth: usize, fault: &str) -> SmallWorld {
        let again = Sent { at: AGAIN[1], ..self.first() };
        let it = format!("bears that `{function} {call}` goes wrong ({fault})");
        let mut world = self.of(it, vec![self.first(), again]);
        world.scenario["faults"] = json!([{"at": format!("{function} {call}"), "nth": nth, "fault": fault}]);
        world
    }

    /// The world in which nothing goes wrong, and the sender sends again: its calls are those that can.
    pub(super) fn plain(&self) -> SmallWorld {
        self.of("does what it should".into(), vec![self.first(), Sent { at: AGAIN[1], ..self.first() }])
    }

    fn with_answers(&self, effect: &Effect, answers: Vec<Value>) -> SmallWorld {
        let told: Vec<String> = answers.iter().map(described).collect();
        let mut world = self.of(format!("bears `{}` that {}", effect.id, told.join(", then ")), vec![self.first()]);
        world.scenario["partners"] = json!({ effect.integration().unwrap_or_default(): answers });
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
        SmallWorld { it, scenario, sent, is_calm: false }
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
        let mut body = self.event.clone();
        let other = another(field.of(&body)?, field.in_schema(&self.flow.schema), by, shift)?;
        field.set(&mut body, other)?;
        Some(body)
    }

    fn varied_where_it_can_be(&self, fields: &[Field], by: u64) -> Value {
        let mut body = self.event.clone();
        let shift = Duration::from_secs(by * 600);
        for field in fields.iter().filter(|_| by > 0) {
            let other = field.of(&body).and_then(|value| another(value, field.in_schema(&self.flow.schema), by, shift));
            if let Some(other) = other {
                field.set(&mut body, other);
            }
        }
        body
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

    /// What a partner answers to a call says nothing of how it answers a lookup: that is true, or says nothing.
    /// Where other effects call the same partner, it is not about theirs.
    fn about_the_call(&self, effect: &Effect, mut reaction: Value) -> Value {
        let callers = self.flows.all().flat_map(|flow| &flow.effects);
        if callers.filter(|other| other.integration() == effect.integration()).nth(1).is_some() {
            reaction["effect"] = json!(effect.id);
        }
        if effect.lookup.is_some() {
            reaction["lookup"] = json!(false);
        }
        reaction
    }
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

/// Another value of the same kind, that the schema takes.
fn another(value: &Value, schema: &Value, by: u64, shift: Duration) -> Option<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().find(|other| *other != value).cloned();
    }
    match value {
        Value::String(text) => {
            if let Some(moment) = Timestamp::parse(text).filter(|_| text.contains('T')) {
                return Some(json!((moment + shift).to_string()));
            }
            let longest =
                schema["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
            let exact = schema["minLength"] == schema["maxLength"] && !schema["minLength"].is_null();
            let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '+');
            let other = if exact {
                let last = text.chars().last()?;
                format!("{}{}", &text[..text.len() - last.len_utf8()], if last == 'X' { 'Y' } else { 'X' })
            } else if digits {
                format!("{text}{by}")
            } else if text.contains('@') {
                format!("x{by}.{text}")
            } else {
                format!("{text}-{by}")
            };
            (other.chars().count() <= longest).then(|| json!(other))
        }
        Value::Number(number) => {
            let most = schema["maximum"].as_f64().unwrap_or(f64::MAX);
            match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => {
                    let other = whole.checked_add(i64::try_from(by).ok()?)?;
                    Some(json!(if other as f64 > most { whole - i64::try_from(by).ok()? } else { other }))
                }
                (None, Some(number)) => Some(json!(number + by as f64)),
                (None, None) => None,
            }
        }
        Value::Bool(value) => Some(json!(!value)),
        _ => None,
    }
}
