//! What operators said would be done, and what they said was done.

use std::collections::BTreeMap;

use serde_json::Value;
use shared::base::id::EventId;
use shared::ledger::{Progress, Row, State};
use shared::model::RowChange;

use super::{Oracle, PLAN_IS_TRUE, RESOLVED, replayed_by, violated};
use crate::run::BrokenInvariant;

/// What a plan said of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedReplay {
    version: String,
    blocked: bool,
    fates: Fates,
    /// The payload that it was made of.
    variant: Option<String>,
}

/// What becomes of each effect.
pub(super) type Fates = BTreeMap<String, String>;

impl PlannedReplay {
    fn read(event: &Value, oracle: &Oracle) -> (EventId, PlannedReplay) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let steps = event["steps"].as_array().into_iter().flatten();
        // The ledger knows a renamed effect by its first name.
        let flow = text(&event["flow"]);
        let effects = || oracle.flows(&flow).flat_map(|flow| &flow.effects);
        let name = |id: String| effects().find(|effect| effect.id == id).map_or(id.clone(), |e| e.ledger_name().into());
        let fates = steps.map(|step| (name(text(&step["effect"])), text(&step["fate"]))).collect();
        let id = EventId::named(text(&event["id"]));
        let (version, blocked) = (text(&event["version"]), !event["blocked"].is_null());
        let variant = oracle.kept_variant(&id);
        (id, PlannedReplay { version, blocked, fates, variant })
    }

    /// Whether the row is what the plan was made from, and nothing stands against it.
    fn is_true_of(&self, row: &Row, accepted: &[String]) -> bool {
        let fate = |effect: &String| match row.effects.get(effect).map(|entry| &entry.progress) {
            None if !accepted.is_empty() && !accepted.contains(effect) => "new",
            None | Some(Progress::Failed { .. }) => "run",
            Some(Progress::Done { .. } | Progress::Skipped) => "skip",
            Some(Progress::Intent | Progress::Unknown { .. }) => "unknown",
        };
        let same = self.version == format!("{}.{}", row.epoch, row.step);
        same && !self.blocked && self.fates.iter().all(|(effect, planned)| planned == fate(effect))
    }
}

impl Oracle {
    /// An operator has made a plan. Says what it is called.
    pub(crate) fn planned(&self, plan: &Value) -> String {
        let events = plan["events"].as_array().into_iter().flatten();
        let events = events.map(|event| PlannedReplay::read(event, self)).collect();
        let mut seen = self.seen();
        let name = format!("plan {}", seen.plans.len());
        seen.plans.insert(name.clone(), events);
        name
    }

    /// A row is written. If a plan was applied to it, it was the row that the plan saw.
    pub(super) fn applies(&self, change: &RowChange) -> Result<(), BrokenInvariant> {
        let (Some(before), Some((_, why))) = (&change.before, replayed_by(change)) else { return Ok(()) };
        let mut seen = self.seen();
        let planned = seen.plans.get(why).and_then(|plan| plan.get(&before.id)).cloned();
        let kept = self.ledger.payload(&before.id).and_then(|event| event.effects).unwrap_or_default();
        let known = seen.events.entry(before.id.clone()).or_default();
        known.planned_variant = planned.as_ref().and_then(|planned| planned.variant.clone());
        known.fates = planned.as_ref().map(|planned| planned.fates.clone()).unwrap_or_default();
        match planned {
            Some(planned) if !planned.is_true_of(before, &kept) => {
                let what = format!("{} is e{} s{}, and {why} says {planned:?}", before.id, before.epoch, before.step);
                Err(violated(PLAN_IS_TRUE, what))
            }
            _ => Ok(()),
        }
    }

    /// An effect is called. No plan said that it would be left out, and nobody said that it happened.
    pub(super) fn is_open(&self, event: &EventId, effect: &str) -> Result<(), BrokenInvariant> {
        let seen = self.seen();
        let Some(known) = seen.events.get(event) else { return Ok(()) };
        if known.fates.get(effect).is_some_and(|fate| fate == "skip" || fate == "new") {
            return Err(violated(PLAN_IS_TRUE, format!("`{effect}` of {event} is called, and was to be skipped")));
        }
        if known.verdicts.get(effect) == Some(&true) {
            return Err(violated(RESOLVED, format!("`{effect}` of {event} is called, and happened")));
        }
        Ok(())
    }

    /// A row is written. What an operator has said of an effect stands: what happened is done, and what did not
    /// is only done by another call.
    pub(super) fn verdicts_stand(&self, change: &RowChange) -> Result<(), BrokenInvariant> {
        let (Some(before), after) = (&change.before, &change.after) else { return Ok(()) };
        let mut seen = self.seen();
        let verdicts = &mut seen.events.entry(after.id.clone()).or_default().verdicts;
        let parked = before.state == State::Dead && after.state == State::Dead;
        for (id, was) in &before.effects {
            let is = after.effects.get(id);
            let changed = is.map(|is| &is.progress) != Some(&was.progress);
            let said = verdicts.get(id).copied();
            if changed && (said == Some(true) || (said == Some(false) && parked)) {
                let what = format!("an operator spoke about `{id}` of {}, and it is {is:?}", after.id);
                return Err(violated(RESOLVED, what));
            }
            if parked && was.in_doubt() && changed {
                let happened = is.is_some_and(|is| matches!(is.progress, Progress::Done { .. }));
                verdicts.insert(id.clone(), happened);
            } else if changed {
                verdicts.remove(id);
            }
        }
        Ok(())
    }
}
