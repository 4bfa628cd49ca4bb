//! The partner stub: one server for every integration's API. It logs each call, and fails when it is told to.
//!
//! Any request to `/{integration}/…` is a call. The stub knows the integrations of the flows folder, and declines all
//! others. It checks our credentials, applies the call, and answers in the form of the partner that the integration
//! uses; without one, with an id, and a repeated `Idempotency-Key` gets the recorded answer again. A question changes
//! nothing: it finds what was applied. `/_control` changes how an integration behaves, and shows the log, which is the
//! record of what was applied.

mod call;
mod control;
mod form;
mod integration;
mod model;
mod stub;
mod token_endpoint;
mod fault_chance;
pub(crate) mod server;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::ready;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, put};
use futures::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::json;
use shared::flows::PartnerAnswer;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub use call::PartnerCall;
pub use control::{Behaviour, Mode};
pub use fault_chance::FaultChance;
pub use integration::StubIntegration;
pub use model::PartnerModel;

use crate::journal::Journal;
use crate::prism::WireRequest;
use crate::{control_token, foreign_requests, listen_ports};
use call::IncomingCall;
use form::{Handled, Made, PartnerForm};
use server::HangUp;
use stub::{PartnerStub, StubAnswer};

const BODY_LIMIT: usize = 10 * 1024 * 1024;

/// Serves the stub until the task is aborted.
pub fn serve(
    listener: TcpListener,
    control_token: &str,
    calls_path: &str,
    known: BTreeMap<String, StubIntegration>,
    journal: Journal,
) -> Result<JoinHandle<()>> {
    let port = listen_ports::port_of(&listener)?;
    let stub = Mutex::new(PartnerStub::new(known));
    let partners = Arc::new(StubServer { stub, told: Notify::new(), open: Mutex::default(), journal });
    let router = router(partners, control_token, calls_path);
    server::serve(listener, router.layer(middleware::from_fn_with_state(port, foreign_requests::reject)))
}

/// What a partner of the catalogue answers to a request that it does, as its documentation shows it.
pub fn documented_answer(partner: &str, request: &WireRequest) -> PartnerAnswer {
    let path = request.url.splitn(4, '/').nth(3).unwrap_or_default();
    let call = IncomingCall::of_text(partner, &request.method, &format!("/{partner}/{path}"), &request.body);
    let form = PartnerForm::of(Some(partner));
    // What is changed was made before.
    let before = IncomingCall { method: "POST".into(), ..call.clone() };
    let made = match form.handle(&before, 1, &[]) {
        Handled::Does(record, _) if call.method == "PATCH" => {
            vec![Made { path: call.path.clone(), sent: before.body, record }]
        }
        _ => Vec::new(),
    };
    let (Handled::Does(_, answer) | Handled::Tells(answer)) = form.handle(&call, 1 + made.len(), &made);
    let headers = answer.headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    PartnerAnswer { status: answer.status, headers, body: Some(answer.body).filter(|body| !body.is_null()) }
}

struct StubServer {
    stub: Mutex<PartnerStub>,
    /// The stub was told something.
    told: Notify,
    /// How many calls of each integration are not answered yet.
    open: Mutex<BTreeMap<String, usize>>,
    journal: Journal,
}

