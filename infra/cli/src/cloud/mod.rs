//! Reaching a cloud: the replay function, CloudWatch, and who we are there.
//!
//! Looking is repeated when an answer is lost, be it ours or one that the function waited for. A change is not:
//! it may have been made, so a lost answer says where to look before it is tried again. What surely was not seen is tried again either way.

mod missed;
mod place;
mod signed;

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::trouble::Trouble;
use crate::who;
use missed::{Missed, Repeat};
use place::Place;
use signed::{Answer, Call, Signed};

pub(crate) use place::At;

/// How often something is asked at most.
const TRIES: u32 = 3;

/// The pause before the second try; it triples.
const PAUSE: Duration = Duration::from_millis(300);

/// How long to wait for who we are.
const IDENTITY: Duration = Duration::from_secs(5);

/// A cloud that is operated.
#[derive(Debug)]
pub(crate) struct Cloud {
    aws: Signed,
    function: String,
    hint: &'static str,
}

/// Runs a verb's work on a cloud.
pub(crate) fn with<T>(at: &At, work: impl AsyncFnOnce(&Cloud) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start")?.block_on(async {
        let Place { aws, function, hint } = at.place().await?;
        work(&Cloud { aws: Signed::new(aws)?, function, hint }).await
    })
}

impl Cloud {
    /// Asks the function for what changes nothing.
    pub(crate) async fn look(&self, operation: Value) -> Result<Value> {
        let answer = self.ask(&self.invocation(&operation), Repeat::Always, "Nothing was changed: try again").await?;
        operated(&answer)
    }

    /// Asks the function for a change, once. `then` is the command that shows whether it came to pass.
    pub(crate) async fn change(&self, operation: Value, then: &str) -> Result<Value> {
        let next = format!("It may have been done: look at `{then}` before you try again");
        let answer = self.ask(&self.invocation(&operation), Repeat::IfUnseen, &next).await?;
        operated(&answer)
    }

    /// An action of CloudWatch that changes nothing.
    pub(crate) async fn metrics(&self, action: &str, input: Value) -> Result<Value> {
        let target = Some(format!("GraniteServiceVersion20100801.{action}"));
        let call = Call { service: "monitoring", path: "/".into(), target, body: input.to_string() };
        let answer = self.ask(&call, Repeat::Always, "Try again").await?;
        serde_json::from_slice(&answer.body).context("CloudWatch's answer is not JSON")
    }

    /// Who we are: AWS's word for it, or this machine's.
    pub(crate) async fn who(&self) -> String {
        let sts = aws_sdk_sts::Client::new(&self.aws.aws);
        let asked = timeout(IDENTITY, sts.get_caller_identity().send()).await;
        let arn = asked.ok().and_then(Result::ok).and_then(|caller| caller.arn);
        who::name(arn.as_deref(), std::env::var("USER").ok().as_deref(), &who::machine())
    }

    fn invocation(&self, operation: &Value) -> Call {
        let path = format!("/2015-03-31/functions/{}/invocations", self.function);
        Call { service: "lambda", path, target: None, body: operation.to_string() }
    }

    /// Asks a few times, where it may be asked again. `next` is what to do once an answer was lost.
    async fn ask(&self, call: &Call, repeat: Repeat, next: &str) -> Result<Answer> {
        let (mut tries, mut pause) = (1, PAUSE);
        loop {
            let missed = match self.aws.send(call).await?.map_err(Missed::from).and_then(missed::judge) {
                Ok(answer) => return Ok(answer),
                Err(missed) => missed,
            };
            if tries == TRIES || !missed.may_repeat(repeat) {
                return Err(Trouble::Unreached(missed.tell(&self.at(call), self.hint, next)).into());
            }
            sleep(pause).await;
            (tries, pause) = (tries + 1, pause * 3);
        }
    }

    /// What was asked, in words.
    fn at(&self, call: &Call) -> String {
        match call.service {
            "lambda" => format!("the function {} at {}", self.function, self.aws.endpoint(call.service)),
            _ => format!("CloudWatch at {}", self.aws.endpoint(call.service)),
        }
    }
}

fn operated(answer: &Answer) -> Result<Value> {
    let answer = serde_json::from_slice(&answer.body).context("the function's answer is not JSON")?;
    Ok(Trouble::check(answer)?)
}
