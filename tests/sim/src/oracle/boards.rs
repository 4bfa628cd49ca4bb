//! What operators have switched, and who knows of it.

use std::time::Duration;

use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::operate::switchboard::Board;

use super::{CLOCKS, Oracle, PAUSED, report, violated};
use crate::partner::Arrival;
use crate::ports::Seat;
use crate::run::BrokenInvariant;
use crate::timeline::Who;

/// A board that was written.
pub(super) struct WrittenBoard {
    at: Timestamp,
    version: u64,
    board: Board,
}

/// What a container knew of the board when it last asked, and whether it was answered.
#[derive(Clone, Copy, Default)]
pub(super) struct KnownBoard {
    version: u64,
    unanswered: bool,
    /// Whether it was ever answered.
    answered_once: bool,
}

/// A worker's claim: when, and by which board it goes.
pub(super) struct ClaimedWork {
    pub(super) at: Timestamp,
    board: u64,
}

/// A board is believed for five seconds. A question that takes longer than this is one without an answer.
const FRESH_FOR: Duration = Duration::from_secs(9);

impl Oracle {
    pub(crate) fn board_written(&self, version: u64, board: &Board, at: Timestamp) {
        if self.blind {
            return;
        }
        self.seen().boards.push(WrittenBoard { at, version, board: board.clone() });
    }

    /// A container starts, and knows nothing.
    pub(crate) fn started(&self, who: Who) {
        let mut seen = self.seen();
        seen.knows.remove(&who);
        seen.slow_calls.forget(who);
        seen.partners.forget(who);
        seen.failed.remove(&who);
    }

    /// A container asked for the board: its version, if there was an answer.
    pub(crate) fn board_read(&self, who: Who, answer: Option<u64>) {
        if self.blind {
            return;
        }
        let mut seen = self.seen();
        let knows = seen.knows.entry(who).or_default();
        knows.unanswered = answer.is_none();
        knows.answered_once |= answer.is_some();
        knows.version = answer.unwrap_or(knows.version);
    }

    /// A worker is about to claim an event, by the board that it knows. It must not be an old one.
    pub(crate) fn claims(&self, event: &EventId, seat: &Seat) {
        if self.blind {
            return;
        }
        let now = seat.scheduler.now();
        let mut seen = self.seen();
        let knows = seen.knows.get(&seat.who).copied().unwrap_or_default();
        seen.begun.insert((event.clone(), seat.who), ClaimedWork { at: now, board: knows.version });
        if !knows.answered_once {
            let what = format!("{} goes by no board at {now}: it never read one", seat.who);
            seat.scheduler.violated(violated(PAUSED, what));
        }
        let due = seen.boards.iter().filter(|written| written.at + FRESH_FOR < now).map(|written| written.version);
        let old = due.max().is_some_and(|due| due > knows.version);
        if old && !knows.unanswered && !seat.scheduler.is_stalled(seat.who) {
            let what = format!("{} goes by board {} at {now}", seat.who, knows.version);
            seat.scheduler.violated(violated(PAUSED, what));
        }
    }

    /// A partner is called for an event. The board that its worker goes by does not hold it back.
    pub(super) fn is_not_paused(&self, event: &EventId, flow: &str, arrival: &Arrival, seat: &Seat) {
        // A pause ends by the worker's clock.
        let now = seat.scheduler.now() + CLOCKS;
        let seen = self.seen();
        let version = seen.begun.get(&(event.clone(), seat.who)).map(|begun| begun.board);
        let written = seen.boards.iter().find(|written| Some(written.version) == version);
        let paused = written.is_some_and(|written| {
            let board = &written.board;
            board.paused_flow(flow, now).is_some() || board.paused_integration(&arrival.integration, now).is_some()
        });
        let what = format!("`{}` is called for {event}, and is paused", arrival.integration);
        let judged: Result<(), BrokenInvariant> = if paused { Err(violated(PAUSED, what)) } else { Ok(()) };
        report(&seat.scheduler, judged);
    }
}
