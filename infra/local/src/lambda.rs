//! Invocations of deployed functions.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::http::{HeaderMap, Method, StatusCode};
use base64::prelude::*;
use serde::Serialize;
use serde_json::Value;

use crate::aliases::Aliases;
use crate::aws::Endpoint;
use crate::metrics;
use crate::private_files;

/// The outcome of an invocation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationOutcome {
    /// The function answered.
    Answered(Value),
    /// The function crashed or ran out of time: this is Lambda's error.
    Failed(Value),
    /// The emulator throttled the invocation. The function did not receive the event.
    Throttled,
}

/// An invocation: what came of it, and the version that ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletedInvocation {
    /// What came of it.
    pub outcome: InvocationOutcome,
    /// The version that ran, where the emulator says so.
    pub version: Option<String>,
}

/// The emulator's Invoke API. An alias's weights are kept, which the emulator itself does not do. Each invocation's log tail goes to a file of the function's own, and its metrics to
/// CloudWatch.
#[derive(Clone, Debug)]
pub struct Lambda {
    endpoint: Endpoint,
    aliases: Arc<Aliases>,
    logs: Arc<PathBuf>,
}

impl Lambda {
    /// A client that invokes through this endpoint, and logs into this folder.
    pub fn new(endpoint: Endpoint, logs: PathBuf) -> Self {
        Self { aliases: Arc::new(Aliases::new(endpoint.clone())), endpoint, logs: Arc::new(logs) }
    }

    /// Invokes a function, and waits for its answer.
    pub async fn invoke(&self, function: &str, event: &Value) -> Result<InvocationOutcome> {
        Ok(self.run(function, event).await?.outcome)
    }

    /// Invokes a function by its name, or by `name:alias`, and says which version ran.
    pub async fn run(&self, function: &str, event: &Value) -> Result<CompletedInvocation> {
        let (name, path) = match function.split_once(':') {
            None => (function, format!("/2015-03-31/functions/{function}/invocations")),
            Some((name, alias)) => {
                let qualifier = self.aliases.qualifier(name, alias).await?;
                (name, format!("/2015-03-31/functions/{name}/invocations?Qualifier={qualifier}"))
            }
        };
        let headers = [("x-amz-log-type", "Tail"), ("content-type", "application/json")];
        let answer = self.endpoint.send("lambda", Method::POST, &path, &headers, event.to_string()).await?;
        self.keep_log(name, &answer.headers);
        let version = answer.headers.get("x-amz-executed-version").and_then(|version| version.to_str().ok());
        let version = version.map(str::to_owned);
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return Ok(CompletedInvocation { outcome: InvocationOutcome::Throttled, version });
        }
        let answer = answer.expect_success(&format!("the invocation of {function}"))?;
        let failed = answer.headers.contains_key("x-amz-function-error");
        let payload =
            answer.json().with_context(|| format!("the function {function} sent an answer that is not JSON"))?;
        let outcome = if failed { InvocationOutcome::Failed(payload) } else { InvocationOutcome::Answered(payload) };
        Ok(CompletedInvocation { outcome, version })
    }

    /// Keeps the log tail of an invocation. A log that cannot be written is no reason to lose the invocation.
    fn keep_log(&self, function: &str, headers: &HeaderMap) {
        let Some(tail) = headers.get("x-amz-log-result") else { return };
        let Ok(mut text) = BASE64_STANDARD.decode(tail) else { return };
        metrics::extract(&self.endpoint, &text);
        text.push(b'\n');
        let file = self.logs.join(format!("{function}.log"));
        let _ = private_files::append(&file).and_then(|mut file| file.write_all(&text));
    }
}
