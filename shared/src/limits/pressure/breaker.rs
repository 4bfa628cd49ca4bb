//! The circuit breaker: what all containers know of a partner's health, and how it changes.

use async_trait::async_trait;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::gate::CallEnd;
use crate::base::errors::Unavailable;
use crate::base::time::{DurationText, Timestamp};
use crate::base::wrong::Wrong;

/// When an integration is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Breaker {
    /// The time over which calls are counted.
    #[serde(with = "DurationText")]
    pub window: Duration,
    /// Fewer calls than this in a window say nothing.
    pub min_calls: u32,
    /// The share of failures, from 0 to 1, at which it opens.
    pub error_rate: f64,
    /// How long nobody calls.
    #[serde(with = "DurationText")]
    pub open_for: Duration,
    /// How many calls are then tried. If all succeed it closes, and with the first failure it opens
    /// again.
    pub probes: u32,
}

impl Breaker {
    /// What is wrong with it.
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

    /// Whether these counts are bad enough, whatever their volume.
    pub(super) fn bad(&self, calls: u32, failures: u32) -> bool {
        failures > 0 && f64::from(failures) >= self.error_rate * f64::from(calls)
    }
}

/// Containers learn of each other's trouble within seconds. A shorter window would be over by then.
const MIN_WINDOW: Duration = Duration::from_secs(5);
const MAX_WINDOW: Duration = Duration::from_secs(600);

const MIN_OPEN: Duration = Duration::from_secs(1);
const MAX_OPEN: Duration = Duration::from_secs(3600);

/// More than this is not a probe but a load.
const MAX_PROBES: u32 = 10;

/// A breaker as all containers share it.
///
/// Each write replaces the whole of it and asks that it is still the version that was seen, so every
/// change is one of the functions below, made with open eyes. The writes of a crowd do refuse one
/// another, but one of them always lands, and they are rare: nobody writes while all is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerState {
    /// A number that no other write has drawn; zero if it was never written.
    pub version: u64,
    /// What it does.
    pub phase: Phase,
}

/// What a breaker does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It lets every call through.
    Closed {
        /// The start of the last window in which anybody reported calls.
        window: Timestamp,
        /// How many.
        calls: u32,
        /// How many of these failed.
        failures: u32,
    },
    /// It lets no call through.
    Open {
        /// Until then.
        until: Timestamp,
    },
    /// It lets some calls through, to see how they fare.
    HalfOpen {
        /// What the probes of this round know it by.
        round: u64,
        /// How many were sent.
        sent: u32,
        /// How many of these succeeded.
        passed: u32,
        /// Whoever has not come back by then has crashed.
        until: Timestamp,
    },
}

/// What came of a breaker's replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// It is written.
    Written,
    /// The breaker has moved on. This is how it is, if anybody knows it.
    Moved(Option<BreakerState>),
}

/// The circuit breakers that all containers share.
#[async_trait]
pub trait Breakers: Send + Sync {
    /// The breaker as it was a moment ago.
    async fn read(&self, breaker: &str) -> Result<Option<BreakerState>, Unavailable>;

    /// Writes `next` in the place of the version that was seen, where zero is none. One conditional
    /// write, no read. One that lands twice is written.
    async fn swap(&self, breaker: &str, seen: u64, next: &BreakerState, now: Timestamp)
    -> Result<Swapped, Unavailable>;
}

/// What a breaker says to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BreakerEntry {
    /// Go.
    Free,
    /// Go, once this is written.
    Probe(Phase),
    /// Wait this long.
    Wait(Duration),
}

/// Probes come back any moment.
const PROBES_ARE_OUT: Duration = Duration::from_secs(3);

impl Default for BreakerState {
    fn default() -> Self {
        BreakerState { version: 0, phase: Phase::healthy() }
    }
}

impl Phase {
    /// Closed, with nothing counted.
    pub const fn healthy() -> Phase {
        Phase::Closed { window: Timestamp::from_millis(0), calls: 0, failures: 0 }
    }

    /// Whether it lets every call through.
    pub fn is_closed(&self) -> bool {
        matches!(self, Phase::Closed { .. })
    }

    /// Whether everybody should report calls in the window that starts there: the counts are halfway
    /// to opening it, by the reports of those who are in trouble.
    pub(super) fn wary(&self, breaker: &Breaker, start: Timestamp) -> bool {
        match *self {
            Phase::Closed { window, calls, failures } => {
                window == start && breaker.bad(calls, failures.saturating_mul(2))
            }
            _ => false,
        }
    }

    /// Whether a call may go. If it is a probe, it is back after `hold`, and `round` is a new number.
    pub(super) fn entry(&self, breaker: &Breaker, hold: Duration, round: u64, now: Timestamp) -> BreakerEntry {
        let first = || BreakerEntry::Probe(Phase::HalfOpen { round, sent: 1, passed: 0, until: now + hold });
        match *self {
            Phase::Closed { .. } => BreakerEntry::Free,
            Phase::Open { until } if now < until => BreakerEntry::Wait(until.since(now)),
            Phase::Open { .. } => first(),
            Phase::HalfOpen { until, .. } if until <= now => first(),
            Phase::HalfOpen { round, sent, passed, until } if sent < breaker.probes => {
                BreakerEntry::Probe(Phase::HalfOpen { round, sent: sent + 1, passed, until: until.max(now + hold) })
            }
            Phase::HalfOpen { until, .. } => BreakerEntry::Wait(until.since(now).min(PROBES_ARE_OUT)),
        }
    }

    /// After a probe of this round has come back. A round that is over does not wait for it.
    pub(super) fn probed(&self, of: u64, ended: CallEnd, breaker: &Breaker, now: Timestamp) -> Option<Phase> {
        let Phase::HalfOpen { round, sent, passed, until } = *self else { return None };
        match ended {
            _ if of != round => None,
            CallEnd::Failure => Some(Phase::Open { until: now + breaker.open_for }),
            CallEnd::Success if passed + 1 >= breaker.probes => Some(Phase::healthy()),
            CallEnd::Success => Some(Phase::HalfOpen { round, sent, passed: passed + 1, until }),
            // It says nothing about the partner, so another goes in its place.
            CallEnd::Neutral => Some(Phase::HalfOpen { round, sent: sent.saturating_sub(1), passed, until }),
        }
    }

    /// After so many more calls in the window that starts there, unless it is history.
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
            return Some(Phase::Open { until: now + breaker.open_for });
        }
        Some(Phase::Closed { window: start, calls, failures })
    }
}
