//! An event's row, and its entry for each effect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::lease::CLAIMED;
use super::timeline::{left_out, lines_left_out, lost_with};
use super::{Death, Reason, Wait, json_text};
use crate::arrival::event::{Event, is_zero};
use crate::arrival::key;
use crate::base::id::EventId;
use crate::base::retention::{QUEUE_RETENTION, SettledRetention, UNSETTLED_RETENTION};
use crate::base::time::Timestamp;
use crate::base::trace::Trace;
use crate::flows::Effect;
use crate::flows::template::Scope;

/// The state of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The event is accepted, and on the queue or about to be.
    Queued,
    /// A worker has claimed the event, until its lease ends.
    Running,
    /// An effect failed or was deferred; the event is tried again.
    Retrying,
    /// The event has left the queue, because it cannot go on for long. It is woken when it can.
    Waiting,
    /// Every effect is done.
    Succeeded,
    /// A guard blocked the event, or a human rejected it: nothing is done.
    Noop,
    /// A human is asked before anything is done.
    AwaitingApproval,
    /// The event failed for good, or an outcome is unknown. An operator decides.
    Dead,
    /// An operator decided that the event is not worth another try.
    Dropped,
}

impl State {
    /// The state's name, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Retrying => "retrying",
            State::Waiting => "waiting",
            State::Succeeded => "succeeded",
            State::Noop => "noop",
            State::AwaitingApproval => "awaiting_approval",
            State::Dead => "dead",
            State::Dropped => "dropped",
        }
    }

    /// Whether the state is final: nothing will be done for the event any more.
    pub fn is_settled(self) -> bool {
        matches!(self, State::Succeeded | State::Noop | State::Dropped)
    }
}

/// An event's row.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The event's id.
    pub id: EventId,
    /// The flow that acts on the event.
    pub flow: String,
    /// The source that sent the event.
    pub source: String,
    /// The moment when the intake received the event.
    pub received_at: Timestamp,
    /// The trace that the event belongs to.
    pub trace: Trace,
    /// The hash of the one payload that the row stands for. The first claim fixes it.
    pub fingerprint: String,
    /// The event's state.
    pub state: State,
    /// The fencing number. Each claim and each replay raises it.
    pub epoch: u64,
    /// The number of the write within the epoch.
    pub step: u64,
    /// The end of the lease, while a worker holds the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// The claim that holds the event, while a worker does: a number that no other claim has drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The moment from which on the event may be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The intents and outcomes of the effects, by the effects' ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "json_text")]
    pub effects: BTreeMap<String, Entry>,
    /// The results of the enrichments, by their ids.
    #[serde(default, skip_serializing_if = "Map::is_empty", with = "json_text")]
    pub enrich: Map<String, Value>,
    /// Whether the event was first tried in safe mode. It stays in that mode: a partner rejects another body under
    /// a key that it knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub safe: bool,
    /// Whether a replay also does the effects that the flow did not have when it accepted the event: an operator said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_new: bool,
    /// The question to a human, and its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    /// The reason why nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noop: Option<Noop>,
    /// The reason why the event is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death: Option<Death>,
    /// The number of times that the event was sent through the queue again: replayed, or approved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replay: u32,
    /// The moment when the event was accepted or last replayed: its age counts from here.
    pub queued_at: Timestamp,
    /// The moment since which no version of the code that claimed the event has had its flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_unknown_since: Option<Timestamp>,
    /// The history of the event, in order.
    pub history: Vec<Moment>,
    /// The end of the row's life, in seconds since the Unix epoch.
    pub expires_at: i64,
    /// The end of the key's life, once the event is settled: a delivery after it is a new event. People see the row for
    /// longer, as a rule. A row without it was settled by an older version, and its key lives as long as the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_until: Option<i64>,
    /// The number of times that the event was woken since it was accepted or last replayed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wake: u32,
    /// The number of events of the same key whose place this one took, one after the other: see [`Row::known_as`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u32,
    /// What the event waits for, or waited for last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// The event's place in its entity's line, from the first time that it left the queue to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Timestamp>,
    /// The shard of the list that the event is on, while it is parked or waits. The index is named after the parked
    /// events, which it was made for.
    #[serde(default, rename = "parked", skip_serializing_if = "Option::is_none")]
    pub listed: Option<String>,
    /// The moment by which the list is ordered: when the event was parked or began to wait, or when it is due.
    #[serde(default, rename = "parked_at", skip_serializing_if = "Option::is_none")]
    pub listed_at: Option<Timestamp>,
}

