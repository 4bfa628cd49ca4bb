//! The latest turns, for whoever asks at night who turned a switch, and why.

use serde::{Deserialize, Serialize};

use super::{Subject, Turn};
use crate::base::time::Timestamp;
use crate::ledger::SignOff;

/// How many turns a board remembers. With them it is still one unit of reading, unless they are wordy.
const REMEMBERED: usize = 8;

/// A turn that is remembered. Nothing goes by it, so a reader may know only a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// When.
    pub at: Timestamp,
    /// What was turned, in words.
    pub what: String,
    /// What the switch is of.
    pub of: Subject,
    /// Who turned it.
    pub by: String,
    /// Why.
    pub why: String,
}

impl Turned {
    pub(super) fn new(turn: &Turn, of: &Subject, sign_off: SignOff<'_>, at: Timestamp) -> Self {
        Self { at, what: turn.to_string(), of: of.clone(), by: sign_off.by.into(), why: sign_off.why.into() }
    }

    fn repeats(&self, earlier: &Turned) -> bool {
        *self == Turned { at: self.at, ..earlier.clone() }
    }
}

/// Remembers a turn before all others, and forgets the oldest.
///
/// What is turned again in the same words is remembered as of the last time only. Every worker that sees a
/// breaker open turns the same safe mode on, and what people said must outlast a night of that. And a
/// write may land, be overtaken, and then be told as lost: the turn is made again, and still is one.
pub(super) fn remember(turned: &mut Vec<Turned>, newest: Turned) {
    turned.retain(|earlier| !newest.repeats(earlier));
    turned.insert(0, newest);
    turned.truncate(REMEMBERED);
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
    fn what_is_turned_again_in_the_same_words_is_remembered_once() {
        let mut turned = Vec::new();
        for (why, secs) in [("it has moved", 1), ("it is well", 2), ("it has moved", 1), ("it has moved", 3)] {
            remember(&mut turned, said(why, secs));
        }
        assert_eq!(turned, [said("it has moved", 3), said("it is well", 2)]);
    }
}
