//! The API Gateway side: unpack the request, answer the sender.

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use aws_lambda_events::encodings::Body;
use aws_lambda_events::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shared::delivery::{Delivery, Headers};
use shared::ports::Chance;
use shared::trace::Trace;
use tracing::{error, info, warn};

use crate::accept::{Intake, Receipt, Rejection, accept};
use crate::problem::{Problem, RETRY_AFTER_SECONDS};

/// Answers one request.
pub async fn handle(intake: &Intake, request: ApiGatewayV2httpRequest) -> ApiGatewayV2httpResponse {
    let trace = trace_of(&request, intake.chance.as_ref());
    let source = request.path_parameters.get("source").cloned().unwrap_or_default();
    let outcome = match unpack(request) {
        Ok(delivery) => accept(intake, delivery, trace.clone(), intake.clock.now()).await,
        Err(rejection) => Err(rejection),
    };
    match outcome {
        Ok(receipt) => accepted(&receipt, &source, &trace),
        Err(rejection) => rejected(&rejection, &source, &trace),
    }
}

/// API Gateway hands over most content types in base64. The signature is over the bytes below it.
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

/// The sender's trace goes on here; without one it starts here.
fn trace_of(request: &ApiGatewayV2httpRequest, chance: &dyn Chance) -> Trace {
    let header = request.headers.get("traceparent").and_then(|value| value.to_str().ok());
    let span = chance.bits();
    match header.and_then(Trace::parse) {
        Some(trace) => trace.child(span),
        None => Trace::start(chance.bits(), chance.bits(), span),
    }
}

fn accepted(receipt: &Receipt, source: &str, trace: &Trace) -> ApiGatewayV2httpResponse {
    info!(event = %receipt.id, source, replayed = receipt.replayed, trace_id = trace.id(), "accepted");
    let mut body = json!({"id": receipt.id, "status": "accepted"});
    if let Some(result) = &receipt.result {
        body["result"] = result.clone();
    }
    let replayed = receipt.replayed.then_some(("idempotent-replayed", "true".to_owned()));
    respond(202, "application/json", &body, replayed)
}

fn rejected(rejection: &Rejection, source: &str, trace: &Trace) -> ApiGatewayV2httpResponse {
    let problem = Problem::of(rejection);
    match rejection {
        Rejection::Unavailable(unavailable) => {
            error!(source, error = %unavailable, trace_id = trace.id(), "unavailable")
        }
        _ => warn!(source, problem = problem.urn(), trace_id = trace.id(), "rejected"),
    }
    let retry = (problem.status == 503).then(|| ("retry-after", RETRY_AFTER_SECONDS.to_string()));
    respond(problem.status, "application/problem+json", &problem.body(rejection, trace), retry)
}

fn respond(
    status: u16,
    content_type: &'static str,
    body: &Value,
    more: Option<(&'static str, String)>,
) -> ApiGatewayV2httpResponse {
    let mut headers = HeaderMap::from_iter(
        [("content-type", content_type), ("cache-control", "no-store")]
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
    );
    if let Some((name, value)) = more.and_then(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?))) {
        headers.insert(name, value);
    }
    let mut response = ApiGatewayV2httpResponse::default();
    response.status_code = status.into();
    response.headers = headers;
    response.body = Some(Body::Text(body.to_string()));
    response
}
