//! The invariants, and what they are judged by.
//!
//! The oracle sees what the containers cannot: every row before and after each write that landed, every
//! call that reached a partner, and what the partner really did.

mod approvals;
mod boards;
mod budgets;
mod calls;
mod consent;
mod ends;
mod excuses;
mod expiry;
mod guards;
mod items;
mod lanes;
mod payloads;
mod plans;
mod results;
mod rows;
mod shares;
mod stale;
mod versions;
mod wakes;
mod windows;

pub(crate) use items::stands_in_for;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::effects::contact::{ContactId, Fields};
use shared::flows::{Effect, Flow, Flows};
use shared::ledger::queue::DeadLetter;
use shared::ledger::{Row, State};
use shared::model::{Delivered, ModelContacts, ModelLatest, ModelLedger, RowChange};

use crate::partner::Partner;
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;
use crate::timeline::Who;
use versions::keeps_newer;

/// No effect is applied twice at its partner, whatever its guarantee.
pub(crate) const AT_MOST_ONCE: &str = "at-most-once";
/// What was acknowledged is succeeded at the end, or dead with its reason, its record and its payload.
pub(crate) const NOTHING_LOST: &str = "nothing-lost";
/// An intent without an outcome is said to be unknown, and is not tried again where nobody can be asked.
pub(crate) const UNKNOWN_SURFACED: &str = "unknown-surfaced";
/// Events of a group take effect in the order in which the queue took them.
pub(crate) const ORDER: &str = "order";
/// No effect is called more often than its policy allows, and nothing else counts as a call.
pub(crate) const ATTEMPTS: &str = "attempts";
/// A contact has no more retries than its budget.
pub(crate) const RETRY_BUDGET: &str = "retry-budget";
/// A partner has no more calls at once than it bears.
pub(crate) const CONCURRENCY: &str = "concurrency";
/// A partner that is known to be slow holds no more batches than its share.
pub(crate) const SHARE: &str = "share";
/// A partner is not called more often than it bears.
pub(crate) const RATE: &str = "rate";
/// Rows change only as the ledger's diagram says, and neither epoch nor step goes back.
pub(crate) const LEGAL_ROWS: &str = "legal-rows";
/// The queue deletes no message for its age of which something is still to come.
pub(crate) const KEPT_IN_TIME: &str = "kept-in-time";
/// No event dies of attempts at a partner that has answered nobody since the first of them.
pub(crate) const OUTAGE_WAITED_OUT: &str = "outage-waited-out";
/// The events of an entity that wait for one thing are woken in their order.
pub(crate) const WOKEN_IN_ORDER: &str = "woken-in-order";
/// The queue gives up on no message, if it delivers it as often as the template says.
pub(crate) const RECEIVES_SUFFICE: &str = "receives-suffice";
/// An event whose row can never be read or written again is parked beside it, with that reason and its payload.
pub(crate) const STOOD_IN: &str = "stood-in";
/// An event is said to have crashed only if a worker held it when the queue gave up.
pub(crate) const CRASHED_WHILE_HELD: &str = "crashed-while-held";
/// What is on the queue is in the ledger.
pub(crate) const ROW_FIRST: &str = "row-first";
/// A wake that was sent is on the queue at once, whatever the queue remembers.
pub(crate) const WAKE_ARRIVES: &str = "wake-arrives";
/// No message from before a replay or a wake claims its event.
pub(crate) const SUPERSEDED: &str = "superseded";
/// A claim that landed is won, also if its answer was late and the client repeated it.
pub(crate) const OWN_CLAIM: &str = "own-claim";
/// No call is made without an intent on record.
pub(crate) const INTENT_FIRST: &str = "intent-first";
/// A letter is sent of an event that the ledger says is dead.
pub(crate) const DEAD_BEFORE_LETTER: &str = "dead-before-letter";
/// What the ledger says is done was done, and what it says surely failed was not.
pub(crate) const LEDGER_IS_TRUE: &str = "ledger-is-true";
/// In no stretch of time do more events reach an entity than a cap allows. Those that safe mode was on for
/// are held to its tighter one.
pub(crate) const CAP: &str = "cap";
/// Nothing is called for a contact that did not agree at any moment since the event was claimed.
pub(crate) const CONSENT: &str = "consent";
/// No call asks for a consent that a newer event has withdrawn, and at the end each field of a contact is what the newest
/// event says, whatever was retried or replayed.
pub(crate) const CONSENT_FORWARD: &str = "consent-forward";
/// Nothing is called that another guard refused all that time.
pub(crate) const GUARDS: &str = "guards";
/// A no-op names the guard of its flow that refused it.
pub(crate) const NOOP_NAMED: &str = "noop-named";
/// Where a flow wants it, a human has seen exactly what is done, and said yes to that.
pub(crate) const APPROVED: &str = "approved";
/// A question is posted at most once each time it was written down, and not before.
pub(crate) const ASKED_ONCE: &str = "asked-once";
/// What waits, for a human or for anything else, is listed, with its payload.
pub(crate) const WAITS_WITH_PAYLOAD: &str = "waits-with-payload";
/// What was refused, rejected or dropped stays undone.
pub(crate) const ENDED: &str = "ended";
/// Nothing is called that is paused on the board its worker goes by, and no board is old.
pub(crate) const PAUSED: &str = "paused";
/// A batch never sends more than it may, and has counted whatever it has sent.
pub(crate) const LANE_BOUNDED: &str = "lane-bounded";
/// A batch replays an event once, and none that was parked or replayed after it began.
pub(crate) const LANE_ONCE: &str = "lane-once";
/// In no stretch of time do batches replay more to a partner than their rate.
pub(crate) const LANE_RATE: &str = "lane-rate";
/// After the faults are over every batch ends, and when it is done there is nothing that it could have replayed.
pub(crate) const LANE_ENDS: &str = "lane-ends";
/// What has ended goes on no more: nothing is sent that was not counted before.
pub(crate) const STOPPED: &str = "stopped";
/// What is applied is what the plan said, of the very row that it saw.
pub(crate) const PLAN_IS_TRUE: &str = "plan-is-true";
/// Whatever reaches partners for an event is made of one payload. It is what a parked event's record keeps, and a
/// replay is made of what its plan showed.
pub(crate) const ONE_PAYLOAD: &str = "one-payload";
/// An operator's word on an effect stands.
pub(crate) const RESOLVED: &str = "resolved";
/// Where the latest wins, no replay intends a call after a newer event of its group has succeeded.
pub(crate) const LATEST_WINS: &str = "latest-wins";
/// An effect is done with every result that its flow needs, or it is asked for again, looked up or parked.
pub(crate) const RESULT_OR_ASKED: &str = "result-or-asked";
/// What a partner refused for our credentials is no attempt and kills no event: it waits.
pub(crate) const KEY_FAULT_WAITS: &str = "key-fault-waits";
/// No version of the code writes over a row of a newer format.
pub(crate) const NEWER_KEPT: &str = "newer-kept";
/// An event is not given up on for an unknown flow before it has waited for it.
pub(crate) const FLOW_WAITED_FOR: &str = "flow-waited-for";
/// What an effect does is not done under two of its names.
pub(crate) const RENAMED_ONCE: &str = "renamed-once";
/// A request that may be repeated does not undo what a newer event of its entity did.
pub(crate) const NOT_UNDONE: &str = "not-undone";
/// For one key with a window, an effect happens no more often than moments were sent that all lie farther apart than the
/// window; and what is told one id lies within the window of one moment.
pub(crate) const WINDOW: &str = "window";
/// A message is received as it was sent: the queue has changed no character of it.
pub(crate) const WHOLE: &str = "whole";
/// An event is a duplicate as long as its key lives, and a new one after that, whatever the table has deleted.
pub(crate) const KEY_LIVES: &str = "key-lives";
/// A row that people may still want to see is put aside when a new event takes its place.
pub(crate) const KEPT_FOR_PEOPLE: &str = "kept-for-people";
/// After the faults are over, everything comes to rest.
pub(crate) const REST: &str = "rest";

