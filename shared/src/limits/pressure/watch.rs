//! What one container knows of a breaker, and what it has to say.

use std::time::Duration;

use super::breaker::{Breaker, BreakerState, Phase};
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

/// A container's view of a breaker.
///
/// It counts its own calls, window by window, and keeps them to itself while all is well. It reports
/// them once the share of failures among those that it has not reported is at the breaker's rate, at
/// any volume. And while the breaker shows half that rate, everybody reports, successes included.
///
/// No trouble is missed by it: where the share of failures of what was reported is below the rate, and
/// that of what each container keeps to itself too, so is that of all calls together. And it is cheap:
/// a few failures among many calls are written by nobody, and a failure that happens to be a
/// container's first call of a window costs each of the others one report.
///
/// What it cannot see:
/// - the others' successes, for the three seconds until they learn that somebody is in trouble. One
///   sick container that fails `min_calls` times in that time opens the breaker for all. That costs
///   everybody a wait, and nobody an attempt;
/// - a burst of failures across the border of two windows, of which each half is below `min_calls`;
/// - what a container has not reported when it is frozen or ends.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// The breaker when it was last seen, or as this container alone has it while nobody can be asked.
    pub(super) state: BreakerState,
    /// When it is worth asking again.
    ask_at: Timestamp,
    /// Until when the table is left alone.
    alone_until: Timestamp,
    /// The window that is counted, as its start.
    window: Timestamp,
    /// Its calls that were not reported, and how many of these failed.
    untold: (u32, u32),
    /// When successes alone are worth a report.
    tell_at: Timestamp,
}

/// How old a container's knowledge may be.
const READ_EVERY: Duration = Duration::from_secs(3);

/// A failure is reported at once, with the successes before it; these alone can wait.
const TELL_EVERY: Duration = Duration::from_secs(1);

const LONG_AGO: Timestamp = Timestamp::from_millis(i64::MIN);

impl Default for Watch {
    fn default() -> Self {
        Watch {
            state: BreakerState::default(),
            ask_at: LONG_AGO,
            alone_until: LONG_AGO,
            window: LONG_AGO,
            untold: (0, 0),
            tell_at: LONG_AGO,
        }
    }
}

impl Watch {
    /// Whether the breaker should be read.
    pub(super) fn stale(&self, now: Timestamp) -> bool {
        self.ask_at <= now && !self.alone(now)
    }

    /// Whether the table is left alone for now.
    pub(super) fn alone(&self, now: Timestamp) -> bool {
        now < self.alone_until
    }

    /// Takes over what the table has.
    pub(super) fn saw(&mut self, state: BreakerState, now: Timestamp) {
        self.adopt(state);
        // Nobody closes a breaker that is open before its time.
        self.ask_at = match self.state.phase {
            Phase::Open { until } => until.max(now),
            _ => now + READ_EVERY,
        };
    }

    /// Goes on without the table.
    pub(super) fn adopt(&mut self, state: BreakerState) {
        self.state = state;
        // What was counted before it opened has been acted upon.
        if !self.state.phase.is_closed() {
            self.untold = (0, 0);
        }
    }

    /// The table did not answer.
    pub(super) fn unreachable(&mut self, now: Timestamp) {
        self.alone_until = now + Unavailable::BACK_OFF;
        self.ask_at = self.alone_until;
    }

    /// Counts a call.
    pub(super) fn count(&mut self, failed: bool, breaker: &Breaker, now: Timestamp) {
        let window = now.floor(breaker.window);
        if window != self.window {
            (self.window, self.untold) = (window, (0, 0));
        }
        self.untold.0 = self.untold.0.saturating_add(1);
        self.untold.1 = self.untold.1.saturating_add(u32::from(failed));
    }

    /// What is to be reported now, of which window.
    pub(super) fn report(&self, breaker: &Breaker, now: Timestamp) -> Option<(Timestamp, (u32, u32))> {
        let (calls, failures) = self.untold;
        let asked_for = self.state.phase.wary(breaker, self.window) && (failures > 0 || self.tell_at <= now);
        (calls > 0 && (asked_for || breaker.bad(calls, failures))).then_some((self.window, self.untold))
    }

    /// What was to be reported landed.
    pub(super) fn told(&mut self, now: Timestamp) {
        self.untold = (0, 0);
        self.tell_at = now + TELL_EVERY;
    }
}
