//! A worker's lease on an event, from the claim to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::{CallError, Death, Doubt, Entry, LostAttempt, Moment, Noop, Progress, Reason, Row, State, Wait};
use crate::base::retention::SettledRetention;
use crate::base::time::Timestamp;
use crate::flows::Effect;

/// A worker's claim on an event.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The moment of the claim.
    pub now: Timestamp,
    /// The length of the lease that the claim asks for.
    pub lease: Duration,
    /// A number that no other claim has drawn: by it a claim recognises itself whose first answer was lost, and which
    /// the client repeated.
    pub holder: String,
    /// The replay number of the worker's message.
    pub replay: u32,
    /// The wake number of the worker's message.
    pub wake: u32,
    /// The fingerprint of the message's payload. A message of an older version has none.
    pub fingerprint: Option<String>,
    /// The effects that the worker would call first. The claim records their intents, which saves a write: they
    /// count only if the ledger knows of no effect yet.
    pub first: Vec<String>,
}

/// The line of a history that says that a worker claimed the event.
pub(super) const CLAIMED: &str = "claimed";

impl Claim {
    /// The entries of the first effects, as the claim writes them into an untouched row.
    pub fn first_intents(&self) -> BTreeMap<String, Entry> {
        self.first.iter().map(|first| (first.clone(), Entry::intended(self.now))).collect()
    }

    /// The claim's line in the event's history.
    pub fn moment(&self) -> Moment {
        Moment { at: self.now, what: CLAIMED.into() }
    }

    /// The end of the lease, if the claim is won.
    pub fn lease_until(&self) -> Timestamp {
        self.now + self.lease
    }
}

/// The reason why a claim was not won.
#[derive(Clone, Debug, PartialEq)]
pub enum NotClaimed {
    /// Another worker holds the event until then.
    HeldUntil(Timestamp),
    /// The event waits for its retry until then.
    RetryAt(Timestamp),
    /// The event is settled, awaits approval or waits: this message has nothing left to do.
    Settled,
    /// The event is a dead letter. The worker that buried it may have crashed before it sent the letter.
    Dead(Box<Row>),
    /// The row does not stand for the worker's message: the event was replayed since, or the first claim was of another
    /// payload.
    Superseded,
    /// The ledger has no row for the event.
    NoRow,
    /// A newer version of the code wrote the row: only that version may go on with the event.
    NewerFormat,
}

impl Row {
    /// Whether this claim is won. The adapters' condition says the same.
    pub fn is_won_by(&self, claim: &Claim) -> bool {
        self.stands_for(claim.replay, claim.wake, claim.fingerprint.as_deref()) && self.claimable(claim.now)
    }

    /// Whether this very claim has won the row already: its answer was late, and the client sent it again.
    pub fn is_held_by(&self, claim: &Claim) -> bool {
        self.state == State::Running && self.step == 0 && self.holder.as_deref() == Some(&*claim.holder)
    }

    /// Whether no worker holds the event now, and its time has come.
    pub fn claimable(&self, now: Timestamp) -> bool {
        match self.state {
            State::Queued => true,
            State::Retrying => self.retry_at.is_none_or(|at| at <= now),
            State::Running => self.lease_until.is_none_or(|until| until < now),
            State::Succeeded
            | State::Noop
            | State::AwaitingApproval
            | State::Dead
            | State::Dropped
            | State::Waiting => false,
        }
    }

    /// The reason why this claim on the row was not won.
    pub fn not_claimed(self, claim: &Claim) -> NotClaimed {
        match self.state {
            _ if !self.stands_for(claim.replay, claim.wake, claim.fingerprint.as_deref()) => NotClaimed::Superseded,
            State::Queued | State::Retrying => NotClaimed::RetryAt(self.retry_at.unwrap_or(self.received_at)),
            State::Running => NotClaimed::HeldUntil(self.lease_until.unwrap_or(self.received_at)),
            // An event that awaits approval or waits has left the queue: the answer or the wake sends it anew.
            State::Succeeded | State::Noop | State::AwaitingApproval | State::Waiting | State::Dropped => {
                NotClaimed::Settled
            }
            State::Dead => NotClaimed::Dead(Box::new(self)),
        }
    }
}

