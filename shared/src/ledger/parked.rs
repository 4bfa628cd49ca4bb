//! Operations on parked events: park, replay, drop, resolve.

use std::fmt;

use serde_json::{Value, json};

use super::unquoted::SAYS_NOT;
use super::{Death, Entry, LostAttempt, Noop, Progress, Reason, Row, State};
use crate::arrival::event::Event;
use crate::base::id::EventId;
use crate::base::retention::{SettledRetention, UNSETTLED_RETENTION};
use crate::base::time::Timestamp;

/// The shards of the list of parked events, each a partition of the index of lists, so that an outage that parks a
/// million events does not make one hot partition.
pub const SHARDS: [&str; 16] =
    ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "pa", "pb", "pc", "pd", "pe", "pf"];

/// An operator's sign-off: the name and the reason. Both go into the event's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignOff<'w> {
    /// The operator's name.
    pub by: &'w str,
    /// The operator's reason.
    pub why: &'w str,
}

impl<'w> SignOff<'w> {
    /// The most characters of a name, and of a reason.
    pub const MAX_CHARS: usize = 120;

    /// The sign-off, if both parts are neither empty nor too long.
    pub fn new(by: &'w str, why: &'w str) -> Result<Self, Declined> {
        let said = |text: &str| !text.trim().is_empty() && text.chars().count() <= Self::MAX_CHARS;
        match [("by", by), ("reason", why)].into_iter().find(|(_, text)| !said(text)) {
            None => Ok(SignOff { by, why }),
            Some((name, _)) => {
                Err(Declined(format!("`{name}` must say something, in at most {} characters", Self::MAX_CHARS)))
            }
        }
    }
}

impl fmt::Display for SignOff<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.by, self.why)
    }
}

/// The reason why an operation was declined, as a sentence for the operator. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Declined(pub String);

/// The line of a history that says that an event was parked.
pub(super) const PARKED: &str = "parked";

/// The beginning of the line that says that it was replayed.
pub(super) const REPLAY: &str = "replay ";

impl Row {
    /// The row for a dead letter that the ledger does not know. Which effects were done for it is unknown too.
    pub fn unaccounted(event: &Event, reason: Reason, now: Timestamp) -> Self {
        Row::never_tried(event, reason, "the ledger has no row for this event".into(), now)
    }

    /// The row that stands in for one which cannot be read or written, and which nobody must overwrite.
    pub fn stand_in(event: &Event, of: &EventId, now: Timestamp) -> Self {
        let error = format!("the ledger's row of {of} cannot be read, or takes no more");
        Row::never_tried(event, Reason::Unreadable, error, now)
    }

    /// The row that stands for a message of a newer version, which did not come back for it.
    pub fn left_behind(event: &Event, now: Timestamp) -> Self {
        let error = "a newer version of Ledgerline sent the message, and did not come back for it in time";
        Row::never_tried(event, Reason::Unreadable, error.to_owned(), now)
    }

    /// The row, whose payload is gone, too.
    #[must_use]
    pub fn without_payload(mut self) -> Self {
        self.death.iter_mut().for_each(|death| death.error.push_str("; its payload is gone"));
        self
    }

    /// The row of an event that broke its flow's schema: parked from the start, for this error.
    pub fn invalid(event: &Event, error: String, now: Timestamp) -> Self {
        let mut row = Row::never_tried(event, Reason::Invalid, error, now);
        row.note(now, "dead: invalid");
        row.list(now);
        row.note(now, PARKED);
        row
    }

    /// The row of an event that is dead before any worker had it.
    fn never_tried(event: &Event, reason: Reason, error: String, now: Timestamp) -> Self {
        let death = Death { reason, effect: None, error, attempts: 0, at: now };
        Row { state: State::Dead, death: Some(death), ..Row::admitted(event, now) }
    }

    /// Whether the row is that of an event which broke its flow's schema, and waits for another schema.
    pub fn is_invalid(&self) -> bool {
        self.state == State::Dead && self.death.as_ref().is_some_and(|death| death.reason == Reason::Invalid)
    }

