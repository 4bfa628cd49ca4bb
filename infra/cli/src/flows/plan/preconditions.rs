//! What happens before the first effect: what is found out, what guards ask, whom an approval asks.

use serde_json::{Map, Value, json};
use shared::base::time::Timestamp;
use shared::effects::guard::{Judgement, judge};
use shared::flows::template::Scope;
use shared::flows::{Approval, Cap, Consent, Flow, Guard, Origin, QuietHours};

/// As if all had been found out: later templates read it.
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

/// What stands before the effects, a sentence each. Only an expression can be judged without the
/// contact and the clock.
pub(super) fn sentences(flow: &Flow, scope: &Scope<'_>, now: Timestamp) -> Vec<String> {
    let found = flow.enrich.iter().map(|enrich| match &enrich.from {
        Origin::Partner { integration, .. } => format!("`{}` is found out from {integration}", enrich.id),
        Origin::Geoip(_) => format!("`{}` is found out from the database of places", enrich.id),
    });
    let guards = flow.guards.iter().map(|guard| guard_sentence(guard, scope, now));
    found.chain(guards).chain(flow.approval.iter().map(|approval| approval_sentence(approval, scope))).collect()
}

fn guard_sentence(guard: &Guard, scope: &Scope<'_>, now: Timestamp) -> String {
    match guard {
        Guard::Consent(Consent { channel }) => {
            format!("nothing happens unless the contact's consent_{channel} is true")
        }
        Guard::Cap(Cap { channel, limit, per, .. }) => {
            format!("nothing happens beyond {limit} on {channel} in {}h", per.as_secs().div_ceil(3600))
        }
        Guard::QuietHours(QuietHours { from, to, zone }) => {
            format!("it waits from {from} until {to} where the contact lives, or else in {zone}")
        }
        Guard::Expression(said) => {
            let judged = match judge(guard, None, scope, now) {
                Ok(Judgement::Block(_)) => "refuses this event: nothing happens",
                Ok(_) => "lets this event pass",
                Err(_) => "cannot be decided for this event",
            };
            format!("`{}` ({}) {judged}", said.name, said.that.as_str())
        }
    }
}

fn approval_sentence(approval: &Approval, scope: &Scope<'_>) -> String {
    let needed = approval.when.as_ref().map_or(Ok(true), |when| when.holds(scope));
    match needed {
        Ok(true) => format!("a human is asked first, in {}", approval.room),
        Ok(false) => "no human is asked: the approval's condition does not hold for this event".into(),
        Err(_) => "whether a human is asked cannot be decided for this event".into(),
    }
}
