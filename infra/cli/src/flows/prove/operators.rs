//! What operators do about the events of a world that was played: they answer questions, and decide what nobody else can.

use serde_json::{Map, Value, json};
use shared::flows::Flow;
use shared::ledger::{Reason, Row, State};
use shared::model::ModelChance;

use super::worlds::below;
use crate::scenarios::play::Observed;

/// The events of a flow, each with its number among all that were accepted.
fn numbered<'o>(flow: &'o Flow, seen: &'o Observed) -> impl Iterator<Item = (usize, &'o Row)> {
    seen.rows.iter().enumerate().filter(|(_, row)| row.flow == flow.name).map(|(place, row)| (place + 1, row))
}

/// The steps that answer every question about events of a flow. In a drawn world, some are answered with no.
pub(super) fn answers(flow: &Flow, seen: &Observed, chance: Option<&ModelChance>) -> Vec<Value> {
    let asked = numbered(flow, seen).filter(|(_, row)| row.state == State::AwaitingApproval);
    let answer = |(number, _)| match chance.is_some_and(|chance| below(chance, 4) == 0) {
        true => json!({ "reject": number }),
        false => json!({ "approve": number }),
    };
    asked.map(answer).collect()
}

/// The steps that bring parked events on their way again. Of an effect in doubt, the operator first finds out what its
/// partner did.
pub(super) fn decisions(flow: &Flow, seen: &Observed) -> Vec<Value> {
    let mut steps = Vec::new();
    for (number, row) in numbered(flow, seen).filter(|(_, row)| row.state == State::Dead) {
        let Some(death) = row.death.as_ref().filter(|death| death.reason != Reason::Invalid) else { continue };
        let effect = flow.effects.iter().find(|effect| death.effect.as_ref() == Some(&effect.id));
        if let Some(effect) = effect.filter(|_| death.reason == Reason::UnknownOutcome) {
            let happened = seen.acts.iter().any(|act| act.event == row.id && act.effect == effect.id);
            let mut verdict = json!({"event": number, "effect": effect.id});
            if happened {
                let result = effect.result.keys().map(|name| (name.clone(), json!("found")));
                verdict["happened"] = Value::Object(result.collect::<Map<_, _>>());
            }
            steps.push(json!({ "resolve": verdict }));
        }
        steps.push(json!({ "replay": number }));
    }
    steps
}