    /// The row of the event that an invalid one stands for, admitted by the replay that made `replayed` of the invalid
    /// one's row. It is a replay from the start: it has lost its place, and newer events may have overtaken it.
    pub fn admitted_by_replay(event: &Event, replayed: &Row) -> Self {
        let mut row = Row::admitted(event, replayed.queued_at);
        row.history.extend(replayed.history.last().cloned());
        row
    }

    /// The replayed row of an invalid event, settled: the event that it stands for goes on under its own id. The
    /// ledger remembers this row for so long from its replay.
    #[must_use]
    pub fn handed_over(mut self, to: &EventId, retention: impl Into<SettledRetention>) -> Self {
        self.state = State::Noop;
        self.noop = Some(Noop { guard: "on_invalid".into(), facts: json!({"replayed_as": to}) });
        self.unlist();
        self.retain(retention.into(), self.queued_at);
        self
    }

    /// The row, standing for the payload of this letter from here on. A message of an older version names none.
    #[must_use]
    pub fn with_payload_of(mut self, letter: &Event) -> Self {
        self.fingerprint = letter.fingerprint.clone().unwrap_or(self.fingerprint);
        self
    }

    /// The row of an event that the queue itself gave up on, and the attempts that its last worker was lost with. It has
    /// no context: its workers crashed before they could write any, or no worker held it when it came too often. Of an
    /// event that is dead already, nothing changes.
    #[must_use]
    pub fn given_up(mut self, now: Timestamp) -> (Self, Vec<LostAttempt>) {
        let mut lost = Vec::new();
        if self.state != State::Dead {
            let effect = self.effects.iter().find(|(_, entry)| entry.progress == Progress::Intent);
            let held = self.state == State::Running || effect.is_some();
            let attempts = effect.map_or(0, |(_, entry)| entry.attempts);
            let effect = effect.map(|(id, _)| id.clone());
            let (reason, error) = match held {
                true => (Reason::Crashed, "its workers crashed until the queue gave up"),
                false => (self.reason_or_doubt(Reason::Undelivered), "the queue delivered it too often, and gave up"),
            };
            // Its last worker may have called until its lease ended.
            if let Some(until) = self.lease_until.take() {
                lost = self.lose_intents(until, |_| true, now);
            }
            self.death = Some(Death { reason, effect, error: error.into(), attempts, at: now });
            self.state = State::Dead;
            self.next_epoch();
            self.holder = None;
            self.note(now, format!("dead: {}", reason.as_str()));
        }
        (self, lost)
    }

    /// The row, parked for an operator. It is dead from here on, if it was not.
    #[must_use]
    pub fn park(self, now: Timestamp) -> Self {
        let (mut row, _) = self.given_up(now);
        row.step += 1;
        row.list(now);
        row.note(now, PARKED);
        row
    }

    /// The same without the event's payload, which the ledger does not take: operators see the event and why it died, and
    /// cannot replay it.
    #[must_use]
    pub fn park_without_payload(self, now: Timestamp) -> Self {
        let mut row = self.park(now);
        row.death.iter_mut().for_each(|death| death.error.push_str("; its payload could not be kept"));
        row.note(now, "its payload could not be kept");
        row
    }

    /// The row of a waiting event whose payload the ledger has no more, or cannot read: it can never go on.
    #[must_use]
    pub fn park_for_lost_payload(mut self, now: Timestamp) -> Self {
        let (reason, error) = (self.reason_or_doubt(Reason::NotKept), "the ledger has its payload no more");
        self.death = Some(Death { reason, effect: None, error: error.into(), attempts: 0, at: now });
        self.state = State::Dead;
        self.next_epoch();
        self.note(now, format!("dead: {}", reason.as_str()));
        self.park(now)
    }

    /// The row after a replay: on its way through the queue again, with a new replay number and fresh attempts.
    /// Effects that are done stay done.
    ///
    /// The row stays in the index of parked events until a worker claims it: a crash between this write
    /// and the send leaves it where an operator sees it.
    pub fn replayed(mut self, sign_off: SignOff<'_>, now: Timestamp) -> Result<Self, Declined> {
        self.may_replay()?;
        self.requeue(now);
        self.with_new = false;
        self.death = None;
        self.effects.values_mut().for_each(|entry| (entry.attempts, entry.spared) = (0, 0));
        let replay = self.replay;
        self.note(now, format!("{REPLAY}{replay} by {sign_off}"));
        Ok(self)
    }

