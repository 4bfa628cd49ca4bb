//! The buckets on DynamoDB: one item each, one conditional write for each draw.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure as OnFailure};

use crate::base::errors::Unavailable;
use crate::limits::rates::{Draw, Drawn, Limits, Tat};

use super::{OPERATION_TIMEOUT, number, refused_update, unavailable};

const PORT: &str = "the limits";

/// The bucket was never written, or it is full. [`Draw::applied_to`] says the same.
const FULL: &str = "attribute_not_exists(pk) OR tat <= :now";
const TAKE_FROM_FULL: &str = "SET tat = :next, expires_at = :expires_at";

/// The bucket is not full, and has enough tokens. [`Draw::applied_to`] says the same.
const ENOUGH: &str = "tat > :now AND tat <= :latest";
const TAKE_FROM_REST: &str = "SET tat = tat + :cost, expires_at = :expires_at";

/// The limits' table.
#[derive(Clone, Debug)]
pub struct DynamoLimits {
    client: Client,
    table: String,
}

impl DynamoLimits {
    /// The buckets in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self { client: client(aws), table: table.into() }
    }
}

/// The client for limits. A limit is not worth much of a sender's patience: the ledger and the queue come after it. So
/// it has a third of their time, connecting included, and one repetition.
pub(super) fn client(aws: &SdkConfig) -> Client {
    let whole = aws.timeout_config().and_then(TimeoutConfig::operation_timeout).unwrap_or(OPERATION_TIMEOUT);
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(whole / 5).operation_timeout(whole / 3).build();
    let retries = RetryConfig::standard().with_max_attempts(2).with_initial_backoff(Duration::from_millis(20));
    Client::from_conf(Builder::from(aws).timeout_config(timeouts).retry_config(retries).build())
}

#[async_trait]
impl Limits for DynamoLimits {
    async fn draw(&self, bucket: &str, draw: &Draw) -> Result<Drawn, Unavailable> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(bucket.to_owned()))
            .expression_attribute_values(":expires_at", number(draw.expires_at()))
            .return_values(ReturnValue::UpdatedNew)
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        let update = match draw {
            Draw::Full { now, next } => update
                .update_expression(TAKE_FROM_FULL)
                .condition_expression(FULL)
                .expression_attribute_values(":now", number(now.micros()))
                .expression_attribute_values(":next", number(next.micros())),
            Draw::Rest { now, latest, cost } => update
                .update_expression(TAKE_FROM_REST)
                .condition_expression(ENOUGH)
                .expression_attribute_values(":now", number(now.micros()))
                .expression_attribute_values(":latest", number(latest.micros()))
                .expression_attribute_values(":cost", number(*cost)),
        };
        match update.send().await {
            Ok(taken) => Ok(Drawn::Taken(tat(taken.attributes.as_ref())?.ok_or_else(unreadable)?)),
            Err(error) => match refused_update(&error) {
                Some(moved) => Ok(Drawn::Moved(tat(moved.as_ref())?)),
                None => Err(unavailable(PORT)(error)),
            },
        }
    }
}

fn tat(item: Option<&HashMap<String, AttributeValue>>) -> Result<Option<Tat>, Unavailable> {
    let Some(item) = item else { return Ok(None) };
    let stored = item.get("tat").and_then(|value| value.as_n().ok()?.parse().ok());
    stored.map(|micros| Some(Tat::from_micros(micros))).ok_or_else(unreadable)
}

fn unreadable() -> Unavailable {
    Unavailable { port: PORT, why: "a bucket is not readable".into() }
}
