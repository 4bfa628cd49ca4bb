//! The circuit breaker: a partner's health as all containers share it, and how it changes.

use async_trait::async_trait;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failure_run::FailureRun;
use super::gate::CallEnd;
use crate::base::errors::Unavailable;
use crate::base::time::{DurationText, Timestamp};
use crate::base::wrong::Wrong;

/// The configuration of a breaker: when calls to an integration stop, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Breaker {
    /// The time over which calls are counted.
    #[serde(with = "DurationText")]
    pub window: Duration,
    /// The fewest calls in a window at which the breaker may open.
    pub min_calls: u32,
    /// The share of failures, from 0 to 1, at which the breaker opens.
    pub error_rate: f64,
    /// How long the breaker stays open: no calls are made.
    #[serde(with = "DurationText")]
    pub open_for: Duration,
    /// The number of calls that are tried after that. If all succeed the breaker closes, and with the first failure it
    /// opens again.
    pub probes: u32,
}

impl Breaker {
    /// The breaker of an integration that names none. It costs a healthy partner nothing, not even a read: a container
    /// asks for the others' view only once it has seen a failure itself.
    pub const STANDARD: Breaker = Breaker {
        window: Duration::from_secs(60),
        min_calls: 10,
        error_rate: 0.5,
        open_for: Duration::from_secs(30),
        probes: 1,
    };

    /// Whether this is the breaker of an integration that names none.
    pub fn is_standard(&self) -> bool {
        *self == Self::STANDARD
    }

    /// The mistakes in the breaker's configuration.
    pub fn check(&self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        if !(MIN_WINDOW..=MAX_WINDOW).contains(&self.window) {
            wrong.push(Wrong::at("/window", "breaker.window must be from 5s to 10m"));
        }
        if self.min_calls == 0 {
            wrong.push(Wrong::at("/min_calls", "breaker.min_calls must be at least 1"));
        }
        if !(self.error_rate > 0.0 && self.error_rate <= 1.0) {
            wrong.push(Wrong::at("/error_rate", "breaker.error_rate must be more than 0 and at most 1"));
        }
        if !(MIN_OPEN..=MAX_OPEN).contains(&self.open_for) {
            wrong.push(Wrong::at("/open_for", "breaker.open_for must be from 1s to 1h"));
        }
        if !(1..=MAX_PROBES).contains(&self.probes) {
            wrong.push(Wrong::at("/probes", format!("breaker.probes must be from 1 to {MAX_PROBES}")));
        }
        wrong
    }

    /// How long the breaker stays open after a probe that has cost its event, where so many probes before it have: twice
    /// as long each time. Each of them is an event about which a human has to find out.
    fn open_after(&self, lost: u32) -> Duration {
        (self.open_for * (2 << lost.min(MAX_DOUBLINGS))).min(SELDOM).max(self.open_for)
    }

    /// Whether the share of failures is high enough to open the breaker, whatever the volume.
    pub(super) fn bad(&self, calls: u32, failures: u32) -> bool {
        failures > 0 && f64::from(failures) >= self.error_rate * f64::from(calls)
    }
}

/// The shortest window. Containers learn of each other's failures within seconds: a shorter one would be over by
/// then.
const MIN_WINDOW: Duration = Duration::from_secs(5);
const MAX_WINDOW: Duration = Duration::from_secs(600);

/// How seldom a partner is probed at least, where each probe costs an event.
const SELDOM: Duration = Duration::from_secs(15 * 60);

/// Enough to get from the shortest `open_for` to [`SELDOM`].
const MAX_DOUBLINGS: u32 = 9;

const MIN_OPEN: Duration = Duration::from_secs(1);
const MAX_OPEN: Duration = Duration::from_secs(3600);

/// The most probes. More than this would be load, and not a probe.
const MAX_PROBES: u32 = 10;

/// A breaker's state, as all containers share it.
///
/// Each write replaces the whole state under the condition that it is still the version that was seen, so every
/// change is one of the functions below, made on a known state. Concurrent writes do fail one
/// another's condition, but one of them always lands, and they are rare: a healthy partner causes no writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerState {
    /// The version: a number that no other write has drawn; zero if the state was never written.
    pub version: u64,
    /// The breaker's phase.
    pub phase: Phase,
    /// The moment until which the partner counts as slow: a call took long, and held its batch.
    #[serde(default = "never")]
    pub slow_until: Timestamp,
    /// The last reported failures in a row.
    #[serde(default)]
    pub failing: Option<FailureRun>,
    /// The moment of the last answer, as far as one was reported.
    #[serde(default = "never")]
    pub answered_at: Timestamp,
}

