//! A cloud to operate: the replay function, CloudWatch, and the operator's name there.
//!
//! A query is repeated when its answer is lost, be it on the way to us or on the way to the function. A change is
//! not: it may have been made, so the error names the command that shows whether it was. A request that was surely
//! not received is sent again either way.

mod aws_client;
mod call_failure;
mod error;
mod target;

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::operate::{log_query, metric};
use tokio::time::{sleep, timeout};

use crate::args::now;
use crate::operator_name::{host_name, operator_name};
use aws_client::{AwsClient, AwsRequest, AwsResponse};
use call_failure::{CallFailure, Repeat};
use target::CloudTarget;

pub(crate) use error::CloudError;
pub(crate) use target::{CloudArgs, quoted};

/// How often a request is sent at most.
const TRIES: u32 = 3;

/// The pause before the second try; it triples.
const PAUSE: Duration = Duration::from_millis(300);

/// How long AWS may take to name the caller.
const IDENTITY: Duration = Duration::from_secs(5);

/// A client for the cloud that is operated.
#[derive(Debug)]
pub(crate) struct CloudClient {
    aws: AwsClient,
    stack: String,
    function: String,
    alias: &'static str,
    hint: &'static str,
    args: CloudArgs,
}

/// Runs a verb's work on the cloud that the options choose.
pub(crate) fn with<T>(at: &CloudArgs, work: impl AsyncFnOnce(&CloudClient) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("nothing was sent: the command cannot start its event loop")?.block_on(async {
        let CloudTarget { aws, stack, function, alias, hint } = at.target().await?;
        work(&CloudClient { aws: AwsClient::new(aws)?, stack, function, alias, hint, args: at.clone() }).await
    })
}

impl CloudClient {
    /// Invokes the replay function with an operation that changes nothing.
    pub(crate) async fn query(&self, operation: Value) -> Result<Value> {
        let next = "Nothing was changed: try again";
        parse_answer(&self.send_with_retries(&self.invocation(&operation), Repeat::Always, next).await?)
    }

    /// Invokes the replay function with a change, once. `check` is the verb that shows whether it was made.
    pub(crate) async fn change(&self, operation: Value, check: &str) -> Result<Value> {
        let next = format!("It may have been done: look at `{}` before you try again", self.command(check));
        parse_answer(&self.send_with_retries(&self.invocation(&operation), Repeat::IfNotSent, &next).await?)
    }

    /// Invokes the replay function with a change that makes no difference when it is repeated. `next` is what to do
    /// once an answer was lost.
    pub(crate) async fn repeatable_change(&self, operation: Value, next: &str) -> Result<Value> {
        let next = format!("A part may have been done: {next}");
        parse_answer(&self.send_with_retries(&self.invocation(&operation), Repeat::Always, &next).await?)
    }

    /// Calls an action of CloudWatch that changes nothing.
    pub(crate) async fn cloudwatch(&self, action: &str, input: Value) -> Result<Value> {
        let request = cloudwatch_request(action, &input);
        let response = self.send_with_retries(&request, Repeat::Always, "Nothing was changed: try again").await?;
        serde_json::from_slice(&response.body).context("CloudWatch sent an answer that is not JSON: try again")
    }

    /// Counts one of the stack's metrics, where it makes no difference that it is counted twice.
    pub(crate) async fn count(&self, metric: &str) -> Result<()> {
        let datum = json!({"MetricName": metric, "Value": 1, "Unit": "Count"});
        let request =
            cloudwatch_request("PutMetricData", &json!({"Namespace": self.metrics_namespace(), "MetricData": [datum]}));
        self.send_with_retries(&request, Repeat::Always, "Try again").await.map(drop)
    }

    /// Calls an action of SSM Parameter Store that changes nothing.
    pub(crate) async fn read_parameters(&self, action: &str, input: Value) -> Result<Value> {
        let request = ssm_request(action, &input);
        let response = self.send_with_retries(&request, Repeat::Always, "Nothing was changed: try again").await?;
        serde_json::from_slice(&response.body).context("SSM sent an answer that is not JSON: try again")
    }

