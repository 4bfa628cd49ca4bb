//! Invocations of the team's own functions. Behind a function stands a partner: it does what the function is asked for,
//! or misbehaves, and keeps the truth. The function says of it what it knows, in its own words.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use shared::effects::body::RequestBody;
use shared::effects::credentials::Credentials;
use shared::effects::invocation::{FunctionRequest, InvokeFailure, TeamFunctions};
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners as _};
use shared::flows::PartnerAnswer;

use super::SimPartners;

/// The functions, as one container sees them.
pub(crate) struct SimFunctions(pub(crate) SimPartners);

#[async_trait]
impl TeamFunctions for SimFunctions {
    async fn invoke(&self, request: FunctionRequest) -> Result<Value, InvokeFailure> {
        let document: Value = serde_json::from_str(&request.document).expect("a document");
        let asks = document["operation"] == "ask";
        match self.0.call(call_of(request, &document, asks)).await {
            Ok(answer) if asks => answer_to_ask(answer),
            Ok(answer) => answer_to_do(answer),
            Err(NoAnswer::NotSent(why)) => Err(InvokeFailure::NotRun { why, retry_after: None }),
            Err(NoAnswer::Lost(why)) => Err(InvokeFailure::Lost(why)),
        }
    }
}

/// The call that the partner behind a function gets. What differs from try to try is no part of it: a partner that
/// honours our key refuses another request under it.
fn call_of(request: FunctionRequest, document: &Value, asks: bool) -> PartnerRequest {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let trace = ("traceparent".to_owned(), text(&document["trace"]["traceparent"]));
    let key = ("Idempotency-Key".to_owned(), text(&document["key"]));
    PartnerRequest {
        method: if asks { "GET" } else { "POST" },
        integration: request.integration,
        base_url: String::new(),
        path: "/".into(),
        headers: if asks { vec![trace] } else { vec![trace, key] },
        credentials: Credentials::None,
        body: (!asks).then(|| RequestBody::of_json(&json!({"event": document["event"], "with": document["with"]}))),
        timeout: request.timeout,
    }
}

/// What comes of a function that was asked to do something. In a status that says nothing of what happened, it raises,
/// says that it does not know, or says nothing that can be read.
fn answer_to_do(answer: PartnerAnswer) -> Result<Value, InvokeFailure> {
    let seconds: u64 = answer.headers.get("retry-after").and_then(|text| text.parse().ok()).unwrap_or_default();
    match answer.status {
        200 => Ok(json!({"outcome": "done", "result": answer.body})),
        401 | 403 => Err(InvokeFailure::NotAllowed("not allowed".into())),
        429 if seconds.is_multiple_of(2) => Ok(json!({"outcome": "retry", "retry_after": seconds})),
        429 => Err(InvokeFailure::NotRun { why: "throttled".into(), retry_after: Some(Duration::from_secs(seconds)) }),
        400 | 422 => Ok(json!({"outcome": "failed"})),
        500 | 502 => Err(InvokeFailure::Lost("the function raised an error".into())),
        408 | 409 => Ok(json!({"outcome": "in_doubt"})),
        _ => Ok(Value::Null),
    }
}

fn answer_to_ask(answer: PartnerAnswer) -> Result<Value, InvokeFailure> {
    match (answer.status, answer.body) {
        (200, Some(found)) => Ok(json!({"outcome": "found", "result": found})),
        (404, _) => Ok(json!({"outcome": "absent"})),
        (500 | 502, _) => Err(InvokeFailure::Lost("the function raised an error".into())),
        (408 | 409, _) => Ok(Value::Null),
        _ => Ok(json!({"outcome": "cannot_say"})),
    }
}