/// How far two containers' clocks are apart, at most, and a little more for rounding.
const CLOCKS: std::time::Duration = std::time::Duration::from_millis(1001);

/// What operators state as a result of an effect that they have seen to have happened.
pub const STATED_RESULT: &str = "seen-by-an-operator";

/// Sees everything, and judges.
pub(crate) struct Oracle {
    ledger: ModelLedger,
    partner: Arc<Partner>,
    contacts: ModelContacts,
    latest: ModelLatest,
    /// Every version of the flows that may be live.
    versions: Vec<Flows>,
    /// Whether it sees nothing: somebody else judges the run.
    blind: bool,
    /// Whether the index of lists may show what was: then a list may lack what should be on it.
    lags: bool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    events: BTreeMap<EventId, Known>,
    budgets: BTreeMap<String, budgets::BudgetUse>,
    arrivals: BTreeMap<String, Vec<Timestamp>>,
    arrived_on_queue: u64,
    /// Attempts that were made without a token, and so without a call.
    unprepared: u32,
    /// What humans said yes to.
    yes: BTreeSet<(EventId, String)>,
    /// The questions, as buttons carry them.
    questions: BTreeMap<String, approvals::QuestionCount>,
    /// What was known of contacts before each change.
    contacts: Vec<(Timestamp, ContactId, Option<Fields>)>,
    /// What events said of contacts, in the order in which it was applied.
    said: Vec<consent::Said>,
    boards: Vec<boards::WrittenBoard>,
    knows: BTreeMap<Who, boards::KnownBoard>,
    begun: BTreeMap<(EventId, Who), boards::ClaimedWork>,
    /// The batches, by their ids.
    lanes: BTreeMap<String, lanes::Lane>,
    /// Who set a resource last: by flow, effect and group.
    resources: BTreeMap<(String, String, String), (Timestamp, EventId)>,
    /// What operators planned, by the plans' names.
    plans: BTreeMap<String, BTreeMap<EventId, plans::PlannedReplay>>,
    windows: windows::SentWindows,
    /// The wakes of which a message was on the queue.
    wakes: BTreeSet<wakes::MessageNumbers>,
    /// The messages that each container received last.
    in_hand: BTreeMap<Who, Vec<wakes::MessageNumbers>>,
    /// The containers of which a call went wrong.
    failed: BTreeSet<Who>,
    slow_calls: shares::SlowCalls,
    /// What containers know of partners.
    partners: excuses::KnownPartners,
    /// When each settled event was received, and how long it took, by flow.
    settled: BTreeMap<String, Vec<(Timestamp, std::time::Duration)>>,
    /// The effects that became done, by flow.
    done: BTreeMap<String, BTreeSet<String>>,
}

