//! The event source mappings that the template made.

use anyhow::{Context, Result};
use axum::http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::aws::Endpoint;

const PATH: &str = "/2015-03-31/event-source-mappings/";

/// How many batches run at once where a mapping sets no limit. AWS would run far more than one machine should.
const DEFAULT_CONCURRENCY: usize = 10;

/// One queue and the function that it feeds.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Mapping {
    #[serde(rename = "UUID")]
    id: String,
    pub(super) event_source_arn: String,
    state: String,
    function_arn: String,
    pub(super) batch_size: usize,
    #[serde(default)]
    function_response_types: Vec<String>,
    #[serde(default)]
    scaling_config: Option<ScalingConfig>,
}

impl Mapping {
    pub(super) fn queue_name(&self) -> &str {
        last(&self.event_source_arn)
    }

    /// The function's name, and the alias by which the mapping runs it.
    pub(super) fn function(&self) -> &str {
        self.function_arn.split_once(":function:").map_or(&self.function_arn, |(_, name)| name)
    }

    pub(super) fn reports_failures(&self) -> bool {
        self.function_response_types.iter().any(|kind| kind == "ReportBatchItemFailures")
    }

    pub(super) fn concurrency(&self) -> usize {
        let limit = self.scaling_config.as_ref().and_then(|scaling| scaling.maximum_concurrency.as_ref());
        // The emulator keeps what comes from a parameter as a text.
        let number = |limit: &Value| limit.as_u64().or_else(|| limit.as_str()?.parse().ok());
        limit.and_then(number).and_then(|limit| limit.try_into().ok()).unwrap_or(DEFAULT_CONCURRENCY)
    }
}

/// The mappings of FIFO queues that the emulator still runs itself.
pub(super) async fn list(endpoint: &Endpoint) -> Result<Vec<Mapping>> {
    let answer = endpoint.send("lambda", Method::GET, PATH, &[], "").await?;
    let answer = answer.expect_success("the list of the event source mappings")?;
    let listing: Listing =
        serde_json::from_slice(&answer.body).context("the emulator's event source mappings cannot be read")?;
    let mappings = listing.event_source_mappings.into_iter();
    let taken = |mapping: &Mapping| mapping.event_source_arn.ends_with(".fifo") && mapping.state == "Enabled";
    Ok(mappings.filter(taken).collect())
}

/// Disables a mapping in the emulator. No event was sent yet, so no batch of the emulator's is under way.
pub(super) async fn disable(endpoint: &Endpoint, mapping: &Mapping) -> Result<()> {
    let path = format!("{PATH}{}", mapping.id);
    let answer = endpoint.send("lambda", Method::PUT, &path, &[], r#"{"Enabled": false}"#).await?;
    answer.expect_success("the disabling of an event source mapping")?;
    Ok(())
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ScalingConfig {
    maximum_concurrency: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listing {
    event_source_mappings: Vec<Mapping>,
}

fn last(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_limits_come_from_the_mapping() {
        let mut mapping: Mapping = serde_json::from_value(serde_json::json!({
            "UUID": "u", "BatchSize": 10, "State": "Enabled",
            "EventSourceArn": "arn:aws:sqs:us-east-1:000000000000:ledgerline-events.fifo",
            "FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:ledgerline-processor:live",
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "ScalingConfig": {"MaximumConcurrency": 7},
        }))
        .expect("a mapping");
        assert_eq!(mapping.queue_name(), "ledgerline-events.fifo");
        assert_eq!(mapping.function(), "ledgerline-processor:live");
        assert_eq!(mapping.concurrency(), 7);
        mapping.scaling_config = Some(ScalingConfig { maximum_concurrency: Some("8".into()) });
        assert_eq!(mapping.concurrency(), 8);
        assert!(mapping.reports_failures());
    }
}