impl StubServer {
    fn stub(&self) -> MutexGuard<'_, PartnerStub> {
        self.stub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the stub was told anything else about the integration.
    async fn until_released(&self, integration: &str) {
        loop {
            // Before the look, so that what is told after it is not missed.
            let told = self.told.notified();
            if !self.stub().holds(integration) {
                return;
            }
            told.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is not answered yet. Dropping it says that it is, or that its caller gave up.
struct OpenCall<'s> {
    partners: &'s StubServer,
    integration: &'s str,
}

impl<'s> OpenCall<'s> {
    /// Opens a call, and says how many are open with it.
    fn begin(partners: &'s StubServer, integration: &'s str) -> (Self, usize) {
        let mut open = partners.open();
        let count = open.entry(integration.to_owned()).or_default();
        *count += 1;
        (OpenCall { partners, integration }, *count)
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.partners.open().get_mut(self.integration) {
            *count -= 1;
        }
    }
}

/// The routes. The processor calls below a path that only it is told: not every integration has a token to show.
/// Whoever controls the stub may call it, too.
fn router(partners: Arc<StubServer>, control_token: &str, calls_path: &str) -> Router {
    let demand = || middleware::from_fn_with_state(control_token.to_owned(), control_token::demand);
    let controls = Router::new()
        .route("/_control/log", get(log))
        .route("/_control/{integration}", put(control))
        .route("/_control/{integration}/token", put(control_token_endpoint))
        .route("/_control", axum::routing::delete(reset))
        .route_layer(demand());
    let calls = Router::new().fallback(call);
    let all = controls.merge(calls.clone().layer(demand()));
    all.nest(&format!("/{calls_path}"), calls).with_state(partners)
}

/// Takes a call. It is logged before any delay: the call counts, even if its caller gives up.
async fn call(State(partners): State<Arc<StubServer>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let mut incoming = IncomingCall::new(&parts, &body);
    let integration = incoming.integration.clone();
    let (_open, count) = OpenCall::begin(&partners, &integration);
    incoming.open = count;
    let answer = {
        let mut stub = partners.stub();
        if let Some(told) = stub.stranger(&incoming.integration) {
            return (StatusCode::NOT_FOUND, Json(json!({"error": told}))).into_response();
        }
        let (call, answer) = stub.handle_call(incoming);
        partners.journal.add(call);
        answer
    };
    if answer.is_held {
        partners.until_released(&integration).await;
    }
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
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
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
    change(&partners, &integration, integration.clone(), &body)
}

/// Changes how the token end-point of an integration behaves.
async fn control_token_endpoint(
    State(partners): State<Arc<StubServer>>,
    Path(integration): Path<String>,
    body: Bytes,
) -> Response {
    change(&partners, &integration, format!("{integration}/token"), &body)
}

fn change(partners: &StubServer, integration: &str, name: String, body: &[u8]) -> Response {
    if let Some(told) = partners.stub().stranger(integration) {
        return (StatusCode::NOT_FOUND, format!("Nothing was changed. {told}\n")).into_response();
    }
    match control::parse(body) {
        Ok(behaviour) => {
            let shown = json!({"integration": name, "now": behaviour.name()});
            partners.stub().set(name, behaviour);
            partners.told.notify_waiters();
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
    partners.stub().forget();
    partners.told.notify_waiters();
    Response::new(Body::empty())
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;
    use crate::aws::{Endpoint, EndpointResponse};

    fn start(journal: &std::path::Path) -> (Endpoint, JoinHandle<()>) {
        let listener = listen_ports::listen(0, "partner stub", "--partners-port").expect("a free port");
        let stub = Endpoint::new(listen_ports::port_of(&listener).expect("its number"));
        let known = [("codes".to_owned(), StubIntegration::default())].into();
        let journal = Journal::create(journal).expect("a journal");
        (stub, serve(listener, "control", "path", known, journal).expect("a stub"))
    }

    async fn send(stub: &Endpoint, method: Method, path: &str, body: &'static str) -> EndpointResponse {
        stub.send("", method, path, &[("authorization", "Bearer control")], body).await.expect("an answer")
    }

    /// The log, once it has so many calls.
    async fn log_of(stub: &Endpoint, calls: usize) -> serde_json::Value {
        loop {
            let log = send(stub, Method::GET, "/_control/log", "").await.json().expect("a log");
            if log.as_array().map(Vec::len) == Some(calls) {
                return log;
            }
        }
    }

    #[tokio::test]
    async fn what_is_held_is_done_and_answered_when_the_stub_is_told_otherwise() {
        let journal = std::env::temp_dir().join(format!("ledgerline-held-{}", std::process::id()));
        let (stub, server) = start(&journal);
        send(&stub, Method::PUT, "/_control/codes", r#"{"mode":"hold"}"#).await;
        let first = async { send(&stub, Method::POST, "/codes/code/1", "{}").await.status.as_u16() };
        let second = async {
            log_of(&stub, 1).await;
            send(&stub, Method::POST, "/codes/code/2", "{}").await.status.as_u16()
        };
        let release = async {
            let log = log_of(&stub, 2).await;
            assert_eq!((&log[0]["mode"], &log[0]["applied"]), (&json!("hold"), &json!(true)), "{log}");
            send(&stub, Method::PUT, "/_control/codes", r#"{"mode":"ok"}"#).await;
        };
        assert_eq!(tokio::join!(first, second, release), (200, 200, ()));
        send(&stub, Method::POST, "/codes/code/3", "{}").await;
        let log = log_of(&stub, 3).await;
        assert_eq!([0, 1, 2].map(|n| log[n]["open"].as_u64()), [Some(1), Some(2), Some(1)], "{log}");
        server.abort();
        std::fs::remove_file(journal).expect("the journal");
    }

    /// Integrations without `auth` have no token to show.
    #[tokio::test]
    async fn a_call_needs_the_secret_path_or_the_control_token_and_no_token_of_its_own() {
        let journal = std::env::temp_dir().join(format!("ledgerline-stub-{}", std::process::id()));
        let (stub, server) = start(&journal);
        let control = [("authorization", "Bearer control")];
        let call = async |path: &str, headers: &[(&str, &str)]| {
            stub.send("", Method::POST, path, headers, "{}").await.expect("an answer").status.as_u16()
        };
        assert_eq!(call("/path/codes/code/1?a=b", &[]).await, 200);
        assert_eq!(call("/codes/code/2", &control).await, 200);
        assert_eq!(call("/path/strange/code/1", &[]).await, 404, "the stub declines what it does not know");
        for path in ["/codes/code/3", "/other/codes/code/3", "/path2/codes/code/3", "/_control/log"] {
            assert_eq!(call(path, &[("authorization", "Bearer other")]).await, 401, "{path}");
        }
        let log = stub.send("", Method::GET, "/_control/log", &control, "").await.expect("an answer").json();
        let calls: Vec<PartnerCall> = serde_json::from_value(log.expect("JSON")).expect("a log");
        let seen: Vec<_> = calls.iter().map(|call| (call.integration.as_str(), call.path.as_str())).collect();
        assert_eq!(seen, [("codes", "/codes/code/1?a=b"), ("codes", "/codes/code/2")]);
        server.abort();
        std::fs::remove_file(journal).expect("the journal");
    }
}
