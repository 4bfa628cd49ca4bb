//! The latest events on DynamoDB: one item for each entity in the limits' table.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure as OnFailure};

use super::{number, refused_update, text, unavailable};
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::operate::stale_guard::Latest;

const PORT: &str = "the record of the latest events";

/// The stored event is not newer.
const NOT_NEWER: &str = "attribute_not_exists(pk) OR received_at < :received_at";
const WRITE: &str = "SET received_at = :received_at, expires_at = :expires_at";

/// The latest events in the limits' table.
#[derive(Clone, Debug)]
pub struct DynamoLatest {
    client: Client,
    table: String,
}

impl DynamoLatest {
    /// The latest events in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self { client: Client::new(aws), table: table.into() }
    }
}

#[async_trait]
impl Latest for DynamoLatest {
    async fn applied(&self, key: &str) -> Result<Option<Timestamp>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).key("pk", text(key)).consistent_read(true);
        Ok(get.send().await.map_err(unavailable(PORT))?.item.as_ref().and_then(received_at))
    }

    async fn apply(&self, key: &str, at: Timestamp, expires_at: i64) -> Result<Option<Timestamp>, Unavailable> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(key))
            .update_expression(WRITE)
            .condition_expression(NOT_NEWER)
            .expression_attribute_values(":received_at", number(at.millis()))
            .expression_attribute_values(":expires_at", number(expires_at))
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        match update.send().await {
            Ok(_) => Ok(None),
            Err(error) => match refused_update(&error) {
                // The event itself may have been recorded before.
                Some(stored) => Ok(stored.as_ref().and_then(received_at).filter(|stored| *stored > at)),
                None => Err(unavailable(PORT)(error)),
            },
        }
    }
}

fn received_at(item: &HashMap<String, AttributeValue>) -> Option<Timestamp> {
    item.get("received_at")?.as_n().ok()?.parse().ok().map(Timestamp::from_millis)
}
