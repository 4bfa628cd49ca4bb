//! What answers say: results that a flow needs, and credentials that a partner does not take.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use shared::ledger::{Entry, Progress};
use shared::limits::budget;
use shared::model::RowChange;

use super::{KEY_FAULT_WAITS, Oracle, RESULT_OR_ASKED, Seen, violated};
use crate::partner::Arrival;
use crate::run::BrokenInvariant;

impl Oracle {
    /// A partner has answered a call. A refusal for our credentials is no attempt.
    pub(crate) fn answered(&self, arrival: &Arrival, status: u16) {
        let Some((event, effect)) = arrival.effect() else { return };
        let row = self.row(&event);
        let mut seen = self.seen();
        let Seen { events, budgets, .. } = &mut *seen;
        let known = events.entry(event).or_default();
        if !matches!(status, 401 | 403) {
            known.rejected.remove(&effect);
            return;
        }
        let calls = known.calls.entry(effect.clone()).or_default();
        if *calls > 1 {
            budgets.entry(budget::key(&known.flow, &known.group)).or_default().take_back();
        }
        *calls = calls.saturating_sub(1);
        known.tries.entry(effect.clone()).and_modify(|tries| *tries = tries.saturating_sub(1));
        // Whoever has lost the event cannot tell its successor.
        if let Some(row) = row.filter(|row| known.intents.get(&effect) == Some(&row.epoch)) {
            let attempts = row.effects.get(&effect).map_or(0, |entry| entry.attempts);
            known.rejected.insert(effect, (row.epoch, attempts));
        }
    }

    /// Notes which effects are done.
    pub(super) fn notes_done(&self, RowChange { after, .. }: &RowChange) {
        let is_done = |entry: &Entry| matches!(entry.progress, Progress::Done { .. });
        let done = after.effects.iter().filter(|(_, entry)| is_done(entry)).map(|(id, _)| id.clone());
        self.seen().done.entry(after.flow.clone()).or_default().extend(done);
    }

    /// The effects that became done, by flow.
    pub(crate) fn done_effects(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.seen().done.clone()
    }

    /// What became done has its results.
    pub(super) fn has_results(&self, RowChange { before, after, .. }: &RowChange) -> Result<(), BrokenInvariant> {
        for (id, entry) in &after.effects {
            let Progress::Done { result } = &entry.progress else { continue };
            let was = before.as_ref().and_then(|row| row.effects.get(id)).map(|entry| &entry.progress);
            if was == Some(&entry.progress) {
                continue;
            }
            let needed = self.effect(&after.flow, id).into_iter().flat_map(|effect| &effect.result);
            let mut missing = needed.filter(|(name, at)| !at.optional && result.get(*name).is_none_or(Value::is_null));
            if let Some((name, _)) = missing.next() {
                let seen = format!("{}: `{id}` is done, and has no `{name}`", after.id);
                return Err(violated(RESULT_OR_ASKED, seen));
            }
        }
        Ok(())
    }

    /// Credentials that were not taken are no attempt of the worker that heard so.
    pub(super) fn waits_for_credentials(&self, RowChange { after, .. }: &RowChange) -> Result<(), BrokenInvariant> {
        let seen = self.seen();
        let rejected = seen.events.get(&after.id).into_iter().flat_map(|known| &known.rejected);
        for (effect, (_, attempts)) in rejected.filter(|(_, (epoch, _))| *epoch == after.epoch) {
            let counted = |entry: &Entry| entry.attempts >= *attempts && entry.progress != Progress::Intent;
            if after.effects.get(effect).is_some_and(counted) {
                let seen = format!("{}: `{effect}` is tried, and our credentials were wrong", after.id);
                return Err(violated(KEY_FAULT_WAITS, seen));
            }
        }
        Ok(())
    }
}
