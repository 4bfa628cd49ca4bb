//! The API Gateway side: unpack the request, answer the caller.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use aws_lambda_events::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use shared::arrival::delivery::{Called, Delivery, Headers};
use shared::base::errors::Unavailable;
use shared::base::id::EventId;
use shared::base::trace::{SpanId, Trace};
use shared::operate::log;
use shared::operate::metric::{Fact, Stage, WorkUnit};
use shared::operate::span::method_name;
use tracing::{error, info, warn};

use crate::accept::{Intake, accept, accept_batch};
use crate::handshake::{handshake, is_there};
use crate::problem::{POLICY, ProblemDetails};
use crate::receipt::{Accepted, Receipt, rejections};
use crate::receipt_lookup::{LookedUp, receipt};
use crate::rejection::Rejection;
use crate::spans::{ServedRequest, export_request};

/// The route keys of API Gateway that are not about one event. `infra/template.yaml` has them all.
const BATCH: &str = "POST /v1/events/{source}/batch";
const RECEIPT: &str = "GET /v1/receipts/{id}";
const HANDSHAKE: &str = "GET /v1/events/{source}";
const TYPED_HANDSHAKE: &str = "GET /v1/events/{source}/{type+}";
const HEAD: &str = "HEAD /v1/events/{source}";
const TYPED_HEAD: &str = "HEAD /v1/events/{source}/{type+}";

/// Answers one request.
pub async fn handle(intake: &Intake, request: ApiGatewayV2httpRequest) -> ApiGatewayV2httpResponse {
    let Arrived { trace, parent } = arrived(intake, &request);
    let route = request.route_key.clone().unwrap_or_default();
    let source = request.path_parameters.get("source").cloned().unwrap_or_default();
    let (unit, began) = (&WorkUnit::new(&*intake.metrics), intake.clock.now());
    let counter = Counter { unit, source: known(intake, &source) };
    let method = method_name(request.request_context.http.method.as_str());
    let answered = in_time(answer(intake, &counter, &route, request, &trace)).await;
    if method == "POST" {
        if let Err(rejection) = &answered {
            counter.rejected(rejection);
        }
        unit.count(&Fact::Took(Stage::Whole, intake.clock.now().since(began)));
    }
    match &answered {
        Ok(answer) => {
            let Answer { status, accepted, flow, ids, sampled_by, .. } = answer;
            if sampled_by.as_ref().is_none_or(|event| intake.sampling.keeps(event)) {
                let (event, trace_id) = (accepted, trace.id());
                info!(source, route, status, event, flow, trace_id, ids, "the delivery was answered");
            }
        }
        Err(rejection) => log_rejection(rejection, counter.source, &route, &trace),
    }
    let mut response = answered.unwrap_or_else(|rejection| rejected(&rejection, &trace));
    response.headers.push(("traceresponse", trace.to_string()));
    if [HEAD, TYPED_HEAD].contains(&route.as_str()) {
        response.body = Value::String(String::new());
        response.content_type = TEXT;
    }
    let Answer { status, problem, .. } = response;
    let served = ServedRequest {
        method,
        route: &route,
        source: counter.source,
        status,
        problem,
        times: (began, intake.clock.now()),
    };
    export_request(intake, &trace, parent, &served);
    response.into_response()
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
    fn events(&self, accepted: &Accepted) {
        match accepted {
            Accepted::Event(receipt) => self.event(receipt),
            Accepted::ByFlow(receipts) => receipts.iter().for_each(|(_, receipt)| match receipt {
                Ok(receipt) => self.event(receipt),
                Err(rejection) => self.rejected(rejection),
            }),
            Accepted::Parts(parts) => self.parts(parts),
            Accepted::Ignored | Accepted::Challenge(_) => (),
        }
    }

    fn parts(&self, parts: &[Result<Accepted, Rejection>]) {
        parts.iter().for_each(|part| match part {
            Ok(accepted) => self.events(accepted),
            Err(rejection) => self.rejected(rejection),
        });
    }

    fn event(&self, receipt: &Receipt) {
        match receipt.replayed {
            true => self.unit.count(&Fact::Duplicate(self.source)),
            false => self.unit.count(&Fact::Accepted(self.source)),
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
            let results = accept_batch(intake, counter.unit, unpack(intake, request)?, trace.clone(), now).await?;
            counter.parts(&results);
            Ok(batch(&results, trace))
        }
        HANDSHAKE | TYPED_HANDSHAKE => {
            let source = request.path_parameters.get("source").map(String::as_str).unwrap_or_default();
            let query = request.raw_query_string.as_deref().unwrap_or_default();
            handshake(intake, source, query).await.map(challenge)
        }
        HEAD | TYPED_HEAD => {
            let source = request.path_parameters.get("source").map(String::as_str).unwrap_or_default();
            is_there(intake, source).map(|()| challenge(String::new()))
        }
        _ => {
            let accepted = accept(intake, counter.unit, unpack(intake, request)?, trace.clone(), now).await?;
            counter.events(&accepted);
            let mut answer = answer_of(&accepted, trace);
            if answer.status == 202 {
                answer.status = intake.flows.source(counter.source).map_or(202, |source| source.success);
            }
            Ok(answer)
        }
    }
}