/// A won claim. Only a lease makes progress, and only on its own event.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    pub(super) row: Row,
    /// The effects whose intents were written under this lease. An intent that is older than the lease
    /// belongs to a worker that is gone.
    pub(super) intended: BTreeSet<String>,
    /// The end of the lease before this one, if its worker did not close it. Until then that worker may have called.
    lost_until: Option<Timestamp>,
    /// The moments at which effects were tried before they were intended under this lease.
    pub(super) tried: BTreeMap<String, Timestamp>,
}

/// A lease at its end: the row as the worker leaves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed(Row);

impl Closed {
    /// The closed row, to be written.
    pub fn row(&self) -> &Row {
        &self.0
    }
}

impl Lease {
    /// The lease that `claim` won on a row, from the row as it was before.
    ///
    /// This function defines what a claim changes. The adapters' one conditional update writes the same.
    pub fn won(mut row: Row, claim: &Claim) -> Self {
        let untouched = row.effects.is_empty();
        let lost_until = row.lease_until.filter(|_| row.state == State::Running);
        row.state = State::Running;
        row.next_epoch();
        row.fingerprint = claim.fingerprint.clone().unwrap_or(row.fingerprint);
        row.lease_until = Some(claim.lease_until());
        row.holder = Some(claim.holder.clone());
        row.retry_at = None;
        row.unlist();
        row.history.push(claim.moment());
        let mut intended = BTreeSet::new();
        if untouched {
            row.effects = claim.first_intents();
            intended.extend(claim.first.iter().cloned());
        }
        Lease { row, intended, lost_until, tried: BTreeMap::new() }
    }

    /// The lease that `claim` won before, from the row as it has been since. When an earlier worker's lease ended is not
    /// known any more: before the claim, at the latest.
    pub fn recognised(row: Row, claim: &Claim) -> Self {
        let first = if row.effects == claim.first_intents() { &*claim.first } else { &[] };
        let intended = first.iter().cloned().collect();
        Lease { row, intended, lost_until: Some(claim.now), tried: BTreeMap::new() }
    }

    /// The row as this lease leaves it.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// The number of attempts of an effect.
    pub fn attempts(&self, effect: &Effect) -> u32 {
        self.row.entry(effect).map_or(0, |entry| entry.attempts)
    }

    /// Whether the worker before this one was lost: it did not close its lease.
    pub fn takes_over(&self) -> bool {
        self.lost_until.is_some()
    }

    /// Notes the attempts of a worker that was lost, and returns them: it may have made its calls until its lease ended.
    /// They are written with whatever is written next.
    pub fn note_lost_attempts(&mut self, now: Timestamp) -> Vec<LostAttempt> {
        let Lease { row, intended, lost_until: Some(until), .. } = self else { return Vec::new() };
        row.lose_intents(*until, |id| !intended.contains(id), now)
    }

    /// Notes that this version of the code does not have the event's flow, and returns for how long none has had it. A
    /// worker that was lost may have had it. It is written with whatever is written next.
    pub fn miss_flow(&mut self, now: Timestamp) -> Duration {
        let since = self.row.flow_unknown_since.filter(|_| self.lost_until.is_none()).unwrap_or(now);
        self.row.flow_unknown_since = Some(since);
        now.since(since)
    }

    /// Notes that this version of the code has the event's flow. It is written with whatever is written next.
    pub fn find_flow(&mut self) {
        self.row.flow_unknown_since = None;
    }

    /// Records the intent to call an effect. A doubt about an earlier call stays until a call is done.
    pub fn intend(&mut self, effect: &Effect, now: Timestamp) {
        let attempts = self.attempts(effect) + 1;
        let doubtful = self.row.entry(effect).is_some_and(Entry::in_doubt);
        let name = self.row.name_of(effect).to_owned();
        self.note_tried(effect);
        self.set(effect, attempts, Progress::Intent, now);
        self.doubt_it(effect, if doubtful { Doubt::MayHaveHappened } else { Doubt::None });
        self.intended.insert(name);
    }

    /// Keeps the moment at which an effect was last tried, before its entry gets another.
    fn note_tried(&mut self, effect: &Effect) {
        if let Some((name, at)) = self.row.entry(effect).map(|entry| (self.row.name_of(effect).to_owned(), entry.at)) {
            self.tried.entry(name).or_insert(at);
        }
    }

