//! Calls to partners, over one pooled HTTP client.
//!
//! hyper rather than a client on top of it: the SDK brings hyper and rustls already, and the extras of a
//! fuller client (redirects, cookies, proxies, decompression) are what an effect must not have. A
//! redirect would take the request to a host that no integration names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::ext::on_informational;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::authorize::{authorize_body, authorize_headers, authorize_url};
use super::bounded_stream::BoundedConnector;
use crate::effects::outcome::NoAnswer;
use crate::effects::request::{PartnerRequest, Partners};
use crate::flows::PartnerAnswer;

/// The most bytes of an answer that are read. Only a few picked values are kept of it.
const MAX_ANSWER: usize = 64 * 1024;

/// The most bytes of an answer's header fields.
const MAX_HEADERS: usize = 32 * 1024;

/// The most bytes of an answer as it is sent, interim answers and the lengths of chunks included.
const MAX_SENT: usize = 4 * (MAX_ANSWER + MAX_HEADERS);

/// The most interim answers (1xx) before the answer. Partners send none or one.
const MAX_INTERIM: usize = 8;

pub(super) type Pool = Client<BoundedConnector<HttpsConnector<HttpConnector>>, Full<Bytes>>;

/// The connections of a container, for all that call over TLS: the root certificates are loaded once, and not before the
/// first call. Loading them at the start would be most of a cold start.
#[derive(Clone, Debug, Default)]
pub struct LazyPool(Arc<OnceLock<Result<Pool, NoAnswer>>>);

impl LazyPool {
    /// The pool. The first call loads the certificates.
    pub(super) fn get(&self) -> Result<&Pool, NoAnswer> {
        self.0.get_or_init(pool).as_ref().map_err(NoAnswer::clone)
    }

    /// The same for whoever must not keep others waiting: the certificates are loaded on another thread.
    pub(super) async fn load_aside(&self) -> Result<&Pool, NoAnswer> {
        if self.0.get().is_none() {
            let pool = self.clone();
            // If the thread is lost, it is loaded here.
            tokio::task::spawn_blocking(move || pool.get().is_ok()).await.ok();
        }
        self.get()
    }
}

/// The partners' APIs over HTTP.
#[derive(Debug)]
pub struct HttpPartners {
    pool: LazyPool,
    endpoint: Option<String>,
}

impl HttpPartners {
    /// Calls each integration at its base URL; with an `endpoint`, all of them below that instead.
    pub fn new(endpoint: Option<String>) -> Self {
        Self::over(LazyPool::default(), endpoint)
    }

    /// The same over connections that are shared.
    pub fn over(pool: LazyPool, endpoint: Option<String>) -> Self {
        Self { pool, endpoint }
    }

    fn url(&self, request: &PartnerRequest) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("{}/{}{}", endpoint.trim_end_matches('/'), request.integration, request.path),
            None => format!("{}{}", request.base_url.trim_end_matches('/'), request.path),
        }
    }
}

#[async_trait]
impl Partners for HttpPartners {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let pool = self.pool.get()?;
        let timeout = request.timeout;
        let call = build(self.url(&request), request).map_err(NoAnswer::NotSent)?;
        within_interim_answers(pool, call, timeout).await
    }
}

/// Gives a call up when its partner sends too many interim answers. They are no progress, and each costs the worker
/// time that other calls wait for.
pub(super) async fn within_interim_answers(
    pool: &Pool,
    mut call: Request<Full<Bytes>>,
    timeout: Duration,
) -> Result<PartnerAnswer, NoAnswer> {
    let (seen, too_many) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let tell = Arc::clone(&too_many);
    on_informational(&mut call, move |_| {
        if seen.fetch_add(1, Ordering::Relaxed) == MAX_INTERIM {
            tell.notify_one();
        }
    });
    tokio::select! {
        biased;
        () = too_many.notified() => Err(NoAnswer::Lost(format!("more than {MAX_INTERIM} interim answers"))),
        answer = exchange(pool, call, timeout) => answer,
    }
}

