//! The API Gateway side: unpack the request, answer the caller.

use std::time::Duration;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use aws_lambda_events::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shared::arrival::delivery::{Delivery, Headers};
use shared::base::errors::Unavailable;
use shared::base::id::EventId;
use shared::base::machine::Chance;
use shared::base::trace::Trace;
use shared::operate::metric::{Fact, Stage, WorkUnit};
use tracing::{error, info, warn};

use crate::accept::{Intake, accept, accept_batch};
use crate::problem::{POLICY, ProblemDetails};
use crate::receipt::Receipt;
use crate::receipt_lookup::{LookedUp, receipt};
use crate::rejection::Rejection;

/// The route keys of API Gateway that are not about one event. `infra/template.yaml` has them all.
const BATCH: &str = "POST /v1/events/{source}/batch";
const RECEIPT: &str = "GET /v1/receipts/{id}";

/// Answers one request.
pub async fn handle(intake: &Intake, request: ApiGatewayV2httpRequest) -> ApiGatewayV2httpResponse {
    let trace = trace_of(&request, intake.chance.as_ref());
    let route = request.route_key.clone().unwrap_or_default();
    let source = request.path_parameters.get("source").cloned().unwrap_or_default();
    let (unit, began) = (&WorkUnit::new(&*intake.metrics), intake.clock.now());
    let counter = Counter { unit, source: known(intake, &source) };
    let answered = in_time(answer(intake, &counter, &route, request, &trace)).await;
    if route != RECEIPT {
        if let Err(rejection) = &answered {
            counter.rejected(rejection);
        }
        unit.count(&Fact::Took(Stage::Whole, intake.clock.now().since(began)));
    }
    match &answered {
        Ok(Answer { status, accepted, sampled_by, .. }) => {
            if sampled_by.as_ref().is_none_or(|event| intake.sampling.keeps(event)) {
                info!(source, route, status, event = accepted, trace_id = trace.id(), "the delivery was answered");
            }
        }
        Err(rejection) => log(rejection, counter.source, &route, &trace),
    }
    answered.unwrap_or_else(|rejection| rejected(&rejection, &trace)).into_response()
}

/// The name of a source, if it is one of ours. What a stranger writes into a path is no name in logs and metrics.
fn known<'n>(intake: &Intake, source: &'n str) -> &'n str {
    intake.flows.source(source).map_or(UNKNOWN, |_| source)
}

/// The name of every source that is none.
const UNKNOWN: &str = "(unknown)";

/// Counts what becomes of a source's events.
struct Counter<'c> {
    unit: &'c WorkUnit<'c>,
    source: &'c str,
}

impl Counter<'_> {
    fn event(&self, result: &Result<Receipt, Rejection>) {
        match result {
            Ok(receipt) if receipt.replayed => self.unit.count(&Fact::Duplicate(self.source)),
            Ok(_) => self.unit.count(&Fact::Accepted(self.source)),
            Err(rejection) => self.rejected(rejection),
        }
    }

    fn rejected(&self, rejection: &Rejection) {
        self.unit.count(&Fact::Rejected(self.source, ProblemDetails::of(rejection).name));
    }
}

/// Bounds the time of an answer. Senders such as Slack and Shopify hang up after three seconds and try again. A
/// port that is slow by then counts as down, and their retry finishes what was begun.
async fn in_time(answer: impl Future<Output = Result<Answer, Rejection>>) -> Result<Answer, Rejection> {
    let out_of_time = || Unavailable { port: "the intake", why: format!("it took longer than {BUDGET:?}") };
    tokio::time::timeout(BUDGET, answer).await.unwrap_or_else(|_| Err(out_of_time().into()))
}

/// The longest time of an answer, without the way to and from the sender.
const BUDGET: Duration = Duration::from_millis(2700);

async fn answer(
    intake: &Intake,
    counter: &Counter<'_>,
    route: &str,
    request: ApiGatewayV2httpRequest,
    trace: &Trace,
) -> Result<Answer, Rejection> {
    let now = intake.clock.now();
    match route {
        RECEIPT => {
            let authorization = request.headers.get("authorization").and_then(|value| value.to_str().ok());
            let id = request.path_parameters.get("id").map(String::as_str).unwrap_or_default();
            let LookedUp { view, standing } = receipt(intake, authorization, id, trace, now).await?;
            let mut answer = Answer::new(200, view);
            answer.headers.extend(standing.iter().flat_map(|standing| standing.headers(POLICY)));
            Ok(answer)
        }
        BATCH => {
            let results = accept_batch(intake, counter.unit, unpack(request)?, trace.clone(), now).await?;
            results.iter().for_each(|result| counter.event(result));
            Ok(batch(results, trace))
        }
        _ => {
            let receipt = Ok(accept(intake, counter.unit, unpack(request)?, trace.clone(), now).await?);
            counter.event(&receipt);
            receipt.map(|receipt| accepted(&receipt))
        }
    }
}

