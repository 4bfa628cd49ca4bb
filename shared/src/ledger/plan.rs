//! What would be done for an event: nothing happens by making a plan.

use serde_json::{Value, json};

use super::{Progress, Row};
use crate::arrival::event::Event;
use crate::base::id::Parts;
use crate::flows::template::{Body, Scope};
use crate::flows::{Action, Effect, Flow};

/// What would be done for an event, effect by effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Each effect, in the flow's order.
    pub steps: Vec<PlanStep>,
    hash: String,
}

/// One effect of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanStep {
    /// The effect's id.
    pub effect: String,
    /// What would become of it.
    pub fate: Fate,
    /// What would be sent, with the values of the event. What needs the result of an effect that is not
    /// done yet is shown as it is written.
    pub what: Value,
}

/// What would become of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It would be done.
    Run,
    /// It is done, or left out.
    Skip,
    /// Nobody knows whether it is done.
    Unknown,
}

impl Fate {
    /// Its name, as plans tell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Fate::Run => "run",
            Fate::Skip => "skip",
            Fate::Unknown => "unknown",
        }
    }
}

impl Plan {
    /// What the flow would do for an event of which this much is known.
    pub fn of(flow: &Flow, event: &Event, row: &Row) -> Plan {
        let steps: Vec<PlanStep> = flow.effects.iter().map(|effect| step(effect, event, row)).collect();
        // What is bound is what would be done, not how far it got.
        let what: Vec<Value> = steps.iter().map(|step| json!([step.effect, step.what])).collect();
        let hash = Parts::new("plan").and(&flow.name).and(&flow.version.to_string()).and(&json!(what).to_string());
        Plan { steps, hash: hash.hex() }
    }

    /// The hash of what would be done: the same for the same flow and the same event, however often.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

fn step(effect: &Effect, event: &Event, row: &Row) -> PlanStep {
    let fate = match row.effects.get(&effect.id).map(|entry| &entry.progress) {
        None | Some(Progress::Failed { .. }) => Fate::Run,
        Some(Progress::Done { .. } | Progress::Skipped) => Fate::Skip,
        Some(Progress::Intent | Progress::Unknown { .. }) => Fate::Unknown,
    };
    // Without results, so that the same is bound before and after the first effects are done.
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