/// Sends the call, and reads its answer. A status that came in time is an answer, also if its body did not: what the
/// partner did is said by then, unless its table or a result reads the body.
async fn exchange(pool: &Pool, call: Request<Full<Bytes>>, timeout: Duration) -> Result<PartnerAnswer, NoAnswer> {
    let over = Instant::now() + timeout;
    let response = match timeout_at(over, pool.request(call)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if error.is_connect() => return Err(NoAnswer::NotSent("cannot connect".into())),
        Ok(Err(_)) => return Err(NoAnswer::Lost("cut off".into())),
        Err(_) => return Err(NoAnswer::Lost(format!("timed out after {} ms", timeout.as_millis()))),
    };
    let status = response.status().as_u16();
    let headers = headers(response.headers());
    Ok(PartnerAnswer { status, headers, body: timeout_at(over, read(response, MAX_ANSWER)).await.ok().flatten() })
}

/// Sends a request, and reads so much of its answer: the status, and the body if it is JSON. Its caller gives it up.
pub(super) async fn answer_of(
    pool: &Pool,
    call: Request<Full<Bytes>>,
    bytes: usize,
) -> Result<(u16, Option<Value>), NoAnswer> {
    let response = pool.request(call).await.map_err(|_| NoAnswer::Lost("cut off".into()))?;
    Ok((response.status().as_u16(), read(response, bytes).await))
}

/// The header fields that are text. Of one that comes twice, the last counts.
fn headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let text = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    text.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The body, unless it is too long, cut off or no JSON. One that is too slow is dropped by its reader.
async fn read(response: Response<Incoming>, most: usize) -> Option<Value> {
    let bytes = Limited::new(response.into_body(), most).collect().await.ok()?.to_bytes();
    serde_json::from_slice(&bytes).ok()
}

fn build(url: String, request: PartnerRequest) -> Result<Request<Full<Bytes>>, String> {
    let PartnerRequest { method, headers, credentials, body, .. } = request;
    let mut call = Request::builder().method(method).uri(authorize_url(url, &credentials));
    // Some partners decline who does not say what it is. A flow may say something else.
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(USER_AGENT.as_str())) {
        call = call.header(USER_AGENT, concat!("ledgerline/", env!("CARGO_PKG_VERSION")));
    }
    for (name, value) in headers {
        call = call.header(name, value);
    }
    let body = match authorize_body(body, &credentials)? {
        Some(body) => {
            call = call.header(CONTENT_TYPE, &*body.content_type);
            Bytes::from(body.bytes)
        }
        None => Bytes::new(),
    };
    for (name, value) in authorize_headers(&credentials, &body)? {
        call = call.header(name, value);
    }
    call.body(Full::new(body)).map_err(|error| error.to_string())
}

/// The timeout of a connection. A request that was not connected was not sent, and can be tried again; a request that
/// runs into the call's own timeout may have been sent.
const CONNECT: Duration = Duration::from_millis(1500);

/// How long a connection is kept for the next call. Many servers hang up after five seconds, which a frozen
/// function does not notice: a call on such a connection would be lost for nothing.
const IDLE: Duration = Duration::from_secs(4);

fn pool() -> Result<Pool, NoAnswer> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT));
    let connector = HttpsConnectorBuilder::new()
        .with_native_roots()
        .map_err(|error| NoAnswer::NotSent(format!("no root certificates: {error}")))?
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    let connector = BoundedConnector::new(connector, MAX_SENT);
    Ok(client().http1_max_buf_size(MAX_HEADERS).build(connector))
}

/// A client that keeps its connections for a moment.
fn client() -> Builder {
    let mut client = Client::builder(TokioExecutor::new());
    client.pool_idle_timeout(IDLE).pool_timer(TokioTimer::new());
    client
}

/// Connections to programs on this machine, without TLS: no certificates are loaded.
pub(super) type PlainPool = Client<HttpConnector, Full<Bytes>>;

pub(super) fn plain_pool() -> PlainPool {
    client().build_http()
}
