//! A worker's hold on an event, from the claim to its end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::{Death, Entry, Moment, Progress, Reason, Row, State};
use crate::flow::{Effect, Flow, Guarantee};
use crate::time::Timestamp;

/// A worker's wish to hold an event.
#[derive(Clone, Debug)]
pub struct Claim {
    /// When it asks.
    pub now: Timestamp,
    /// How long it wants to hold it.
    pub lease: Duration,
    /// The effect that it would call first. The claim records the intent, which saves a write: it
    /// counts only if the ledger knows of no effect yet.
    pub first: Option<String>,
}

impl Claim {
    /// The effects' entries as the claim would write them into an untouched row.
    pub fn first_intent(&self) -> Option<BTreeMap<String, Entry>> {
        let entry = Entry { attempts: 1, at: self.now, progress: Progress::Intent };
        self.first.clone().map(|first| BTreeMap::from([(first, entry)]))
    }

    /// The claim's line in the event's history.
    pub fn moment(&self) -> Moment {
        Moment { at: self.now, what: "claimed".into() }
    }

    /// When the lease would end.
    pub fn lease_until(&self) -> Timestamp {
        self.now + self.lease
    }
}

/// What a refused claim found.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Another worker holds it until then.
    Busy(Timestamp),
    /// It waits for its retry until then.
    NotYet(Timestamp),
    /// Nothing is left to do.
    Settled,
    /// It is a dead letter. Whoever buried it may have crashed before sending it on.
    Dead(Box<Row>),
    /// The ledger does not know it.
    Nothing,
}

impl Row {
    /// Whether a worker may claim the event now. The adapters' condition says the same.
    pub fn claimable(&self, now: Timestamp) -> bool {
        match self.state {
            State::Queued => true,
            State::Retrying => self.retry_at.is_none_or(|at| at <= now),
            State::Running => self.lease_until.is_none_or(|until| until < now),
            State::Succeeded | State::Dead => false,
        }
    }

    /// What a worker whose claim was refused should know.
    pub fn refused(self) -> Found {
        match self.state {
            State::Queued | State::Retrying => Found::NotYet(self.retry_at.unwrap_or(self.received_at)),
            State::Running => Found::Busy(self.lease_until.unwrap_or(self.received_at)),
            State::Succeeded => Found::Settled,
            State::Dead => Found::Dead(Box::new(self)),
        }
    }
}

/// A won claim. Only a lease makes progress, and only on its own event.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    row: Row,
    /// The effect whose intent was written under this lease. An intent that is older than the lease
    /// belongs to a worker that is gone.
    intended: Option<String>,
}

/// A lease at its end: the row as it is left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed(Row);

impl Closed {
    /// The row, to be written.
    pub fn row(&self) -> &Row {
        &self.0
    }
}

