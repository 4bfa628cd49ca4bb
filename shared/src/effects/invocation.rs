//! Invocations of the team's own functions: the document that a function gets, and what its answer means.
//!
//! The document and the answer are versioned data that other people's code reads and writes: `infra/flows/schema` has
//! their JSON Schemas, made from the types here.

mod answer;
mod message;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

pub use answer::{FunctionAnswer, FunctionOutcome, InvokeFailure, read_answer, read_ask};

use super::request::idempotency_key;
use crate::arrival::event::Event;
use crate::base::time::Timestamp;
use crate::base::trace::SpanId;
use crate::flows::template::{Scope, TemplateError};
use crate::flows::{Effect, Flow, FunctionName, Invoke};
use crate::ledger::Row;

/// The number of the document's format. A field may be added without a new number: a function leaves out what it does
/// not know.
pub const INVOCATION_FORMAT: u32 = 1;

/// What a function is invoked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Do the effect.
    Do,
    /// Say whether the effect happened: an earlier call of `do` under the same key was lost. Change nothing.
    Ask,
}

/// The document that a function gets. `event`, `effects`, `enrich` and `with` are what templates read under these names.
#[derive(Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InvocationDocument<'i> {
    /// The number of the document's format. Fields may be added under the same number.
    pub format: u32,
    /// `do`: do the effect. `ask`: say whether it happened, and change nothing.
    pub operation: Purpose,
    /// The event's id: the first part of `key`. An event that comes again after the `ttl` of its key has another.
    pub id: String,
    /// The event's type, as its source calls it.
    #[serde(rename = "type")]
    pub event_type: &'i str,
    /// The flow's name.
    pub flow: &'i str,
    /// The effect's id.
    pub effect: &'i str,
    /// The moment when the event was first received, as RFC 3339.
    pub received_at: String,
    /// The event's payload: the fields that the flow's schema lists.
    pub event: &'i Value,
    /// The results of the effects that are done, by their ids.
    pub effects: Value,
    /// The results of the enrichments, by their ids.
    pub enrich: Value,
    /// The values that the effect gives the function. `{}` where it gives none.
    pub with: Value,
    /// The idempotency key: the same for each try of this effect for this event, replays included.
    pub key: String,
    /// The number of this try since the event was accepted or last replayed; for `ask`, of the last one.
    pub attempt: u32,
    /// The fencing number: under one `id` it only grows. A write under a lower epoch than one that you have seen comes
    /// from a worker that has lost the event.
    pub epoch: u64,
    /// The moment until which the answer is waited for, in milliseconds since the Unix epoch. What is begun later is in
    /// doubt for nothing.
    pub deadline: i64,
    /// The W3C trace context, as the headers `traceparent` and, for a replay, `tracestate`.
    pub trace: std::collections::BTreeMap<String, String>,
}

crate::base::masked::prints_only!(InvocationDocument<'_> as "InvocationDocument", operation, id, flow, effect, attempt, epoch);

impl InvocationDocument<'_> {
    /// The document as it is sent.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a document of JSON values is JSON")
    }
}

/// The parts of which an invocation is made. `row` has the results of the effects before it.
#[derive(Clone, Debug)]
pub struct InvocationParts<'o> {
    /// The effect that is done or asked about.
    pub effect: &'o Effect,
    /// The invocation of the effect.
    pub invoke: &'o Invoke,
    /// The effect's flow.
    pub flow: &'o Flow,
    /// The event that the effect is done for.
    pub event: &'o Event,
    /// The event's row.
    pub row: &'o Row,
    /// The id of the invocation's span.
    pub span: SpanId,
    /// The moment until which the answer is waited for.
    pub deadline: Timestamp,
}

impl<'o> InvocationParts<'o> {
    /// The document, under the same key each time.
    pub fn document(self, operation: Purpose) -> Result<InvocationDocument<'o>, TemplateError> {
        let InvocationParts { effect, invoke, flow, event, row, span, deadline } = self;
        let key = idempotency_key(row, effect);
        let scope = Scope { key: Some(key.clone()), ..row.scope(event, effect) };
        let with = invoke.with.as_ref().map(|with| with.render(&scope)).transpose()?;
        let Scope { effects, enrich, .. } = scope;
        Ok(InvocationDocument {
            format: INVOCATION_FORMAT,
            operation,
            id: row.known_as().to_string(),
            event_type: &flow.on.event_type,
            flow: &flow.name,
            effect: &effect.id,
            received_at: row.received_at.to_string(),
            event: &event.payload,
            effects,
            enrich,
            with: with.unwrap_or_else(|| Value::Object(Default::default())),
            key,
            attempt: row.entry(effect).map_or(1, |entry| entry.attempts),
            epoch: row.epoch,
            deadline: deadline.millis(),
            trace: event.trace_headers(span).into_iter().collect(),
        })
    }
}

/// A request to a function, ready to be sent.
#[derive(Clone, PartialEq)]
pub struct FunctionRequest {
    /// The integration that stands for the function.
    pub integration: String,
    /// The function.
    pub function: FunctionName,
    /// The document, as JSON.
    pub document: String,
    /// The longest wait for the answer.
    pub timeout: Duration,
}

/// Without the document, which has the event's values.
impl fmt::Debug for FunctionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FunctionRequest { function, timeout, .. } = self;
        f.debug_struct("FunctionRequest").field("function", function).field("timeout", timeout).finish_non_exhaustive()
    }
}

/// The team's own functions, as one port.
#[async_trait]
pub trait TeamFunctions: Send + Sync {
    /// Invokes a function once and waits for its answer, no longer than the request's timeout.
    async fn invoke(&self, request: FunctionRequest) -> Result<Value, InvokeFailure>;
}

/// The schemas of the documents that functions get and answer with, by the names of their files.
#[cfg(feature = "schema")]
pub fn schemas() -> [(&'static str, Value); 2] {
    use crate::flows::schema::schema;

    [
        ("invocation.json", schema::<InvocationDocument<'_>>("What a function gets that `invoke` names")),
        ("invocation-answer.json", schema::<FunctionAnswer>("What a function answers that `invoke` names")),
    ]
}
