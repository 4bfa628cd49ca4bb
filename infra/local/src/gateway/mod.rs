//! The gateway: serves the template's API Gateway HTTP API in the emulator's place.
//!
//! The emulator does not import the routes that SAM puts into the API's OpenAPI body, so every
//! path would be a 404 there. This one reads the same template, makes payload-format-2.0 events by
//! AWS's rules, and invokes the function.
//!
//! Deliberately absent: authorizers, CORS, stages other than `$default`, and throttling, none of
//! which the template uses or a local run needs.

mod event;
mod response;
mod routes;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::middleware;
use axum::response::Response;
use serde_json::json;
use tokio::task::JoinHandle;

pub use routes::Routes;

use crate::foreign_requests;
use crate::journal::{self, Journal};
use crate::lambda::{InvocationOutcome, Lambda};

/// The largest body that an HTTP API accepts.
const BODY_LIMIT: usize = 10 * 1024 * 1024;
/// The longest that an HTTP API waits for a function.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Serves the routes until the task is aborted, and beside them the console, which is no part of the API.
pub fn serve(
    listener: TcpListener,
    routes: Routes,
    lambda: Lambda,
    console: Router,
    journal: Journal,
) -> Result<JoinHandle<()>> {
    let listener =
        tokio::net::TcpListener::from_std(listener).context("the gateway cannot start: cannot listen on its port")?;
    let port = listener.local_addr().context("the gateway cannot start: cannot read the number of its port")?.port();
    let gateway = Arc::new(Gateway { routes, lambda, journal });
    let router = Router::new().fallback(handle).with_state(gateway).merge(console);
    let router = router.layer(middleware::from_fn_with_state(port, foreign_requests::reject));
    Ok(tokio::spawn(async move {
        // It ends only when the task is aborted: axum retries errors of accept itself.
        let _ = axum::serve(listener, router).await;
    }))
}

struct Gateway {
    routes: Routes,
    lambda: Lambda,
    journal: Journal,
}

async fn handle(State(gateway): State<Arc<Gateway>>, request: Request<Body>) -> Response {
    let began = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let (response, version) = answer(&gateway, request).await;
    gateway.journal.add(&json!({
        "time": journal::now(),
        "method": method.as_str(),
        "path": path,
        "status": response.status().as_u16(),
        "version": version,
        "ms": began.elapsed().as_millis() as u64,
    }));
    response
}

/// The answer, and the version of the function that made it.
async fn answer(gateway: &Gateway, request: Request<Body>) -> (Response, Option<String>) {
    let (parts, body) = request.into_parts();
    let Some(route) = gateway.routes.find(parts.method.as_str(), parts.uri.path()) else {
        return (response::error(StatusCode::NOT_FOUND, "Not Found"), None);
    };
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
        return (response::error(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large"), None);
    };
    let event = event::make(&parts, &route, &body);
    let invocation = gateway.lambda.run(route.function, &event);
    let (outcome, version) = match tokio::time::timeout(TIME_LIMIT, invocation).await {
        Ok(Ok(invocation)) => (invocation.outcome, invocation.version),
        Ok(Err(_)) => (InvocationOutcome::Failed(json!(null)), None),
        Err(_) => (InvocationOutcome::Throttled, None),
    };
    let response = match outcome {
        InvocationOutcome::Answered(payload) => response::make(payload),
        InvocationOutcome::Failed(_) => response::error(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
        InvocationOutcome::Throttled => response::error(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable"),
    };
    (response, version)
}
