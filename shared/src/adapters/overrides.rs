//! The overrides on DynamoDB: one item a flow, in the limits' table, which never expires.

use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::overrides::{Accepted, Stored};
use crate::ports::{OverrideStore, Overrides, Unavailable, WriteError};

use super::{number, unavailable};

const PORT: &str = "the overrides";

/// Nobody has written since the version that was seen. The second half lets the SDK's repetition of a
/// write through whose first try did land.
const UNCHANGED: &str = "#version = :seen OR (#version = :next AND #policy = :policy)";

/// The same, where no version was seen.
const ABSENT: &str = "attribute_not_exists(pk) OR (#version = :next AND #policy = :policy)";

const WRITE: &str = "SET #version = :next, #policy = :policy";

/// The overrides in the limits' table.
#[derive(Clone, Debug)]
pub struct DynamoOverrides {
    client: Client,
    table: String,
}

impl DynamoOverrides {
    /// The overrides in this table.
    ///
    /// An event waits while they are read, and can go by the last good one. So they have less time
    /// than the ledger.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(Duration::from_millis(500))
            .operation_timeout(Duration::from_millis(800))
            .build();
        let config = Builder::from(aws).timeout_config(timeouts).build();
        Self { client: Client::from_conf(config), table: table.into() }
    }
}

#[async_trait]
impl OverrideStore for DynamoOverrides {
    async fn read(&self, flow: &str) -> Result<Option<Stored>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).key("pk", key(flow)).consistent_read(true);
        let Some(item) = get.send().await.map_err(unavailable(PORT))?.item else { return Ok(None) };
        let version = item.get("version").and_then(|value| value.as_n().ok()?.parse().ok());
        let text = item.get("policy").and_then(|value| value.as_s().ok().cloned());
        // What is not readable is a bad override, not an outage.
        Ok(Some(Stored { version: version.unwrap_or_default(), text: text.unwrap_or_default() }))
    }
}

#[async_trait]
impl Overrides for DynamoOverrides {
    async fn put(&self, accepted: &Accepted, seen: u64) -> Result<u64, WriteError> {
        let next = seen + 1;
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", key(accepted.flow()))
            .update_expression(WRITE)
            .expression_attribute_names("#version", "version")
            .expression_attribute_names("#policy", "policy")
            .expression_attribute_values(":next", number(next))
            .expression_attribute_values(":policy", AttributeValue::S(accepted.text().to_owned()));
        let update = match seen {
            0 => update.condition_expression(ABSENT),
            _ => update.condition_expression(UNCHANGED).expression_attribute_values(":seen", number(seen)),
        };
        match update.send().await {
            Ok(_) => Ok(next),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Err(WriteError::Fenced),
                _ => Err(unavailable(PORT)(error).into()),
            },
        }
    }
}

fn key(flow: &str) -> AttributeValue {
    AttributeValue::S(format!("override/{flow}"))
}
