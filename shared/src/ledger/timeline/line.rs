//! A line of the history, read back: what a row does not say in fields of its own, its history says in words.

use crate::ledger::WORKER_LOST;
use crate::ledger::lease::CLAIMED;
use crate::ledger::parked::{PARKED, REPLAY};

/// The beginning of the line of a call whose worker was lost, behind the effect and the attempt. The claim follows.
const LOST: &str = "no outcome: the worker of claim ";

/// The end of that line.
const WAS_LOST: &str = " was lost";

/// What an attempt says whose worker was lost under this claim.
pub(crate) fn lost_with(claim: u64) -> String {
    format!("{LOST}{claim}{WAS_LOST}")
}

/// The line that stands in the history for so many that it has no room for.
pub(crate) fn left_out(lines: u32) -> String {
    format!("({lines} {} left out)", if lines == 1 { "line" } else { "lines" })
}

/// How many lines this one stands for, if it stands for others.
pub(crate) fn lines_left_out(what: &str) -> Option<u32> {
    what.strip_prefix('(')?.strip_suffix(" left out)")?.split_once(" line")?.0.parse().ok()
}

/// A line of the history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum HistoryLine<'h> {
    /// The intake accepted the event.
    Accepted,
    /// A worker claimed the event.
    Claimed,
    /// A worker had an outcome of an attempt, or none, and says which.
    Tried(TriedLine<'h>),
    /// A worker closed its lease, for now or for good.
    Closed(Close, &'h str),
    /// A worker buried the event; or whoever took its letter, if none had. The reason follows.
    Dead(&'h str),
    /// The letter was taken in.
    Parked,
    /// An operator, or the schedule, sent the event again: the number, and the sign-off.
    Replayed(u32, &'h str),
    /// A human approved what was asked.
    Approved(&'h str),
    /// The event was woken: the number, and the sign-off if an operator did it.
    Woken(u32, Option<&'h str>),
    /// The event was ended while no worker had it.
    Ended(&'h str),
    /// So many lines were left out here.
    LeftOut(u32),
    /// A note that begins and ends nothing.
    Note,
}

/// An attempt of an effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TriedLine<'h> {
    pub(super) effect: &'h str,
    pub(super) attempt: u32,
    pub(super) outcome: TriedOutcome,
    /// What came of it, in words.
    pub(super) said: &'h str,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TriedOutcome {
    Done,
    Failed,
    Unknown,
    /// The partner was asked, and said that nothing happened.
    FoundAbsent,
    /// The partner was asked, and did not say what happened.
    FoundUnknown,
    /// The worker of this claim was lost before it wrote an outcome.
    Lost(u64),
    /// The event ends for a worker that was lost earlier: nothing was tried here.
    NotTried,
}

/// How a worker closed its lease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Close {
    /// For good, and well.
    Settled,
    /// Until its next try, on the queue.
    Retry,
    /// Until what it waits for is there, on the queue.
    Deferred,
    /// Until it is woken.
    Waiting,
    /// Until a human answers.
    AwaitingApproval,
}

impl<'h> HistoryLine<'h> {
    /// Reads a line.
    pub(super) fn read(what: &'h str) -> Self {
        match what {
            "accepted" => return HistoryLine::Accepted,
            CLAIMED => return HistoryLine::Claimed,
            "succeeded" => return HistoryLine::Closed(Close::Settled, what),
            PARKED => return HistoryLine::Parked,
            // It comes before the closing lines: nobody held the event then.
            "noop: the approval expired without an answer" => return HistoryLine::Ended(what),
            _ => (),
        }
        let started = |with: &str| what.strip_prefix(with);
        None.or_else(|| lines_left_out(what).map(HistoryLine::LeftOut))
            .or_else(|| {
                numbered(started(REPLAY)?).map(|(number, by)| HistoryLine::Replayed(number, by.unwrap_or_default()))
            })
            .or_else(|| numbered(started("wake ")?).map(|(number, by)| HistoryLine::Woken(number, by)))
            .or_else(|| started("approved by ").map(HistoryLine::Approved))
            .or_else(|| started("dead: ").map(HistoryLine::Dead))
            .or_else(|| started("retry in ").map(|_| HistoryLine::Closed(Close::Retry, what)))
            .or_else(|| started("deferred for ").map(|_| HistoryLine::Closed(Close::Deferred, what)))
            .or_else(|| started("waiting for ").map(|_| HistoryLine::Closed(Close::Waiting, what)))
            .or_else(|| started("awaiting approval: ").map(|_| HistoryLine::Closed(Close::AwaitingApproval, what)))
            .or_else(|| started("noop: ").map(|_| HistoryLine::Closed(Close::Settled, what)))
            .or_else(|| started("rejected by ").or(started("dropped by ")).map(|_| HistoryLine::Ended(what)))
            .or_else(|| TriedLine::read(what).map(HistoryLine::Tried))
            .unwrap_or(HistoryLine::Note)
    }
}

/// A number, and who did it, if that is said.
fn numbered(text: &str) -> Option<(u32, Option<&str>)> {
    match text.split_once(" by ") {
        Some((number, by)) => Some((number.parse().ok()?, Some(by))),
        None => Some((text.parse().ok()?, None)),
    }
}

impl<'h> TriedLine<'h> {
    fn read(what: &'h str) -> Option<Self> {
        let (attempt, said) = what.split_once(": ")?;
        let (effect, attempt) = attempt.split_once(' ')?;
        let attempt = attempt.parse().ok()?;
        Some(TriedLine { effect, attempt, outcome: TriedOutcome::read(said), said })
    }
}

impl TriedOutcome {
    fn read(said: &str) -> Self {
        let lost = || said.strip_prefix(LOST)?.strip_suffix(WAS_LOST)?.parse().ok();
        match said.strip_prefix("unknown: ") {
            Some(WORKER_LOST) => TriedOutcome::NotTried,
            Some(cause) if cause.starts_with(LOOKED_UP) => TriedOutcome::FoundUnknown,
            Some(_) => TriedOutcome::Unknown,
            None if said == "done" => TriedOutcome::Done,
            None if said.starts_with(LOOKED_UP) => TriedOutcome::FoundAbsent,
            None => lost().map_or(TriedOutcome::Failed, TriedOutcome::Lost),
        }
    }
}

/// What stands before the answer to whether a call happened.
const LOOKED_UP: &str = "looked up: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_meant() {
        let tried = |effect, attempt, outcome, said| HistoryLine::Tried(TriedLine { effect, attempt, outcome, said });
        for (what, line) in [
            ("accepted", HistoryLine::Accepted),
            ("crm 2: done", tried("crm", 2, TriedOutcome::Done, "done")),
            ("crm 2: answered 422 (E1)", tried("crm", 2, TriedOutcome::Failed, "answered 422 (E1)")),
            ("crm 1: unknown: no answer", tried("crm", 1, TriedOutcome::Unknown, "unknown: no answer")),
            ("retry 1: done", tried("retry", 1, TriedOutcome::Done, "done")),
            ("replay 2 by ada: by the book", HistoryLine::Replayed(2, "ada: by the book")),
            ("wake 3", HistoryLine::Woken(3, None)),
            ("wake 3 by ada: it is morning", HistoryLine::Woken(3, Some("ada: it is morning"))),
            ("approved by slack:U0ADA: yes", HistoryLine::Approved("slack:U0ADA: yes")),
            ("retry in 500 ms", HistoryLine::Closed(Close::Retry, "retry in 500 ms")),
            ("noop: consent", HistoryLine::Closed(Close::Settled, "noop: consent")),
            (
                "noop: the approval expired without an answer",
                HistoryLine::Ended("noop: the approval expired without an answer"),
            ),
            ("dead: terminal", HistoryLine::Dead("terminal")),
            ("enriched: place", HistoryLine::Note),
            ("crm happened, says ada: it is there", HistoryLine::Note),
        ] {
            assert_eq!(HistoryLine::read(what), line, "{what}");
        }
    }

    #[test]
    fn what_this_module_writes_it_reads() {
        for lines in [1, 2, 700] {
            assert_eq!(HistoryLine::read(&left_out(lines)), HistoryLine::LeftOut(lines));
        }
        let said = lost_with(7);
        let what = format!("crm 1: {said}");
        let outcome = TriedOutcome::Lost(7);
        assert_eq!(
            HistoryLine::read(&what),
            HistoryLine::Tried(TriedLine { effect: "crm", attempt: 1, outcome, said: &said })
        );
    }
}
