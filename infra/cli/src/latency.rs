//! `ledgerline latency`: how long events take from received to settled, by CloudWatch's metrics.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use shared::base::time::{Timestamp, Unit};
use shared::operate::metric::{Dimension, Metric};

use crate::CommandExit;
use crate::args::{moment_before, now, parse_duration};
use crate::cloud::{self, CloudArgs, CloudClient};
use crate::output::{self, columns};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline latency --window 15m --percentile 95
  ledgerline latency --window 24h --percentile 50,95,99.9 --flow lead-routing

The time runs from when an event was received until it succeeded or was a no-op. Events that were parked or replayed
waited for a human, and are not counted.
CloudWatch computes percentiles for whole stretches of the clock. Where the window lies in two of them, the command
prints the higher percentile: the true one is not above it.";

/// The most metrics that one request may ask for.
const MAX_METRICS: usize = 500;

/// Show how long events take, from received to settled.
#[derive(Debug, Args)]
pub(crate) struct LatencyArgs {
    /// How far to look back: whole minutes, from 1m to 24h.
    #[arg(long, value_name = "15m", default_value = "15m", value_parser = window)]
    window: Duration,
    /// The percentiles to print, with commas between them.
    #[arg(long, value_name = "95", default_value = "50,95", value_delimiter = ',', value_parser = percentile)]
    percentile: Vec<String>,
    /// Only events of this flow.
    #[arg(long)]
    flow: Option<String>,
}

/// The events of a flow that settled in one state: how many, and how long they took.
#[derive(Debug, PartialEq)]
struct Row {
    flow: String,
    state: String,
    count: f64,
    /// Milliseconds, one value for each percentile on the command line.
    percentiles: Vec<Option<f64>>,
}

