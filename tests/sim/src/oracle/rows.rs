//! Which rows may follow which.

use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::flows::Guarantee;
use shared::ledger::{Entry, Progress, Reason, Row, State};
use shared::limits::budget;
use shared::model::RowChange;

use super::{
    ATTEMPTS, CLOCKS, CRASHED_WHILE_HELD, Intended, Known, LEGAL_ROWS, OWN_CLAIM, Oracle, Seen, UNKNOWN_SURFACED,
    violated,
};
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;
use crate::timeline::Who;

impl Oracle {
    /// A client repeated a claim: whether it won the first time, and whether it is told so. If so, it does not know any more
    /// when the worker before it was lost: before now, at the latest.
    pub(crate) fn repeated_claim(&self, id: &EventId, first: bool, again: bool, scheduler: &Scheduler) {
        if again {
            self.seen().events.entry(id.clone()).or_default().recognised_at = Some(scheduler.now());
        }
        if first && !again {
            scheduler.violated(violated(OWN_CLAIM, format!("the claim on {id} landed, and does not know itself")));
        }
    }

    /// Judges one write of this container, or of one that is not what it was: late, or by a worker that stood still.
    pub(super) fn judge(&self, change: &RowChange, now: Timestamp, by: Option<Who>) -> Result<(), BrokenInvariant> {
        let stalled = by.is_none();
        let after = &change.after;
        legal(change, now).map_err(|why| violated(LEGAL_ROWS, format!("{}: {why}", after.id)))?;
        let (mut seen, mut intends) = (self.seen(), false);
        let unprepared = seen.unprepared;
        let Seen { events, budgets, .. } = &mut *seen;
        let known = events.entry(after.id.clone()).or_default();
        known.flow.clone_from(&after.flow);
        known.trace = after.trace.id();
        known.written_at = Some(now);
        known.event = known.sent.get(&Some(after.fingerprint.clone())).or(known.event.as_ref()).cloned();
        known.lost_its_place |= matches!(after.state, State::Dead | State::AwaitingApproval);
        if let Some(before) = &change.before {
            known.take_over(before, after);
            let budget = known.take_back(before, after).then(|| budget::key(&after.flow, &known.group));
            budget.into_iter().for_each(|key| budgets.entry(key).or_default().take_back());
            self.doubts(known, before, after)?;
            known.tries_again(before, after);
            if known.intend(before, after) {
                known.intended.push(Intended { at: now, stalled, safe: after.safe });
                intends = !stalled;
            }
        }
        if let Some(before) = &change.before {
            crashed_while_held(before, after)?;
            self.dies_of_no_doubt(before, after)?;
        }
        let counted = known.count(after, unprepared, |effect| self.effect(&after.flow, effect)?.integration());
        if let (Some(before), Some(who)) = (&change.before, by) {
            self.is_excused(&seen, before, after, (who, now))?;
        }
        counted?;
        if intends { self.is_latest(&seen, after) } else { Ok(()) }
    }

    /// Where nobody can be asked, what is unknown stays unknown until an operator says otherwise.
    fn doubts(&self, known: &mut Known, before: &Row, after: &Row) -> Result<(), BrokenInvariant> {
        for (id, entry) in &before.effects {
            let none = self.effect(&after.flow, id).is_some_and(|effect| effect.guarantee == Guarantee::None);
            let lost = known.intents.get(id).is_some_and(|epoch| *epoch < after.epoch);
            let doubtful = match entry.progress {
                Progress::Intent => lost,
                Progress::Unknown { .. } => true,
                Progress::Failed { .. } | Progress::Skipped | Progress::Done { .. } => false,
            };
            let said = after.effects.get(id).map(|entry| &entry.progress);
            let still = matches!(said, Some(Progress::Unknown { .. })) || said == Some(&entry.progress);
            if none && doubtful && !still && before.state != State::Dead {
                let seen = format!("{}: `{id}` was {:?} and is {said:?}", after.id, entry.progress);
                return Err(violated(UNKNOWN_SURFACED, seen));
            }
        }
        Ok(())
    }
}

impl Oracle {
    /// An event dies. What a partner did for it is not said to have failed for certain.
    fn dies_of_no_doubt(&self, before: &Row, after: &Row) -> Result<(), BrokenInvariant> {
        if before.state == State::Dead || after.state != State::Dead {
            return Ok(());
        }
        let failed = |entry: &Entry| matches!(entry.progress, Progress::Failed { .. }) && !entry.in_doubt();
        for (id, _) in after.effects.iter().filter(|(_, entry)| failed(entry)) {
            if !self.partner.applied(&after.id, id).is_empty() {
                let seen = format!("{} dies, and says that `{id}` failed: its partner did it", after.id);
                return Err(violated(UNKNOWN_SURFACED, seen));
            }
        }
        Ok(())
    }
}

/// An event is said to have crashed only if a worker held it.
fn crashed_while_held(before: &Row, after: &Row) -> Result<(), BrokenInvariant> {
    let crashed = |row: &Row| row.death.as_ref().is_some_and(|death| death.reason == Reason::Crashed);
    let intended = before.effects.values().any(|entry| entry.progress == Progress::Intent);
    if crashed(after) && !crashed(before) && before.state != State::Running && !intended {
        let seen = format!("{} was {}, and is said to have crashed", after.id, before.state.as_str());
        return Err(violated(CRASHED_WHILE_HELD, seen));
    }
    Ok(())
}

