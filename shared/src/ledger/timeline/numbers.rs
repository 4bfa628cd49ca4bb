//! The numbers of a row as they were at each line of its history.

use super::line::HistoryLine;
use crate::ledger::Row;

/// The numbers of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RowNumbers {
    pub(super) epoch: u64,
    pub(super) replay: u32,
    pub(super) wake: u32,
}

/// The numbers after each line. The last are the row's own, so they are counted from the end; before a gap, from the
/// beginning.
pub(super) fn numbers(row: &Row, lines: &[HistoryLine<'_>]) -> Vec<RowNumbers> {
    let raises = raises(lines);
    let gap = lines.iter().position(|line| matches!(line, HistoryLine::LeftOut(_)));
    let start = gap.unwrap_or_default();
    let mut numbers = Vec::with_capacity(lines.len());
    if gap.is_some() {
        follow(RowNumbers::default(), &lines[..start], &raises[..start], &mut numbers);
    }
    let rest = &lines[start..];
    follow(before(row, rest, &raises[start..]), rest, &raises[start..], &mut numbers);
    numbers
}

fn follow(mut at: RowNumbers, lines: &[HistoryLine<'_>], raises: &[bool], numbers: &mut Vec<RowNumbers>) {
    for (line, raises) in lines.iter().zip(raises) {
        at.epoch += u64::from(*raises);
        match line {
            HistoryLine::Replayed(replay, _) => (at.replay, at.wake) = (*replay, 0),
            HistoryLine::Approved(_) => (at.replay, at.wake) = (at.replay + 1, 0),
            HistoryLine::Woken(wake, _) => at.wake = *wake,
            _ => (),
        }
        numbers.push(at);
    }
}

/// The numbers before these last lines of a row's history.
fn before(row: &Row, lines: &[HistoryLine<'_>], raises: &[bool]) -> RowNumbers {
    let count = |lines: &[bool]| lines.iter().filter(|raises| **raises).count();
    let sent = |line: &&HistoryLine<'_>| matches!(line, HistoryLine::Replayed(..) | HistoryLine::Approved(_));
    let replays = lines.iter().filter(sent).count();
    let first = lines.iter().find(|line| sent(line) || matches!(line, HistoryLine::Woken(..)));
    RowNumbers {
        epoch: row.epoch.saturating_sub(count(raises) as u64),
        replay: row.replay.saturating_sub(u32::try_from(replays).unwrap_or(u32::MAX)),
        wake: match first {
            Some(HistoryLine::Woken(wake, _)) => wake.saturating_sub(1),
            Some(_) => 0,
            None => row.wake,
        },
    }
}

/// Which lines raised the epoch.
fn raises(lines: &[HistoryLine<'_>]) -> Vec<bool> {
    let mut held = false;
    let mut raises = Vec::with_capacity(lines.len());
    for (place, line) in lines.iter().enumerate() {
        raises.push(match line {
            HistoryLine::Claimed | HistoryLine::Approved(_) | HistoryLine::Woken(..) | HistoryLine::Ended(_) => true,
            // An event that was invalid is replayed as another one, which begins with that replay.
            HistoryLine::Replayed(..) => place != 1,
            // Its worker did not bury it: it was lost, or there was none. What was never valid had no worker at all.
            HistoryLine::Dead(reason) => *reason == CRASHED || !held && *reason != INVALID,
            _ => false,
        });
        held = match line {
            // Behind a gap it is not known. Whoever buries an event is its worker, as a rule.
            HistoryLine::Claimed | HistoryLine::LeftOut(_) => true,
            HistoryLine::Tried(_) | HistoryLine::Note => held,
            _ => false,
        };
    }
    raises
}

/// The reason of the death that no worker wrote down, although one held the event.
const CRASHED: &str = "crashed";

/// The reason of the death of an event that broke its flow's schema.
const INVALID: &str = "invalid";
