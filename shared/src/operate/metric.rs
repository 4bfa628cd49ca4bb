//! Metrics, for dashboards and alarms.
//!
//! Metrics are counted at least once: they show how the system is doing, and nothing is ever reconciled from
//! them. Each dimension multiplies their price, so there is none for a contact or an event.

use std::time::Duration;

use crate::ledger::{Reason, State};
use crate::limits::pressure::{BreakerChange, CallEnd, DeferralReason};

/// The namespace of our metrics in CloudWatch.
pub const NAMESPACE: &str = "Ledgerline";

/// The metric of the time from an event's receipt until it is settled.
pub const TIME_TO_SETTLED: &str = "TimeToSettled";

/// A fact that is counted.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact<'f> {
    /// An event was settled, so long after it was received. A replay has no such time: it waited for an
    /// operator.
    Settled(&'f str, State, Option<Duration>),
    /// An effect failed, and the event of this flow is tried again.
    Retried(&'f str),
    /// An event of this flow waits for something that is not available now.
    Deferred(&'f str, DeferralReason),
    /// An event of this flow has left the queue to wait.
    Waits(&'f str, DeferralReason),
    /// An event of this flow waits for a human's approval.
    Asked(&'f str),
    /// An event of this flow is a dead letter.
    Dead(&'f str, Reason),
    /// An event of this flow is a dead letter again, after a replay.
    DeadAgain(&'f str, Reason),
    /// A partner was called; the call took so long.
    Called(&'f str, CallEnd, Duration),
    /// A partner's breaker opened or closed.
    Breaker(&'f str, BreakerChange),
    /// The time-out of this integration does not fit into an invocation, told at the container's start.
    OverlongTimeout(&'f str),
    /// A row of the ledger cannot be read, or takes no more.
    Unreadable,
    /// The ledger does not take the payload of an event.
    NotKept,
    /// A message was left alone, because its container never read the switchboard.
    StoodStill,
    /// The newest switchboard cannot be used: the last good one stays in force.
    BadSwitchboard,
    /// A message or a row was left alone, because a newer version of the code wrote it.
    NewerFormat,
}

/// One metric of a fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The metric's name.
    pub name: &'static str,
    /// The metric's unit, as CloudWatch calls it.
    pub unit: &'static str,
    /// The metric's value.
    pub value: u64,
}

impl Fact<'_> {
    /// The dimensions of the fact's metrics.
    pub fn dimensions(&self) -> Vec<(&'static str, &str)> {
        match self {
            Fact::Settled(flow, state, _) => vec![("Flow", flow), ("State", state.as_str())],
            Fact::Retried(flow) | Fact::Asked(flow) => vec![("Flow", flow)],
            Fact::Deferred(flow, why) | Fact::Waits(flow, why) => vec![("Flow", flow), ("Why", why.as_str())],
            Fact::Dead(flow, reason) | Fact::DeadAgain(flow, reason) => {
                vec![("Flow", flow), ("Reason", reason.as_str())]
            }
            Fact::Called(integration, ..) | Fact::Breaker(integration, _) | Fact::OverlongTimeout(integration) => {
                vec![("Integration", integration)]
            }
            Fact::BadSwitchboard | Fact::NewerFormat | Fact::StoodStill | Fact::Unreadable | Fact::NotKept => vec![],
        }
    }

    /// The metrics of the fact.
    pub fn measures(&self) -> Vec<Measure> {
        match self {
            Fact::Settled(_, _, Some(took)) => vec![one("EventsSettled"), millis(TIME_TO_SETTLED, *took)],
            Fact::Settled(_, _, None) => vec![one("EventsSettled"), one("ReplaysSettled")],
            Fact::Retried(_) => vec![one("Retries")],
            Fact::Asked(_) => vec![one("ApprovalsAsked")],
            Fact::Deferred(..) => vec![one("Deferrals")],
            Fact::Waits(..) => vec![one("Waits")],
            Fact::Dead(..) => vec![one("DeadLetters")],
            Fact::DeadAgain(..) => vec![one("DeadLetters"), one("ReplaysDead")],
            Fact::Called(_, ended, took) => {
                let failed = Measure {
                    value: u64::from(matches!(ended, CallEnd::Failure | CallEnd::CredentialsRejected)),
                    ..one("PartnerFailures")
                };
                vec![one("PartnerCalls"), failed, millis("PartnerLatency", *took)]
            }
            Fact::Breaker(_, BreakerChange::Opened) => vec![one("BreakerOpened")],
            Fact::Breaker(_, BreakerChange::Closed) => vec![one("BreakerClosed")],
            Fact::OverlongTimeout(_) => vec![one("TimeoutTooLong")],
            Fact::Unreadable => vec![one("UnreadableRows")],
            Fact::NotKept => vec![one("PayloadsNotKept")],
            Fact::StoodStill => vec![one("StoodStill")],
            Fact::BadSwitchboard => vec![one("BadSwitchboard")],
            Fact::NewerFormat => vec![one("NewerFormat")],
        }
    }
}

fn one(name: &'static str) -> Measure {
    Measure { name, unit: "Count", value: 1 }
}

fn millis(name: &'static str, took: Duration) -> Measure {
    Measure { name, unit: "Milliseconds", value: u64::try_from(took.as_millis()).unwrap_or(u64::MAX) }
}

/// The counter of facts.
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
