//! What a lease does next: also after a worker was lost in the middle of a call.

use super::{Entry, Lease, Progress};
use crate::base::time::Timestamp;
use crate::flows::{Effect, Flow, Flows, Guarantee};

/// Why an effect is in doubt whose worker is gone: its intent has no outcome.
pub const WORKER_LOST: &str = "the worker was lost during the call";

/// The next step of a lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<'f> {
    /// Call these effects, side by side: their intents are recorded.
    Call(Vec<&'f Effect>),
    /// Record the intents to call these effects.
    Intend(Vec<&'f Effect>),
    /// Ask the partner or the function whether this effect happened.
    Lookup(&'f Effect),
    /// Wait until then: the partner cannot be asked earlier whether the effect happened.
    Wait(Timestamp),
    /// Bury the event: the outcome of this effect is unknown, and it must not be tried again.
    Unknown(&'f Effect, String),
    /// Close the lease: every effect is done.
    Finish,
}

impl Lease {
    /// The next step. An effect waits for the effects that it needs; an effect that is done is never done again.
    pub fn next<'f>(&self, flow: &'f Flow, flows: &Flows, now: Timestamp) -> Next<'f> {
        let open: Vec<&Effect> = flow.effects.iter().filter(|effect| !self.is_done(effect)).collect();
        let is_open = |need: &&str| open.iter().any(|effect| effect.id == *need);
        let ready = open.iter().filter(|effect| !flow.needs(effect).iter().any(is_open));
        let next: Vec<Next<'f>> = ready.map(|effect| self.next_of(effect, flows, now)).collect();
        merge(next)
    }

    fn next_of<'f>(&self, effect: &'f Effect, flows: &Flows, now: Timestamp) -> Next<'f> {
        let Some(entry) = self.row.entry(effect) else { return Next::Intend(vec![effect]) };
        match &entry.progress {
            Progress::Intent if self.intended.contains(self.row.name_of(effect)) => Next::Call(vec![effect]),
            // The worker that recorded the intent is gone. An intent without an outcome is unknown.
            Progress::Intent => self.doubt(effect, entry, WORKER_LOST, flows, now),
            Progress::Unknown { error } => self.doubt(effect, entry, error, flows, now),
            Progress::Failed { error } if entry.doubtful => self.doubt(effect, entry, error, flows, now),
            Progress::Failed { .. } | Progress::Skipped | Progress::Done { .. } => Next::Intend(vec![effect]),
        }
    }

    /// The next step for an effect whose outcome is unknown, by what its partner guarantees.
    fn doubt<'f>(&self, effect: &'f Effect, entry: &Entry, error: &str, flows: &Flows, now: Timestamp) -> Next<'f> {
        let trust = flows.trust(effect, entry.since, now);
        // An unknown of a call that may be repeated was repeated in vain.
        let asked = trust == Guarantee::Lookup || matches!(entry.progress, Progress::Unknown { .. });
        match effect.asked_after() {
            Some(after) if asked && entry.at + after > now => Next::Wait(entry.at + after),
            Some(_) if asked => Next::Lookup(effect),
            _ if trust.allows_repetition() => Next::Intend(vec![effect]),
            _ => Next::Unknown(effect, error.to_owned()),
        }
    }

    fn is_done(&self, effect: &Effect) -> bool {
        let entry = self.row.entry(effect);
        entry.is_some_and(|entry| matches!(entry.progress, Progress::Done { .. } | Progress::Skipped))
    }
}

/// The one step for all effects that are ready: first a step that ends the run, then lookups, then intents, so
/// that the effects that can be called are called together.
fn merge(steps: Vec<Next<'_>>) -> Next<'_> {
    let (mut calls, mut intents, mut wait) = (Vec::new(), Vec::new(), None);
    let mut lookup = None;
    for step in steps {
        match step {
            Next::Unknown(..) => return step,
            Next::Lookup(..) => lookup = lookup.or(Some(step)),
            Next::Intend(effects) => intents.extend(effects),
            Next::Call(effects) => calls.extend(effects),
            Next::Wait(until) => wait = wait.min(Some(until)).or(Some(until)),
            Next::Finish => (),
        }
    }
    match (lookup, intents.is_empty(), calls.is_empty(), wait) {
        (Some(lookup), ..) => lookup,
        (None, false, ..) => Next::Intend(intents),
        (None, true, false, _) => Next::Call(calls),
        (None, true, true, Some(until)) => Next::Wait(until),
        (None, true, true, None) => Next::Finish,
    }
}
