//! The partners and the functions of the team's own, as a container of a stage calls them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use shared::base::id::EventId;
use shared::base::span_ids::SpanIds;
use shared::base::trace::Trace;
use shared::effects::body::RequestBody;
use shared::effects::invocation::{FunctionRequest, InvokeFailure, TeamFunctions};
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::{Effect, Flows, PartnerAnswer};
use shared::model::ModelLedger;

use super::Seen;
use super::cast::{CallPurpose, Cast, CastEnd, MadeCall, Reaction};
use crate::faults::Fault;
use crate::ports::Seat;

/// Whom a container calls.
#[derive(Clone)]
pub(super) struct StageCalls {
    pub(super) seat: Seat,
    pub(super) cast: Arc<dyn Cast>,
    pub(super) seen: Arc<Mutex<Seen>>,
    pub(super) flows: Flows,
    pub(super) ledger: ModelLedger,
}

#[async_trait]
impl Partners for StageCalls {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let called = self.called(&request);
        self.make(called).await
    }
}

#[async_trait]
impl TeamFunctions for StageCalls {
    async fn invoke(&self, request: FunctionRequest) -> Result<Value, InvokeFailure> {
        let called = self.invoked(&request);
        match self.make(called).await {
            Ok(PartnerAnswer { status: 200..=299, body, .. }) => Ok(body.unwrap_or_default()),
            Ok(PartnerAnswer { status: 401 | 403, .. }) => Err(InvokeFailure::NotAllowed("not allowed".into())),
            Ok(PartnerAnswer { status: 429, headers, .. }) => {
                let retry_after = headers.get("retry-after").and_then(|text| text.parse().ok());
                let retry_after = retry_after.map(Duration::from_secs);
                Err(InvokeFailure::NotRun { why: "throttled".into(), retry_after })
            }
            Ok(PartnerAnswer { status: 400 | 413, .. }) => Err(InvokeFailure::NeverRuns("the request".into())),
            Ok(_) => Err(InvokeFailure::Lost("it raised".into())),
            Err(NoAnswer::NotSent(why)) => Err(InvokeFailure::NotRun { why, retry_after: None }),
            Err(NoAnswer::Lost(why)) => Err(InvokeFailure::Lost(why)),
        }
    }
}

impl StageCalls {
    /// Makes a call, and waits for what comes of it.
    async fn make(&self, mut called: MadeCall) -> Result<PartnerAnswer, NoAnswer> {
        let about = format!("{} {} {}", called.method, called.integration, called.path);
        let fault = self.seat.enter("call", &about).await;
        if matches!(fault, Some(Fault::TimeOutUndone | Fault::Throttle)) {
            self.seat.scheduler.note(self.seat.who, "call", &about, "not sent", fault);
            self.seat.pause(called.timeout).await;
            return Err(NoAnswer::Lost("timed out".into()));
        }
        called.at = self.seat.scheduler.now();
        called.number = {
            let mut seen = self.seen();
            seen.made += 1;
            seen.made
        };
        let mut reaction = self.cast.react(&called, &self.flows);
        match fault {
            Some(Fault::TimeOutDone | Fault::Echo) => (reaction.acts, reaction.end) = (true, CastEnd::Silence),
            Some(Fault::CrashAfter) => reaction.end = CastEnd::Crash,
            _ => (),
        }
        self.seat.scheduler.note(self.seat.who, "call", &about, &told(&reaction), fault);
        called.reaction = Some(reaction.clone());
        let timeout = called.timeout;
        self.seen().calls.push(called);
        self.end(reaction, timeout).await
    }

