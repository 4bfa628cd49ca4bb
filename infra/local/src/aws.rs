//! A small client for the emulator, in each of the dialects that AWS speaks.
//!
//! Not the SDK: the emulator checks no signatures, and the raw answers are what the poller hands
//! on to functions.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::process::Command;

/// The region that the emulator stands for.
pub const REGION: &str = "us-east-1";

/// Credentials that open nothing.
pub const ACCESS_KEY: &str = "test";

/// Shorter than the emulator's own 5 s: it would close a connection just as we send on it.
const IDLE: Duration = Duration::from_secs(2);

/// The emulator's one address, for every service.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct EndpointResponse {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Endpoint {
    /// The emulator on this port.
    pub fn new(port: u16) -> Self {
        Self::at(format!("http://127.0.0.1:{port}"))
    }

    /// The emulator at this URL.
    pub fn at(url: String) -> Self {
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build_http();
        Self { url, client }
    }

    /// What `AWS_ENDPOINT_URL` is set to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it answers yet.
    pub async fn healthy(&self) -> bool {
        let answer = self.send("ministack", Method::GET, "/_ministack/health", &[], "").await;
        answer.is_ok_and(|answer| answer.status.is_success())
    }

    /// An action of a JSON service, such as `ssm` and `AmazonSSM.PutParameter`.
    pub async fn act(&self, service: &str, target: &str, input: Value) -> Result<Value> {
        let headers = [("x-amz-target", target), ("content-type", "application/x-amz-json-1.0")];
        let answer = self.send(service, Method::POST, "/", &headers, input.to_string()).await?;
        answer.expect_success(target)?.json()
    }

    /// An action of a query service, such as `cloudformation`, which answers in XML.
    pub async fn query(&self, service: &str, form: &str) -> Result<String> {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let answer = self.send(service, Method::POST, "/", &headers, form.to_owned()).await?;
        let answer = answer.expect_success(form)?;
        String::from_utf8(answer.body.into()).context("the emulator's answer is not text")
    }

    /// Any request. Unless it brings an authorization of its own, it gets credentials that only name
    /// the service and the region.
    pub async fn send(
        &self,
        service: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<EndpointResponse> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if !headers.iter().any(|(name, _)| *name == "authorization") {
            request = request.header("authorization", credentials(service));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).context("an impossible request")?;
        let response = self.client.request(request).await.context("the emulator does not answer")?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.context("the emulator's answer broke off")?.to_bytes();
        Ok(EndpointResponse { status: parts.status, headers: parts.headers, body })
    }
}

impl EndpointResponse {
    /// An error that quotes the answer, unless it was a success.
    pub fn expect_success(self, what: &str) -> Result<Self> {
        if !self.status.is_success() {
            bail!("{what}: {} {}", self.status, String::from_utf8_lossy(&self.body));
        }
        Ok(self)
    }

    /// The body as JSON; nothing at all counts as null.
    pub fn json(&self) -> Result<Value> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).context("the emulator's answer is not JSON")
    }
}

/// Point a child at the emulator, and away from any real account of whoever runs it.
pub fn environment(child: &mut Command, endpoint: &Endpoint) {
    for name in ["AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN"] {
        child.env_remove(name);
    }
    child
        .env("AWS_ENDPOINT_URL", endpoint.url())
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", ACCESS_KEY)
        .env("AWS_REGION", REGION)
        .env("AWS_DEFAULT_REGION", REGION)
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("NO_PROXY", "127.0.0.1,localhost");
}

fn credentials(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/{REGION}/{service}/aws4_request, \
         SignedHeaders=host, Signature=0"
    )
}