crate::base::masked::prints_only!(
    Row as "Row", id, flow, source, received_at, state, epoch, step, replay, wake, lease_until, retry_at, queued_at, effects,
    safe, with_new, noop, death, wait, place, listed_at, expires_at, history
);

/// The ledger's entry for one effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The number of intents since the event was accepted or last replayed.
    pub attempts: u32,
    /// The moment of the first intent. The partner has known our key since then, if it knows it.
    pub since: Timestamp,
    /// The moment of the last change.
    pub at: Timestamp,
    /// Whether an earlier call may have happened, whatever the outcome of the last one. Such a call is repeated
    /// only while the partner remembers our key.
    pub doubtful: bool,
    /// Whether a call surely happened, but no answer had the result that the flow needs.
    pub happened: bool,
    /// The number of failed calls that were no attempts, because they only showed that the partner is down.
    pub spared: u32,
    /// How far the effect got.
    pub progress: Progress,
}

/// What is known of a call that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It surely did nothing.
    None,
    /// It may have happened.
    MayHaveHappened,
    /// It happened, but its answer lacks a result that the flow needs.
    ResultMissing,
}

impl Entry {
    /// The entry of a first intent.
    pub fn intended(now: Timestamp) -> Self {
        Entry {
            attempts: 1,
            since: now,
            at: now,
            doubtful: false,
            happened: false,
            spared: 0,
            progress: Progress::Intent,
        }
    }

    /// Whether the outcome of the effect is unknown: that of the last call, or that of an earlier one which a later
    /// failure says nothing about.
    pub fn in_doubt(&self) -> bool {
        self.doubtful || matches!(self.progress, Progress::Intent | Progress::Unknown { .. })
    }
}

/// How far an effect got.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Progress {
    /// A call was about to be made. Without a later record its outcome is unknown.
    Intent,
    /// The last call failed. Unless the entry is doubtful, no call changed anything.
    Failed {
        /// The cause of the failure, without values.
        error: String,
    },
    /// The call may have happened.
    Unknown {
        /// The cause of the doubt, without values.
        error: String,
    },
    /// The effect's condition was false: it is not done for this event.
    Skipped,
    /// The call happened.
    Done {
        /// The part of the answer that is kept.
        result: Value,
    },
}

/// Without results and errors: a partner's words may be in them.
impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Progress {
    /// The name of the progress, as it is stored.
    pub fn as_str(&self) -> &'static str {
        match self {
            Progress::Intent => "intent",
            Progress::Failed { .. } => "failed",
            Progress::Unknown { .. } => "unknown",
            Progress::Skipped => "skipped",
            Progress::Done { .. } => "done",
        }
    }

    /// The cause of a failure, or of an unknown outcome.
    pub fn error(&self) -> Option<&str> {
        match self {
            Progress::Failed { error } | Progress::Unknown { error } => Some(error),
            Progress::Intent | Progress::Skipped | Progress::Done { .. } => None,
        }
    }
}

/// A question to a human: may this plan be done?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The hash of the plan. An approval covers nothing else.
    pub hash: String,
    /// The moment until which an answer counts.
    pub until: Timestamp,
    /// The name of the human who approved the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
}

/// The reason why nothing was done for an event.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Noop {
    /// The guard that blocked the event.
    pub guard: String,
    /// The facts that the guard saw. They name no person.
    pub facts: Value,
}

crate::base::masked::prints_only!(Noop as "Noop", guard);

/// An attempt of a worker that was lost before it wrote an outcome. Nobody knows whether its call happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostAttempt {
    /// The effect, by its name in the ledger.
    pub effect: String,
    /// The number of the attempt.
    pub attempt: u32,
    /// The claim under which the worker had the event: the row's epoch then.
    pub claim: u64,
    /// The moment of the intent.
    pub began: Timestamp,
    /// The last moment at which the worker may have called.
    pub until: Timestamp,
}

/// One line of an event's history.
#[derive(Clone, PartialEq, Eq)]
pub struct Moment {
    /// The moment itself.
    pub at: Timestamp,
    /// A short description of the change.
    pub what: String,
}

crate::base::masked::prints_only!(Moment as "Moment", at);

/// The most lines of a history. It keeps its beginning and its end, and says between them how many are left out.
const MAX_HISTORY: usize = 24;