/// What is known of one event.
#[derive(Default)]
struct Known {
    /// The event as it was claimed, or else as it was first sent.
    event: Option<Event>,
    /// The event as it was sent, by the fingerprints of its payloads.
    sent: BTreeMap<Option<String>, Event>,
    flow: String,
    group: String,
    trace: String,
    acknowledged: bool,
    /// When it was received, by the row that was admitted for it.
    received_at: Option<Timestamp>,
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
    /// When the lease of the last worker that was lost ended, as far as the next one knows.
    lost_until: Option<Timestamp>,
    /// When the last claim knew itself again.
    recognised_at: Option<Timestamp>,
    /// When each effect was tried before its last intent, if it was.
    tried_before: BTreeMap<String, Option<Timestamp>>,
    /// The epoch of each effect's last intent.
    intents: BTreeMap<String, u64>,
    /// What the plan that it was last replayed by says of its effects.
    fates: plans::Fates,
    /// The payload that a partner has seen of it.
    variant: Option<String>,
    /// The payload that the plan showed by which it was last replayed.
    planned_variant: Option<String>,
    /// Whether an effect happened, as operators said.
    verdicts: BTreeMap<String, bool>,
    /// When a worker without its flow first claimed it, since one that has the flow did.
    flow_missed_at: Option<Timestamp>,
    /// When its row was last written.
    written_at: Option<Timestamp>,
    /// The effects whose last answer was that our credentials are wrong, with the epoch of the worker that heard it
    /// and the attempts that its intent made.
    rejected: BTreeMap<String, (u64, u32)>,
    /// The name of the effect that asked for each path of each partner.
    asked_as: BTreeMap<(String, String), String>,
    /// When calls were intended.
    intended: Vec<Intended>,
}

/// A write that intends calls.
struct Intended {
    at: Timestamp,
    /// Whether its worker had stood still before.
    stalled: bool,
    /// Whether it was in safe mode.
    safe: bool,
}

impl Oracle {
    pub(crate) fn new(
        ledger: ModelLedger,
        partner: Arc<Partner>,
        contacts: ModelContacts,
        latest: ModelLatest,
        versions: Vec<Flows>,
        lags: bool,
    ) -> Arc<Self> {
        Arc::new(Oracle { ledger, partner, contacts, latest, versions, lags, blind: false, seen: Mutex::default() })
    }