    /// Keeps the result of an enrichment, for every later try.
    pub fn record_enrichment(&mut self, id: &str, value: Value, now: Timestamp) {
        self.row.step += 1;
        self.row.enrich.insert(id.to_owned(), value);
        self.row.note(now, format!("enriched: {id}"));
    }

    /// Marks the event as first tried in safe mode.
    pub fn enter_safe_mode(&mut self, now: Timestamp) {
        self.row.step += 1;
        self.row.safe = true;
        self.row.note(now, "in safe mode");
    }

    /// Records that the effect is not done for this event.
    pub fn skip(&mut self, effect: &Effect, now: Timestamp) {
        self.row.note(now, format!("{} skipped", effect.id));
        self.set(effect, 0, Progress::Skipped, now);
    }

    /// Takes back the intents whose calls are not made after all.
    ///
    /// If they stayed, the next worker would take them for calls of a worker that is gone.
    pub fn withdraw_intents(&mut self) {
        for id in std::mem::take(&mut self.intended) {
            self.row.step += 1;
            match self.row.effects.get_mut(&id) {
                Some(entry) if entry.attempts > 1 || entry.doubtful => {
                    entry.attempts -= 1;
                    entry.progress = Progress::Failed { error: "not called".into() };
                }
                _ => drop(self.row.effects.remove(&id)),
            }
        }
    }

    /// Records that the call happened.
    pub fn record_done(&mut self, effect: &Effect, result: Value, now: Timestamp) {
        self.note(effect, now, "done");
        self.came_to(effect, Progress::Done { result }, now);
    }

    /// Notes that the partner did not take our credentials. The intent is withdrawn when the lease ends.
    pub fn note_credentials_rejected(&mut self, effect: &Effect, error: &CallError, now: Timestamp) {
        self.row.step += 1;
        let told = format!("credentials rejected: {error}");
        // The event comes back until the credentials are right. The partner's sentence is told once.
        let is_told = self.row.history.iter().any(|moment| moment.what.ends_with(&told));
        self.note(effect, now, &if is_told { format!("credentials rejected: {}", error.brief()) } else { told });
    }

    /// Notes that a secret is missing or cannot be used, once. The intent is withdrawn when the lease ends.
    pub fn note_no_secret(&mut self, effect: &Effect, error: &str, now: Timestamp) {
        self.row.step += 1;
        if !self.row.history.iter().any(|moment| moment.what.ends_with(error)) {
            self.note(effect, now, error);
        }
    }

    /// Records that the call failed and surely changed nothing.
    pub fn record_failed(&mut self, effect: &Effect, error: impl Into<CallError>, now: Timestamp) {
        let error = error.into();
        self.note(effect, now, &error.brief());
        self.came_to(effect, Progress::Failed { error: error.to_string() }, now);
    }

    /// Records that the call failed and may be repeated, also where it may have happened.
    pub fn record_repeatable(&mut self, effect: &Effect, error: impl Into<CallError>, doubt: Doubt, now: Timestamp) {
        self.record_failed(effect, error, now);
        self.doubt_it(effect, doubt);
    }

    /// Records that the partner knows of no such call. Its answer to the question is one since the effect was tried.
    pub fn record_absent(&mut self, effect: &Effect, now: Timestamp) {
        self.note_tried(effect);
        self.record_failed(effect, "looked up: it did not happen", now);
        self.row.effects.entry(self.row.name_of(effect).to_owned()).and_modify(|entry| entry.doubtful = false);
    }

    /// Records that the outcome of the call is unknown, or its result.
    pub fn record_unknown(&mut self, effect: &Effect, error: impl Into<CallError>, doubt: Doubt, now: Timestamp) {
        let error = error.into();
        self.note(effect, now, &format!("unknown: {}", error.brief()));
        self.came_to(effect, Progress::Unknown { error: error.to_string() }, now);
        self.doubt_it(effect, doubt);
    }

    /// Closes the lease: every effect is done. The ledger remembers it for so long from here.
    #[must_use]
    pub fn succeed(mut self, retention: impl Into<SettledRetention>, now: Timestamp) -> Closed {
        self.row.retain(retention.into(), now);
        self.close(State::Succeeded, "succeeded".into(), now)
    }

