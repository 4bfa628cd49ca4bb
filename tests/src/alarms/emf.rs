//! Lines in the embedded metric format, made into series as CloudWatch does it: a line may have several directives, a
//! directive several sets of dimensions, and a metric one number or an array of up to a hundred.
//!
//! The lines are those that a run printed.

use serde_json::Value;
use shared::base::time::Timestamp;

use super::series::{AlarmMetric, Store};

/// The most numbers that one line may have of one metric.
const MOST: usize = 100;

/// The series of lines, by the minute from this moment on. What is no line of this format is a log like others.
pub(super) fn store<'l>(lines: impl IntoIterator<Item = &'l str>, from: Timestamp) -> Store {
    let mut store = Store::default();
    for line in lines.into_iter().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let Some(minute) = line["_aws"]["Timestamp"].as_i64().map(|millis| (millis - from.millis()).div_euclid(60_000))
        else {
            continue;
        };
        for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
            for (metric, samples) in metrics(&line, directive) {
                store.put(metric, minute, samples);
            }
        }
    }
    store
}

/// Each metric of a directive under each of its sets of dimensions. One without a set has the empty one.
fn metrics<'l>(line: &'l Value, directive: &'l Value) -> impl Iterator<Item = (AlarmMetric, Vec<f64>)> {
    let namespace = directive["Namespace"].as_str().unwrap_or_default();
    let mut sets: Vec<Vec<&str>> = directive["Dimensions"].as_array().into_iter().flatten().map(names).collect();
    if sets.is_empty() {
        sets.push(Vec::new());
    }
    let named = directive["Metrics"].as_array().into_iter().flatten().filter_map(|metric| metric["Name"].as_str());
    named.flat_map(move |name| {
        let metric = move |set: &Vec<&str>| AlarmMetric {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            dimensions: set.iter().map(|key| ((*key).to_owned(), text(&line[*key]))).collect(),
        };
        sets.clone().into_iter().map(move |set| (metric(&set), numbers(&line[name])))
    })
}

fn names(set: &Value) -> Vec<&str> {
    set.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a dimension's value is a text").to_owned()
}

fn numbers(value: &Value) -> Vec<f64> {
    let numbers: Vec<f64> = match value {
        Value::Array(many) => many.iter().filter_map(Value::as_f64).collect(),
        one => one.as_f64().into_iter().collect(),
    };
    assert!(numbers.len() <= MOST, "CloudWatch takes {MOST} numbers of a metric on a line");
    numbers
}

#[test]
fn a_line_becomes_each_of_its_metrics_under_each_set_of_dimensions() {
    use serde_json::json;

    use super::series::OURS;

    let line = json!({
        "_aws": {"Timestamp": 185_000, "CloudWatchMetrics": [
            {"Namespace": OURS, "Dimensions": [["Source", "Reason"], ["Reason"], []], "Metrics": [{"Name": "Rejected"}]},
            {"Namespace": OURS, "Dimensions": [[]], "Metrics": [{"Name": "IntakeTime", "Unit": "Milliseconds"}]},
        ]},
        "Source": "web-forms", "Reason": "too-many", "Rejected": 1, "IntakeTime": [12, 30.5],
    });
    let text = line.to_string();
    let store = store(["started", &text, &text], Timestamp::from_secs(60));
    assert_eq!(store.metrics().count(), 4);
    for metric in ["Rejected{Source=web-forms,Reason=too-many}", "Rejected{Reason=too-many}", "Rejected"] {
        assert_eq!(store.samples(&AlarmMetric::parse(metric), 2, 3), [1.0, 1.0], "{metric}");
    }
    assert_eq!(store.samples(&AlarmMetric::parse("IntakeTime"), 0, 9), [12.0, 30.5, 12.0, 30.5]);
    assert!(store.samples(&AlarmMetric::parse("IntakeTime"), 3, 9).is_empty());
}
