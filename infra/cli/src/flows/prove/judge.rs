//! What must be true of every world, whatever goes wrong in it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::time::Timestamp;
use shared::flows::{Action, Effect, Field, Flow, Flows};
use shared::ledger::{Progress, Row, State};

use super::aims::times_done;
use super::worlds::SmallWorld;
use crate::scenarios::observed::state_of;
use crate::scenarios::play::Observed;
use crate::scenarios::written::{Statements, WrittenSpan};

/// A promise that a flow does not keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// Its name.
    pub promise: &'static str,
    /// What was seen, as a sentence.
    pub seen: String,
    /// What a scenario expects that fails as this does.
    pub expect: Value,
}

/// No effect is done twice for an event.
pub const AT_MOST_ONCE: &str = "at-most-once";
/// What the ledger says is done was done, and what it says was not was not.
pub const LEDGER_IS_TRUE: &str = "ledger-is-true";
/// Every event comes to an end: it succeeds, is blocked or rejected, or waits for a human with its reason.
pub const ENDS: &str = "ends";
/// Where nothing goes wrong, no event dies.
pub const NOTHING_DIES: &str = "nothing-dies";
/// No two deliveries of one identity both act.
pub const IDENTITY: &str = "identity";
/// Two deliveries of different identities both act.
pub const EACH_ACTS: &str = "each-acts";
/// Nobody whom a cap protects is reached more often than it allows.
pub const PROTECTED: &str = "protected";

/// The first promise that a world breaks.
pub(super) fn judge(asked: FlowInQuestion<'_>, world: &SmallWorld, seen: &Observed) -> Option<Broken> {
    let flow = asked.flow;
    at_most_once(seen)
        .or_else(|| ledger_is_true(flow, seen))
        .or_else(|| ends(flow, seen))
        .or_else(|| nothing_dies(flow, world, seen))
        .or_else(|| identity(asked, world, seen))
        .or_else(|| each_acts(asked, world, seen))
        .or_else(|| protected(asked, world, seen))
}

/// The flow that is asked about, among the others, and what is stated of it. Other flows may take the same events: what
/// becomes of theirs is for their own proof.
#[derive(Clone, Copy)]
pub(super) struct FlowInQuestion<'a> {
    pub(super) flows: &'a Flows,
    pub(super) flow: &'a Flow,
    pub(super) stated: &'a Statements,
}

impl FlowInQuestion<'_> {
    fn events_in(&self, body: &Value) -> Vec<Value> {
        events_in(self.flows, self.flow, body)
    }
}

/// The events of a flow that a delivery holds: one, or those of its parts that the flow takes.
pub(super) fn events_in(flows: &Flows, flow: &Flow, body: &Value) -> Vec<Value> {
    let source = flows.source(&flow.on.source);
    let named = |event: &Value| source.and_then(|source| source.type_of(event)).map(str::to_owned);
    let events = source.map_or_else(|| vec![body.clone()], |source| source.events_in(body, usize::MAX));
    events.into_iter().filter(|event| named(event).is_none_or(|named| named == flow.on.event_type)).collect()
}

/// The values of fields.
fn values(fields: &[Field], event: &Value) -> Vec<Value> {
    fields.iter().map(|field| field.of(event).cloned().unwrap_or_default()).collect()
}

fn at_most_once(seen: &Observed) -> Option<Broken> {
    let mut times: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for act in &seen.acts {
        *times.entry((act.effect.as_str(), act.event.as_str())).or_default() += 1;
    }
    let ((effect, _), count) = times.iter().find(|(_, count)| **count > 1)?;
    let once = times.keys().filter(|(known, _)| known == effect).count();
    Some(Broken {
        promise: AT_MOST_ONCE,
        seen: format!("`{effect}` was done {count} times for one event"),
        expect: json!({"acted": { (*effect): once }}),
    })
}

fn ledger_is_true(flow: &Flow, seen: &Observed) -> Option<Broken> {
    for row in seen.rows.iter().filter(|row| row.flow == flow.name) {
        for effect in flow.effects.iter().filter(|effect| matches!(effect.action, Action::Call(_) | Action::Invoke(_)))
        {
            let Some(entry) = row.entry(effect) else { continue };
            let times = seen.acts.iter().filter(|act| act.event == row.id && act.effect == effect.id).count();
            let told = match &entry.progress {
                Progress::Done { .. } if times == 0 => Some(("done", "it was never done")),
                Progress::Failed { .. } if times > 0 && !entry.doubtful && row.state == State::Dead => {
                    Some(("surely not done", "it was done"))
                }
                _ => None,
            };
            if let Some((says, truth)) = told {
                // What was done and is said not to be leaves it to a human; what is said to be done was done.
                let expect = match times {
                    0 => json!({"acted": {effect.id.clone(): 1}}),
                    _ => json!({"ends": [{"state": "dead", "reason": "unknown_outcome"}]}),
                };
                let seen = format!("the ledger says that `{}` is {says}, and {truth}", effect.id);
                return Some(Broken { promise: LEDGER_IS_TRUE, seen, expect });
            }
        }
    }
    None
}