impl LatencyArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let rows = cloud::with(at, async |cloud| self.gather(cloud).await)?;
        output::print_answer(json, &self.as_json(&rows), || self.text(&rows))?;
        Ok(CommandExit::Success)
    }

    async fn gather(&self, cloud: &CloudClient) -> Result<Vec<Row>> {
        let metrics = self.metrics(cloud).await?;
        let mut rows = Vec::new();
        for some in metrics.chunks(MAX_METRICS / (1 + self.percentile.len())) {
            let input = self.queries(some, now());
            let answer = cloud.cloudwatch("GetMetricData", input).await?;
            rows.extend(some.iter().enumerate().map(|(n, metric)| self.row(n, metric, &answer)));
        }
        rows.retain(|row| row.count > 0.0);
        rows.sort_by(|a, b| (&a.flow, &a.state).cmp(&(&b.flow, &b.state)));
        Ok(rows)
    }

    /// Lists the metrics: one for each flow and each state in which its events settled.
    async fn metrics(&self, cloud: &CloudClient) -> Result<Vec<Value>> {
        let mut input = json!({"Namespace": cloud.metrics_namespace(), "MetricName": Metric::TimeToSettled.name()});
        if let Some(flow) = &self.flow {
            input["Dimensions"] = json!([{"Name": Dimension::Flow.name(), "Value": flow}]);
        }
        let mut metrics = Vec::new();
        for _ in 0..PAGES {
            let answer = cloud.cloudwatch("ListMetrics", input.clone()).await?;
            let listed = answer["Metrics"].as_array().into_iter().flatten();
            metrics.extend(listed.filter(|metric| is_by_flow_and_state(metric)).cloned());
            match &answer["NextToken"] {
                Value::String(token) => input["NextToken"] = json!(token),
                _ => return Ok(metrics),
            }
        }
        bail!("nothing is shown: CloudWatch lists more than 5,000 metrics of this kind. Name one flow with --flow")
    }

    /// The query for the count and the percentiles of each metric.
    fn queries(&self, metrics: &[Value], now: Timestamp) -> Value {
        // The whole window as one stretch: percentiles of shorter ones cannot be added up.
        let end = now.floor(MINUTE) + MINUTE;
        let stats = || [("c".to_owned(), "SampleCount".to_owned())].into_iter().chain(self.stats());
        let query = |n: usize, metric: &Value| {
            let metric = metric.clone();
            stats().map(move |(id, stat)| {
                let stat = json!({"Metric": metric, "Period": self.window.as_secs(), "Stat": stat});
                json!({"Id": format!("{id}_{n}"), "MetricStat": stat, "ReturnData": true})
            })
        };
        let queries: Vec<Value> = metrics.iter().enumerate().flat_map(|(n, metric)| query(n, metric)).collect();
        json!({"MetricDataQueries": queries, "StartTime": moment_before(end, self.window).secs(), "EndTime": end.secs()})
    }

    fn stats(&self) -> impl Iterator<Item = (String, String)> {
        self.percentile.iter().enumerate().map(|(n, percentile)| (format!("p{n}"), format!("p{percentile}")))
    }

    fn row(&self, n: usize, metric: &Value, answer: &Value) -> Row {
        let results = || answer["MetricDataResults"].as_array().into_iter().flatten();
        let values = |id: &str| -> Vec<f64> {
            let id = format!("{id}_{n}");
            let mine = results().filter(|result| result["Id"] == id.as_str());
            mine.flat_map(|result| result["Values"].as_array().cloned().unwrap_or_default())
                .filter_map(|value| value.as_f64())
                .collect()
        };
        let dimension = |name: Dimension| {
            let named = metric["Dimensions"].as_array().into_iter().flatten().find(|of| of["Name"] == name.name());
            named.and_then(|of| of["Value"].as_str()).unwrap_or_default().to_owned()
        };
        let percentiles = self.stats().map(|(id, _)| values(&id).into_iter().reduce(f64::max)).collect();
        Row {
            flow: dimension(Dimension::Flow),
            state: dimension(Dimension::State),
            count: values("c").iter().sum(),
            percentiles,
        }
    }

    fn as_json(&self, rows: &[Row]) -> Value {
        let row = |row: &Row| {
            let mut json = json!({"flow": row.flow, "state": row.state, "count": row.count});
            for ((_, stat), value) in self.stats().zip(&row.percentiles) {
                json[format!("{stat}_ms")] = json!(value);
            }
            json
        };
        json!({"window_seconds": self.window.as_secs(), "latency": rows.iter().map(row).collect::<Vec<_>>()})
    }

    fn text(&self, rows: &[Row]) -> String {
        if rows.is_empty() {
            return "No event settled within that time. Metrics can be a minute or two behind.\n".into();
        }
        let percentile = |value: &Option<f64>| value.map_or_else(|| format!("{:>9}", "-"), millis);
        let cells = |row: &Row| {
            let percentiles: Vec<String> = row.percentiles.iter().map(percentile).collect();
            [row.flow.clone(), row.state.clone(), row.count.to_string(), percentiles.join("  ")]
        };
        let names: Vec<String> = self.stats().map(|(_, stat)| format!("{stat:>9}")).collect();
        columns(["FLOW", "SETTLED AS", "COUNT", &names.join("  ")], &rows.iter().map(cells).collect::<Vec<_>>())
    }
}

/// Whether a metric is that of one flow and one state. The same times are counted once more without any dimension, and
/// would be told twice.
fn is_by_flow_and_state(metric: &Value) -> bool {
    let named =
        |name: Dimension| metric["Dimensions"].as_array().into_iter().flatten().any(|of| of["Name"] == name.name());
    Metric::TimeToSettled.sets()[0].iter().all(|name| named(*name))
}

/// How many pages of metrics are read at most, with 500 metrics each.
const PAGES: usize = 10;

const MINUTE: Duration = Duration::from_secs(60);

/// Milliseconds, aligned to the right.
fn millis(value: f64) -> String {
    let text = if value < 10_000.0 { format!("{value:.0} ms") } else { format!("{:.1} s", value / 1000.0) };
    format!("{text:>9}")
}

