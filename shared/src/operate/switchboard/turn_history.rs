//! The latest turns: who turned which switch, and why.

use serde::{Deserialize, Serialize};

use super::{Subject, Turn};
use crate::base::time::Timestamp;
use crate::ledger::SignOff;
use crate::operate::log::LogLevel;

/// The number of turns that a board keeps. With them a board still costs one read unit, unless the reasons are
/// long.
const REMEMBERED: usize = 8;

/// The number of turns that a board keeps at most: a level of the log that is still in force outlasts the others.
const MOST: usize = 2 * REMEMBERED;

/// A turn that is kept for the record. Nothing that is done for an event depends on it, so a reader may know only a part
/// of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// The moment of the turn.
    pub at: Timestamp,
    /// The kind of the turn, in words.
    pub what: String,
    /// The subject of the switch.
    pub of: Subject,
    /// The operator who turned it.
    pub by: String,
    /// The operator's reason.
    pub why: String,
    /// The level of the flow's log from this turn on.
    ///
    /// It stands here, and not among the switches, because an older version that finds a switch which it does not know
    /// pauses what it names. Of this record it reads the part that it knows, and drops the rest when it turns a switch
    /// itself: then the log is as usual again, and nothing else changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<FlowLog>,
}

/// A flow's level of the log, until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowLog {
    /// The level.
    pub level: LogLevel,
    /// The moment from which on the log is as usual.
    pub until: Timestamp,
}

impl Turned {
    pub(super) fn new(turn: &Turn, of: &Subject, sign_off: SignOff<'_>, at: Timestamp) -> Self {
        let log = match turn {
            Turn::Log { level, until } => Some(FlowLog { level: *level, until: *until }),
            Turn::UsualLog => Some(FlowLog { level: LogLevel::Info, until: at }),
            _ => None,
        };
        Self { at, what: turn.to_string(), of: of.clone(), by: sign_off.by.into(), why: sign_off.why.into(), log }
    }

    fn repeats(&self, earlier: &Turned) -> bool {
        *self == Turned { at: self.at, ..earlier.clone() }
    }
}

/// Puts a turn before all others, and forgets the oldest.
///
/// A turn that repeats an earlier one in the same words replaces it. Every worker that sees a breaker open turns
/// the same safe mode on, and the operators' own turns must outlast a night of that. And a write may succeed, be
/// overtaken, and then be reported as lost: the turn is made again, and still stands once.
pub(super) fn remember(turned: &mut Vec<Turned>, newest: Turned) {
    turned.retain(|earlier| !newest.repeats(earlier));
    let now = newest.at;
    turned.insert(0, newest);
    let mut place = 0;
    turned.retain(|turned| {
        place += 1;
        place <= REMEMBERED || (place <= MOST && turned.log.is_some_and(|log| log.until > now))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(why: &str, secs: i64) -> Turned {
        let sign_off = SignOff { by: "ada", why };
        Turned::new(&Turn::Resume, &Subject::All, sign_off, Timestamp::from_secs(secs))
    }

    #[test]
    fn of_nine_turns_the_newest_eight_are_remembered() {
        let mut turned = Vec::new();
        (1..=9).for_each(|n| remember(&mut turned, said(&format!("reason {n}"), n)));
        let expected: Vec<Turned> = (2..=9).rev().map(|n| said(&format!("reason {n}"), n)).collect();
        assert_eq!(turned, expected);
    }

    #[test]
    fn a_level_of_the_log_that_is_in_force_outlasts_other_turns() {
        let mut turned = Vec::new();
        let log = Turn::Log { level: LogLevel::Debug, until: Timestamp::from_secs(100) };
        let sign_off = SignOff { by: "ada", why: "look" };
        remember(&mut turned, Turned::new(&log, &Subject::Flow("leads".into()), sign_off, Timestamp::from_secs(0)));
        (1..=50).for_each(|n| remember(&mut turned, said(&format!("reason {n}"), n)));
        assert_eq!((turned.len(), turned.iter().filter(|turned| turned.log.is_some()).count()), (9, 1));
        remember(&mut turned, said("reason 101", 101));
        assert_eq!((turned.len(), turned.iter().filter(|turned| turned.log.is_some()).count()), (8, 0));
    }

    #[test]
    fn what_is_turned_again_in_the_same_words_is_remembered_once() {
        let mut turned = Vec::new();
        for (why, secs) in [("it has moved", 1), ("it is well", 2), ("it has moved", 1), ("it has moved", 3)] {
            remember(&mut turned, said(why, secs));
        }
        assert_eq!(turned, [said("it has moved", 3), said("it is well", 2)]);
    }
}
