//! Metrics from the functions' logs, as CloudWatch makes them of each line in the embedded metric format. The
//! emulator keeps logs and metrics, and does not make the one into the other.
//!
//! It happens beside the invocation, and at most once: a lost metric does no harm locally.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::aws::Endpoint;

/// How long a put may take. A frozen emulator must not gather many of them.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Puts the metrics of a log into the emulator's CloudWatch, while its caller goes on.
pub(crate) fn extract(endpoint: &Endpoint, log: &[u8]) {
    for (namespace, data) in metrics(&String::from_utf8_lossy(log)) {
        let endpoint = endpoint.clone();
        let input = json!({"Namespace": namespace, "MetricData": data});
        tokio::spawn(async move {
            let put = endpoint.act("monitoring", "GraniteServiceVersion20100801.PutMetricData", input);
            let _ = timeout(TIME_LIMIT, put).await;
        });
    }
}

/// The metrics of a log, by namespace.
fn metrics(log: &str) -> BTreeMap<String, Vec<Value>> {
    let mut metrics: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
            let namespace = directive["Namespace"].as_str().unwrap_or_default().to_owned();
            let sets = directive["Dimensions"].as_array().into_iter().flatten();
            metrics.entry(namespace).or_default().extend(sets.flat_map(|names| data(&line, directive, names)));
        }
    }
    metrics
}

/// Each metric of a directive, under one set of dimensions.
fn data(line: &Value, directive: &Value, names: &Value) -> Vec<Value> {
    let seconds = line["_aws"]["Timestamp"].as_i64().map(|millis| millis as f64 / 1000.0);
    let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    let dimensions: Vec<Value> = names.map(|name| json!({"Name": name, "Value": line[name]})).collect();
    let metrics = directive["Metrics"].as_array().into_iter().flatten();
    let datum = |metric: &Value| {
        let mut datum = json!({"MetricName": metric["Name"], "Unit": metric["Unit"],
                               "Timestamp": seconds, "Dimensions": dimensions});
        match &line[metric["Name"].as_str()?] {
            value if value.is_number() => datum["Value"] = value.clone(),
            Value::Array(values) if !values.is_empty() && values.iter().all(Value::is_number) => {
                datum["Values"] = json!(values);
            }
            _ => return None,
        }
        Some(datum)
    };
    metrics.filter_map(datum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Value {
        json!({
            "_aws": {
                "Timestamp": 7500,
                "CloudWatchMetrics": [{
                    "Namespace": "Ledgerline",
                    "Dimensions": [["Flow", "State"]],
                    "Metrics": [{"Name": "EventsSettled", "Unit": "Count"},
                                {"Name": "TimeToSettled", "Unit": "Milliseconds"}],
                }],
            },
            "EventsSettled": 1, "TimeToSettled": 1200, "Flow": "lead-routing", "State": "succeeded",
        })
    }

    fn datum(name: &str, unit: &str, value: u64) -> Value {
        let dimensions = json!([{"Name": "Flow", "Value": "lead-routing"}, {"Name": "State", "Value": "succeeded"}]);
        json!({"MetricName": name, "Unit": unit, "Value": value, "Timestamp": 7.5, "Dimensions": dimensions})
    }

    #[test]
    fn lines_become_the_metrics_that_they_name() {
        let data = vec![datum("EventsSettled", "Count", 1), datum("TimeToSettled", "Milliseconds", 1200)];
        let log = format!("{}\n{{\"level\": \"INFO\"}}\ncut off}}\n{0}", line());
        let twice = [data.clone(), data].concat();
        assert_eq!(metrics(&log), BTreeMap::from([("Ledgerline".to_owned(), twice)]));
    }

    #[test]
    fn a_wide_line_has_several_directives_sets_of_dimensions_and_values() {
        let of = |sets: Value, name: &str| json!({"Namespace": "Ledgerline/shop", "Dimensions": sets, "Metrics": [{"Name": name, "Unit": "Count"}]});
        let line = json!({
            "_aws": {"Timestamp": 7500, "CloudWatchMetrics": [
                of(json!([["Flow", "Reason"], ["Reason"], []]), "DeadLetters"), of(json!([[]]), "AdmitTime"),
            ]},
            "DeadLetters": 1, "AdmitTime": [5, 7], "Flow": "leads", "Reason": "stale",
        });
        let data = &metrics(&line.to_string())["Ledgerline/shop"];
        let told: Vec<_> =
            data.iter().map(|datum| (&datum["MetricName"], datum["Dimensions"].as_array().map(Vec::len))).collect();
        let (dead, admit) = (json!("DeadLetters"), json!("AdmitTime"));
        assert_eq!(told, [(&dead, Some(2)), (&dead, Some(1)), (&dead, Some(0)), (&admit, Some(0))]);
        assert_eq!((&data[3]["Values"], &data[3]["Value"]), (&json!([5, 7]), &Value::Null));
    }

    #[test]
    fn what_is_no_number_is_left_alone() {
        let mut odd = line();
        odd["TimeToSettled"] = json!("soon");
        assert_eq!(metrics(&odd.to_string())["Ledgerline"].len(), 1);
        assert_eq!(metrics(r#"{"level": "INFO", "message": "parked"}"#), BTreeMap::new());
    }
}