impl Known {
    /// Takes in which calls are intended, and says whether any is that was not.
    fn intend(&mut self, before: &Row, after: &Row) -> bool {
        let new = |id: &String, attempts| before.effects.get(id).is_none_or(|old| old.attempts < attempts);
        let intents = after.effects.iter().filter(|(_, entry)| entry.progress == Progress::Intent);
        let intents: Vec<&String> = intents.filter(|(id, entry)| new(id, entry.attempts)).map(|(id, _)| id).collect();
        self.intents.extend(intents.iter().map(|id| ((*id).clone(), after.epoch)));
        !intents.is_empty()
    }

    /// Attempts that only showed that their partner does not answer are taken back. Says whether the last was a retry.
    fn take_back(&mut self, before: &Row, after: &Row) -> bool {
        let mut retry = false;
        for (id, entry) in &before.effects {
            let spared = after.effects.get(id).map_or(0, |after| after.spared.saturating_sub(entry.spared));
            let calls = self.calls.entry(id.clone()).or_default();
            retry |= entry.progress == Progress::Intent && spared > 0 && *calls > 1;
            *calls = calls.saturating_sub(spared);
            self.tries.entry(id.clone()).and_modify(|tries| *tries = tries.saturating_sub(spared));
        }
        retry
    }

    fn take_over(&mut self, before: &Row, after: &Row) {
        if after.replay > before.replay && before.state == State::Dead {
            (self.takeovers, self.tries, self.calls) = Default::default();
        }
        if before.state == State::Running && after.epoch > before.epoch {
            self.takeovers += 1;
            self.takeovers_ever += 1;
        }
    }

    /// An attempt is a call that was tried, or an intent whose worker was lost before or after its call.
    /// What calls no partner may be done as often as anybody likes.
    fn count<'f>(
        &self,
        after: &'f Row,
        unprepared: u32,
        partner: impl Fn(&'f str) -> Option<&'f str>,
    ) -> Result<(), BrokenInvariant> {
        for (id, entry) in after.effects.iter().filter(|(id, _)| partner(id).is_some()) {
            let tries = self.tries.get(id).copied().unwrap_or_default();
            let intent = u32::from(entry.progress == Progress::Intent);
            if entry.attempts > tries + self.takeovers + intent + unprepared {
                let seen = format!("{}: {} attempts of `{id}` after {tries} tries", after.id, entry.attempts);
                return Err(violated(ATTEMPTS, seen));
            }
        }
        Ok(())
    }
}

fn legal(RowChange { before, after, .. }: &RowChange, now: Timestamp) -> Result<(), String> {
    let Some(before) = before else {
        let born = (after.state == State::Queued && after.epoch == 0) || after.is_parked();
        return if born { Ok(()) } else { Err(format!("is born {}", after.state.as_str())) };
    };
    for (id, entry) in before.effects.iter().filter(|(_, entry)| matches!(entry.progress, Progress::Done { .. })) {
        if after.effects.get(id).map(|after| &after.progress) != Some(&entry.progress) {
            return Err(format!("`{id}` was done, and is not any more"));
        }
    }
    let step = |row: &Row| format!("{} e{} s{}", row.state.as_str(), row.epoch, row.step);
    match follows(before, after, now) {
        true => Ok(()),
        false => Err(format!("from {} to {}", step(before), step(after))),
    }
}

fn follows(before: &Row, after: &Row, now: Timestamp) -> bool {
    let due = |at: Option<Timestamp>| at.is_none_or(|at| at <= now + CLOCKS);
    let free = match before.state {
        State::Queued => true,
        State::Retrying => due(before.retry_at),
        State::Running => due(before.lease_until),
        State::Succeeded | State::Noop | State::AwaitingApproval | State::Waiting | State::Dead | State::Dropped => {
            false
        }
    };
    match (after.epoch.checked_sub(before.epoch), before.state, after.state) {
        // The same write again changes nothing.
        (Some(0), ..) if after.step == before.step => after == before,
        (Some(0), State::Running, _) => after.step > before.step && after.state != State::Queued,
        (Some(0), State::Dead, State::Dead) => after.step > before.step,
        // The write that let it wait was not answered, and its worker keeps it on the queue.
        (Some(0), State::Waiting, State::Retrying) => after.step > before.step,
        (Some(1), _, State::Running) => free && (after.replay, after.wake) == (before.replay, before.wake),
        (Some(1), State::Waiting, State::Queued) => (after.replay, after.wake) == (before.replay, before.wake + 1),
        (Some(0), State::Queued, State::Queued) => before.is_woken() && after.is_woken() && after.wake == before.wake,
        (Some(1), State::Dead | State::AwaitingApproval, State::Queued) => after.replay == before.replay + 1,
        (Some(1), State::AwaitingApproval, State::Noop) => !after.is_parked(),
        (Some(1), State::Dead, State::Noop) => before.is_invalid() && !after.is_parked(),
        (Some(1), State::Dead | State::AwaitingApproval | State::Waiting, State::Dropped) => !after.is_parked(),
        // The queue gave up on it.
        (Some(1), _, State::Dead) => free && after.is_parked(),
        _ => false,
    }
}