    /// The replayed row, whose replay also does the effects that are new since the event was accepted.
    #[must_use]
    pub fn and_what_is_new(mut self, with_new: bool) -> Self {
        self.with_new = with_new;
        self
    }

    /// The moment when the event was parked for the last time, if it was. A history that has lost it has more lines than
    /// are kept, and begins with the event's acceptance: it was parked later than that.
    pub fn was_parked_at(&self) -> Option<Timestamp> {
        let parked = self.history.iter().rev().find(|moment| moment.what == PARKED);
        let replayed = || self.history.iter().any(|moment| moment.what.starts_with(REPLAY));
        parked.map(|moment| moment.at).or_else(|| replayed().then_some(self.received_at))
    }

    /// The moment from which on somebody should have known that the event fails: that of the first call which was in vain
    /// since the event was accepted or replayed, or else of its death.
    pub fn first_failed_at(&self) -> Option<Timestamp> {
        let open = |entry: &&Entry| !matches!(entry.progress, Progress::Done { .. } | Progress::Skipped);
        let tried = self.effects.values().filter(open).map(|entry| entry.since.max(self.queued_at)).min();
        tried.into_iter().chain(self.death.as_ref().map(|death| death.at)).min()
    }

    /// The row after an operator dropped the event. The ledger remembers it for so long from here.
    pub fn dropped(
        mut self,
        sign_off: SignOff<'_>,
        retention: impl Into<SettledRetention>,
        now: Timestamp,
    ) -> Result<Self, Declined> {
        if !matches!(self.state, State::Dead | State::AwaitingApproval | State::Waiting) {
            let Row { id, state, .. } = &self;
            return Err(Declined(format!(
                "{id} is {}: only an event that is dead, awaiting_approval or waiting can be dropped",
                state.as_str()
            )));
        }
        self.state = State::Dropped;
        self.next_epoch();
        self.unlist();
        self.retain(retention.into(), now);
        self.note(now, format!("dropped by {sign_off}"));
        Ok(self)
    }

    /// Puts the row on its way through the queue once more, under a new replay number.
    pub(super) fn requeue(&mut self, now: Timestamp) {
        self.state = State::Queued;
        self.next_epoch();
        self.replay += 1;
        self.queued_at = now;
        self.retry_at = None;
        self.expires_at = (now + UNSETTLED_RETENTION).secs();
        // Its letter may not be taken in yet. Only what is listed is sent if this send is lost.
        if !self.is_parked() {
            self.list(now);
        }
        // It has lost its place, and begins anew.
        (self.wake, self.wait, self.place) = (0, None, None);
        self.flow_unknown_since = None;
    }

    /// The row with an operator's verdict on an effect that must have these `required` results. The row stays dead: a
    /// replay goes on from there.
    pub fn resolved(
        mut self,
        effect: &str,
        happened: Option<Value>,
        required: &[&str],
        sign_off: SignOff<'_>,
        now: Timestamp,
    ) -> Result<Self, Declined> {
        self.may_resolve(effect, happened.is_some(), required)?;
        let verdict = if happened.is_some() { "happened" } else { "did not happen" };
        let progress = match happened {
            Some(result) => Progress::Done { result },
            None => Progress::Failed { error: format!("{}{SAYS_NOT}", sign_off.by) },
        };
        if let Some(entry) = self.effects.get_mut(effect) {
            (entry.doubtful, entry.happened) = (false, false);
            entry.at = now;
            entry.progress = progress;
        }
        self.step += 1;
        self.note(now, format!("{effect} {verdict}, says {sign_off}"));
        Ok(self)
    }

