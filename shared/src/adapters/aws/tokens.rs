//! Tokens on DynamoDB: one item for each account, in the limits' table. What is stored of a token is sealed.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure as OnFailure};
use serde_dynamo::aws_sdk_dynamodb_1::{from_attribute_value, to_attribute_value};

use super::limits::client;
use super::{number, refused_update, text, unavailable};
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::effects::token::{TokenState, TokenStore, TokenSwap};

const PORT: &str = "the shared tokens";

/// The item was never written, where no version was seen.
const UNKNOWN: &str = "attribute_not_exists(pk)";

/// The item is the version that was seen.
const SEEN: &str = "version = :seen";

const SWAP: &str = "SET version = :version, #state = :state, expires_at = :expires_at";

/// How long an unused item is kept: by then every token in it has ended.
const KEPT: Duration = Duration::from_secs(48 * 3600);

/// The tokens in the limits' table.
#[derive(Clone, Debug)]
pub struct DynamoTokens {
    client: Client,
    table: String,
}

impl DynamoTokens {
    /// The tokens in this table, with the same timeouts as its buckets.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self { client: client(aws), table: table.into() }
    }
}

#[async_trait]
impl TokenStore for DynamoTokens {
    /// Consistently: whoever waits for another's fetch would otherwise see the end of it late.
    async fn read(&self, key: &str) -> Result<Option<TokenState>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).key("pk", text(key)).consistent_read(true);
        get.send().await.map_err(unavailable(PORT))?.item.map(state).transpose()
    }

    async fn swap(&self, key: &str, seen: u64, next: &TokenState, now: Timestamp) -> Result<TokenSwap, Unavailable> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(key))
            .update_expression(SWAP)
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":version", number(next.version))
            .expression_attribute_values(":state", to_attribute_value(next).map_err(|_| unreadable())?)
            .expression_attribute_values(":expires_at", number((now + KEPT).secs()))
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        let update = match seen {
            0 => update.condition_expression(UNKNOWN),
            _ => update.condition_expression(SEEN).expression_attribute_values(":seen", number(seen)),
        };
        let Err(error) = update.send().await else { return Ok(TokenSwap::Written) };
        let Some(found) = refused_update(&error) else { return Err(unavailable(PORT)(error)) };
        match found.map(state).transpose()? {
            // The SDK repeated a write whose first try did land.
            Some(found) if found.version == next.version => Ok(TokenSwap::Written),
            found => Ok(TokenSwap::Moved(found)),
        }
    }
}

fn state(mut item: HashMap<String, AttributeValue>) -> Result<TokenState, Unavailable> {
    item.remove("state").and_then(|state| from_attribute_value(state).ok()).ok_or_else(unreadable)
}

fn unreadable() -> Unavailable {
    Unavailable { port: PORT, why: "a token's item is not readable".into() }
}
