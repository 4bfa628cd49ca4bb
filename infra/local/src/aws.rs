//! A small HTTP client for the emulator, in each of the protocols of AWS; also for the gateway and the partner stub.
//!
//! Not the SDK: the poller hands the emulator's raw answers on to functions.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::body::Bytes;
use axum::http::header::HOST;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::process::Command;

use crate::run_credentials::RunCredentials;
use crate::sigv4::{self, Signable};

/// The region of the emulator.
pub const REGION: &str = "us-east-1";

/// How long an idle connection is kept. Shorter than the emulator's own 5 s: it would close a connection just as we
/// send on it.
const IDLE: Duration = Duration::from_secs(2);

/// A server on this machine: the emulator, which has one URL for every service, the gateway or the partner stub.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
    credentials: Option<RunCredentials>,
}

/// A response, whatever its status.
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
    /// The server on this port.
    pub fn new(port: u16) -> Self {
        Self::at(format!("http://127.0.0.1:{port}"))
    }

    /// The server at this URL.
    pub fn at(url: String) -> Self {
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build_http();
        Self { url, client, credentials: None }
    }

    /// The emulator at this URL. Requests to it are signed.
    pub fn signed(url: String, credentials: RunCredentials) -> Self {
        Self { credentials: Some(credentials), ..Self::at(url) }
    }

    /// The emulator of the local cloud that runs the tests.
    pub fn of_environment() -> Result<Self> {
        let url = std::env::var("AWS_ENDPOINT_URL").context("AWS_ENDPOINT_URL is not set: run this by `make test`")?;
        Ok(Self::signed(url, RunCredentials::of_environment()?))
    }

    /// The URL, as `AWS_ENDPOINT_URL` takes it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether the emulator answers.
    pub async fn is_healthy(&self) -> bool {
        let answer = self.send("ministack", Method::GET, "/_ministack/health", &[], "").await;
        answer.is_ok_and(|answer| answer.status.is_success())
    }

    /// Calls an action of a JSON service, such as `ssm` and `AmazonSSM.PutParameter`.
    pub async fn act(&self, service: &str, target: &str, input: Value) -> Result<Value> {
        let headers = [("x-amz-target", target), ("content-type", "application/x-amz-json-1.0")];
        let answer = self.send(service, Method::POST, "/", &headers, input.to_string()).await?;
        answer.expect_success(target)?.json()
    }

    /// Calls an action of a query service, such as `cloudformation`, which answers in XML.
    pub async fn query(&self, service: &str, form: &str) -> Result<String> {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let answer = self.send(service, Method::POST, "/", &headers, form.to_owned()).await?;
        let answer = answer.expect_success(form)?;
        String::from_utf8(answer.body.into()).context("the emulator sent an answer that is not text")
    }

    /// Sends a request. Those to the emulator are signed for the service.
    pub async fn send(
        &self,
        service: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<EndpointResponse> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request
            .body(body.into())
            .with_context(|| format!("nothing was sent: {path} or its headers make no HTTP request"))?;
        self.sign(&mut request, service);
        let request = request.map(Full::new);
        let response = self.client.request(request).await.with_context(|| format!("{} does not answer", self.url))?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.with_context(|| format!("the answer of {} broke off", self.url))?.to_bytes();
        Ok(EndpointResponse { status: parts.status, headers: parts.headers, body })
    }

    fn sign(&self, request: &mut Request<Bytes>, service: &str) {
        let Some(RunCredentials { access_key_id, secret_access_key, .. }) = &self.credentials else { return };
        let host = request.uri().authority().and_then(|host| HeaderValue::try_from(host.as_str()).ok());
        request.headers_mut().extend(host.map(|host| (HOST, host)));
        let signable = Signable {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            body: request.body().as_ref(),
        };
        let key = (access_key_id.as_str(), secret_access_key.as_str());
        let signature = sigv4::sign(&signable, key, REGION, service, jiff::Timestamp::now());
        request.headers_mut().extend(signature);
    }
}

impl EndpointResponse {
    /// The response, if its status is a success; else an error that quotes it.
    pub fn expect_success(self, action: &str) -> Result<Self> {
        if !self.status.is_success() {
            bail!("{action} failed: {} {}", self.status, String::from_utf8_lossy(&self.body));
        }
        Ok(self)
    }

    /// The body as JSON. An empty body is null.
    pub fn json(&self) -> Result<Value> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).context("the answer is not JSON")
    }
}

/// Points a child process at the emulator, and away from any real AWS account of the user.
pub fn environment(child: &mut Command, endpoint: &Endpoint) {
    if let Some(credentials) = &endpoint.credentials {
        child
            .env("AWS_ACCESS_KEY_ID", &credentials.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", &credentials.secret_access_key);
    }
    for name in ["AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN"] {
        child.env_remove(name);
    }
    child
        .env("AWS_ENDPOINT_URL", endpoint.url())
        .env("AWS_REGION", REGION)
        .env("AWS_DEFAULT_REGION", REGION)
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("NO_PROXY", "127.0.0.1,localhost");
}