impl Row {
    /// The row of a newly accepted event.
    pub fn admitted(event: &Event, now: Timestamp) -> Self {
        Row {
            id: event.id.clone(),
            flow: event.flow.clone(),
            source: event.source.clone(),
            received_at: event.received_at,
            trace: event.trace.clone(),
            fingerprint: event.fingerprint.clone().unwrap_or_else(|| key::fingerprint(&event.payload)),
            state: State::Queued,
            epoch: 0,
            step: 0,
            lease_until: None,
            holder: None,
            retry_at: None,
            effects: BTreeMap::new(),
            enrich: Map::new(),
            safe: false,
            with_new: false,
            ask: None,
            noop: None,
            death: None,
            replay: event.replay,
            queued_at: now,
            flow_unknown_since: None,
            history: vec![Moment { at: now, what: "accepted".into() }],
            expires_at: (now + UNSETTLED_RETENTION).secs(),
            key_until: None,
            wake: event.wake,
            wait: None,
            place: None,
            generation: 0,
            listed: None,
            listed_at: None,
        }
    }

    /// Whether a new event of the same id may take this row's place: the row is settled, and so old that no
    /// sender repeats the event any more; or its message is lost. DynamoDB deletes expired items late, so a row that is
    /// there may be expired.
    pub fn forgotten(&self, now: Timestamp) -> bool {
        (self.state.is_settled() && self.key_until.unwrap_or(self.expires_at) < now.secs()) || self.is_lost(now)
    }

    /// Whether the row is put aside when a new event of the same id takes its place: people may still want to see it, or
    /// it has a generation that must not begin anew.
    pub fn is_put_aside(&self, now: Timestamp) -> bool {
        if self.state.is_settled() { self.expires_at >= now.secs() } else { self.generation > 0 }
    }

    /// The row of a new event that takes this one's place.
    #[must_use]
    pub fn followed_by(&self, next: &Row) -> Row {
        Row { generation: self.generation + 1, ..next.clone() }
    }

    /// By which id partners and counters know the event. Some remember a key for longer than its `ttl`: under the same
    /// one, a partner would answer for the event before, and do nothing.
    pub fn known_as(&self) -> EventId {
        match self.generation {
            0 => self.id.clone(),
            generation => EventId::named(format!("{}.{}", self.id, generation + 1)),
        }
    }

    /// Starts the end of the row's life: the event is settled.
    pub(super) fn retain(&mut self, retention: SettledRetention, now: Timestamp) {
        self.key_until = Some((now + retention.key).secs());
        self.expires_at = (now + retention.row.max(retention.key)).secs();
    }

    /// Whether the queue has no message of the event any more, although no worker ever claimed it: it was never sent,
    /// or the queue's retention is over.
    fn is_lost(&self, now: Timestamp) -> bool {
        self.state == State::Queued && self.epoch == 0 && self.queued_at + QUEUE_RETENTION < now
    }

    /// Whether the row stands for this payload. Before the first claim it stands for any, because the first message may
    /// never have been sent; but a replay has the payload that its plan showed, also one that nobody has claimed yet.
    pub fn takes_payload(&self, fingerprint: &str) -> bool {
        (self.epoch == 0 && self.replay == 0) || self.fingerprint == fingerprint
    }

    /// Whether the row stands for a message of this replay number, this wake number and this payload. A message of an
    /// older version names no payload, and is believed.
    pub fn stands_for(&self, replay: u32, wake: u32, fingerprint: Option<&str>) -> bool {
        let same = |fingerprint| self.takes_payload(fingerprint);
        self.replay == replay && self.wake == wake && fingerprint.is_none_or(same)
    }

    /// Whether the message of the event may never have been sent, and may be one of this payload: no worker ever had it.
    pub fn may_be_unsent(&self, fingerprint: &str) -> bool {
        self.state == State::Queued && self.epoch == 0 && self.takes_payload(fingerprint)
    }