/// Unpacks a request. API Gateway delivers most content types in base64; the signature is over the bytes below it.
fn unpack(intake: &Intake, request: ApiGatewayV2httpRequest) -> Result<Delivery, Rejection> {
    let body = request.body.unwrap_or_default();
    let body = if request.is_base64_encoded {
        STANDARD.decode(body).map_err(|_| Rejection::Malformed)?
    } else {
        body.into_bytes()
    };
    let mut path = request.path_parameters;
    let headers = request.headers.iter();
    let headers: Headers = headers.filter_map(|(name, value)| Some((name, value.to_str().ok()?))).collect();
    let called = Called {
        method: request.request_context.http.method.to_string(),
        base: base_url(intake, request.request_context.domain_name),
        path: request.raw_path.unwrap_or_default(),
        query: request.raw_query_string.unwrap_or_default(),
    };
    let source = path.remove("source").unwrap_or_default();
    Ok(Delivery { source, event_type: path.remove("type"), headers, body, called })
}

/// The part of the URL before our paths, as senders call it. Whoever sends a request writes its `Host` and its
/// `X-Forwarded-…`: neither is read. The domain in the context is the one by which API Gateway found this API.
fn base_url(intake: &Intake, domain: Option<String>) -> String {
    match &intake.public_url {
        Some(configured) => configured.clone(),
        None => domain.map(|domain| format!("https://{domain}")).unwrap_or_default(),
    }
}

/// The trace of a request, under the span of the intake, and the span above it.
struct Arrived {
    trace: Trace,
    parent: Option<SpanId>,
}

/// The trace of a request: the sender's goes on. Without one that of the invocation does, which X-Ray knows; without
/// that, it starts here. Whether its spans are exported is decided here, and told to all who have it next.
fn arrived(intake: &Intake, request: &ApiGatewayV2httpRequest) -> Arrived {
    let Intake { chance, spans, .. } = intake;
    let header = request.headers.get("traceparent").and_then(|value| value.to_str().ok());
    let span = SpanId::new(chance.bits());
    if let Some(senders) = header.and_then(Trace::parse) {
        return Arrived { parent: Some(senders.parent()), trace: spans.marks(senders.child(span)) };
    }
    match log::scope(|scope| scope.invocation.clone()) {
        Some(lambdas) => {
            Arrived { parent: spans.parent_of_lambda(&lambdas), trace: spans.marks_own(lambdas.child(span)) }
        }
        None => {
            let trace = Trace::start(chance.bits(), chance.bits(), span.number());
            Arrived { trace: spans.marks_own(trace), parent: None }
        }
    }
}