    /// An oracle that sees nothing, of a run that somebody else judges.
    pub(crate) fn blind() -> Arc<Self> {
        let partner = Partner::new(Vec::new(), BTreeMap::new());
        let oracle =
            Oracle::new(Default::default(), partner, Default::default(), Default::default(), Vec::new(), false);
        Arc::new(Oracle { blind: true, ..Arc::into_inner(oracle).expect("it was just made") })
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

    /// What an operator states as the result of an effect that happened.
    pub(crate) fn stated(&self, flow: &str, effect: &str) -> Value {
        let names = self.effect(flow, effect).into_iter().flat_map(|effect| effect.result.keys());
        names.map(|name| (name.clone(), Value::from(STATED_RESULT))).collect()
    }

    fn row(&self, id: &EventId) -> Option<Row> {
        self.ledger.get(id)
    }

    /// The queue is sent an event. The ledger must know it.
    pub(crate) fn sent(&self, event: &Event, scheduler: &Scheduler) {
        if self.blind {
            return;
        }
        if self.row(&event.id).is_none() {
            scheduler.violated(violated(ROW_FIRST, format!("{} is sent, and has no row", event.id)));
        }
        let mut seen = self.seen();
        seen.arrived_on_queue += 1;
        let place = seen.arrived_on_queue;
        let known = seen.events.entry(event.id.clone()).or_default();
        known.event.get_or_insert_with(|| event.clone());
        known.sent.entry(event.fingerprint.clone()).or_insert_with(|| event.clone());
        // Where a sender edits what orders its event, the event has no place among others.
        known.lost_its_place |= !known.group.is_empty() && known.group != event.group;
        known.group.clone_from(&event.group);
        known.place.get_or_insert(place);
    }

    /// A sender was told that we have its event.
    pub(crate) fn acknowledged(&self, id: &EventId) {
        self.seen().events.entry(id.clone()).or_default().acknowledged = true;
    }

    /// A letter arrives. Its event has lost its place, even if a copy of its message succeeds.
    pub(crate) fn given_up(&self, letter: &Delivered, is_early: bool, scheduler: &Scheduler) {
        let Ok(event) = serde_json::from_str::<Event>(&letter.body) else { return };
        // SQS gives no reason.
        if letter.attributes.is_empty() && !is_early {
            let seen = format!("the queue has delivered {} so often that it gave up", event.id);
            scheduler.violated(violated(RECEIVES_SUFFICE, seen));
        }
        self.seen().events.entry(event.id).or_default().lost_its_place = true;
    }

    /// A token could not be read.
    pub(crate) fn unprepared(&self) {
        if self.blind {
            return;
        }
        self.seen().unprepared += 1;
    }

    /// Looks at every write that landed since the last look, by this container, or late by the network.
    pub(crate) fn observe(&self, scheduler: &Scheduler, by: Option<Who>) {
        if self.blind {
            return;
        }
        let stalled = by.is_none_or(|who| scheduler.is_stalled(who));
        for change in self.ledger.take_changes() {
            let change = self.began_anew(change, scheduler);
            self.received(&change);
            self.settles(&change, scheduler.now());
            self.notes_done(&change);
            report(scheduler, self.verdicts_stand(&change));
            report(scheduler, self.applies(&change));
            report(scheduler, self.batch_sends(&change, scheduler.now(), stalled));
            report(scheduler, self.waits_for_credentials(&change));
            report(scheduler, self.judge(&change, scheduler.now(), by.filter(|_| !stalled)));
            self.asks(&change);
            report(scheduler, self.has_results(&change));
            report(scheduler, self.waits(&change.after));
            report(scheduler, self.keeps_what_was_called(&change.after));
            report(scheduler, self.names_its_guard(&change.after));
            report(scheduler, self.is_waited_out(&change));
            report(scheduler, keeps_newer(&change));
            report(scheduler, self.waited_for_flow(&change, scheduler.now()));
        }
    }

    /// An event's row is written. The first says when the event was received.
    fn received(&self, RowChange { after, .. }: &RowChange) {
        let mut seen = self.seen();
        seen.events.entry(after.id.clone()).or_default().received_at.get_or_insert(after.received_at);
    }

    /// A dead letter is sent. Its row must say so, unless it was replayed since.
    pub(crate) fn buried(&self, letter: &DeadLetter, scheduler: &Scheduler) {
        let Ok(event) = serde_json::from_str::<Event>(&letter.body) else { return };
        let row = self.row(&event.id);
        let dead = row.as_ref().is_some_and(|row| row.state == State::Dead || event.replay < row.replay);
        let state = row.map_or("none", |row| row.state.as_str());
        let seen = format!("{} is {state}, and a letter of it is sent", event.id);
        report(scheduler, if dead { Ok(()) } else { Err(violated(DEAD_BEFORE_LETTER, seen)) });
    }
}

/// Who had an event replayed, and why, as its history tells: `replay 2 by ada (batch 7): they are back`.
fn replayed_by(RowChange { before, after, .. }: &RowChange) -> Option<(&str, &str)> {
    before.as_ref().filter(|before| before.state == State::Dead && after.replay > before.replay)?;
    let what = after.history.last()?.what.strip_prefix("replay ")?;
    what.split_once(" by ")?.1.split_once(": ")
}

fn violated(invariant: &'static str, seen: impl Into<String>) -> BrokenInvariant {
    BrokenInvariant { invariant, seen: seen.into() }
}

fn report(scheduler: &Scheduler, judged: Result<(), BrokenInvariant>) {
    if let Err(violation) = judged {
        scheduler.violated(violation);
    }
}