    /// Whether an operator may know better about an effect than the ledger; the error says why not.
    ///
    /// Of a call in doubt an operator may say either. Of one that surely failed, that it happened after all: the partner
    /// or a human did it another way. Of one that is done without a result, or without one of those `required`, what the
    /// result is.
    pub fn may_resolve(&self, effect: &str, happened: bool, required: &[&str]) -> Result<(), Declined> {
        let id = &self.id;
        let declined = |why: String| Err(Declined(format!("there is nothing to resolve: {why}")));
        if self.state != State::Dead {
            return declined(format!("{id} is {}, not dead", self.state.as_str()));
        }
        match self.effects.get(effect) {
            None => declined(format!("`{effect}` of {id} was never tried; a replay does it")),
            // An intent without an outcome is as unknown as a call without an answer.
            Some(entry) if entry.in_doubt() => Ok(()),
            Some(Entry { progress: Progress::Done { result }, .. }) if lacks(result, required) && happened => Ok(()),
            Some(Entry { progress: Progress::Failed { .. }, .. }) if happened => Ok(()),
            Some(Entry { progress: Progress::Failed { .. }, .. }) => {
                declined(format!("the ledger knows that `{effect}` of {id} did not happen; a replay does it"))
            }
            Some(Entry { progress, .. }) => declined(format!("`{effect}` of {id} is {}", progress.as_str())),
        }
    }

    /// Whether the event can be replayed; the error says why not.
    pub fn may_replay(&self) -> Result<(), Declined> {
        if self.state != State::Dead {
            return Err(Declined(format!(
                "{} is {}, not dead: there is nothing to replay",
                self.id,
                self.state.as_str()
            )));
        }
        let reason = self.death.as_ref().map(|death| death.reason);
        if matches!(reason, Some(Reason::Orphaned | Reason::Malformed | Reason::Unreadable)) {
            return Err(Declined(format!(
                "the ledger has no history of {}: a replay could do its effects twice; compare with the partners' \
                 records, then `drop` it",
                self.id
            )));
        }
        let unknown = self.effects.iter().find(|(_, entry)| matches!(entry.progress, Progress::Unknown { .. }));
        match unknown {
            Some((effect, entry)) if entry.happened => Err(Declined(format!(
                "`{effect}` of {} happened, but its result is missing: look it up in the partner's records, `resolve` it \
                 with the result, then `replay`",
                self.id
            ))),
            Some((effect, _)) => Err(Declined(format!(
                "the outcome of `{effect}` of {} is unknown: a replay could do it twice; look in the partner's records, \
                 `resolve` it, then `replay`",
                self.id
            ))),
            None => Ok(()),
        }
    }

    /// Puts the row into the index of parked events. The row is remembered for as long as its payload, which is
    /// kept from here on.
    pub(super) fn list(&mut self, now: Timestamp) {
        self.listed = Some(self.shard().to_owned());
        self.listed_at = Some(now);
        self.expires_at = (now + UNSETTLED_RETENTION).secs();
    }

    /// Takes the row off its list.
    pub(super) fn unlist(&mut self) {
        self.listed = None;
        self.listed_at = None;
    }

    /// Raises the epoch: every earlier writer of the row is fenced from here on.
    pub(super) fn next_epoch(&mut self) {
        self.epoch += 1;
        self.step = 0;
    }

    /// Whether the row is on the list of parked events.
    pub fn is_parked(&self) -> bool {
        self.listed.as_deref().is_some_and(|shard| SHARDS.contains(&shard))
    }

    fn shard(&self) -> &'static str {
        SHARDS[self.first_digit()]
    }

    /// The first hexadecimal digit of the event's id, which spreads rows over the shards of a list.
    pub(super) fn first_digit(&self) -> usize {
        self.id.as_str().chars().next().and_then(|c| c.to_digit(16)).unwrap_or(0) as usize
    }
}

/// Whether a kept result has nothing in it, or lacks what is required of it.
fn lacks(result: &Value, required: &[&str]) -> bool {
    match result {
        Value::Object(fields) => fields.is_empty() || !missing(result, required).is_empty(),
        other => other.is_null(),
    }
}

/// The names that a result lacks.
pub fn missing<'n>(result: &Value, required: &[&'n str]) -> Vec<&'n str> {
    required.iter().copied().filter(|name| result.get(name).is_none_or(Value::is_null)).collect()
}
