//! Reaching a cloud: the replay function, CloudWatch, and who we are there.
//!
//! Looking is repeated when an answer is lost, be it ours or one that the function waited for. A change is not:
//! it may have been made, so a lost answer says where to look before it is tried again. What surely was not seen is tried again either way.

mod call_failure;
mod error;
mod target;
mod aws_client;

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::operator_name;
use aws_client::{AwsClient, AwsRequest, AwsResponse};
use call_failure::{CallFailure, Repeat};
use target::CloudTarget;

pub(crate) use error::CloudError;
pub(crate) use target::CloudArgs;

/// How often something is asked at most.
const TRIES: u32 = 3;

/// The pause before the second try; it triples.
const PAUSE: Duration = Duration::from_millis(300);

/// How long to wait for who we are.
const IDENTITY: Duration = Duration::from_secs(5);

/// A cloud that is operated.
#[derive(Debug)]
pub(crate) struct CloudClient {
    aws: AwsClient,
    function: String,
    hint: &'static str,
}

/// Runs a verb's work on a cloud.
pub(crate) fn with<T>(at: &CloudArgs, work: impl AsyncFnOnce(&CloudClient) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(async {
        let CloudTarget { aws, function, hint } = at.place().await?;
        work(&CloudClient { aws: AwsClient::new(aws)?, function, hint }).await
    })
}

impl CloudClient {
    /// Asks the function for what changes nothing.
    pub(crate) async fn query(&self, operation: Value) -> Result<Value> {
        let answer = self
            .send_with_retries(&self.invocation(&operation), Repeat::Always, "Nothing was changed: try again")
            .await?;
        parse_answer(&answer)
    }

    /// Asks the function for a change, once. `then` is the command that shows whether it came to pass.
    pub(crate) async fn change(&self, operation: Value, then: &str) -> Result<Value> {
        let next = format!("It may have been done: look at `{then}` before you try again");
        let answer = self.send_with_retries(&self.invocation(&operation), Repeat::IfNotSent, &next).await?;
        parse_answer(&answer)
    }

    /// An action of CloudWatch that changes nothing.
    pub(crate) async fn cloudwatch(&self, action: &str, input: Value) -> Result<Value> {
        let target = Some(format!("GraniteServiceVersion20100801.{action}"));
        let call = AwsRequest { service: "monitoring", path: "/".into(), target, body: input.to_string() };
        let answer = self.send_with_retries(&call, Repeat::Always, "Try again").await?;
        serde_json::from_slice(&answer.body).context("CloudWatch's answer is not JSON")
    }

    /// Who we are: AWS's word for it, or this machine's.
    pub(crate) async fn caller_name(&self) -> String {
        let sts = aws_sdk_sts::Client::new(&self.aws.aws);
        let asked = timeout(IDENTITY, sts.get_caller_identity().send()).await;
        let arn = asked.ok().and_then(Result::ok).and_then(|caller| caller.arn);
        operator_name::operator_name(arn.as_deref(), std::env::var("USER").ok().as_deref(), &operator_name::host_name())
    }

    fn invocation(&self, operation: &Value) -> AwsRequest {
        let path = format!("/2015-03-31/functions/{}/invocations", self.function);
        AwsRequest { service: "lambda", path, target: None, body: operation.to_string() }
    }

    /// Asks a few times, where it may be asked again. `next` is what to do once an answer was lost.
    async fn send_with_retries(&self, request: &AwsRequest, repeat: Repeat, next: &str) -> Result<AwsResponse> {
        let (mut tries, mut pause) = (1, PAUSE);
        loop {
            let failure =
                match self.aws.send(request).await?.map_err(CallFailure::from).and_then(call_failure::check_response) {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                };
            if tries == TRIES || !failure.may_repeat(repeat) {
                return Err(CloudError::Unreached(failure.sentence(&self.destination(request), self.hint, next)).into());
            }
            sleep(pause).await;
            (tries, pause) = (tries + 1, pause * 3);
        }
    }

    /// What was asked, in words.
    fn destination(&self, request: &AwsRequest) -> String {
        match request.service {
            "lambda" => format!("the function {} at {}", self.function, self.aws.endpoint(request.service)),
            _ => format!("CloudWatch at {}", self.aws.endpoint(request.service)),
        }
    }
}

fn parse_answer(answer: &AwsResponse) -> Result<Value> {
    let answer = serde_json::from_slice(&answer.body).context("the function's answer is not JSON")?;
    Ok(CloudError::check(answer)?)
}
