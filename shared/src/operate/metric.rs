//! What is counted, for dashboards and alarms.
//!
//! Metrics are at least once: they say how things go, and nothing is ever reconciled from them. Each
//! dimension multiplies their price, so there is none for a contact or an event.

use std::time::Duration;

use crate::ledger::{Reason, State};
use crate::limits::pressure::{BreakerChange, CallEnd, DeferralReason};

/// Where CloudWatch keeps our metrics.
pub const NAMESPACE: &str = "Ledgerline";

/// How long an event took from the door to its end.
pub const TIME_TO_SETTLED: &str = "TimeToSettled";

/// A fact worth counting.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact<'f> {
    /// An event came to its end, so long after it was received. Of a replay there is no such time: it
    /// waited for a human.
    Settled(&'f str, State, Option<Duration>),
    /// An effect failed, and the event of this flow is tried again.
    Retried(&'f str),
    /// An event of this flow waits for something that is not there now.
    Deferred(&'f str, DeferralReason),
    /// An event of this flow waits for a human.
    Asked(&'f str),
    /// An event of this flow is a dead letter.
    Dead(&'f str, Reason),
    /// It is one again, after a replay.
    DeadAgain(&'f str, Reason),
    /// A partner was called, and took so long.
    Called(&'f str, CallEnd, Duration),
    /// A partner's breaker opened or closed.
    Breaker(&'f str, BreakerChange),
    /// A switchboard that cannot be gone by: the last good one is in force.
    BadSwitchboard,
}

/// One number of a fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Its name.
    pub name: &'static str,
    /// What it counts in, as CloudWatch calls it.
    pub unit: &'static str,
    /// How much.
    pub value: u64,
}

impl Fact<'_> {
    /// By what it can be told apart.
    pub fn dimensions(&self) -> Vec<(&'static str, &str)> {
        match self {
            Fact::Settled(flow, state, _) => vec![("Flow", flow), ("State", state.as_str())],
            Fact::Retried(flow) | Fact::Asked(flow) => vec![("Flow", flow)],
            Fact::Deferred(flow, why) => vec![("Flow", flow), ("Why", why.as_str())],
            Fact::Dead(flow, reason) | Fact::DeadAgain(flow, reason) => {
                vec![("Flow", flow), ("Reason", reason.as_str())]
            }
            Fact::Called(integration, ..) | Fact::Breaker(integration, _) => vec![("Integration", integration)],
            Fact::BadSwitchboard => vec![],
        }
    }

    /// Its numbers.
    pub fn measures(&self) -> Vec<Measure> {
        match self {
            Fact::Settled(_, _, Some(took)) => vec![one("EventsSettled"), millis(TIME_TO_SETTLED, *took)],
            Fact::Settled(_, _, None) => vec![one("EventsSettled"), one("ReplaysSettled")],
            Fact::Retried(_) => vec![one("Retries")],
            Fact::Asked(_) => vec![one("ApprovalsAsked")],
            Fact::Deferred(..) => vec![one("Deferrals")],
            Fact::Dead(..) => vec![one("DeadLetters")],
            Fact::DeadAgain(..) => vec![one("DeadLetters"), one("ReplaysDead")],
            Fact::Called(_, ended, took) => {
                let failed = Measure { value: u64::from(*ended == CallEnd::Failure), ..one("PartnerFailures") };
                vec![one("PartnerCalls"), failed, millis("PartnerLatency", *took)]
            }
            Fact::Breaker(_, BreakerChange::Opened) => vec![one("BreakerOpened")],
            Fact::Breaker(_, BreakerChange::Closed) => vec![one("BreakerClosed")],
            Fact::BadSwitchboard => vec![one("BadSwitchboard")],
        }
    }
}

fn one(name: &'static str) -> Measure {
    Measure { name, unit: "Count", value: 1 }
}

fn millis(name: &'static str, took: Duration) -> Measure {
    Measure { name, unit: "Milliseconds", value: u64::try_from(took.as_millis()).unwrap_or(u64::MAX) }
}

/// What is counted.
pub trait Metrics: Send + Sync {
    /// Counts a fact. It never waits and never fails.
    fn put(&self, fact: &Fact<'_>);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dashboards and alarms of deployed stacks name these.
    #[test]
    fn the_names_of_dimensions_stay() {
        let facts = [
            (Fact::Settled("f", State::Noop, None), vec![("Flow", "f"), ("State", "noop")]),
            (Fact::Deferred("f", DeferralReason::Paused), vec![("Flow", "f"), ("Why", "paused")]),
            (Fact::Dead("f", Reason::Stale), vec![("Flow", "f"), ("Reason", "stale")]),
            (Fact::Breaker("crm", BreakerChange::Opened), vec![("Integration", "crm")]),
        ];
        for (fact, dimensions) in facts {
            assert_eq!(fact.dimensions(), dimensions);
        }
    }
}