    async fn end(&self, reaction: Reaction, timeout: Duration) -> Result<PartnerAnswer, NoAnswer> {
        let Reaction { after, end, .. } = reaction;
        match end {
            CastEnd::Unreachable => Err(NoAnswer::NotSent("cannot connect".into())),
            CastEnd::Answer(answer) if after < timeout => {
                self.seat.pause(after).await;
                Ok(answer)
            }
            CastEnd::Reset if after < timeout => {
                self.seat.pause(after).await;
                Err(NoAnswer::Lost("the connection was lost".into()))
            }
            CastEnd::Crash if after < timeout => {
                self.seat.pause(after).await;
                self.seat.crash().await;
                Err(NoAnswer::Lost("the worker went down".into()))
            }
            CastEnd::Silence | CastEnd::Answer(_) | CastEnd::Reset | CastEnd::Crash => {
                self.seat.pause(timeout).await;
                Err(NoAnswer::Lost(format!("timed out after {} ms", timeout.as_millis())))
            }
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn called(&self, request: &PartnerRequest) -> MadeCall {
        let headers: BTreeMap<String, String> =
            request.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        MadeCall {
            number: 0,
            at: self.seat.scheduler.now(),
            integration: request.integration.clone(),
            method: request.method.to_owned(),
            path: request.path.clone(),
            purpose: headers.get("traceparent").and_then(|above| self.purpose(request, &Trace::parse(above)?)),
            headers,
            body: request.body.as_ref().map(shown),
            timeout: request.timeout,
            reaction: None,
        }
    }

    /// What a request is about. The events of one delivery share a trace, and each call has a span of its own in it, which
    /// names the event, the claim, the effect, and whether it asks.
    fn purpose(&self, request: &PartnerRequest, above: &Trace) -> Option<CallPurpose> {
        let events = self.seen().events_of(&above.id());
        let of_claims = |of: fn(u64) -> RangeInclusive<u64>| {
            events.iter().find_map(|event| self.purpose_for(event, of, request, above))
        };
        // Nearly every call is made under the last claim. An event in long doubt has thousands before it.
        of_claims(|last| last..=last).or_else(|| of_claims(|last| 0..=last))
    }

    fn purpose_for(
        &self,
        event: &EventId,
        claims: fn(u64) -> RangeInclusive<u64>,
        request: &PartnerRequest,
        above: &Trace,
    ) -> Option<CallPurpose> {
        let row = self.ledger.get(event)?;
        let ids = SpanIds::of(above, event);
        let asks = |effect: &Effect| {
            claims(row.epoch).rev().find_map(|claim| match above.parent() {
                span if span == ids.called(claim, &effect.id) => Some(false),
                span if span == ids.looked_up(claim, &effect.id) => Some(true),
                _ => None,
            })
        };
        let effects = &self.flows.flow(&row.flow)?.effects;
        let mut called = effects.iter().filter(|effect| effect.integration() == Some(&request.integration));
        let (effect, asks) = called.find_map(|effect| Some((effect.id.clone(), asks(effect)?)))?;
        Some(CallPurpose { event: row.id, flow: row.flow, effect, asks })
    }

    fn invoked(&self, request: &FunctionRequest) -> MadeCall {
        let document: Value = serde_json::from_str(&request.document).unwrap_or_default();
        let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
        let purpose = CallPurpose {
            event: EventId::named(text("id")),
            flow: text("flow"),
            effect: text("effect"),
            asks: document["operation"] == "ask",
        };
        MadeCall {
            number: 0,
            at: self.seat.scheduler.now(),
            integration: request.integration.clone(),
            method: "INVOKE".into(),
            path: request.function.to_string(),
            headers: BTreeMap::new(),
            body: Some(document),
            purpose: Some(purpose),
            timeout: request.timeout,
            reaction: None,
        }
    }
}

/// A body as an author reads it.
fn shown(body: &RequestBody) -> Value {
    if let Some(json) = body.json() {
        return json;
    }
    if body.content_type != "application/x-www-form-urlencoded" {
        return Value::from(body.text().into_owned());
    }
    let mut fields = Map::new();
    for (name, value) in form_urlencoded::parse(&body.bytes) {
        let value = Value::from(value.into_owned());
        match fields.get_mut(name.as_ref()) {
            None => drop(fields.insert(name.into_owned(), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(one) => *one = Value::from(vec![one.take(), value]),
        }
    }
    Value::Object(fields)
}

/// What came of a call, for the timeline.
fn told(Reaction { acts, after, end }: &Reaction) -> String {
    let end = match end {
        CastEnd::Answer(answer) => answer.status.to_string(),
        CastEnd::Silence => "silence".into(),
        CastEnd::Reset => "the connection is lost".into(),
        CastEnd::Unreachable => "cannot connect".into(),
        CastEnd::Crash => "the worker goes down".into(),
    };
    let did = if *acts { ", and did it" } else { "" };
    let after = if after.is_zero() { String::new() } else { format!(" after {} ms", after.as_millis()) };
    format!("{end}{after}{did}")
}