/// Unpacks a request. API Gateway delivers most content types in base64; the signature is over the bytes below it.
fn unpack(request: ApiGatewayV2httpRequest) -> Result<Delivery, Rejection> {
    let body = request.body.unwrap_or_default();
    let body = if request.is_base64_encoded {
        STANDARD.decode(body).map_err(|_| Rejection::Malformed)?
    } else {
        body.into_bytes()
    };
    let mut path = request.path_parameters;
    let headers = request.headers.iter();
    let headers: Headers = headers.filter_map(|(name, value)| Some((name, value.to_str().ok()?))).collect();
    Ok(Delivery { source: path.remove("source").unwrap_or_default(), event_type: path.remove("type"), headers, body })
}

/// The trace of a request: the sender's goes on; without one it starts here.
fn trace_of(request: &ApiGatewayV2httpRequest, chance: &dyn Chance) -> Trace {
    let header = request.headers.get("traceparent").and_then(|value| value.to_str().ok());
    let span = chance.bits();
    match header.and_then(Trace::parse) {
        Some(trace) => trace.child(span),
        None => Trace::start(chance.bits(), chance.bits(), span),
    }
}

fn accepted(receipt: &Receipt) -> Answer {
    let mut body = json!({"id": receipt.id, "status": "accepted"});
    if let Some(result) = &receipt.result {
        body["result"] = result.clone();
    }
    let mut answer = Answer::new(202, body);
    answer.accepted = receipt.id.to_string();
    answer.sampled_by = Some(receipt.id.clone());
    answer.headers.extend(receipt.standing.iter().flat_map(|standing| standing.headers(POLICY)));
    if receipt.replayed {
        answer.headers.push(("idempotent-replayed", "true".into()));
    }
    answer
}

/// The answer to a batch: one result for each event, in order, as the event would have been answered by itself.
fn batch(results: Vec<Result<Receipt, Rejection>>, trace: &Trace) -> Answer {
    let all_accepted = results.iter().all(Result::is_ok);
    let first = results.first().and_then(|first| first.as_ref().ok()).map(|first| first.id.clone());
    let results: Vec<Value> = results.iter().map(|result| item(result, trace)).collect();
    let mut answer = Answer::new(if all_accepted { 202 } else { 207 }, json!({"results": results}));
    answer.accepted = format!("{} events", results.len());
    answer.sampled_by = first.filter(|_| all_accepted);
    answer
}

fn item(result: &Result<Receipt, Rejection>, trace: &Trace) -> Value {
    match result {
        Ok(receipt) => {
            let Answer { status, mut body, .. } = accepted(receipt);
            body["http_status"] = json!(status);
            body["replayed"] = json!(receipt.replayed);
            body
        }
        Err(rejection) => {
            let Answer { status, mut body, .. } = rejected(rejection, trace);
            body["http_status"] = json!(status);
            body["status"] = json!("rejected");
            body
        }
    }
}

fn rejected(rejection: &Rejection, trace: &Trace) -> Answer {
    let problem = ProblemDetails::of(rejection);
    let mut answer = Answer::new(problem.status, problem.body(rejection, trace));
    answer.content_type = "application/problem+json";
    answer.headers = problem.headers(rejection);
    answer
}

/// Logs a rejection once, with names and numbers and nothing that a sender wrote.
fn log(rejection: &Rejection, source: &str, route: &str, trace: &Trace) {
    let problem = ProblemDetails::of(rejection).urn();
    match rejection {
        Rejection::Unavailable(why) => {
            let told = "the delivery was not accepted; its sender is asked to send it again";
            error!(source, route, problem, %why, trace_id = trace.id(), "{told}")
        }
        _ => {
            warn!(source, route, problem, trace_id = trace.id(), "the delivery was rejected; nothing of it was stored")
        }
    }
}

/// The headers of every answer. It is kept by no cache, taken for nothing but its type, and asked for over TLS alone.
const ALWAYS: [(&str, &str); 3] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("strict-transport-security", "max-age=63072000; includeSubDomains"),
];

/// An answer, before it becomes API Gateway's.
struct Answer {
    status: u16,
    content_type: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Value,
    /// The accepted events, for the log: an event's id, or how many of a batch.
    accepted: String,
    /// The event by which the line is sampled, if all went well: the first.
    sampled_by: Option<EventId>,
}

impl Answer {
    fn new(status: u16, body: Value) -> Self {
        Answer {
            status,
            content_type: "application/json",
            headers: Vec::new(),
            body,
            accepted: String::new(),
            sampled_by: None,
        }
    }

    fn into_response(self) -> ApiGatewayV2httpResponse {
        let content_type = ("content-type", self.content_type.to_owned());
        let fixed = ALWAYS.map(|(name, value)| (name, value.to_owned()));
        let headers = [content_type].into_iter().chain(fixed).chain(self.headers);
        let mut response = ApiGatewayV2httpResponse::default();
        response.status_code = self.status.into();
        response.headers = headers
            .filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?)))
            .collect::<HeaderMap>();
        response.body = Some(Body::Text(self.body.to_string()));
        response
    }
}
