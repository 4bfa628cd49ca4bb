//! The request that an effect sends, from its templates and the event.

use std::time::Duration;

use serde_json::{Value, json};

use crate::event::Event;
use crate::flow::{Effect, Integration};
use crate::ledger::Row;
use crate::signature::Secret;
use crate::template::{Scope, TemplateError};
use crate::trace::Trace;

/// A call to a partner, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct PartnerRequest {
    /// The HTTP method.
    pub method: &'static str,
    /// The integration's name.
    pub integration: String,
    /// The integration's base URL, and the path below it.
    pub base_url: String,
    /// The path, encoded.
    pub path: String,
    /// The header fields, without the authorization.
    pub headers: Vec<(String, String)>,
    /// What proves us to the partner, as a bearer token.
    pub bearer: Option<Secret>,
    /// The JSON body.
    pub body: Option<Value>,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

/// Renders an effect's request for one event. `row` knows the results of the effects before it.
pub fn render(
    effect: &Effect,
    integration: &Integration,
    event: &Event,
    row: &Row,
    trace: &Trace,
    bearer: Option<Secret>,
) -> Result<PartnerRequest, TemplateError> {
    let scope = Scope { event: &event.payload, effects: &row.results() };
    let body = effect.request.body.as_ref().map(|body| body.render(&scope)).transpose()?;
    Ok(PartnerRequest {
        method: effect.request.method.as_str(),
        integration: effect.integration.clone(),
        base_url: integration.base_url.clone(),
        path: effect.request.path.render(&scope)?,
        headers: vec![
            (integration.idempotency_header.clone(), idempotency_key(event, effect)),
            ("traceparent".into(), trace.to_string()),
        ],
        bearer,
        body,
        timeout: integration.timeout,
    })
}

/// The same for every try of this effect of this event, replays included.
fn idempotency_key(event: &Event, effect: &Effect) -> String {
    format!("{}/{}", event.id, effect.id)
}

/// What is kept of a partner's answer: the pointers that the effect names, and nothing else.
pub fn pick(effect: &Effect, answer: &Value) -> Value {
    let kept = effect.result.iter().filter_map(|(name, pointer)| {
        let value = answer.pointer(pointer)?;
        let small = value.to_string().len() <= MAX_RESULT_VALUE;
        Some((name.clone(), if small { value.clone() } else { json!("(too large)") }))
    });
    Value::Object(kept.collect())
}

/// A result lives in the ledger's row, which stays under a kilobyte.
const MAX_RESULT_VALUE: usize = 128;