/// What a container reports of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallReport {
    /// The start of the window in which the calls were made.
    pub(super) window: Timestamp,
    /// The number of calls.
    pub(super) calls: u32,
    /// The number of these calls that failed.
    pub(super) failures: u32,
    /// The failures since the last answer, those of earlier windows included.
    pub(super) failing: Option<FailureRun>,
    /// The moment of the last answer that the container had.
    pub(super) answered_at: Timestamp,
}

/// The phase of a breaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The breaker lets every call through.
    Closed {
        /// The start of the last window in which a container reported calls.
        window: Timestamp,
        /// The number of calls that were reported for the window.
        calls: u32,
        /// The number of these calls that failed.
        failures: u32,
    },
    /// The breaker lets no call through.
    Open {
        /// The moment when probes may be sent.
        until: Timestamp,
        /// The number of probes that have cost their events, since the breaker was closed.
        #[serde(default)]
        lost: u32,
    },
    /// The breaker lets some calls through as probes.
    HalfOpen {
        /// The number of this round of probes.
        round: u64,
        /// The number of probes that were sent.
        sent: u32,
        /// The number of probes that succeeded.
        passed: u32,
        /// The moment by which a probe that has not come back has crashed.
        until: Timestamp,
        /// The number of probes that have cost their events, since the breaker was closed.
        #[serde(default)]
        lost: u32,
    },
}

/// The result of a conditional write to a breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// The new state is written.
    Written,
    /// The breaker's version has changed. This is its state now, if the store returned it.
    Moved(Option<BreakerState>),
}

/// The circuit breakers that all containers share.
#[async_trait]
pub trait Breakers: Send + Sync {
    /// The breaker as it was a moment ago.
    async fn read(&self, breaker: &str) -> Result<Option<BreakerState>, Unavailable>;

    /// Writes `next` in the place of the version that was seen, where zero is none. One conditional
    /// write, no read. A write that lands twice counts as written.
    async fn swap(&self, breaker: &str, seen: u64, next: &BreakerState, now: Timestamp)
    -> Result<Swapped, Unavailable>;
}

/// A breaker's answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BreakerEntry {
    /// The call may be made.
    Free,
    /// The call may be made as a probe, once this phase is written.
    Probe(Phase),
    /// The call must wait this long.
    Wait(Duration),
}

/// The longest wait while probes are out: they come back any moment.
const PROBES_ARE_OUT: Duration = Duration::from_secs(3);

/// Before any partner was slow.
const fn never() -> Timestamp {
    Timestamp::from_millis(0)
}

impl Default for BreakerState {
    fn default() -> Self {
        BreakerState { version: 0, phase: Phase::healthy(), slow_until: never(), failing: None, answered_at: never() }
    }
}

impl BreakerState {
    /// The state with another phase. A breaker that closes has had an answer, and one that is not closed counts nothing.
    pub(super) fn in_phase(&self, phase: Phase, now: Timestamp) -> BreakerState {
        let closes = phase.is_closed() && !self.phase.is_closed();
        let answered_at = if closes { now } else { self.answered_at };
        BreakerState { phase, failing: None, answered_at, ..self.clone() }
    }

    /// The state after these calls, unless their window is over. It opens by the share of failures in a window, or by a run
    /// of failures, however long that takes.
    pub(super) fn counted(&self, report: &CallReport, breaker: &Breaker, now: Timestamp) -> Option<BreakerState> {
        let phase = self.phase.counted(report.window, (report.calls, report.failures), breaker, now)?;
        let answered_at = self.answered_at.max(report.answered_at);
        let failing = self.failing_with(report.failing.as_ref(), answered_at);
        if !phase.is_closed() || failing.as_ref().is_some_and(FailureRun::shows_outage) {
            return Some(BreakerState { answered_at, ..self.in_phase(Phase::opened(breaker, now), now) });
        }
        Some(BreakerState { phase, failing, answered_at, ..self.clone() })
    }

