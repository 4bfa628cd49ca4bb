//! The ports on AWS.

mod ledger_items;
mod lines;
mod ledger;
mod windows;
mod sqs;
mod ssm;

mod budgets;
mod caps;
mod contacts;
mod documents;
mod functions;
mod history;
mod latest;
mod limits;
mod pressure;
pub(super) mod signed;
mod tokens;

use std::collections::HashMap;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig, retry::RetryConfig};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};

pub use budgets::DynamoBudgets;
pub use caps::DynamoCaps;
pub use contacts::DynamoContacts;
pub use documents::DynamoDocument;
pub use functions::LambdaFunctions;
pub use history::CloudWatchHistory;
pub use latest::DynamoLatest;
pub use ledger::DynamoLedger;
pub use limits::DynamoLimits;
pub use pressure::DynamoPressure;
pub use sqs::{SqsDeadLetters, SqsEvents};
pub use ssm::SsmSecrets;
pub use tokens::DynamoTokens;
pub use windows::DynamoWindows;

use crate::base::errors::Unavailable;

/// The most time for a call of the ledger or of the queue, its repetitions included.
const OPERATION_TIMEOUT: Duration = Duration::from_millis(2500);

/// The SDK's configuration, from the standard AWS environment variables.
///
/// The SDK's own retries are bounded, because a sender of webhooks hangs up after three seconds and a
/// batch has a deadline.
pub async fn aws() -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_millis(1200))
        .operation_timeout(OPERATION_TIMEOUT)
        .build();
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .timeout_config(timeouts)
        .retry_config(RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(50)))
        .load()
        .await
}

/// An SDK error, as the core sees it. Its code says enough, or its kind: its message may quote an item, and so a person's
/// email, and its details the whole answer.
fn unavailable<E, R>(port: &'static str) -> impl Fn(SdkError<E, R>) -> Unavailable
where
    E: ProvideErrorMetadata,
{
    move |error| Unavailable { port, why: error.code().unwrap_or_else(|| kind_of(&error)).to_owned() }
}

/// What became of a request whose answer has no code.
fn kind_of<E, R>(error: &SdkError<E, R>) -> &'static str {
    match error {
        SdkError::ConstructionFailure(_) => "the request could not be made",
        SdkError::TimeoutError(_) => "it did not answer in time",
        SdkError::DispatchFailure(failed) if failed.is_timeout() => "it could not be reached in time",
        SdkError::DispatchFailure(failed) if failed.is_io() => "it could not be reached",
        SdkError::DispatchFailure(_) => "the request could not be signed or sent",
        SdkError::ResponseError(_) => "its answer could not be read",
        _ => "it answered with an error without a code",
    }
}

/// The stored item, if an update's condition failed; there may be none, or none was asked for.
fn refused_update<R>(error: &SdkError<UpdateItemError, R>) -> Option<Option<HashMap<String, AttributeValue>>> {
    match error.as_service_error()? {
        UpdateItemError::ConditionalCheckFailedException(failed) => Some(failed.item.clone()),
        _ => None,
    }
}

/// A text as DynamoDB takes it.
fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// A number as DynamoDB takes it.
fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ErrorMetadata;

    use super::*;

    #[test]
    fn an_error_without_a_code_says_its_kind_and_nothing_of_the_answer() {
        type Failed = SdkError<UpdateItemError, &'static str>;
        let canary = r#"{"Item": {"email": {"S": "canary@example.com"}}}"#;
        let nameless = || UpdateItemError::generic(ErrorMetadata::builder().message(canary).build());
        let named = ErrorMetadata::builder().code("ThrottlingException").message(canary).build();
        for (error, told) in [
            (Failed::response_error(canary, canary), "its answer could not be read"),
            (Failed::service_error(nameless(), canary), "it answered with an error without a code"),
            (Failed::service_error(UpdateItemError::generic(named), canary), "ThrottlingException"),
            (Failed::timeout_error(canary), "it did not answer in time"),
            (Failed::construction_failure(canary), "the request could not be made"),
        ] {
            let expected = Unavailable { port: "the ledger", why: told.to_owned() };
            assert_eq!(unavailable("the ledger")(error), expected);
        }
    }
}