/// What a lease does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<'f> {
    /// Call this effect: its intent is recorded.
    Call(&'f Effect),
    /// Record the intent to call this effect.
    Intend(&'f Effect),
    /// Nobody knows whether this effect happened, and it must not be tried.
    Unknown(&'f Effect, String),
    /// Every effect is done.
    Finish,
}

impl Lease {
    /// The lease that `claim` won on a row, from the row as it was before.
    ///
    /// This defines what a claim changes. The adapters' one conditional update writes the same.
    pub fn won(mut row: Row, claim: &Claim) -> Self {
        let untouched = row.effects.is_empty();
        row.state = State::Running;
        row.epoch += 1;
        row.step = 0;
        row.lease_until = Some(claim.lease_until());
        row.retry_at = None;
        row.parked = None;
        row.parked_at = None;
        row.history.push(claim.moment());
        if untouched {
            row.effects = claim.first_intent().unwrap_or_default();
        }
        Lease { row, intended: claim.first.clone().filter(|_| untouched) }
    }

    /// The row as this lease leaves it.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// How often an effect was attempted.
    pub fn attempts(&self, effect: &Effect) -> u32 {
        self.row.effects.get(&effect.id).map_or(0, |entry| entry.attempts)
    }

    /// What to do next: effects run in the flow's order, and what is done is never done again.
    pub fn next<'f>(&self, flow: &'f Flow) -> Next<'f> {
        let open = flow.effects.iter().find(|effect| !self.is_done(effect));
        let Some(effect) = open else { return Next::Finish };
        match self.row.effects.get(&effect.id).map(|entry| &entry.progress) {
            Some(Progress::Intent) if self.intended.as_ref() == Some(&effect.id) => Next::Call(effect),
            // The worker that meant to call it is gone. An intent without an outcome is unknown.
            Some(Progress::Intent) => match effect.guarantee {
                Guarantee::Native => Next::Intend(effect),
                Guarantee::None => Next::Unknown(effect, "the worker was lost during the call".into()),
            },
            Some(Progress::Unknown { error }) => Next::Unknown(effect, error.clone()),
            Some(Progress::Failed { .. } | Progress::Done { .. }) | None => Next::Intend(effect),
        }
    }

    fn is_done(&self, effect: &Effect) -> bool {
        let entry = self.row.effects.get(&effect.id);
        entry.is_some_and(|entry| matches!(entry.progress, Progress::Done { .. }))
    }

    /// A call is about to be made.
    pub fn intend(&mut self, effect: &Effect, now: Timestamp) {
        let attempts = self.attempts(effect) + 1;
        self.set(effect, Entry { attempts, at: now, progress: Progress::Intent });
        self.intended = Some(effect.id.clone());
    }

    /// The call happened.
    pub fn done(&mut self, effect: &Effect, result: Value, now: Timestamp) {
        self.note(effect, now, "done");
        self.came_to(effect, Progress::Done { result }, now);
    }

    /// The call surely changed nothing.
    pub fn failed(&mut self, effect: &Effect, error: &str, now: Timestamp) {
        self.note(effect, now, error);
        self.came_to(effect, Progress::Failed { error: error.to_owned() }, now);
    }

    /// Nobody can know whether the call happened.
    pub fn unknown(&mut self, effect: &Effect, error: &str, now: Timestamp) {
        self.note(effect, now, &format!("unknown: {error}"));
        self.came_to(effect, Progress::Unknown { error: error.to_owned() }, now);
    }

    /// Every effect is done. The key is remembered for `ttl` from here.
    #[must_use]
    pub fn succeed(mut self, ttl: Duration, now: Timestamp) -> Closed {
        self.row.expires_at = (now + ttl).secs();
        self.close(State::Succeeded, "succeeded".into(), now)
    }

    /// The event is tried again after `delay`.
    #[must_use]
    pub fn retry(mut self, delay: Duration, now: Timestamp) -> Closed {
        self.row.retry_at = Some(now + delay);
        self.close(State::Retrying, format!("retry in {} ms", delay.as_millis()), now)
    }

    /// The event is a dead letter.
    #[must_use]
    pub fn bury(mut self, reason: Reason, effect: Option<&Effect>, error: &str, now: Timestamp) -> Closed {
        let attempts = effect.map_or(0, |effect| self.attempts(effect));
        let effect = effect.map(|effect| effect.id.clone());
        self.row.death = Some(Death { reason, effect, error: error.to_owned(), attempts, at: now });
        self.close(State::Dead, format!("dead: {}", reason.as_str()), now)
    }

    fn close(mut self, state: State, what: String, now: Timestamp) -> Closed {
        self.row.state = state;
        self.row.lease_until = None;
        self.row.step += 1;
        self.row.note(now, what);
        Closed(self.row)
    }

    fn came_to(&mut self, effect: &Effect, progress: Progress, now: Timestamp) {
        let attempts = self.attempts(effect);
        self.set(effect, Entry { attempts, at: now, progress });
        self.intended = None;
    }

    fn set(&mut self, effect: &Effect, entry: Entry) {
        self.row.step += 1;
        self.row.effects.insert(effect.id.clone(), entry);
    }

    fn note(&mut self, effect: &Effect, now: Timestamp, what: &str) {
        let what = format!("{} {}: {what}", effect.id, self.attempts(effect));
        self.row.note(now, what);
    }
}
