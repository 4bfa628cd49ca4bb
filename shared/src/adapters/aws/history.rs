//! What was counted, by CloudWatch's GetMetricData: one request, and by hand as that of the team's functions.
//!
//! Deliberately absent: anything that is built or read before somebody looks at a chart, and a second try: who looks, looks
//! again.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::signed::{credentials, endpoint_of, post_with};
use crate::adapters::http::{LazyPool, answer_of};
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::operate::metric::{MAX_QUERIES, MetricHistory, MetricPoints, MetricQuery, MetricWindow};

/// How long CloudWatch may take, the signing included: the page around the charts waits for it.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// The most bytes of an answer: five hundred series of forty points.
const MAX_BYTES: usize = 640 * 1024;

/// What CloudWatch has counted in a namespace.
#[derive(Debug)]
pub struct CloudWatchHistory {
    aws: SdkConfig,
    namespace: String,
    pool: LazyPool,
}

impl CloudWatchHistory {
    /// What was counted in this namespace, in the account and the region of this configuration.
    pub fn new(aws: &SdkConfig, namespace: impl Into<String>, pool: LazyPool) -> Self {
        Self { aws: aws.clone(), namespace: namespace.into(), pool }
    }

    async fn ask(&self, body: String) -> Result<Value, String> {
        let url = endpoint_of(&self.aws, "monitoring") + "/";
        let headers = [
            ("content-type", "application/x-amz-json-1.0"),
            ("x-amz-target", "GraniteServiceVersion20100801.GetMetricData"),
        ];
        let pool = self.pool.get().map_err(|error| error.to_string())?;
        let (body, credentials) = (Bytes::from(body), credentials(&self.aws).await?);
        let request = post_with(&self.aws, "monitoring", &url, &headers, body, credentials);
        let request = request.map_err(|_| "the request could not be signed")?;
        match answer_of(pool, request, MAX_BYTES).await {
            Ok((200, Some(body))) => Ok(body),
            Ok((200, None)) => Err("the answer is too long, or no JSON".into()),
            Ok((status, _)) => Err(format!("it answered {status}")),
            Err(_) => Err("it was not reached".into()),
        }
    }
}

#[async_trait]
impl MetricHistory for CloudWatchHistory {
    async fn read(&self, queries: &[MetricQuery], window: MetricWindow) -> Result<Vec<MetricPoints>, Unavailable> {
        let body = request(&self.namespace, &queries[..queries.len().min(MAX_QUERIES)], window).to_string();
        let asked =
            timeout(TIME_LIMIT, self.ask(body)).await.unwrap_or_else(|_| Err("it did not answer in time".into()));
        let answer = asked.map_err(|why| Unavailable { port: "CloudWatch", why })?;
        Ok(points(&answer, queries.len()))
    }
}

fn request(namespace: &str, queries: &[MetricQuery], window: MetricWindow) -> Value {
    let query = |(n, query): (usize, &MetricQuery)| {
        let dimensions: Vec<Value> =
            query.dimensions.iter().map(|(name, value)| json!({"Name": name.name(), "Value": value})).collect();
        let metric = json!({"Namespace": namespace, "MetricName": query.metric.name(), "Dimensions": dimensions});
        let stat = json!({"Metric": metric, "Period": window.period.as_secs(), "Stat": query.statistic.name()});
        json!({"Id": format!("q{n}"), "MetricStat": stat, "ReturnData": true})
    };
    let queries: Vec<Value> = queries.iter().enumerate().map(query).collect();
    json!({
        "MetricDataQueries": queries, "StartTime": window.from.secs(), "EndTime": window.until.secs(),
        "ScanBy": "TimestampAscending",
    })
}

/// One series of an answer. What CloudWatch leaves out of one that has no points is empty.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Series {
    id: String,
    timestamps: Vec<f64>,
    values: Vec<f64>,
}

fn points(answer: &Value, queries: usize) -> Vec<MetricPoints> {
    let series: Vec<Series> = Vec::deserialize(&answer["MetricDataResults"]).unwrap_or_default();
    let mut by_id: BTreeMap<String, MetricPoints> =
        series.into_iter().map(|series| (series.id.clone(), series.points())).collect();
    (0..queries).map(|n| by_id.remove(&format!("q{n}")).unwrap_or_default()).collect()
}

impl Series {
    fn points(self) -> MetricPoints {
        #[expect(clippy::cast_possible_truncation, reason = "seconds of a date are whole and small")]
        let moment = |seconds: f64| Timestamp::from_secs(seconds as i64);
        let mut points: MetricPoints = self.timestamps.into_iter().map(moment).zip(self.values).collect();
        points.retain(|(_, value)| value.is_finite());
        points.sort_by_key(|(at, _)| *at);
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::metric::{Dimension, Metric, MetricStatistic};

    #[test]
    fn a_query_names_its_metric_as_it_is_counted() {
        let window =
            MetricWindow::until(Timestamp::from_secs(1000), Duration::from_secs(600), Duration::from_secs(300));
        let latency = MetricQuery::of(Metric::PartnerLatency, MetricStatistic::Percentile(95));
        let asked = request("Ledgerline/shop", &[latency.with(Dimension::Integration, "crm")], window);
        assert_eq!((&asked["StartTime"], &asked["EndTime"]), (&json!(600), &json!(1200)));
        let stat = &asked["MetricDataQueries"][0]["MetricStat"];
        assert_eq!((&stat["Stat"], &stat["Period"]), (&json!("p95"), &json!(300)));
        let metric = json!({"Namespace": "Ledgerline/shop", "MetricName": "PartnerLatency",
                            "Dimensions": [{"Name": "Integration", "Value": "crm"}]});
        assert_eq!(stat["Metric"], metric);
    }

    #[test]
    fn points_come_back_in_the_order_of_the_queries_and_of_time() {
        let answer = json!({"MetricDataResults": [
            {"Id": "q1", "Timestamps": [600.0, 300.0], "Values": [2.0, 1.0], "StatusCode": "Complete"},
            {"Id": "q0", "Timestamps": [], "Values": []},
        ]});
        let at = Timestamp::from_secs;
        assert_eq!(points(&answer, 3), [vec![], vec![(at(300), 1.0), (at(600), 2.0)], vec![]]);
        assert_eq!(points(&json!({"Messages": []}), 1), [vec![]]);
    }
}
