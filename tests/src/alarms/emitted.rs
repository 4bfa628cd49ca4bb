//! That each metric of ours which an alarm or a dashboard names is one that is emitted, with exactly these dimensions.

use std::collections::BTreeSet;

use shared::operate::metric::{Dimension, Metric};

use super::definition::{QuerySource, alarms};
use super::insights::{self, InsightsQuery};
use super::series::{AlarmMetric, OURS};
use crate::dashboards::drawn;

/// What `ledgerline deploying` counts. All others are in the functions' catalogue.
const BY_THE_COMMAND: &str = "Deploying";

/// A metric of ours and its dimensions, in one order.
type Named = (String, BTreeSet<String>);

fn emitted() -> BTreeSet<Named> {
    let sets = Metric::ALL.iter().flat_map(|metric| metric.sets().iter().map(move |set| (metric.name(), *set)));
    let named =
        |(name, set): (&str, &[Dimension])| (name.to_owned(), set.iter().map(|key| key.name().to_owned()).collect());
    sets.chain([(BY_THE_COMMAND, &[][..])]).map(named).collect()
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
