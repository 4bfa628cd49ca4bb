//! Waiting: an event that cannot go on for long leaves the queue, is listed by what it waits for, and is woken.
//!
//! The queue's order is lost with the queue. So each entity has a *line* in the ledger: who leaves the queue joins it, and
//! whoever of the entity comes while another stands before it joins it, too.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Declined, Row, SignOff, State};
use crate::arrival::event::Event;
use crate::base::id::EventId;
use crate::base::retention::{DEDUPLICATION_WINDOW, UNSETTLED_RETENTION};
use crate::base::time::Timestamp;

/// How long after a wake the same wake is sent again, if no worker has claimed the event: the queue has forgotten its
/// deduplication id by then.
pub const RESEND_AFTER: Duration = Duration::from_secs(DEDUPLICATION_WINDOW.as_secs() + 60);

/// The number of shards of each list of waiting events.
const SHARDS: usize = 4;

/// What an event waits for. Each has a list of its own, so that a waker never reads past events that cannot go yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// A moment: the end of quiet hours, or of a long delay.
    Moment,
    /// A flow that an operator has paused, by its name.
    Flow(String),
    /// An integration that is down, paused, or does not take our credentials, by its name.
    Integration(String),
}

impl WaitsFor {
    /// The names of the list's shards, each a partition of the index of lists.
    pub fn shards(&self) -> [String; SHARDS] {
        std::array::from_fn(|shard| self.shard(shard))
    }

    fn shard(&self, shard: usize) -> String {
        match self {
            WaitsFor::Moment => format!("w{shard}"),
            WaitsFor::Flow(flow) => format!("f{shard}/{flow}"),
            WaitsFor::Integration(integration) => format!("i{shard}/{integration}"),
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitsFor::Moment => f.write_str("its time"),
            WaitsFor::Flow(flow) => write!(f, "flow {flow}"),
            WaitsFor::Integration(integration) => write!(f, "integration {integration}"),
        }
    }
}

/// What of a list is passed over, so that what stands behind it is seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// The flows of which no event can go on now.
    pub flows: BTreeSet<String>,
    /// The events that were seen to already.
    pub events: BTreeSet<EventId>,
}

impl PassedOver {
    /// Whether this row is passed over.
    pub fn has(&self, row: &Row) -> bool {
        self.flows.contains(&row.flow) || self.events.contains(&row.id)
    }

    /// Whether nothing is passed over.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.events.is_empty()
    }
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// The rows, in the list's order.
    pub rows: Vec<Row>,
    /// The events whose rows cannot be read.
    pub unreadable: Vec<EventId>,
    /// Whether a newer version of the code wrote a row that this one cannot read.
    pub has_newer: bool,
}

/// A wait: for what, why, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// What the event waits for.
    pub on: WaitsFor,
    /// The reason in words.
    pub why: String,
    /// The event's message group, which names its entity.
    pub group: String,
    /// The moment when the event left the queue.
    pub since: Timestamp,
    /// The moment when the event is due, where it waits for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The moment when the event was woken. Its patience on the queue counts from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_at: Option<Timestamp>,
}

/// The line of an entity: the events of one message group that have left the queue to wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line(String);

impl Line {
    /// The line that an event belongs to.
    pub fn of(event: &Event) -> Self {
        Line(format!("line/{}/{}", event.flow, event.group))
    }

    /// The line's name, as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An event in a line. Lines are ordered by the place, and then by the id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InLine {
    /// The event's place.
    pub place: Timestamp,
    /// The event's id.
    pub id: EventId,
    /// The wake number under which the event joined.
    pub wake: u32,
}

impl InLine {
    /// Whether this event stands before another one, which may not be in the line yet.
    pub fn is_before(&self, row: &Row) -> bool {
        self.id != row.id && row.place.is_none_or(|place| (self.place, &self.id) < (place, &row.id))
    }

    /// Whether this is a place that the event had before it was replayed. It may hide who stands in line now.
    pub fn is_left_over_of(&self, row: &Row) -> bool {
        self.id == row.id && row.place != Some(self.place)
    }
}

impl Row {
    /// The place of a waiting or woken event in its line.
    pub fn in_line(&self) -> Option<InLine> {
        Some(InLine { place: self.place?, id: self.id.clone(), wake: self.wake })
    }

    /// Whether the event was woken, and no worker has claimed it since.
    pub fn is_woken(&self) -> bool {
        self.state == State::Queued && self.wake > 0 && self.listed.is_some() && !self.is_parked()
    }

    /// The moment since which the event is on the queue: it was accepted, replayed or woken then.
    pub fn on_queue_since(&self) -> Timestamp {
        let woken_at = self.wait.as_ref().filter(|_| self.wake > 0).and_then(|wait| wait.woken_at);
        woken_at.map_or(self.queued_at, |at| at.max(self.queued_at))
    }

    /// Whether the event has a right to its place in its line: it waits, or is woken and on its way.
    pub fn stands_in_line(&self) -> bool {
        self.state == State::Waiting || self.is_woken()
    }

    /// The row after a wake: on its way through the queue, under the next wake number and at its old age. If it was woken
    /// before and no worker has claimed it, its message may never have been sent: the number stays the same.
    ///
    /// The row stays listed, for a moment after which the queue knows the number no more: a crash between this write and
    /// the send is found again.
    pub fn woken(mut self, by: Option<SignOff<'_>>, now: Timestamp) -> Result<Self, Declined> {
        match self.state {
            State::Waiting => {
                self.state = State::Queued;
                self.next_epoch();
                self.wake += 1;
                let by = by.map_or_else(String::new, |sign_off| format!(" by {sign_off}"));
                let what = format!("wake {}{by}", self.wake);
                self.note(now, what);
                self.wait.iter_mut().for_each(|wait| wait.woken_at = Some(now));
            }
            State::Queued if self.is_woken() => self.step += 1,
            state => return Err(Declined(format!("{} is {}, and does not wait", self.id, state.as_str()))),
        }
        // Twice as long each time: it may stand behind others on the queue, and each copy makes the queue longer.
        let since = self.wait.as_ref().and_then(|wait| wait.woken_at).map_or(RESEND_AFTER, |at| now.since(at));
        self.list_on(&WaitsFor::Moment, now + since.max(RESEND_AFTER), now);
        Ok(self)
    }

    /// Lists the row by what it waits for. Events that wait for a moment are due then. The others go in the order of
    /// their places, so that no entity's event is listed before those that stand before it.
    pub(super) fn list_as_waiting(&mut self, wait: &Wait, place: Timestamp, now: Timestamp) {
        self.list_on(&wait.on, wait.until.unwrap_or(place), now);
    }

    fn list_on(&mut self, on: &WaitsFor, at: Timestamp, now: Timestamp) {
        self.listed = Some(on.shard(self.first_digit() % SHARDS));
        self.listed_at = Some(at);
        self.expires_at = (now.max(at) + UNSETTLED_RETENTION).secs();
    }
}