/// Reads a window: whole minutes, and no more than CloudWatch keeps in full.
fn window(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        span if span.as_secs().is_multiple_of(60) && (MINUTE..=Unit::Day.duration()).contains(&span) => Ok(span),
        _ => Err("write whole minutes, from 1m to 24h".into()),
    }
}

fn percentile(text: &str) -> Result<String, String> {
    let number: Option<f64> = text.parse().ok();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match number {
        Some(number) if plain && number > 0.0 && number < 100.0 => Ok(text.to_owned()),
        _ => Err("write a number between 0 and 100, for example 95 or 99.9".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency() -> LatencyArgs {
        LatencyArgs { window: Duration::from_secs(900), percentile: vec!["50".into(), "99.9".into()], flow: None }
    }

    fn metric(flow: &str, state: &str) -> Value {
        json!({"Namespace": "Ledgerline/shop", "MetricName": Metric::TimeToSettled.name(),
               "Dimensions": [{"Name": "Flow", "Value": flow}, {"Name": "State", "Value": state}]})
    }

    #[test]
    fn the_window_is_one_stretch_and_each_metric_has_its_queries() {
        let asked =
            latency().queries(&[metric("leads", "noop"), metric("leads", "succeeded")], Timestamp::from_secs(100_001));
        assert_eq!((asked["StartTime"].as_i64(), asked["EndTime"].as_i64()), (Some(99_120), Some(100_020)));
        let queries = asked["MetricDataQueries"].as_array().expect("queries");
        let told: Vec<_> =
            queries.iter().map(|query| (query["Id"].as_str(), query["MetricStat"]["Stat"].as_str())).collect();
        assert_eq!(
            told[..3],
            [(Some("c_0"), Some("SampleCount")), (Some("p0_0"), Some("p50")), (Some("p1_0"), Some("p99.9"))]
        );
        assert_eq!((told.len(), &queries[5]["MetricStat"]["Period"]), (6, &json!(900)));
        assert_eq!(queries[5]["MetricStat"]["Metric"], metric("leads", "succeeded"));
    }

    #[test]
    fn counts_are_added_up_and_the_higher_percentile_is_told() {
        let result = |id: &str, values: Value| json!({"Id": id, "Values": values, "StatusCode": "Complete"});
        let answer = json!({"MetricDataResults": [
            result("c_0", json!([3.0, 2.0])), result("p0_0", json!([120.0, 80.0])), result("p1_0", json!([])),
        ]});
        let row = latency().row(0, &metric("leads", "succeeded"), &answer);
        let expected =
            Row { flow: "leads".into(), state: "succeeded".into(), count: 5.0, percentiles: vec![Some(120.0), None] };
        assert_eq!(row, expected);
        let long = Row { state: "noop".into(), percentiles: vec![Some(9999.4), Some(61_500.0)], ..row };
        insta::assert_snapshot!(anstream::adapter::strip_str(&latency().text(&[expected, long])));
    }

    #[test]
    fn only_the_metrics_of_a_flow_and_a_state_are_told() {
        assert!(is_by_flow_and_state(&metric("leads", "noop")));
        for other in [json!([]), json!([{"Name": "Flow", "Value": "leads"}])] {
            assert!(!is_by_flow_and_state(&json!({"Dimensions": other})));
        }
    }

    #[test]
    fn windows_and_percentiles_are_what_cloudwatch_takes() {
        assert_eq!(window("15m"), Ok(Duration::from_secs(900)));
        for bad in ["0s", "90s", "25h", "soon"] {
            assert!(window(bad).is_err(), "{bad}");
        }
        assert_eq!(percentile("99.9").as_deref(), Ok("99.9"));
        for bad in ["0", "100", "-5", "p95", "nan", "1e1"] {
            assert!(percentile(bad).is_err(), "{bad}");
        }
    }
}
