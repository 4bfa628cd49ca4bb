//! Plans: what would be done for an event. Making a plan changes nothing.

use serde_json::{Map, Value, json};

use super::{Progress, Row};
use crate::arrival::event::Event;
use crate::base::id::Parts;
use crate::flows::template::{Body, Scope, Values};
use crate::flows::{Action, Call, Effect, Flow, Format, Request};

/// The plan for an event, effect by effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The effects, in the flow's order.
    pub steps: Vec<PlanStep>,
    hash: String,
}

/// One effect of a plan.
#[derive(Clone, PartialEq)]
pub struct PlanStep {
    /// The effect's id.
    pub effect: String,
    /// The fate of the effect.
    pub fate: Fate,
    /// The request, with the values of the event. A value that needs the result of an effect that is not done yet
    /// is shown as the flow writes it.
    pub what: Value,
}

crate::base::masked::prints_only!(PlanStep as "PlanStep", effect, fate);

/// The fate of an effect in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The effect would be done.
    Run,
    /// The effect is done already, or its condition left it out.
    Skip,
    /// The outcome of the effect is unknown.
    Unknown,
    /// The flow did not have the effect when it accepted the event: a replay does it only if an operator says so.
    New,
}

impl Fate {
    /// The fate's name, as plans show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Fate::Run => "run",
            Fate::Skip => "skip",
            Fate::Unknown => "unknown",
            Fate::New => "new",
        }
    }
}

impl Plan {
    /// The plan of a flow for an event, as of its row.
    pub fn of(flow: &Flow, event: &Event, row: &Row) -> Plan {
        let steps: Vec<PlanStep> = flow.effects.iter().map(|effect| step(effect, event, row)).collect();
        // The hash covers what would be done, and not how far it got.
        let what: Vec<Value> = steps.iter().map(|step| json!([step.effect, step.what])).collect();
        let hash = Parts::new("plan").and(&flow.name).and(&flow.version.to_string()).and(&json!(what).to_string());
        Plan { steps, hash: hash.hex() }
    }

    /// The hash of the plan: the same for the same flow and the same event, however often it is made.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

fn step(effect: &Effect, event: &Event, row: &Row) -> PlanStep {
    let fate = match row.entry(effect).map(|entry| &entry.progress) {
        None if event.effects.as_deref().is_some_and(|accepted| effect.is_new_since(accepted)) => Fate::New,
        None | Some(Progress::Failed { .. }) => Fate::Run,
        Some(Progress::Done { .. } | Progress::Skipped) => Fate::Skip,
        Some(Progress::Intent | Progress::Unknown { .. }) => Fate::Unknown,
    };
    // Without results, so that the hash is the same before and after the first effects are done.
    let scope = Scope { effects: json!({}), now: row.received_at.to_string(), ..row.scope_of(event) };
    let key = format!("{}/{}", event.id, row.name_of(effect));
    PlanStep { effect: effect.id.clone(), fate, what: what(effect, scope, key) }
}

fn what(effect: &Effect, scope: Scope<'_>, key: String) -> Value {
    let when = effect.when.as_ref().map(|when| (when, when.holds(&scope)));
    let mut what = match &effect.action {
        Action::Call(call) => call_of(call, scope, key),
        Action::Invoke(invoke) => {
            let values = Values::from(&Scope { key: Some(key), ..scope });
            json!({"invoke": invoke.integration, "with": invoke.with.as_ref().map(|with| filled(with, &values))})
        }
        Action::Upsert(upsert) => {
            let values = Values::from(&scope);
            let fields = upsert.fields.iter().map(|(name, body)| (name.clone(), filled(body, &values)));
            json!({"upsert": fields.collect::<Map<_, _>>()})
        }
        Action::Decide(_) => json!({"decide": true}),
    };
    if let Some((when, holds)) = when {
        what["when"] = holds.map_or_else(|_| json!(when.as_str()), |holds| json!(holds));
    }
    what
}

/// A call, with the event's values. No plan knows a secret: its name stands for it.
fn call_of(call: &Call, scope: Scope<'_>, key: String) -> Value {
    let outer = call.outer_scope(scope, key);
    let scope = call.inner_scope(outer.clone()).unwrap_or(outer);
    let values = Values::from(&scope);
    let open = match call.vars.secrets().next() {
        Some(_) => Values::from(&scope.with_vars(call.vars.secrets().map(|name| (name, format!("‹{name}›"))))),
        None => values.clone(),
    };
    let Request { method, path, query, headers, content_type, .. } = &call.request;
    let body = call.request.tree(&values).unwrap_or_else(|_| call.request.written_tree());
    let mut what = json!({
        "integration": call.integration,
        "method": method.as_str(),
        "path": path.render_from(&open).unwrap_or_else(|_| path.written().to_owned()),
        "body": body,
    });
    // What a request does not have is not part of the hash: a plan that was approved stays so.
    let fields = |of: Vec<(&str, &Body)>| -> Map<String, Value> {
        of.into_iter().map(|(name, body)| (name.to_owned(), filled(body, &open))).collect()
    };
    for (name, of) in [("query", fields(query.iter().collect())), ("headers", fields(headers.iter().collect()))] {
        if !of.is_empty() {
            what[name] = Value::Object(of);
        }
    }
    if call.request.format() != Format::Json {
        what["format"] = json!(call.request.format().as_str());
    }
    if let Some(content_type) = content_type {
        what["content_type"] = json!(content_type.as_str());
    }
    what
}

fn filled(body: &Body, values: &Values) -> Value {
    body.render_unless_omitted(values).map_or_else(|_| body.written().clone(), Option::unwrap_or_default)
}
