//! Queries of Metrics Insights, as far as alarms use them:
//! `SELECT SUM(Name) FROM SCHEMA("Namespace", Key, …) [WHERE Key = 'value' AND …] [GROUP BY Key]`.

use std::collections::{BTreeMap, BTreeSet};

use super::series::{AlarmMetric, Store};
use super::statistic;

/// A query.
#[derive(Debug, PartialEq)]
pub(super) struct InsightsQuery {
    function: String,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) keys: BTreeSet<String>,
    /// A key, whether its value must be the one that follows or must not, and that value.
    pub(super) conditions: Vec<(String, bool, String)>,
    group_by: Option<String>,
}

pub(super) fn is_query(expression: &str) -> bool {
    expression.starts_with("SELECT ")
}

impl InsightsQuery {
    pub(super) fn parse(text: &str) -> Self {
        let (select, rest) = between(text, "SELECT ", " FROM SCHEMA(");
        let (function, name) = select.trim_end_matches(')').split_once('(').expect("a function of a metric");
        let (schema, rest) = rest.split_once(')').expect("a schema");
        let mut schema = schema.split(", ").map(|part| part.trim_matches('"').to_owned());
        let (rest, group_by) = match rest.split_once(" GROUP BY ") {
            Some((rest, key)) => (rest, Some(key.trim().to_owned())),
            None => (rest, None),
        };
        let conditions = rest.strip_prefix(" WHERE ").into_iter().flat_map(|all| all.split(" AND ")).map(condition);
        InsightsQuery {
            function: function.to_owned(),
            name: name.to_owned(),
            namespace: schema.next().expect("a namespace"),
            keys: schema.collect(),
            conditions: conditions.collect(),
            group_by,
        }
    }

    pub(super) fn is_grouped(&self) -> bool {
        self.group_by.is_some()
    }

    /// The data point of each group in a period.
    pub(super) fn values(&self, store: &Store, from: i64, to: i64) -> BTreeMap<String, f64> {
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for metric in store.metrics().filter(|metric| self.takes(metric)) {
            let group = self.group_by.as_ref().map(|key| metric.dimensions[key].clone()).unwrap_or_default();
            groups.entry(group).or_default().extend(store.samples(metric, from, to));
        }
        let values = groups.into_iter().map(|(group, samples)| (group, statistic::of(&samples, self.statistic())));
        values.filter_map(|(group, value)| Some((group, value?))).collect()
    }

    /// A schema takes metrics of exactly its dimensions.
    fn takes(&self, metric: &AlarmMetric) -> bool {
        let is = |(key, equal, value): &(String, bool, String)| (metric.dimensions[key] == *value) == *equal;
        metric.namespace == self.namespace
            && metric.name == self.name
            && metric.dimensions.keys().eq(self.keys.iter())
            && self.conditions.iter().all(is)
    }

    fn statistic(&self) -> &'static str {
        match self.function.as_str() {
            "SUM" => "Sum",
            "MAX" => "Maximum",
            other => panic!("no alarm here has {other}"),
        }
    }
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> (&'t str, &'t str) {
    text.strip_prefix(start).and_then(|text| text.split_once(end)).unwrap_or_else(|| panic!("{text}: no {end}"))
}

fn condition(text: &str) -> (String, bool, String) {
    let (key, equal, value) = match text.split_once(" != ") {
        Some((key, value)) => (key, false, value),
        None => text.split_once(" = ").map(|(key, value)| (key, true, value)).expect("a condition"),
    };
    (key.to_owned(), equal, value.trim().trim_matches('\'').to_owned())
}

#[test]
fn a_query_takes_metrics_of_exactly_its_dimensions() {
    let mut store = Store::default();
    for (metric, count) in [
        ("Rejected{Source=a,Reason=bad-signature}", 3.0),
        ("Rejected{Source=b,Reason=bad-signature}", 2.0),
        ("Rejected{Source=b,Reason=too-many}", 50.0),
        ("Rejected{Reason=bad-signature}", 5.0),
        ("Accepted{Source=a,Reason=bad-signature}", 9.0),
    ] {
        store.put(AlarmMetric::parse(metric), 0, [count]);
    }
    let values = |rest: &str| {
        let text = format!("SELECT SUM(Rejected) FROM SCHEMA(\"Ledgerline/ledgerline\", Source, Reason){rest}");
        InsightsQuery::parse(&text).values(&store, 0, 1)
    };
    let groups = |groups: &[(&str, f64)]| groups.iter().map(|(group, value)| ((*group).to_owned(), *value)).collect();
    assert_eq!(values(" WHERE Reason = 'bad-signature' GROUP BY Source"), groups(&[("a", 3.0), ("b", 2.0)]));
    assert_eq!(values(" WHERE Reason != 'bad-signature' AND Source != 'a'"), groups(&[("", 50.0)]));
    assert_eq!(values(""), groups(&[("", 55.0)]));
}
