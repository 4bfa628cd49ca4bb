//! A server that keeps the one request that it gets.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use tokio::task::JoinHandle;

use super::wire::WireRequest;
use crate::listen_ports;
use crate::partners::server;

/// Header fields that differ from run to run, or say nothing of the request.
const LEFT_OUT: [&str; 4] = ["host", "content-length", "traceparent", "tracestate"];

const BODY_LIMIT: usize = 1024 * 1024;

type Seen = Arc<Mutex<Option<WireRequest>>>;

/// A server that keeps the one request that it gets.
pub(super) struct Capture {
    /// Where the server is.
    pub(super) url: String,
    seen: Seen,
    server: JoinHandle<()>,
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Capture {
    pub(super) fn start() -> Result<Self> {
        let listener = listen_ports::listen(0, "the capture of a request", "no option")?;
        let url = format!("http://127.0.0.1:{}", listen_ports::port_of(&listener)?);
        let seen = Seen::default();
        let server = server::serve(listener, Router::new().fallback(keep).with_state(Arc::clone(&seen)))?;
        Ok(Self { url, seen, server })
    }

    /// The request that came, with its path and query for a URL.
    pub(super) fn seen(&self) -> Result<WireRequest> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take().context("no request came")
    }
}

async fn keep(State(seen): State<Seen>, request: Request) -> StatusCode {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else { return StatusCode::PAYLOAD_TOO_LARGE };
    let headers = parts.headers.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
    let mut headers: Vec<(String, String)> = headers
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    headers.sort_unstable();
    *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(WireRequest {
        method: parts.method.to_string(),
        url: parts.uri.to_string(),
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    StatusCode::OK
}
