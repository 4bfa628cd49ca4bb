//! One container's view of a breaker, and the calls that it has to report.

use std::time::Duration;

use super::breaker::{Breaker, BreakerState, CallReport, Phase};
use super::failure_run::FailureRun;
use crate::base::errors::Unavailable;
use crate::base::id::EventId;
use crate::base::time::Timestamp;

/// A container's view of a breaker.
///
/// It counts its own calls, window by window, and reports nothing while the partner is healthy. It reports
/// them once the share of failures among its unreported calls is at the breaker's rate, at
/// any volume. And while the breaker shows half that rate, every container reports, successes included.
///
/// No outage is missed by it: where the share of failures among the reported calls is below the rate, and
/// that among each container's unreported calls too, so is that of all calls together. And it is cheap:
/// a few failures among many calls cause no write, and a failure that happens to be a
/// container's first call of a window costs each of the others one report, and its own container one for the answer after
/// it.
///
/// Where calls are too few for a share, a run of failures shows the outage, see [`FailureRun`].
///
/// It cannot see:
/// - the others' successes, for the three seconds until they learn of the failures. One
///   sick container that fails `min_calls` times in that time opens the breaker for all. That costs
///   every event a wait, and none an attempt;
/// - a burst of failures across the border of two windows, of which each half is below `min_calls`, unless it is a run;
/// - the answers that other containers had, if these have seen no failure: a run may be one of a few containers only;
/// - the calls that a container has not reported when it is frozen or ends.
#[derive(Clone, Debug)]
pub(super) struct BreakerView {
    /// The breaker as it was last seen, or as this container alone has it while the table does not answer.
    pub(super) state: BreakerState,
    /// The moment when the breaker is worth another read.
    ask_at: Timestamp,
    /// The moment until which the table is left alone.
    alone_until: Timestamp,
    /// The start of the window that is counted.
    window: Timestamp,
    /// The window's unreported calls, and how many of these failed.
    untold: (u32, u32),
    /// The moment when successes alone are worth a report.
    tell_at: Timestamp,
    /// The moment until which this container has a reason to ask for the others' view: a failure of its own.
    wary_until: Timestamp,
    /// The unreported failures since the container's last answer.
    failing: Option<FailureRun>,
    /// The moment of the container's last answer.
    answered_at: Timestamp,
}

/// The longest time between two reads of a breaker.
const READ_EVERY: Duration = Duration::from_secs(3);

/// The time between two reports of successes alone. A failure is reported at once, with the successes before it.
const TELL_EVERY: Duration = Duration::from_secs(1);

const LONG_AGO: Timestamp = Timestamp::from_millis(i64::MIN);

impl Default for BreakerView {
    fn default() -> Self {
        BreakerView {
            state: BreakerState::default(),
            ask_at: LONG_AGO,
            alone_until: LONG_AGO,
            window: LONG_AGO,
            untold: (0, 0),
            tell_at: LONG_AGO,
            wary_until: LONG_AGO,
            failing: None,
            answered_at: LONG_AGO,
        }
    }
}

impl BreakerView {
    /// Whether the breaker should be read. The standard one is read only with a reason.
    pub(super) fn stale(&self, breaker: &Breaker, now: Timestamp) -> bool {
        let asks = !breaker.is_standard() || now < self.wary_until || !self.state.phase.is_closed();
        asks && self.ask_at <= now && !self.alone(now)
    }

    /// Whether the table is left alone for now.
    pub(super) fn alone(&self, now: Timestamp) -> bool {
        now < self.alone_until
    }

    /// Takes over the state that the table has.
    pub(super) fn saw(&mut self, state: BreakerState, now: Timestamp) {
        self.adopt(state);
        // An open breaker is never closed before its time.
        self.ask_at = match self.state.phase {
            Phase::Open { until, .. } => until.max(now),
            _ => now + READ_EVERY,
        };
    }

    /// Takes over a state, without the table.
    pub(super) fn adopt(&mut self, state: BreakerState) {
        self.state = state;
        // The calls that were counted before it opened have had their effect.
        if !self.state.phase.is_closed() {
            (self.untold, self.failing) = ((0, 0), None);
        }
    }

    /// Notes that the table did not answer.
    pub(super) fn unreachable(&mut self, now: Timestamp) {
        self.alone_until = now + Unavailable::BACK_OFF;
        self.ask_at = self.alone_until;
    }

    /// Counts a call for an event.
    pub(super) fn count(&mut self, failed: bool, event: Option<EventId>, breaker: &Breaker, now: Timestamp) {
        let window = now.floor(breaker.window);
        if window != self.window {
            (self.window, self.untold) = (window, (0, 0));
        }
        if failed {
            self.wary_until = now + breaker.window;
            let this = FailureRun::begun(event, now);
            self.failing = Some(match self.failing.take() {
                Some(run) => run.followed_by(this, self.answered_at),
                None => this,
            });
        } else {
            self.answered(now);
        }
        self.untold.0 = self.untold.0.saturating_add(1);
        self.untold.1 = self.untold.1.saturating_add(u32::from(failed));
    }

    /// Notes that a call was answered.
    pub(super) fn answered(&mut self, now: Timestamp) {
        (self.failing, self.answered_at) = (None, now);
    }

    /// The last answer that the container knows of, its own or one that was reported.
    pub(super) fn last_answer(&self) -> Timestamp {
        self.answered_at.max(self.state.answered_at)
    }

    /// The failures since the last answer, reported or not.
    pub(super) fn failing(&self) -> Option<FailureRun> {
        self.state.failing_with(self.failing.as_ref(), self.last_answer())
    }

    /// The calls to report now.
    pub(super) fn report(&self, breaker: &Breaker, now: Timestamp) -> Option<CallReport> {
        let (calls, failures) = self.untold;
        let asked_for = self.state.phase.wary(breaker, self.window) && (failures > 0 || self.tell_at <= now);
        // The first answer after failures that were reported, also in a later window.
        let ends_run = self.state.failing.as_ref().is_some_and(|run| run.last < self.answered_at);
        (calls > 0 && (asked_for || ends_run || breaker.bad(calls, failures))).then(|| CallReport {
            window: self.window,
            calls,
            failures,
            failing: self.failing.clone(),
            answered_at: self.answered_at,
        })
    }

    /// Notes that the report was written.
    pub(super) fn told(&mut self, now: Timestamp) {
        (self.untold, self.failing) = ((0, 0), None);
        self.tell_at = now + TELL_EVERY;
    }
}
