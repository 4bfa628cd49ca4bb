//! That each metric of ours which an alarm, a dashboard, the console or the command names is one that the functions print,
//! with exactly these dimensions; and that each which they print is named by one of those. A metric that nobody looks at
//! has its price all the same.

use std::collections::{BTreeMap, BTreeSet};

use shared::operate::metric::{Dimension, Metric, MetricQuery};

use super::definition::{Alarm, QuerySource, alarms};
use super::insights::{self, InsightsQuery};
use super::runs;
use super::series::{AlarmMetric, OURS};
use super::text::kebab;
use crate::dashboards::drawn;
use crate::memory::World;
use crate::metrics::table;

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
    alarms().into_values().flat_map(watched_by).collect()
}

/// What an alarm looks at.
fn watched_by(alarm: Alarm) -> impl Iterator<Item = Named> {
    let of_metric = |metric: AlarmMetric| (metric.namespace, metric.name, metric.dimensions.into_keys().collect());
    let named = alarm.queries.into_iter().filter_map(move |query| match query.of {
        QuerySource::Stat(metric, _) => Some(of_metric(metric)),
        QuerySource::Expression(text) if insights::is_query(&text) => {
            let query = InsightsQuery::parse(&text);
            Some((query.namespace, query.name, query.keys))
        }
        QuerySource::Expression(_) => None,
    });
    named.filter(|(namespace, ..)| namespace == OURS).map(|(_, name, keys)| (name, keys))
}

/// What the dashboards draw.
fn on_dashboards() -> BTreeSet<Named> {
    drawn().into_iter().map(|(name, keys)| (name, keys.into_iter().collect())).collect()
}

/// What the console draws.
fn on_the_console() -> BTreeSet<Named> {
    let keys = |query: &MetricQuery| query.dimensions.iter().map(|(key, _)| key.name().to_owned()).collect();
    let named = |query: MetricQuery| (query.metric.name().to_owned(), keys(&query));
    replay::drawn(&World::new().replay).into_iter().map(named).collect()
}

/// What `ledgerline latency` asks for. What `ledgerline status` tells is on the dashboards, too.
fn asked_by_the_command() -> Named {
    let keys = Metric::TimeToSettled.sets()[0].iter().map(|key| key.name().to_owned());
    (Metric::TimeToSettled.name().to_owned(), keys.collect())
}

#[test]
fn what_alarms_dashboards_the_console_and_the_command_name_is_emitted_and_the_reverse() {
    let mut named = watched();
    named.extend(on_dashboards());
    named.extend(on_the_console());
    named.insert(asked_by_the_command());
    assert!(named.len() > 60, "only {} metrics were found", named.len());
    let emitted = emitted();
    let unknown: Vec<&Named> = named.difference(&emitted).collect();
    assert!(unknown.is_empty(), "nothing counts these: {unknown:?}");
    let unread: Vec<&Named> = emitted.difference(&named).collect();
    assert!(unread.is_empty(), "nobody looks at these: {unread:?}");
}

/// The column of alarms in `infra/docs/OPERATE.md`: those that look at the metric by themselves, and no composite.
#[test]
fn the_table_of_metrics_names_the_alarms_that_look_at_each() {
    let mut watching: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id, alarm) in alarms() {
        watched_by(alarm).for_each(|(name, _)| {
            watching.entry(name).or_default().insert(kebab(&id));
        });
    }
    for row in table() {
        let told = row[4].split_whitespace().filter(|word| *word != "-").map(|word| word.trim_matches('`').to_owned());
        let told: BTreeSet<String> = told.collect();
        let name = row[0].trim_matches('`');
        assert_eq!(told, watching.remove(name).unwrap_or_default(), "the alarms of {name} in OPERATE.md");
    }
    assert_eq!(watching.into_keys().collect::<Vec<_>>(), [BY_THE_COMMAND]);
}

#[test]
fn the_console_draws_what_the_dashboards_do() {
    let more: Vec<Named> = on_the_console().difference(&on_dashboards()).cloned().collect();
    assert!(more.is_empty(), "only the console draws these: {more:?}");
}