    /// Calls an action of SSM Parameter Store that changes something, once. `check` is the verb that shows whether it did.
    pub(crate) async fn change_parameters(&self, action: &str, input: Value, check: &str) -> Result<()> {
        let next = format!("It may have been done: look at `{}` before you try again", self.command(check));
        self.send_with_retries(&ssm_request(action, &input), Repeat::IfNotSent, &next).await.map(drop)
    }

    /// The stack's name.
    pub(crate) fn stack(&self) -> &str {
        &self.stack
    }

    /// The operator's name: as AWS knows it, or else as this machine does.
    pub(crate) async fn caller_name(&self) -> String {
        let sts = aws_sdk_sts::Client::new(&self.aws.aws);
        let identity = timeout(IDENTITY, sts.get_caller_identity().send()).await;
        let arn = identity.ok().and_then(Result::ok).and_then(|caller| caller.arn);
        operator_name(arn.as_deref(), std::env::var("USER").ok().as_deref(), &host_name())
    }

    /// The namespace of the stack's metrics.
    pub(crate) fn metrics_namespace(&self) -> String {
        metric::namespace(&self.stack)
    }

    /// The address of an event's lines in Logs Insights, by the event's page. The local cloud has none.
    pub(crate) fn log_address(&self, page: &Value) -> Option<String> {
        let region = self.aws.aws.region().filter(|_| !self.args.is_local())?.as_ref();
        let received = page["received_at"].as_str().and_then(Timestamp::parse)?;
        Some(log_query::address(region, &self.stack, &EventId::named(page["id"].as_str()?), received, now()))
    }

    /// A command that operates the same cloud when it is pasted.
    pub(crate) fn command(&self, verb: &str) -> String {
        self.args.command(verb)
    }

    fn invocation(&self, operation: &Value) -> AwsRequest {
        let path = format!("/2015-03-31/functions/{}/invocations?Qualifier={}", self.function, self.alias);
        AwsRequest { service: "lambda", path, target: None, body: operation.to_string() }
    }

    /// Sends a request a few times, where it may be repeated. `next` is what to do once an answer was lost.
    async fn send_with_retries(&self, request: &AwsRequest, repeat: Repeat, next: &str) -> Result<AwsResponse> {
        let (mut tries, mut pause) = (1, PAUSE);
        loop {
            let sent = self.aws.send(request).await?.map_err(CallFailure::from);
            let failure = match sent.and_then(call_failure::check_response) {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if tries == TRIES || !failure.may_repeat(repeat) {
                return Err(CloudError::Unreached(failure.sentence(&self.destination(request), self.hint, next)).into());
            }
            sleep(pause).await;
            (tries, pause) = (tries + 1, pause * 3);
        }
    }

    /// The service and its URL, in words.
    fn destination(&self, request: &AwsRequest) -> String {
        match request.service {
            "lambda" => format!("the function {} at {}", self.function, self.aws.endpoint(request.service)),
            "ssm" => format!("SSM Parameter Store at {}", self.aws.endpoint(request.service)),
            _ => format!("CloudWatch at {}", self.aws.endpoint(request.service)),
        }
    }
}

fn ssm_request(action: &str, input: &Value) -> AwsRequest {
    let target = Some(format!("AmazonSSM.{action}"));
    AwsRequest { service: "ssm", path: "/".into(), target, body: input.to_string() }
}

fn cloudwatch_request(action: &str, input: &Value) -> AwsRequest {
    let target = Some(format!("GraniteServiceVersion20100801.{action}"));
    AwsRequest { service: "monitoring", path: "/".into(), target, body: input.to_string() }
}

fn parse_answer(response: &AwsResponse) -> Result<Value> {
    // Whatever it was asked for may be done: that is not a mistake of the command line.
    let unreadable = |error: serde_json::Error| {
        let told = "the replay function sent an answer that is not JSON, so that nobody can say what it did";
        CloudError::Unreached(format!("{told}: look at its log ({error})"))
    };
    Ok(CloudError::check(serde_json::from_slice(&response.body).map_err(unreadable)?)?)
}
