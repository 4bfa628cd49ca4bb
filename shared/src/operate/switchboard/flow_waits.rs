//! The marks of flows of which events wait.
//!
//! A waiting event has left the queue, and with it the queue's order. Its successors must look for it in its entity's
//! line, and a healthy flow must not pay for that. So a flow of which events wait has a mark on the board that every
//! container reads anyway, and only where the mark is are lines looked at.
//!
//! ```text
//!  mark written      7 s later: every container has it      no event leaves      2 h, and nothing waits: mark removed
//!  ├─────────────────┼──────────────────────────────────────┼────────────────────┤
//!                    events may leave the queue             1 h after it was last seen
//! ```
//!
//! The hour between the last two is for a worker that stood still between its look at the board and its write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Board;
use super::cache::FRESH_FOR;
use super::turn::{TRIES, TurnError, read};
use crate::base::document::DocumentStore;
use crate::base::errors::WriteError;
use crate::base::time::Timestamp;
use crate::ledger::WaitsFor;

/// The mark of a flow of which events wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowWaits {
    /// The moment when the mark was set.
    pub since: Timestamp,
    /// The moment when an event of the flow was last seen to wait, or about to: within half an hour.
    pub seen: Timestamp,
    /// What events of the flow wait for, or waited for: the lists that a waker has to read.
    pub on: BTreeSet<WaitsFor>,
}

/// The age of a mark at which every container knows it: the age of a cached board, and two seconds for clocks that
/// differ.
pub const MARK_KNOWN_AFTER: Duration = FRESH_FOR.saturating_add(Duration::from_secs(2));

/// How long after it was last seen a mark lets events leave the queue.
const MARK_COUNTS_FOR: Duration = Duration::from_secs(3600);

/// How long after it was last seen a mark is written anew.
const MARK_RENEWED_AFTER: Duration = Duration::from_secs(1800);

/// How long after it was last seen a mark may be removed.
const MARK_ENDS_AFTER: Duration = Duration::from_secs(2 * 3600);

impl FlowWaits {
    /// Whether every container knows the mark, and none removes it soon: an event may leave the queue for this.
    pub fn lets_leave(&self, on: &WaitsFor, now: Timestamp) -> bool {
        self.counts(now) && self.since + MARK_KNOWN_AFTER <= now && self.names(on)
    }

    /// Whether the mark is set for this, and need not be written anew.
    pub fn stands_for(&self, on: &WaitsFor, now: Timestamp) -> bool {
        self.names(on) && !self.is_due(now)
    }

    /// Whether the mark should be written anew while events wait.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.seen + MARK_RENEWED_AFTER <= now
    }

    /// Whether the mark may be removed, if nothing waits any more.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.seen + MARK_ENDS_AFTER <= now
    }

    /// Whether a waker reads this list. Wherever a mark is, it reads that of moments.
    fn names(&self, on: &WaitsFor) -> bool {
        *on == WaitsFor::Moment || self.on.contains(on)
    }

    fn counts(&self, now: Timestamp) -> bool {
        now < self.seen + MARK_COUNTS_FOR
    }
}

impl Board {
    /// The marks of flows of which events wait, or waited not long ago.
    pub fn waits(&self) -> &BTreeMap<String, FlowWaits> {
        &self.waits
    }

    /// The board with the mark that events of a flow wait for this. A mark that counts keeps its moment, and one that is
    /// not due is not written anew.
    #[must_use]
    pub fn with_waits(&self, flow: &str, on: &WaitsFor, now: Timestamp) -> Board {
        let mut board = self.clone();
        let new = || FlowWaits { since: now, seen: now, on: BTreeSet::new() };
        let mark = board.waits.entry(flow.to_owned()).or_insert_with(new);
        if !mark.counts(now) {
            mark.since = now;
        }
        // Every deferral of the flow comes here: only one in half an hour writes.
        if mark.is_due(now) {
            mark.seen = now;
        }
        mark.on.insert(on.clone());
        board
    }

    /// The board without the mark of a flow, if that mark has ended.
    #[must_use]
    pub fn without_waits(&self, flow: &str, now: Timestamp) -> Board {
        let mut board = self.clone();
        board.waits.retain(|name, mark| name != flow || !mark.has_ended(now));
        board
    }
}

/// Changes the marks of the stored board, under its version.
pub async fn change_waits(
    boards: &dyn DocumentStore<Board>,
    change: impl Fn(&Board) -> Board + Send + Sync,
) -> Result<(), TurnError> {
    for _ in 0..TRIES {
        let (board, version) = read(boards).await?;
        let next = change(&board);
        if next == board {
            return Ok(());
        }
        match boards.put(&next, version).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Fenced | WriteError::NewerFormat) => continue,
            Err(WriteError::Unavailable(unavailable)) => return Err(unavailable.into()),
        }
    }
    Err(TurnError::Crowded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_794_819_600 + secs)
    }

    fn mark(board: &Board) -> &FlowWaits {
        &board.waits()["orders"]
    }

    #[test]
    fn an_event_leaves_only_under_a_mark_that_all_know_and_that_names_its_list() {
        let crm = WaitsFor::Integration("crm".into());
        let board = Board::default().with_waits("orders", &WaitsFor::Moment, at(0));
        let may = |secs| mark(&board).lets_leave(&WaitsFor::Moment, at(secs));
        assert_eq!([0, 6, 7, 3599, 3600].map(may), [false, false, true, true, false]);
        assert!(!mark(&board).lets_leave(&crm, at(10)), "nobody would read that list");
        assert!(mark(&board.with_waits("orders", &crm, at(10))).lets_leave(&crm, at(10)), "the mark is known");
    }

    #[test]
    fn a_mark_that_counts_no_more_is_known_anew() {
        let board = Board::default().with_waits("orders", &WaitsFor::Moment, at(0));
        let renewed = board.with_waits("orders", &WaitsFor::Moment, at(3599));
        assert!(mark(&renewed).lets_leave(&WaitsFor::Moment, at(7000)));
        let again = board.with_waits("orders", &WaitsFor::Moment, at(3600));
        assert!(
            !mark(&again).lets_leave(&WaitsFor::Moment, at(3606))
                && mark(&again).lets_leave(&WaitsFor::Moment, at(3607))
        );
    }

    #[test]
    fn of_many_deferrals_under_a_mark_none_writes_until_it_is_due() {
        let crm = WaitsFor::Integration("crm".into());
        let board = Board::default().with_waits("orders", &crm, at(0));
        for secs in [0, 1, 7, 1799] {
            assert_eq!(board.with_waits("orders", &crm, at(secs)), board, "{secs}");
            assert!(mark(&board).stands_for(&crm, at(secs)), "{secs}");
        }
        assert!(!mark(&board).stands_for(&WaitsFor::Flow("orders".into()), at(1)), "nobody would read that list");
        assert!(!mark(&board).stands_for(&crm, at(1800)));
        let renewed = board.with_waits("orders", &crm, at(1800));
        assert_eq!((mark(&renewed).since, mark(&renewed).seen), (at(0), at(1800)));
    }

    #[test]
    fn a_mark_is_removed_an_hour_after_it_let_the_last_event_leave() {
        let board = Board::default().with_waits("orders", &WaitsFor::Moment, at(0));
        assert_eq!(board.without_waits("orders", at(7199)), board);
        assert!(board.without_waits("orders", at(7200)).waits().is_empty());
    }
}
