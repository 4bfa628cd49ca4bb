//! The invariants, and what they are judged by.
//!
//! The oracle sees what the containers cannot: every row before and after each write that landed, every
//! call that reached a partner, and what the partner really did.

mod budgets;
mod calls;
mod ends;
mod rows;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use shared::event::Event;
use shared::flow::{Effect, Flow, Flows};
use shared::key::EventId;
use shared::ledger::{Row, State};
use shared::model::ModelLedger;
use shared::ports::DeadLetter;
use shared::time::Timestamp;

use super::scheduler::{Scheduler, Violation};

/// No effect is applied twice at its partner, whatever its guarantee.
pub(super) const AT_MOST_ONCE: &str = "at-most-once";
/// What was acknowledged is succeeded at the end, or dead with its reason, its record and its payload.
pub(super) const NOTHING_LOST: &str = "nothing-lost";
/// An intent without an outcome is said to be unknown, and is not tried again where nobody can be asked.
pub(super) const UNKNOWN_SURFACED: &str = "unknown-surfaced";
/// Events of a group take effect in the order in which the queue took them.
pub(super) const ORDER: &str = "order";
/// No effect is called more often than its policy allows, and nothing else counts as a call.
pub(super) const ATTEMPTS: &str = "attempts";
/// A contact has no more retries than its budget.
pub(super) const RETRY_BUDGET: &str = "retry-budget";
/// A partner has no more calls at once than it bears.
pub(super) const CONCURRENCY: &str = "concurrency";
/// A partner is not called more often than it bears.
pub(super) const RATE: &str = "rate";
/// Rows change only as the ledger's diagram says, and neither epoch nor step goes back.
pub(super) const LEGAL_ROWS: &str = "legal-rows";
/// What is on the queue is in the ledger.
pub(super) const ROW_FIRST: &str = "row-first";
/// No call is made without an intent on record.
pub(super) const INTENT_FIRST: &str = "intent-first";
/// A letter is sent of an event that the ledger says is dead.
pub(super) const DEAD_BEFORE_LETTER: &str = "dead-before-letter";
/// What the ledger says is done was done, and what it says surely failed was not.
pub(super) const LEDGER_IS_TRUE: &str = "ledger-is-true";
/// After the faults are over, everything comes to rest.
pub(super) const REST: &str = "rest";

/// How far two containers' clocks are apart, at most, and a little more for rounding.
const CLOCKS: std::time::Duration = std::time::Duration::from_millis(1001);

/// Sees everything, and judges.
pub(super) struct Oracle {
    ledger: ModelLedger,
    /// Every version of the flows that may be live.
    versions: Vec<Flows>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    events: BTreeMap<EventId, Known>,
    budgets: BTreeMap<String, budgets::Spent>,
    arrivals: BTreeMap<String, Vec<Timestamp>>,
    arrived_on_queue: u64,
    /// Attempts that were made without a token, and so without a call.
    unprepared: u32,
}

/// What is known of one event.
#[derive(Default)]
struct Known {
    flow: String,
    group: String,
    trace: String,
    acknowledged: bool,
    /// Its place among all that the queue took.
    place: Option<u64>,
    /// Whether it was dead, or the queue gave up on it.
    lost_its_place: bool,
    /// How often a worker took it over from another that was gone, since the last replay.
    takeovers: u32,
    /// The same, since it came.
    takeovers_ever: u32,
    /// How often a call of each effect was tried since the last replay, and how often one arrived.
    tries: BTreeMap<String, u32>,
    calls: BTreeMap<String, u32>,
    /// The epoch of each effect's last intent.
    intents: BTreeMap<String, u64>,
}

impl Oracle {
    pub(super) fn new(ledger: ModelLedger, versions: Vec<Flows>) -> Arc<Self> {
        Arc::new(Oracle { ledger, versions, seen: Mutex::default() })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The flow of that name in each version.
    fn flows<'o>(&'o self, name: &'o str) -> impl Iterator<Item = &'o Flow> {
        self.versions.iter().filter_map(move |flows| flows.flow(name))
    }

    /// The effect as some version has it.
    fn effect<'o>(&'o self, flow: &'o str, effect: &'o str) -> Option<&'o Effect> {
        self.flows(flow).flat_map(|flow| &flow.effects).find(|known| known.id == effect)
    }

    fn row(&self, id: &EventId) -> Option<Row> {
        self.ledger.get(id)
    }

    /// The queue is sent an event. The ledger must know it.
    pub(super) fn sent(&self, event: &Event, scheduler: &Scheduler) {
        if self.row(&event.id).is_none() {
            scheduler.violated(violated(ROW_FIRST, format!("{} is sent, and has no row", event.id)));
        }
        let mut seen = self.seen();
        seen.arrived_on_queue += 1;
        let place = seen.arrived_on_queue;
        let known = seen.events.entry(event.id.clone()).or_default();
        known.group.clone_from(&event.group);
        known.place.get_or_insert(place);
    }

    /// A sender was told that we have its event.
    pub(super) fn acknowledged(&self, id: &EventId) {
        self.seen().events.entry(id.clone()).or_default().acknowledged = true;
    }

    /// A letter arrives. Its event has lost its place, even if a copy of its message succeeds.
    pub(super) fn given_up(&self, body: &str) {
        if let Ok(event) = serde_json::from_str::<Event>(body) {
            self.seen().events.entry(event.id).or_default().lost_its_place = true;
        }
    }

    /// A token could not be read.
    pub(super) fn unprepared(&self) {
        self.seen().unprepared += 1;
    }

    /// Looks at every write that landed since the last look.
    pub(super) fn observe(&self, scheduler: &Scheduler) {
        for change in self.ledger.take_changes() {
            let judged = self.judge(&change, scheduler.now());
            report(scheduler, judged);
        }
    }

    /// A dead letter is sent. Its row must say so, unless it was replayed since.
    pub(super) fn buried(&self, letter: &DeadLetter, scheduler: &Scheduler) {
        let Ok(event) = serde_json::from_str::<Event>(&letter.body) else { return };
        let row = self.row(&event.id);
        let dead = row.as_ref().is_some_and(|row| row.state == State::Dead || event.replay < row.replay);
        let state = row.map_or("none", |row| row.state.as_str());
        let seen = format!("{} is {state}, and a letter of it is sent", event.id);
        report(scheduler, if dead { Ok(()) } else { Err(violated(DEAD_BEFORE_LETTER, seen)) });
    }
}

fn violated(invariant: &'static str, seen: impl Into<String>) -> Violation {
    Violation { invariant, seen: seen.into() }
}

fn report(scheduler: &Scheduler, judged: Result<(), Violation>) {
    if let Err(violation) = judged {
        scheduler.violated(violation);
    }
}

/// What an operator states as the result of an effect that happened.
pub(super) fn stated() -> Value {
    serde_json::json!({"id": "seen-by-an-operator"})
}
