//! An alarm as the template defines it, with parameters in their places.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::series::AlarmMetric;
use crate::template::Template;

/// What the tests give parameters that have no default of their own, or one that is hard to go near.
const GIVEN: [(&str, &str); 3] =
    [("SteadySource", "web-forms"), ("SteadyEvents", "10"), ("AWS::StackName", "ledgerline")];

/// A metric alarm.
#[derive(Clone, Debug)]
pub(super) struct Alarm {
    pub(super) queries: Vec<Query>,
    /// Seconds.
    pub(super) period: u64,
    pub(super) comparison: String,
    pub(super) threshold: f64,
    pub(super) periods: usize,
    pub(super) to_alarm: usize,
    pub(super) missing: MissingData,
}

/// How an alarm treats missing data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingData {
    Missing,
    Ignore,
    Breaching,
    NotBreaching,
}

/// One of the queries of an alarm. The first is the one that is compared.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) id: String,
    pub(super) of: QuerySource,
}

/// Where the data points of a query come from.
#[derive(Clone, Debug)]
pub(super) enum QuerySource {
    Stat(AlarmMetric, String),
    /// AlarmMetric math, or a query of Metrics Insights.
    Expression(String),
}

impl QuerySource {
    fn is_of(&self, namespace: &str) -> bool {
        match self {
            QuerySource::Stat(metric, _) => metric.namespace == namespace,
            QuerySource::Expression(text) => text.contains(&format!("\"{namespace}\"")),
        }
    }
}

/// The metric alarms of the template, by their logical ids.
pub(super) fn alarms() -> BTreeMap<String, Alarm> {
    let template = Template::read();
    let alarms = template.resources("AWS::CloudWatch::Alarm");
    alarms.into_iter().map(|(id, alarm)| (id.clone(), Alarm::read(&template, &alarm["Properties"]))).collect()
}

/// The metrics that alarms watch by their names. Queries find theirs.
pub(crate) fn watched_metrics() -> BTreeSet<AlarmMetric> {
    let queries = alarms().into_values().flat_map(|alarm| alarm.queries);
    let metric = |query: Query| match query.of {
        QuerySource::Stat(metric, _) => Some(metric),
        QuerySource::Expression(_) => None,
    };
    queries.filter_map(metric).collect()
}

impl Alarm {
    fn read(template: &Template, alarm: &Value) -> Self {
        let names = Names(template);
        let number = |name: &str| alarm[name].as_u64().map(|number| number as usize);
        let periods = number("EvaluationPeriods").expect("evaluation periods");
        let (mut queries, period) = match alarm["Metrics"].as_array() {
            Some(queries) => (queries.iter().map(|query| names.query(query)).collect(), names.period(queries)),
            None => (vec![names.plain(alarm)], alarm["Period"].as_u64().expect("a period")),
        };
        queries.sort_by_key(|(_, returned)| !returned);
        assert_eq!(queries.iter().filter(|(_, returned)| *returned).count(), 1, "an alarm compares one query");
        let ignores = queries.iter().any(|(query, _)| query.of.is_of("AWS/DynamoDB"));
        Alarm {
            queries: queries.into_iter().map(|(query, _)| query).collect(),
            period,
            comparison: alarm["ComparisonOperator"].as_str().expect("a comparison").to_owned(),
            threshold: names.number(&alarm["Threshold"]),
            periods,
            to_alarm: number("DatapointsToAlarm").unwrap_or(periods),
            // Alarms on metrics of DynamoDB ignore missing data, whatever they are told.
            missing: if ignores { MissingData::Ignore } else { MissingData::read(alarm["TreatMissingData"].as_str()) },
        }
    }

    /// Whether a data point breaches the threshold.
    pub(super) fn breaches(&self, value: f64) -> bool {
        match self.comparison.as_str() {
            "GreaterThanOrEqualToThreshold" => value >= self.threshold,
            "GreaterThanThreshold" => value > self.threshold,
            "LessThanThreshold" => value < self.threshold,
            "LessThanOrEqualToThreshold" => value <= self.threshold,
            other => panic!("no alarm here has {other}"),
        }
    }
}

impl MissingData {
    fn read(text: Option<&str>) -> Self {
        match text {
            Some("breaching") => MissingData::Breaching,
            Some("notBreaching") => MissingData::NotBreaching,
            Some("ignore") => MissingData::Ignore,
            Some("missing") | None => MissingData::Missing,
            Some(other) => panic!("{other} is no way to treat missing data"),
        }
    }
}

/// What the names in a template stand for.
struct Names<'t>(&'t Template);

impl Names<'_> {
    /// A text of `!Sub`, or the name of `!Ref`. The names of resources stand for themselves.
    fn text(&self, text: &str) -> String {
        let mut parts = text.split("${");
        let mut resolved = self.name(parts.next().unwrap_or_default());
        for part in parts {
            let (name, rest) = part.split_once('}').expect("a closing brace");
            resolved.push_str(&self.name(name));
            resolved.push_str(rest);
        }
        resolved
    }

    fn name(&self, name: &str) -> String {
        if let Some((_, given)) = GIVEN.iter().find(|(given, _)| *given == name) {
            return (*given).to_owned();
        }
        match &self.0.at("/Parameters")[name]["Default"] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => name.to_owned(),
        }
    }

    fn number(&self, value: &Value) -> f64 {
        let named = value.as_str().map(|name| self.name(name).parse().expect("a number"));
        named.or_else(|| value.as_f64()).expect("a threshold")
    }

    /// The one period of all queries: CloudWatch takes no alarm with several.
    fn period(&self, queries: &[Value]) -> u64 {
        let found = queries.iter().filter_map(|query| {
            let period = query["Period"].as_u64();
            period.or_else(|| query["MetricStat"]["Period"].as_u64())
        });
        let found: Vec<u64> = found.collect();
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "an alarm has one period: {found:?}");
        *found.first().expect("a period")
    }

    /// A query, and whether it is the one that is compared.
    fn query(&self, query: &Value) -> (Query, bool) {
        let id = query["Id"].as_str().expect("an id").to_owned();
        let of = match query["Expression"].as_str() {
            Some(expression) => QuerySource::Expression(self.text(expression)),
            None => self.stat(&query["MetricStat"]["Metric"], &query["MetricStat"]["Stat"]),
        };
        (Query { id, of }, query["ReturnData"] != false)
    }

    fn plain(&self, alarm: &Value) -> (Query, bool) {
        let stat = if alarm["Statistic"].is_null() { &alarm["ExtendedStatistic"] } else { &alarm["Statistic"] };
        (Query { id: "plain".into(), of: self.stat(alarm, stat) }, true)
    }

    fn stat(&self, metric: &Value, stat: &Value) -> QuerySource {
        let text = |value: &Value| self.text(value.as_str().unwrap_or_else(|| panic!("no text: {value} in {metric}")));
        let dimensions = metric["Dimensions"].as_array().into_iter().flatten();
        let dimensions = dimensions.map(|dimension| (text(&dimension["Name"]), text(&dimension["Value"]))).collect();
        let metric =
            AlarmMetric { namespace: text(&metric["Namespace"]), name: text(&metric["MetricName"]), dimensions };
        QuerySource::Stat(metric, stat.as_str().expect("a statistic").to_owned())
    }
}