/// A day and a night of a system to which everything happens that is counted.
const EVERYTHING: [(usize, &str); 41] = [
    (0, "a lead"),
    (0, "the last lead again"),
    (0, "a late lead"),
    (0, "a lead that is worth nothing"),
    (0, "a wrong signature"),
    (0, "an invalid cart"),
    (0, "a cart that waits for an approval"),
    (0, "a night"),
    (1, "a cart whose contact has no retries left"),
    (2, "a lead that the CRM declines"),
    (2, "a lead that is tried again"),
    (2, "a lead whose worker panics"),
    (2, "a letter whose answer is lost"),
    (2, "a lead whose credentials the CRM rejects"),
    (3, "a message of a newer version"),
    (3, "a container finds a time-out that does not fit"),
    (3, "a container finds times that do not fit one another"),
    (3, "a new container does not reach the switchboard"),
    (4, "a replay of each while the queue is away"),
    (4, "a lead while the collector is away"),
    (10, "a letter that fails once"),
    (10, "the wake runs"),
    (20, "a replay of each"),
    (30, "a lead that the CRM declines"),
    (31, "the CRM declines everything"),
    (32, "a replay of each"),
    (40, "the CRM is well again"),
    (41, "the leads are paused"),
    (41, "a lead"),
    (60, "the leads are resumed"),
    (61, "the wake runs"),
    (62, "the schedule runs"),
    (130, "the wake runs"),
    (1600, "a replay of each"),
    (1610, "somebody scribbles on the switchboard"),
    (1611, "a lead"),
    (1612, "a batch of replays"),
    (1613, "a lead whose row cannot be read"),
    (1614, "the ledger takes no payload"),
    (1615, "a lead that the CRM declines"),
    (1616, "the schedule runs"),
];

#[test]
fn everything_that_is_in_the_catalogue_is_printed_by_a_run() {
    let mut minutes: Vec<Vec<(&str, u32)>> = vec![Vec::new(); 1620];
    EVERYTHING.iter().for_each(|(minute, deed)| minutes[*minute].push((deed, 1)));
    let printed: BTreeSet<Named> = runs::series(&minutes).metrics().cloned().map(of_metric).collect();
    let missing: Vec<Named> = emitted().difference(&printed).cloned().collect();
    let missing: Vec<Named> = missing.into_iter().filter(|(name, _)| name != BY_THE_COMMAND).collect();
    assert!(missing.is_empty(), "no run prints these: {missing:?}");
    let unknown: Vec<&Named> = printed.iter().filter(|named| !emitted().contains(*named)).collect();
    assert!(unknown.is_empty(), "these are printed, and in no catalogue: {unknown:?}");
}

fn of_metric(metric: AlarmMetric) -> Named {
    assert_eq!(metric.namespace, OURS);
    (metric.name, metric.dimensions.into_keys().collect())
}

/// The charts of what is refused have a bar for each problem for which a delivery is.
#[test]
fn the_console_knows_every_refusal() {
    let drawn: BTreeSet<String> = replay::drawn(&World::new().replay)
        .into_iter()
        .filter(|query| query.metric == Metric::Rejected)
        .flat_map(|query| query.dimensions.into_iter().map(|(_, value)| value))
        .collect();
    let problems = std::fs::read_to_string(crate::fixtures::root().join("functions/intake/src/problem.rs"));
    let problems = problems.expect("the problems");
    let listed = std::fs::read_to_string(crate::fixtures::root().join("infra/docs/API.md")).expect("the API");
    let is_problem = |name: &&str| {
        let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        let row = |line: &str| {
            line.starts_with("| `") && line.split('|').nth(1).is_some_and(|cell| cell.contains(&format!("`{name}`")))
        };
        plain && listed.lines().any(row)
    };
    // A receipt is no delivery.
    let of_deliveries = |name: &&str| !["no-receipt", "unauthorized"].contains(name);
    let names = problems.split('"').filter(is_problem).filter(of_deliveries);
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    let undrawn: Vec<&String> = names.difference(&drawn).collect();
    assert!(undrawn.is_empty(), "the console has no bar for {undrawn:?}");
    let unknown: Vec<&String> = drawn.difference(&names).collect();
    assert!(unknown.is_empty(), "the intake has no problem {unknown:?}");
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