fn answer_of(accepted: &Accepted, trace: &Trace) -> Answer {
    match accepted {
        Accepted::Event(receipt) => of_event(receipt),
        Accepted::ByFlow(receipts) => by_flow(accepted, receipts, trace),
        Accepted::Ignored => Answer::new(202, json!({"status": "ignored"})),
        Accepted::Parts(parts) => of_parts(parts, trace),
        Accepted::Challenge(text) => challenge(text.clone()),
    }
}

fn of_event(receipt: &Receipt) -> Answer {
    let mut body = json!({"id": receipt.id, "status": "accepted"});
    if let Some(result) = &receipt.result {
        body["result"] = result.clone();
    }
    let mut answer = Answer::new(202, body);
    answer.accepted = receipt.id.to_string();
    (answer.flow, answer.ids) = (Some(receipt.flow.clone()), receipt.ids.clone());
    answer.sampled_by = Some(receipt.id.clone());
    answer.headers.extend(receipt.standing.iter().flat_map(|standing| standing.headers(POLICY)));
    if receipt.replayed {
        answer.headers.push(("idempotent-replayed", "true".into()));
    }
    answer
}

/// The answer to one event of several flows: an id for each. It is a success only if all of them have it.
fn by_flow(accepted: &Accepted, flows: &[(String, Result<Receipt, Rejection>)], trace: &Trace) -> Answer {
    let one = |(flow, receipt): &(String, Result<Receipt, Rejection>)| {
        let body = match receipt {
            Ok(receipt) => replayed_or_not(of_event(receipt).body, receipt),
            Err(rejection) => of_one(rejected(rejection, trace)),
        };
        (flow.clone(), body)
    };
    let each: Map<String, Value> = flows.iter().map(one).collect();
    let mut answer = Answer::new(202, json!({"status": "accepted", "flows": each}));
    let receipts = accepted.receipts();
    answer.accepted = receipts.iter().map(|receipt| receipt.id.as_str()).collect::<Vec<_>>().join(" ");
    answer.flow = flows_of(&receipts);
    answer.sampled_by = receipts.first().map(|receipt| receipt.id.clone());
    let standing = receipts.iter().find_map(|receipt| receipt.standing.as_ref());
    answer.headers.extend(standing.iter().flat_map(|standing| standing.headers(POLICY)));
    if receipts.iter().all(|receipt| receipt.replayed) {
        answer.headers.push(("idempotent-replayed", "true".into()));
    }
    spoiled(answer, &accepted.rejections(), "flows", trace)
}

fn replayed_or_not(mut body: Value, receipt: &Receipt) -> Value {
    body["replayed"] = json!(receipt.replayed);
    body
}

/// The answer to a batch: one result for each event, in order, as the event would have been answered by itself.
fn batch(results: &[Result<Accepted, Rejection>], trace: &Trace) -> Answer {
    let all_accepted = results.iter().all(|result| rejections(result).is_empty());
    let first =
        results.first().and_then(|first| first.as_ref().ok()).and_then(|first| first.receipts().first().copied());
    let items: Vec<Value> = results.iter().map(|result| item(result, trace)).collect();
    let mut answer = Answer::new(if all_accepted { 202 } else { 207 }, json!({"results": items}));
    answer.accepted = format!("{} events", results.len());
    answer.flow = flows_of(&results.iter().flatten().flat_map(Accepted::receipts).collect::<Vec<_>>());
    answer.sampled_by = first.map(|first| first.id.clone()).filter(|_| all_accepted);
    answer
}

/// The answer to a delivery that held several events. It is a success only if all are accepted: a sender that reads nothing
/// but the status then sends all of them again, and those that are accepted are duplicates.
fn of_parts(parts: &[Result<Accepted, Rejection>], trace: &Trace) -> Answer {
    let rejections: Vec<&Rejection> = parts.iter().flat_map(rejections).collect();
    spoiled(batch(parts, trace), &rejections, "results", trace)
}

