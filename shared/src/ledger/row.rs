//! One event's row, and what it says of each effect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::text;
use crate::arrival::event::Event;
use crate::arrival::key;
use crate::base::id::EventId;
use crate::base::retention::UNSETTLED_RETENTION;
use crate::base::time::Timestamp;
use crate::base::trace::Trace;
use crate::flows::Effect;
use crate::flows::template::Scope;

/// Where an event is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Accepted, and on the queue or about to be.
    Queued,
    /// Claimed by a worker, until its lease ends.
    Running,
    /// An effect failed; it is tried again.
    Retrying,
    /// Every effect is done.
    Succeeded,
    /// A guard or a human said that nothing is to be done.
    Noop,
    /// A human is asked first.
    AwaitingApproval,
    /// It failed for good, or nobody knows what happened. A human decides.
    Dead,
    /// A human decided that it is not worth another try.
    Dropped,
}

impl State {
    /// The state's name, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Retrying => "retrying",
            State::Succeeded => "succeeded",
            State::Noop => "noop",
            State::AwaitingApproval => "awaiting_approval",
            State::Dead => "dead",
            State::Dropped => "dropped",
        }
    }

    /// Whether it has come to its end, and nothing will be done for it any more.
    pub fn is_settled(self) -> bool {
        matches!(self, State::Succeeded | State::Noop | State::Dropped)
    }
}

/// One event's row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The event's id.
    pub id: EventId,
    /// The flow that acts on it.
    pub flow: String,
    /// Who sent it.
    pub source: String,
    /// When it arrived.
    pub received_at: Timestamp,
    /// The trace that it belongs to.
    pub trace: Trace,
    /// The hash of its payload.
    pub fingerprint: String,
    /// Where it is in its life.
    pub state: State,
    /// Raised by each claim and each replay: the fencing number.
    pub epoch: u64,
    /// Raised by each write within an epoch.
    pub step: u64,
    /// Until when a worker holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// When it may be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// What was intended and what was done, by the effects' ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "text")]
    pub effects: BTreeMap<String, Entry>,
    /// What was found out about it, by the lookups' ids.
    #[serde(default, skip_serializing_if = "Map::is_empty", with = "text")]
    pub enrich: Map<String, Value>,
    /// Whether it was first tried in safe mode. It stays so: a partner refuses another body under a key
    /// that it knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub safe: bool,
    /// What a human is asked, or has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    /// Why nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noop: Option<Noop>,
    /// Why it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death: Option<Death>,
    /// How often it was sent through the queue again: replayed, or approved.
    #[serde(default)]
    pub replay: u32,
    /// When it was accepted or last replayed: its age counts from here.
    pub queued_at: Timestamp,
    /// What happened to it, in order.
    pub history: Vec<Moment>,
    /// When the row may be forgotten, in seconds since the Unix epoch.
    pub expires_at: i64,
    /// The shard of the index of parked events, while it is parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<String>,
    /// Since when it is parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_at: Option<Timestamp>,
}

/// What the ledger knows of one effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// How often it was intended since the event was accepted or last replayed.
    pub attempts: u32,
    /// When it was first intended. The partner has known our key since then, if it knows it.
    pub since: Timestamp,
    /// When it came to this.
    pub at: Timestamp,
    /// Whether an earlier call may have happened, whatever the last one came to. Such a call is repeated
    /// only while the partner remembers our key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
    /// What it came to.
    #[serde(flatten)]
    pub progress: Progress,
}

impl Entry {
    /// Whether nobody knows whether it happened: the last call, or an earlier one that a later failure does
    /// not speak for.
    pub fn in_doubt(&self) -> bool {
        self.doubtful || matches!(self.progress, Progress::Intent | Progress::Unknown { .. })
    }
}

/// How far an effect got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Progress {
    /// A call was about to be made. Without a later word nobody knows whether it happened.
    Intent,
    /// The last call failed. Unless the entry is doubtful, no call changed anything.
    Failed {
        /// Why, without values.
        error: String,
    },
    /// The call may have happened.
    Unknown {
        /// Why, without values.
        error: String,
    },
    /// Its condition was false: it is not done for this event.
    Skipped,
    /// It happened.
    Done {
        /// What was kept of the answer.
        result: Value,
    },
}

