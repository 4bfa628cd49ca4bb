//! Plans: what would be done for an event. Making a plan changes nothing.

use serde_json::{Value, json};

use super::{Progress, Row};
use crate::arrival::event::Event;
use crate::base::id::Parts;
use crate::flows::template::{Body, Scope};
use crate::flows::{Action, Effect, Flow};

/// The plan for an event, effect by effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The effects, in the flow's order.
    pub steps: Vec<PlanStep>,
    hash: String,
}

/// One effect of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanStep {
    /// The effect's id.
    pub effect: String,
    /// The fate of the effect.
    pub fate: Fate,
    /// The request, with the values of the event. A value that needs the result of an effect that is not done yet
    /// is shown as the flow writes it.
    pub what: Value,
}

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
    PlanStep { effect: effect.id.clone(), fate, what: what(effect, &scope) }
}

fn what(effect: &Effect, scope: &Scope<'_>) -> Value {
    let filled = |body: &Body| body.render(scope).unwrap_or_else(|_| body.written().clone());
    let mut what = match &effect.action {
        Action::Call(call) => json!({
            "integration": call.integration,
            "method": call.request.method.as_str(),
            "path": call.request.path.render(scope).unwrap_or_else(|_| call.request.path.written().to_owned()),
            "body": call.request.body.as_ref().map(filled),
        }),
        Action::Upsert(upsert) => {
            let fields = upsert.fields.iter().map(|(name, body)| (name.clone(), filled(body)));
            json!({"upsert": fields.collect::<serde_json::Map<_, _>>()})
        }
        Action::Decide(_) => json!({"decide": true}),
    };
    if let Some(when) = &effect.when {
        what["when"] = when.holds(scope).map_or_else(|_| json!(when.as_str()), |holds| json!(holds));
    }
    what
}