fn ends(flow: &Flow, seen: &Observed) -> Option<Broken> {
    let open = |row: &&Row| {
        row.flow == flow.name && !row.state.is_settled() && !matches!(row.state, State::Dead | State::AwaitingApproval)
    };
    let row = seen.rows.iter().find(open);
    if row.is_none() && seen.rests {
        return None;
    }
    let told = row
        .map_or_else(|| "it does not come to rest".to_owned(), |row| format!("an event is {} for ever", state_of(row)));
    Some(Broken { promise: ENDS, seen: told, expect: json!({"ends": vec!["succeeded"; seen.rows.len().max(1)]}) })
}

fn nothing_dies(flow: &Flow, world: &SmallWorld, seen: &Observed) -> Option<Broken> {
    let died = |row: &Row| row.state == State::Dead && row.flow == flow.name;
    let row = seen.rows.iter().find(|row| died(row)).filter(|_| world.is_calm)?;
    let lives = |row: &Row| if died(row) { "succeeded" } else { row.state.as_str() }.to_owned();
    let lives: Vec<String> = seen.rows.iter().map(lives).collect();
    let told = format!("nothing goes wrong, and an event is {}", state_of(row));
    Some(Broken { promise: NOTHING_DIES, seen: told, expect: json!({ "ends": lives }) })
}

fn identity(asked: FlowInQuestion<'_>, world: &SmallWorld, seen: &Observed) -> Option<Broken> {
    let identities = distinct(asked, world)?;
    if !all_taken(seen) {
        return None;
    }
    for effect in &asked.flow.effects {
        let times = times_done(asked.flow, effect, seen);
        if times > identities {
            let things = if identities == 1 { "one thing".to_owned() } else { format!("{identities} things") };
            let seen = format!("`{}` was done {times} times for {things}", effect.id);
            return Some(Broken { promise: IDENTITY, seen, expect: done_so_often(effect, identities) });
        }
    }
    None
}

fn each_acts(asked: FlowInQuestion<'_>, world: &SmallWorld, seen: &Observed) -> Option<Broken> {
    let FlowInQuestion { flow, .. } = asked;
    let identities = distinct(asked, world).filter(|_| world.is_calm && all_taken(seen))?;
    let own = seen.rows.iter().filter(|row| row.flow == flow.name);
    let events: BTreeSet<&str> = own.map(|row| row.id.as_str()).collect();
    if events.len() >= identities {
        return None;
    }
    // Where nothing was done, nothing was lost.
    let effect = flow.effects.iter().find(|effect| times_done(flow, effect, seen) > 0)?;
    Some(Broken {
        promise: EACH_ACTS,
        seen: format!("{identities} things were delivered, and {} counted as a repetition", identities - events.len()),
        expect: done_so_often(effect, identities),
    })
}

/// What a scenario expects where an effect is to be done so often.
fn done_so_often(effect: &Effect, times: usize) -> Value {
    match effect.integration() {
        Some(_) => json!({"acted": {effect.id.clone(): times}}),
        None => json!({"ends": vec!["succeeded"; times]}),
    }
}

/// How many different things were sent, if it is stated what makes them so. One delivery may hold several.
fn distinct(asked: FlowInQuestion<'_>, world: &SmallWorld) -> Option<usize> {
    let identity = asked.stated.identity.as_ref()?;
    let mut things: Vec<(Vec<Value>, Duration)> = Vec::new();
    for sent in &world.sent {
        let close =
            |at: Duration| identity.within.is_none_or(|WrittenSpan(within)| sent.at.saturating_sub(at) < within);
        for one in asked.events_in(&sent.body).iter().map(|event| values(&identity.fields, event)) {
            if !things.iter().any(|(known, at)| *known == one && close(*at)) {
                things.push((one, sent.at));
            }
        }
    }
    Some(things.len())
}

/// Whether every delivery was accepted, and none parked for its shape: a value that was made up may fit no schema.
pub(super) fn all_taken(seen: &Observed) -> bool {
    let invalid = |row: &Row| row.death.as_ref().is_some_and(|death| death.reason.as_str() == "invalid");
    seen.answers.iter().all(|answer| answer.status < 300) && !seen.rows.iter().any(invalid)
}

fn protected(asked: FlowInQuestion<'_>, world: &SmallWorld, seen: &Observed) -> Option<Broken> {
    let FlowInQuestion { flow, stated, .. } = asked;
    let events: Vec<Value> = world.sent.iter().flat_map(|sent| asked.events_in(&sent.body)).collect();
    for protected in &stated.protects {
        let people: Vec<Vec<Value>> = events.iter().map(|event| values(&protected.who, event)).collect();
        // Of events for several people, nobody here knows which is whose.
        if people.windows(2).any(|pair| pair[0] != pair[1]) {
            continue;
        }
        for cap in flow.caps().filter(|cap| cap.channel == protected.channel) {
            for effect in super::outward(flow) {
                let times: Vec<Timestamp> =
                    seen.acts.iter().filter(|act| act.effect == effect.id).map(|act| act.at).collect();
                let limit = usize::try_from(cap.limit).unwrap_or(usize::MAX);
                let close = times.windows(limit + 1).any(|stretch| stretch[limit].since(stretch[0]) < cap.per);
                if close {
                    return Some(Broken {
                        promise: PROTECTED,
                        seen: format!(
                            "one person was reached {} times by `{}`, and {} are allowed within {}",
                            times.len(),
                            effect.id,
                            limit,
                            WrittenSpan(cap.per)
                        ),
                        expect: json!({"acted": {effect.id.clone(): limit}}),
                    });
                }
            }
        }
    }
    None
}