    /// The name of an effect's entry: where the row has one under any of the effect's names, that name; else the one by
    /// which the ledger knows the effect. If a flow was renamed without `was` for a while, the row may have several: what
    /// is done counts before what is in doubt, and that before the rest.
    pub fn name_of<'n>(&self, effect: &'n Effect) -> &'n str {
        let rank = |entry: &Entry| match entry.progress {
            Progress::Done { .. } => 0,
            _ if entry.in_doubt() => 1,
            Progress::Skipped => 2,
            _ => 3,
        };
        let known = effect.names().filter_map(|name| Some((rank(self.effects.get(name)?), name)));
        known.min_by_key(|(rank, _)| *rank).map_or(effect.ledger_name(), |(_, name)| name)
    }

    /// The entry of an effect.
    pub fn entry(&self, effect: &Effect) -> Option<&Entry> {
        self.effects.get(self.name_of(effect))
    }

    /// The values that a template of an effect may read.
    pub fn scope<'e>(&self, event: &'e Event, effect: &Effect) -> Scope<'e> {
        let now = self.entry(effect).map_or(self.received_at, |entry| entry.since);
        let mut scope = Scope { now: now.to_string(), ..self.scope_of(event) };
        if let Value::Object(results) = &mut scope.effects {
            for (was, id) in effect.renamed() {
                if let Some(result) = results.get(was).cloned() {
                    results.entry(id).or_insert(result);
                }
            }
        }
        scope
    }

    /// The values that a template may read which belongs to no effect.
    pub fn scope_of<'e>(&self, event: &'e Event) -> Scope<'e> {
        Scope {
            event: &event.payload,
            effects: self.results(),
            enrich: Value::Object(self.enrich.clone()),
            flow: json!({"name": event.flow, "version": event.version}),
            now: self.received_at.to_string(),
            ..Scope::of(&event.payload)
        }
    }

    /// The results of the effects that are done, by their ids.
    pub fn results(&self) -> Value {
        let done = self.effects.iter().filter_map(|(id, entry)| match &entry.progress {
            Progress::Done { result } => Some((id.clone(), result.clone())),
            _ => None,
        });
        Value::Object(done.collect())
    }

    /// Whether the outcome of some effect is unknown, or its result.
    pub fn in_doubt(&self) -> bool {
        self.effects.values().any(Entry::in_doubt)
    }

    /// The reason to give up on the event for: a doubt, if there is one, else `reason`. A call that failed at last does
    /// not speak for those before it.
    pub fn reason_or_doubt(&self, reason: Reason) -> Reason {
        let doubts = || self.effects.values().filter(|entry| entry.in_doubt());
        if doubts().any(|entry| !entry.happened) {
            Reason::UnknownOutcome
        } else if doubts().any(|entry| entry.happened) {
            Reason::ResultMissing
        } else {
            reason
        }
    }

    /// The values that are kept of partners' answers: results and enrichments.
    pub fn kept_values(&self) -> impl Iterator<Item = &Value> {
        let results = self.effects.values().filter_map(|entry| match &entry.progress {
            Progress::Done { result } => Some(result),
            _ => None,
        });
        results.chain(self.enrich.values())
    }

    /// Notes the attempts of a worker that was lost, and dates them with the last moment at which it may have called.
    pub(super) fn lose_intents(
        &mut self,
        until: Timestamp,
        is_lost: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> Vec<LostAttempt> {
        // Those from before a replay were noted when the event was parked.
        let lost = |(id, entry): &(&String, &mut Entry)| entry.progress == Progress::Intent && is_lost(id);
        let mut attempts = Vec::new();
        for (effect, entry) in self.effects.iter_mut().filter(lost) {
            let (effect, attempt, began) = (effect.clone(), entry.attempts, entry.at);
            entry.at = entry.at.max(until);
            attempts.push(LostAttempt { effect, attempt, claim: 0, began, until: entry.at });
        }
        attempts.retain_mut(|lost| lost.began >= self.queued_at && self.note_lost(lost, now));
        attempts
    }

    /// Notes an attempt that was lost, unless it is noted already.
    fn note_lost(&mut self, lost: &mut LostAttempt, now: Timestamp) -> bool {
        lost.claim = self.claim_at(lost.began);
        let what = format!("{} {}: {}", lost.effect, lost.attempt, lost_with(lost.claim));
        let is_new = !self.history.iter().any(|moment| moment.what == what);
        if is_new {
            self.note(now, what);
        }
        is_new
    }

    /// The claim that was in force at a moment, if only workers have had the event since.
    fn claim_at(&self, at: Timestamp) -> u64 {
        let later = self.history.iter().rev().filter(|moment| moment.what == CLAIMED);
        self.epoch.saturating_sub(later.take_while(|claimed| claimed.at > at).count() as u64)
    }

    /// Adds a line to the history. Where that has no room, a line in its middle says how many are left out there.
    pub(super) fn note(&mut self, at: Timestamp, what: impl Into<String>) {
        while self.history.len() >= MAX_HISTORY {
            let gap = MAX_HISTORY / 2;
            match lines_left_out(&self.history[gap].what) {
                Some(lines) => {
                    let at = self.history.remove(gap + 1).at;
                    self.history[gap] = Moment { at, what: left_out(lines + 1) };
                }
                None => self.history[gap].what = left_out(1),
            }
        }
        self.history.push(Moment { at, what: what.into() });
    }
}
