//! The partner stub: one server for every integration's API. It logs each call, and fails when it is told to.
//!
//! Any request to `/{integration}/…` is a call. By default it is applied and answered with an id,
//! and a repeated `Idempotency-Key` gets the recorded answer again, as from a partner that honours
//! it. A GET changes nothing: it finds what was applied at its path. `/_control` changes how an
//! integration behaves, and shows the log, which is the record of what was applied.

mod call;
mod control;
mod stub;
mod fault_chance;
pub(crate) mod server;

use std::convert::Infallible;
use std::future::ready;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, put};
use axum::{Router, http::header::RETRY_AFTER};
use futures::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinHandle;

pub use call::PartnerCall;
pub use control::{Behaviour, Mode};
pub use fault_chance::FaultChance;

use crate::control_token::{self, Tokens};
use crate::journal::Journal;
use crate::{foreign_requests, listen_ports};
use call::IncomingCall;
use server::HangUp;
use stub::{PartnerStub, StubAnswer};

const BODY_LIMIT: usize = 10 * 1024 * 1024;

/// Serves the stub until the task is aborted.
pub fn serve(
    listener: TcpListener,
    control_token: &str,
    integrations_token: &str,
    journal: Journal,
) -> Result<JoinHandle<()>> {
    let port = listen_ports::port_of(&listener)?;
    let partners = Arc::new(StubServer { stub: Mutex::default(), journal });
    let router = router(partners, control_token, integrations_token);
    server::serve(listener, router.layer(middleware::from_fn_with_state(port, foreign_requests::reject)))
}

struct StubServer {
    stub: Mutex<PartnerStub>,
    journal: Journal,
}

impl StubServer {
    fn stub(&self) -> MutexGuard<'_, PartnerStub> {
        self.stub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The routes. Partners demand a token of their callers, and so does this one; whoever controls it may call it, too.
fn router(partners: Arc<StubServer>, control_token: &str, integrations_token: &str) -> Router {
    let demand = |tokens: &[&str]| {
        let tokens = Tokens(tokens.iter().map(|token| (*token).to_owned()).collect());
        middleware::from_fn_with_state(tokens, control_token::demand)
    };
    let controls = Router::new()
        .route("/_control/log", get(log))
        .route("/_control/{integration}", put(control))
        .route("/_control", axum::routing::delete(reset))
        .route_layer(demand(&[control_token]));
    let calls = Router::new().fallback(call).layer(demand(&[control_token, integrations_token]));
    controls.merge(calls).with_state(partners)
}

/// Takes a call. It is logged before any delay: the call counts, even if its caller gives up.
async fn call(State(partners): State<Arc<StubServer>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let answer = {
        let mut stub = partners.stub();
        let (call, answer) = stub.handle_call(IncomingCall::new(&parts, &body));
        partners.journal.add(call);
        answer
    };
    deliver(answer).await
}

async fn deliver(answer: StubAnswer) -> Response {
    if !answer.head_first {
        tokio::time::sleep(answer.after).await;
    }
    let Some(status) = answer.status else { return HangUp.into_response() };
    let mut response = if answer.head_first {
        (status, in_two_parts(answer.body.to_string(), answer.after)).into_response()
    } else if answer.body.is_null() {
        status.into_response()
    } else {
        (status, Json(answer.body)).into_response()
    };
    if let Some(value) = answer.retry_after.and_then(|value| value.parse().ok()) {
        response.headers_mut().insert(RETRY_AFTER, value);
    }
    response
}

/// A body of which the first byte is sent at once, and the others after that time.
fn in_two_parts(mut first: String, time: Duration) -> Body {
    let rest = first.split_off(1);
    let rest = async move {
        tokio::time::sleep(time).await;
        rest
    };
    Body::from_stream(stream::once(ready(first)).chain(stream::once(rest)).map(Ok::<_, Infallible>))
}

async fn control(State(partners): State<Arc<StubServer>>, Path(integration): Path<String>, body: Bytes) -> Response {
    match control::parse(&body) {
        Ok(behaviour) => {
            let shown = json!({"integration": integration, "now": behaviour.name()});
            partners.stub().set(integration, behaviour);
            Json(shown).into_response()
        }
        Err(sentence) => (StatusCode::BAD_REQUEST, format!("{sentence}\n")).into_response(),
    }
}

#[derive(Deserialize)]
struct Filter {
    integration: Option<String>,
}

async fn log(State(partners): State<Arc<StubServer>>, Query(filter): Query<Filter>) -> Response {
    let stub = partners.stub();
    let wanted = |call: &&PartnerCall| filter.integration.as_ref().is_none_or(|name| *name == call.integration);
    Json(stub.log().iter().filter(wanted).collect::<Vec<_>>()).into_response()
}

async fn reset(State(partners): State<Arc<StubServer>>) -> Response {
    *partners.stub() = PartnerStub::default();
    Response::new(Body::empty())
}