impl Progress {
    /// Its name, as it is stored.
    pub fn as_str(&self) -> &'static str {
        match self {
            Progress::Intent => "intent",
            Progress::Failed { .. } => "failed",
            Progress::Unknown { .. } => "unknown",
            Progress::Skipped => "skipped",
            Progress::Done { .. } => "done",
        }
    }

    /// Why it failed, or is unknown.
    pub fn error(&self) -> Option<&str> {
        match self {
            Progress::Failed { error } | Progress::Unknown { error } => Some(error),
            Progress::Intent | Progress::Skipped | Progress::Done { .. } => None,
        }
    }
}

/// A question to a human: may this be done?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The hash of what would be done. Nothing else is approved.
    pub hash: String,
    /// Until when an answer counts.
    pub until: Timestamp,
    /// Who approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
}

/// Why nothing was done for an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noop {
    /// The guard that refused it.
    pub guard: String,
    /// What it saw. It names no person.
    pub facts: Value,
}

/// Why an event is a dead letter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Death {
    /// The kind of reason, to count and to filter by.
    pub reason: Reason,
    /// The effect that it died of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// The last error, without values.
    pub error: String,
    /// How often that effect was attempted.
    pub attempts: u32,
    /// When.
    pub at: Timestamp,
}

/// The kinds of reasons for which an event is a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The partner refused it for good.
    Terminal,
    /// The partner failed as often as the policy allows.
    AttemptsSpent,
    /// The partner failed, and the contact has had all the retries that its flow allows it.
    BudgetExhausted,
    /// Nobody can know whether an effect happened.
    UnknownOutcome,
    /// It waited longer than its flow allows.
    Expired,
    /// A newer event of its entity was applied meanwhile.
    Stale,
    /// A request could not be made from the event.
    Template,
    /// What had to be found out first could not be.
    Enrichment,
    /// Its flow is not, or no longer, here.
    UnknownFlow,
    /// The queue gave up on it: its workers crashed.
    Crashed,
    /// The queue held it, but the ledger does not know it.
    Orphaned,
    /// It is not an event at all.
    Malformed,
}

impl Reason {
    /// The reason's name, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Terminal => "terminal",
            Reason::AttemptsSpent => "attempts_spent",
            Reason::BudgetExhausted => "budget_exhausted",
            Reason::UnknownOutcome => "unknown_outcome",
            Reason::Expired => "expired",
            Reason::Stale => "stale",
            Reason::Template => "template",
            Reason::Enrichment => "enrichment",
            Reason::UnknownFlow => "unknown_flow",
            Reason::Crashed => "crashed",
            Reason::Orphaned => "orphaned",
            Reason::Malformed => "malformed",
        }
    }
}

/// One line of an event's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub what: String,
}

/// The history keeps its beginning and its end within this many moments.
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
            fingerprint: key::fingerprint(&event.payload),
            state: State::Queued,
            epoch: 0,
            step: 0,
            lease_until: None,
            retry_at: None,
            effects: BTreeMap::new(),
            enrich: Map::new(),
            safe: false,
            ask: None,
            noop: None,
            death: None,
            replay: event.replay,
            queued_at: now,
            history: vec![Moment { at: now, what: "accepted".into() }],
            expires_at: (now + UNSETTLED_RETENTION).secs(),
            parked: None,
            parked_at: None,
        }
    }

    /// Whether an event of the same id may take this row's place: it is done, and so long ago that
    /// no sender still repeats it. DynamoDB deletes late, so being there is not being alive.
    pub fn forgotten(&self, now: Timestamp) -> bool {
        self.state.is_settled() && self.expires_at < now.secs()
    }

    /// What a template of an effect may look at.
    pub fn scope<'e>(&self, event: &'e Event, effect: &Effect) -> Scope<'e> {
        let now = self.effects.get(&effect.id).map_or(self.received_at, |entry| entry.since);
        Scope { now: now.to_string(), ..self.scope_of(event) }
    }

    /// What a template that belongs to no effect may look at.
    pub fn scope_of<'e>(&self, event: &'e Event) -> Scope<'e> {
        Scope {
            event: &event.payload,
            effects: self.results(),
            enrich: Value::Object(self.enrich.clone()),
            flow: json!({"name": event.flow, "version": event.version}),
            now: self.received_at.to_string(),
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

    /// Whether nobody knows of some effect whether it happened.
    pub fn in_doubt(&self) -> bool {
        self.effects.values().any(Entry::in_doubt)
    }

    pub(super) fn note(&mut self, at: Timestamp, what: impl Into<String>) {
        while self.history.len() >= MAX_HISTORY {
            self.history.remove(MAX_HISTORY / 2);
        }
        self.history.push(Moment { at, what: what.into() });
    }
}
