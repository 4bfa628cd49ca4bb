//! That each metric of ours which an alarm or a dashboard names is one that is emitted, with exactly these dimensions.

use std::collections::BTreeSet;

use super::definition::{QuerySource, alarms};
use super::insights::{self, InsightsQuery};
use super::series::{AlarmMetric, OURS};
use crate::dashboards::drawn;

/// What the functions count: a metric, and each set of its dimensions.
const EMITTED: [(&str, &[&str]); 59] = [
    ("Accepted", &["Source", ""]),
    ("Duplicates", &["Source", ""]),
    ("Rejected", &["Source Reason", "Reason", ""]),
    ("IntakeTime", &[""]),
    ("VerifyTime", &[""]),
    ("RateTime", &[""]),
    ("AdmitTime", &[""]),
    ("SendTime", &[""]),
    ("InvalidParked", &["Flow", ""]),
    ("EventsSettled", &["Flow State", "State"]),
    ("TimeToSettled", &["Flow State", ""]),
    ("Attempts", &["Flow", ""]),
    ("Effects", &["Flow", ""]),
    ("ProtectedEffects", &["Flow", ""]),
    ("Retries", &["Flow", ""]),
    ("Deferrals", &["Flow Why", "Why"]),
    ("Waits", &["Flow Why", "Why"]),
    ("ApprovalsAsked", &["Flow", ""]),
    ("Blocked", &["Flow Guard", "Guard"]),
    ("PartnerCalls", &["Integration Outcome", "Integration", ""]),
    ("PartnerLatency", &["Integration"]),
    ("PartnerFailures", &["Integration", ""]),
    ("CredentialsRejected", &["Integration", ""]),
    ("BreakerOpened", &["Integration", ""]),
    ("BreakerClosed", &["Integration", ""]),
    ("BudgetExhausted", &["Flow", ""]),
    ("UnknownOutcomes", &["Flow", ""]),
    ("DeadLetters", &["Flow Reason", "Reason", ""]),
    ("ReplaysDead", &["Flow Reason", "Reason", ""]),
    ("SloGood", &["Flow", ""]),
    ("SloBad", &["Flow", ""]),
    ("ReplaysSettled", &[""]),
    ("UnreadableRows", &[""]),
    ("PayloadsNotKept", &[""]),
    ("BadSwitchboard", &[""]),
    ("NewerFormat", &[""]),
    ("StoodStill", &[""]),
    ("WorkerPanics", &[""]),
    ("TimeoutTooLong", &["Integration"]),
    ("ConfigurationWrong", &[""]),
    ("Parked", &["Reason"]),
    ("ParkedNow", &[""]),
    ("WaitingNow", &[""]),
    ("AwaitingApprovalNow", &[""]),
    ("OldestParkedAge", &[""]),
    ("OldestWaitingOverdue", &[""]),
    ("Replayed", &[""]),
    ("ReplaysSkipped", &[""]),
    ("ReplaysFailed", &[""]),
    ("TimeToReplay", &[""]),
    ("ReplayedWithinADay", &[""]),
    ("ReplayedLater", &[""]),
    ("TimeToSignal", &[""]),
    ("BatchesOpen", &[""]),
    ("BatchesStalled", &[""]),
    ("ScheduleRan", &[""]),
    ("WakeRan", &[""]),
    ("Woken", &[""]),
    // `ledgerline deploying` counts it.
    ("Deploying", &[""]),
];

/// A metric of ours and its dimensions, in one order.
type Named = (String, BTreeSet<String>);

fn emitted() -> BTreeSet<Named> {
    let sets = EMITTED.iter().flat_map(|(name, sets)| sets.iter().map(move |set| (*name, *set)));
    sets.map(|(name, set)| (name.to_owned(), set.split_whitespace().map(str::to_owned).collect())).collect()
}

/// What the alarms look at.
fn watched() -> BTreeSet<Named> {
    let of_metric = |metric: AlarmMetric| (metric.namespace, metric.name, metric.dimensions.into_keys().collect());
    let queries = alarms().into_values().flat_map(|alarm| alarm.queries);
    let named = queries.filter_map(|query| match query.of {
        QuerySource::Stat(metric, _) => Some(of_metric(metric)),
        QuerySource::Expression(text) if insights::is_query(&text) => {
            let query = InsightsQuery::parse(&text);
            Some((query.namespace, query.name, query.keys))
        }
        QuerySource::Expression(_) => None,
    });
    named.filter(|(namespace, ..)| namespace == OURS).map(|(_, name, keys)| (name, keys)).collect()
}

#[test]
fn what_alarms_and_dashboards_name_is_emitted() {
    let drawn = drawn().into_iter().map(|(name, keys)| (name, keys.into_iter().collect()));
    let named: BTreeSet<Named> = watched().into_iter().chain(drawn).collect();
    assert!(named.len() > 60, "only {} metrics were found", named.len());
    let unknown: Vec<&Named> = named.iter().filter(|named| !emitted().contains(named)).collect();
    assert!(unknown.is_empty(), "nothing counts these: {unknown:?}");
}

/// A query compares values of dimensions, which no schema checks.
#[test]
fn the_reasons_that_queries_compare_are_problems_of_the_intake() {
    let api = std::fs::read_to_string(crate::fixtures::root().join("infra/docs/API.md")).expect("the problems");
    let mut compared = 0;
    for query in alarms().into_values().flat_map(|alarm| alarm.queries) {
        let QuerySource::Expression(text) = query.of else { continue };
        if insights::is_query(&text) {
            for (_, _, reason) in InsightsQuery::parse(&text).conditions.iter().filter(|(key, ..)| key == "Reason") {
                assert!(api.contains(&format!("| `{reason}` |")), "{reason} is no problem in API.md");
                compared += 1;
            }
        }
    }
    assert!(compared >= 5, "only {compared} reasons were found");
}