/// An answer of which some was rejected: the problem of the most urgent rejection, and what became of each below its name.
fn spoiled(mut answer: Answer, rejections: &[&Rejection], each: &str, trace: &Trace) -> Answer {
    let Some(worst) = rejections.iter().max_by_key(|rejection| urgency(rejection)) else { return answer };
    let mut told = rejected(worst, trace);
    told.body[each] = answer.body[each].take();
    (told.accepted, told.flow) = (answer.accepted, answer.flow);
    told
}

/// The flows of several receipts, each once.
fn flows_of(receipts: &[&Receipt]) -> Option<String> {
    let flows: BTreeSet<&str> = receipts.iter().map(|receipt| receipt.flow.as_str()).collect();
    (!flows.is_empty()).then(|| flows.into_iter().collect::<Vec<_>>().join(" "))
}

/// Which of several rejections the status of the whole tells: that of one that a repetition can cure.
fn urgency(rejection: &Rejection) -> u8 {
    match rejection {
        Rejection::Unavailable(_) => 2,
        Rejection::Throttled(_) => 1,
        _ => 0,
    }
}

/// A challenge goes back as text, so that no browser takes it for anything else.
fn challenge(text: String) -> Answer {
    let mut answer = Answer::new(200, Value::String(text));
    answer.content_type = TEXT;
    answer.accepted = "a handshake".into();
    answer
}

fn item(result: &Result<Accepted, Rejection>, trace: &Trace) -> Value {
    let body = of_one(match result {
        Ok(accepted) => answer_of(accepted, trace),
        Err(rejection) => rejected(rejection, trace),
    });
    match result {
        Ok(Accepted::Event(receipt)) => replayed_or_not(body, receipt),
        _ => body,
    }
}

/// The answer to one of several as it stands among the others.
fn of_one(Answer { status, mut body, .. }: Answer) -> Value {
    body["http_status"] = json!(status);
    if status >= 400 {
        body["status"] = json!("rejected");
    }
    body
}

fn rejected(rejection: &Rejection, trace: &Trace) -> Answer {
    let problem = ProblemDetails::of(rejection);
    let mut answer = Answer::new(problem.status, problem.body(rejection, trace));
    answer.problem = Some(problem.name);
    answer.content_type = "application/problem+json";
    answer.headers = problem.headers(rejection);
    answer
}

/// Logs a rejection once, with names and numbers and nothing that a sender wrote.
fn log_rejection(rejection: &Rejection, source: &str, route: &str, trace: &Trace) {
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

/// The content type of a challenge.
const TEXT: &str = "text/plain; charset=utf-8";

/// An answer, before it becomes API Gateway's.
struct Answer {
    status: u16,
    content_type: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Value,
    /// The accepted events, for the log: an event's id, or how many of a batch.
    accepted: String,
    /// The flows that have it, for the log.
    flow: Option<String>,
    /// The business ids of an event of one flow, for the log.
    ids: Option<String>,
    /// The event by which the line is sampled, if all went well: the first.
    sampled_by: Option<EventId>,
    /// The problem's name, if there is one.
    problem: Option<&'static str>,
}

impl Answer {
    fn new(status: u16, body: Value) -> Self {
        Answer {
            status,
            content_type: "application/json",
            headers: Vec::new(),
            body,
            accepted: String::new(),
            flow: None,
            ids: None,
            sampled_by: None,
            problem: None,
        }
    }

    fn into_response(self) -> ApiGatewayV2httpResponse {
        let text = match &self.body {
            Value::String(text) if self.content_type == TEXT => text.clone(),
            body => body.to_string(),
        };
        let content_type = ("content-type", self.content_type.to_owned());
        let fixed = ALWAYS.map(|(name, value)| (name, value.to_owned()));
        let headers = [content_type].into_iter().chain(fixed).chain(self.headers);
        let mut response = ApiGatewayV2httpResponse::default();
        response.status_code = self.status.into();
        response.headers = headers
            .filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?)))
            .collect::<HeaderMap>();
        response.body = Some(Body::Text(text));
        response
    }
}
