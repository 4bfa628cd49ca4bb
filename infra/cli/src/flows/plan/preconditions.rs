//! What happens before the first effect: the window of the key, enrichment, guards, approval.

use serde_json::{Map, Value, json};
use shared::base::time::Timestamp;
use shared::effects::guard::{Judgement, judge};
use shared::flows::template::Scope;
use shared::flows::{Approval, Cap, Consent, Flow, Guard, Origin, QuietHours, Window};

/// The enrichment as if every answer had come: later templates read it.
pub(super) fn assumed_found(flow: &Flow) -> Map<String, Value> {
    let found = flow.enrich.iter().map(|enrich| {
        let names: Vec<&str> = match &enrich.from {
            Origin::Partner { result, .. } => result.keys().map(String::as_str).collect(),
            Origin::Geoip(_) => vec!["country", "region", "city", "time_zone"],
        };
        let kept = names.into_iter().map(|name| (name.to_owned(), json!(format!("‹{}.{name}›", enrich.id))));
        (enrich.id.clone(), Value::Object(kept.collect()))
    });
    found.collect()
}

/// A sentence for the window, and for each enrichment, guard and approval. Only an expression can be judged without the contact and
/// the clock.
pub(super) fn sentences(flow: &Flow, scope: &Scope<'_>, now: Timestamp) -> Vec<String> {
    let found = flow.enrich.iter().map(|enrich| match &enrich.from {
        Origin::Partner { integration, .. } => format!("the processor reads `{}` from {integration}", enrich.id),
        Origin::Geoip(_) => format!("the processor reads `{}` from the database of places", enrich.id),
    });
    let guards = flow.guards.iter().map(|guard| guard_sentence(guard, scope, now));
    let window = flow.key.window.iter().map(window_sentence);
    window
        .chain(found)
        .chain(guards)
        .chain(flow.approval.iter().map(|approval| approval_sentence(approval, scope)))
        .collect()
}

fn window_sentence(window: &Window) -> String {
    let moment = window.field.as_ref().map_or("the moment of reception".to_owned(), |field| format!("`{field}`"));
    let within = window.within.as_secs();
    format!("the intake takes the id of an earlier event with the same key, if {moment} is within {within}s of it")
}

fn guard_sentence(guard: &Guard, scope: &Scope<'_>, now: Timestamp) -> String {
    match guard {
        Guard::Consent(Consent { channel }) => {
            format!("the guard blocks the event unless the contact's consent_{channel} is true")
        }
        Guard::Cap(Cap { channel, limit, per, .. }) => {
            format!("the guard blocks the event after {limit} on {channel} in {}h", per.as_secs().div_ceil(3600))
        }
        Guard::QuietHours(QuietHours { from, to, zone }) => {
            format!("the event waits from {from} until {to} in the contact's time zone, or else in {zone}")
        }
        Guard::Expression(said) => {
            let judged = match judge(guard, None, scope, now) {
                Ok(Judgement::Block(_)) => "blocks this event: no effect is called",
                Ok(_) => "lets this event pass",
                Err(_) => "cannot be evaluated for this event",
            };
            format!("the guard `{}` ({}) {judged}", said.name, said.that.as_str())
        }
    }
}

fn approval_sentence(approval: &Approval, scope: &Scope<'_>) -> String {
    let needed = approval.when.as_ref().map_or(Ok(true), |when| when.holds(scope));
    match needed {
        Ok(true) => format!("a human has to approve this event, in {}", approval.room),
        Ok(false) => "this event needs no approval: the condition of the flow's approval does not hold for it".into(),
        Err(_) => "the condition of the flow's approval cannot be evaluated for this event".into(),
    }
}