    /// The failures in a row, with more that are not reported yet, as far as no answer came since.
    pub(super) fn failing_with(&self, more: Option<&FailureRun>, answered_at: Timestamp) -> Option<FailureRun> {
        let before = self.failing.clone().filter(|run| run.last > answered_at);
        match (before, more.cloned()) {
            (Some(before), Some(more)) => Some(before.followed_by(more, answered_at)),
            (before, more) => more.or(before),
        }
    }
}

impl Phase {
    /// The closed phase, with nothing counted.
    pub const fn healthy() -> Phase {
        Phase::Closed { window: Timestamp::from_millis(0), calls: 0, failures: 0 }
    }

    /// The phase of a breaker that opens now.
    pub(super) fn opened(breaker: &Breaker, now: Timestamp) -> Phase {
        Phase::Open { until: now + breaker.open_for, lost: 0 }
    }

    /// Whether the breaker lets every call through.
    pub fn is_closed(&self) -> bool {
        matches!(self, Phase::Closed { .. })
    }

    /// Whether all containers should report their calls in the window that starts there: the reported counts are
    /// halfway to opening the breaker.
    pub(super) fn wary(&self, breaker: &Breaker, start: Timestamp) -> bool {
        match *self {
            Phase::Closed { window, calls, failures } => {
                window == start && breaker.bad(calls, failures.saturating_mul(2))
            }
            _ => false,
        }
    }

    /// Whether a call may be made. A probe is back after `hold`, and `round` is a new number.
    pub(super) fn entry(&self, breaker: &Breaker, hold: Duration, round: u64, now: Timestamp) -> BreakerEntry {
        let first = |lost| BreakerEntry::Probe(Phase::HalfOpen { round, sent: 1, passed: 0, until: now + hold, lost });
        match *self {
            Phase::Closed { .. } => BreakerEntry::Free,
            Phase::Open { until, .. } if now < until => BreakerEntry::Wait(until.since(now)),
            Phase::Open { lost, .. } => first(lost),
            Phase::HalfOpen { until, lost, .. } if until <= now => first(lost),
            Phase::HalfOpen { round, sent, passed, until, lost } if sent < breaker.probes => {
                let until = until.max(now + hold);
                BreakerEntry::Probe(Phase::HalfOpen { round, sent: sent + 1, passed, until, lost })
            }
            Phase::HalfOpen { until, .. } => BreakerEntry::Wait(until.since(now).min(PROBES_ARE_OUT)),
        }
    }

    /// The phase after a probe of this round has come back. A probe of an earlier round changes nothing.
    pub(super) fn probed(&self, of: u64, ended: CallEnd, breaker: &Breaker, now: Timestamp) -> Option<Phase> {
        let Phase::HalfOpen { round, sent, passed, until, lost } = *self else { return None };
        match ended {
            _ if of != round => None,
            CallEnd::Failure | CallEnd::CredentialsRejected | CallEnd::NoToken => {
                Some(Phase::Open { until: now + breaker.open_for, lost })
            }
            CallEnd::LostEvent => {
                Some(Phase::Open { until: now + breaker.open_after(lost), lost: lost.saturating_add(1) })
            }
            CallEnd::Success if passed + 1 >= breaker.probes => Some(Phase::healthy()),
            CallEnd::Success => Some(Phase::HalfOpen { round, sent, passed: passed + 1, until, lost }),
            // It says nothing about the partner, so another probe goes in its place.
            CallEnd::Neutral => Some(Phase::HalfOpen { round, sent: sent.saturating_sub(1), passed, until, lost }),
        }
    }

    /// The phase after so many more calls in the window that starts there, unless that window is over.
    pub(super) fn counted(
        &self,
        start: Timestamp,
        (more_calls, more_failures): (u32, u32),
        breaker: &Breaker,
        now: Timestamp,
    ) -> Option<Phase> {
        let (calls, failures) = match *self {
            Phase::Closed { window, .. } if window < start => (more_calls, more_failures),
            Phase::Closed { window, calls, failures } if window == start => {
                (calls.saturating_add(more_calls), failures.saturating_add(more_failures))
            }
            _ => return None,
        };
        if calls >= breaker.min_calls && breaker.bad(calls, failures) {
            return Some(Phase::opened(breaker, now));
        }
        Some(Phase::Closed { window: start, calls, failures })
    }
}