    /// Closes the lease: the event is tried again after `delay`.
    #[must_use]
    pub fn retry(mut self, delay: Duration, now: Timestamp) -> Closed {
        self.row.retry_at = Some(now + delay);
        self.close(State::Retrying, format!("retry in {} ms", delay.as_millis()), now)
    }

    /// Closes the lease: the event waits for `delay` until its partner can be called. That is no attempt.
    #[must_use]
    pub fn defer(mut self, delay: Duration, why: &str, now: Timestamp) -> Closed {
        self.row.retry_at = Some(now + delay);
        self.close(State::Retrying, format!("deferred for {} ms: {why}", delay.as_millis()), now)
    }

    /// Closes the lease: the event leaves the queue until it is woken, at this place in its entity's line. That is no
    /// attempt.
    #[must_use]
    pub fn wait(mut self, wait: Wait, place: Timestamp, now: Timestamp) -> Closed {
        self.row.retry_at = None;
        self.row.place = Some(place);
        self.row.list_as_waiting(&wait, place, now);
        let what = format!("waiting for {}: {}", wait.on, wait.why);
        self.row.wait = Some(wait);
        self.close(State::Waiting, what, now)
    }

    /// The same lease after a write of its end that was not answered for: whatever is written next comes after that one,
    /// whether it has landed, lands late, or never does.
    #[must_use]
    pub fn after(mut self, unanswered: &Closed) -> Self {
        self.row.step = self.row.step.max(unanswered.row().step);
        self
    }

    /// Closes the lease: a guard blocks the event. The ledger remembers it for so long from here.
    #[must_use]
    pub fn block(
        mut self,
        guard: &str,
        facts: Value,
        retention: impl Into<SettledRetention>,
        now: Timestamp,
    ) -> Closed {
        self.row.retain(retention.into(), now);
        self.row.noop = Some(Noop { guard: guard.to_owned(), facts });
        self.close(State::Noop, format!("noop: {guard}"), now)
    }

    /// Closes the lease: the event is a dead letter.
    #[must_use]
    pub fn bury(mut self, reason: Reason, effect: Option<&Effect>, error: &str, now: Timestamp) -> Closed {
        let attempts = effect.map_or(0, |effect| self.attempts(effect));
        let effect = effect.map(|effect| effect.id.clone());
        self.row.death = Some(Death { reason, effect, error: error.to_owned(), attempts, at: now });
        self.close(State::Dead, format!("dead: {}", reason.as_str()), now)
    }

    pub(super) fn close(mut self, state: State, what: String, now: Timestamp) -> Closed {
        self.row.state = state;
        self.row.lease_until = None;
        self.row.holder = None;
        self.row.step += 1;
        self.row.note(now, what);
        Closed(self.row)
    }

    fn came_to(&mut self, effect: &Effect, progress: Progress, now: Timestamp) {
        self.set(effect, self.attempts(effect), progress, now);
        self.intended.remove(self.row.name_of(effect));
    }

    fn set(&mut self, effect: &Effect, attempts: u32, progress: Progress, now: Timestamp) {
        self.row.step += 1;
        let name = self.row.name_of(effect).to_owned();
        let before = self.row.effects.get(&name);
        let since = before.map_or(now, |entry| entry.since);
        let open = !matches!(progress, Progress::Done { .. });
        let (doubtful, happened) = before.map_or((false, false), |entry| (entry.doubtful, entry.happened));
        let (doubtful, happened) = (doubtful && open, happened && open);
        let spared = before.map_or(0, |entry| entry.spared);
        self.row.effects.insert(name, Entry { attempts, since, at: now, doubtful, happened, spared, progress });
    }

    /// Adds to what is in doubt about an effect. Nothing but an outcome takes a doubt away.
    fn doubt_it(&mut self, effect: &Effect, doubt: Doubt) {
        self.row.effects.entry(self.row.name_of(effect).to_owned()).and_modify(|entry| {
            entry.doubtful |= doubt != Doubt::None;
            entry.happened |= doubt == Doubt::ResultMissing;
        });
    }

    fn note(&mut self, effect: &Effect, now: Timestamp, what: &str) {
        let what = format!("{} {}: {what}", effect.id, self.attempts(effect));
        self.row.note(now, what);
    }
}
