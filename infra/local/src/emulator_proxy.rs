//! The proxy in front of the emulator: the emulator's only way in from the network.
//!
//! The emulator takes any credentials, answers every page with `Access-Control-Allow-Origin: *`, and runs the code that
//! it is given. So it listens on a socket in the file system that only its owner can open, and this proxy passes on
//! what was meant for it ([`foreign_requests`]) and is signed with the credentials of this run ([`sigv4`]).

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use crate::foreign_requests;
use crate::listen_ports;
use crate::partners::server::{self, HangUp};
use crate::permissions::CallRecord;
use crate::run_credentials::RunCredentials;
use crate::sigv4::{self, Signable};

/// The largest body that is passed on: a function's package.
const BODY_LIMIT: usize = 256 * 1024 * 1024;

/// The id that the emulator gives the team's functions in the place of ours, with our secret: that of its account.
const FUNCTIONS_KEY_ID: &str = "000000000000";

/// The start of the id that `launch.py` gives each function of a stack, before the function's name.
const FUNCTION_KEY: &str = "FUNCTION-";

/// Serves until the task is aborted.
pub(crate) fn serve(
    listener: TcpListener,
    socket: PathBuf,
    credentials: RunCredentials,
    record: Arc<CallRecord>,
) -> Result<JoinHandle<()>> {
    let proxy = Arc::new(EmulatorProxy { port: listen_ports::port_of(&listener)?, socket, credentials, record });
    server::serve(listener, Router::new().fallback(handle).with_state(proxy))
}

struct EmulatorProxy {
    port: u16,
    socket: PathBuf,
    credentials: RunCredentials,
    record: Arc<CallRecord>,
}

async fn handle(State(proxy): State<Arc<EmulatorProxy>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(sentence) = foreign_requests::check(&parts, proxy.port) {
        return rejected(sentence);
    }
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    match proxy.check(&parts, &body) {
        Ok(()) => proxy.pass_on(parts, body).await,
        Err(why) => rejected(&format!("The local cloud did not take the request: {why}.")),
    }
}

impl EmulatorProxy {
    fn check(&self, parts: &Parts, body: &[u8]) -> Result<(), &'static str> {
        if parts.method == Method::OPTIONS {
            return Err("no page may ask what it could send");
        }
        let request = Signable { method: &parts.method, uri: &parts.uri, headers: &parts.headers, body };
        let signer = sigv4::signer(&parts.headers);
        let function = signer.and_then(|(id, service)| Some((id, id.strip_prefix(FUNCTION_KEY)?, service)));
        let ids = [self.credentials.access_key_id.as_str(), FUNCTIONS_KEY_ID];
        let ids: Vec<&str> = ids.into_iter().chain(function.map(|(id, ..)| id)).collect();
        sigv4::verify(&request, &ids, &self.credentials.secret_access_key)?;
        if let Some((_, name, service)) = function {
            self.record.add(name, service, parts, body);
        }
        Ok(())
    }

    /// Passes a request on. An emulator that is down takes nothing: 503. One that ends meanwhile may have taken it: the
    /// connection ends without an answer, as it would without a proxy.
    async fn pass_on(&self, mut parts: Parts, body: Bytes) -> Response {
        let Ok(stream) = UnixStream::connect(&self.socket).await else {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        };
        let Ok((mut sender, connection)) = http1::handshake(TokioIo::new(stream)).await else {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        };
        tokio::spawn(connection);
        let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        parts.uri = Uri::from(path);
        without(&mut parts.headers, &[CONNECTION, EXPECT, TRANSFER_ENCODING, CONTENT_LENGTH]);
        match sender.send_request(Request::from_parts(parts, Full::new(body))).await {
            Ok(response) => for_programs_only(response.map(Body::new)),
            Err(_) => HangUp.into_response(),
        }
    }
}

/// The response without the headers that would open it to pages, and without those of the connection behind.
fn for_programs_only(mut response: Response) -> Response {
    let opening: Vec<HeaderName> =
        response.headers().keys().filter(|name| name.as_str().starts_with("access-control-")).cloned().collect();
    without(response.headers_mut(), &opening);
    without(response.headers_mut(), &[CONNECTION, TRANSFER_ENCODING]);
    response
}

fn without(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        headers.remove(name);
    }
}

/// In the form in which the SDKs read an error.
fn rejected(sentence: &str) -> Response {
    let body = json!({"__type": "UnrecognizedClientException", "message": sentence}).to_string();
    (StatusCode::FORBIDDEN, [(CONTENT_TYPE, "application/json")], body).into_response()
}
