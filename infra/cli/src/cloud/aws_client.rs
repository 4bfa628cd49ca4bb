//! Signed requests to AWS, over the HTTP and TLS that the SDK brings.
//!
//! By hand, for they are few: the SDKs of Lambda and CloudWatch are a quarter of a million lines to
//! compile, and bring a second HTTP. Credentials, profiles, regions and signatures are the SDK's.

use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow};
use aws_config::SdkConfig;
use aws_sdk_sts::config::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use shared::effects::outcome::NoAnswer;
use tokio::time::timeout;

use super::CloudError;

const JSON: &str = "application/x-amz-json-1.0";

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a connection is kept for the next request. A change must not be lost on one that the other end gave
/// up while the operator was asked.
const IDLE: Duration = Duration::from_secs(2);

/// How long an answer may take: longer than the function may run.
const ANSWER: Duration = Duration::from_secs(35);

/// How long credentials may take to be found.
const CREDENTIALS: Duration = Duration::from_secs(15);

/// A client for AWS, or for an emulator of it.
#[derive(Debug)]
pub(super) struct AwsClient {
    pub(super) aws: SdkConfig,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// One request. All of them are POST requests with JSON.
#[derive(Debug)]
pub(super) struct AwsRequest {
    /// The service, as hosts and signatures name it.
    pub(super) service: &'static str,
    pub(super) path: String,
    /// The action, where it is not in the path.
    pub(super) target: Option<String>,
    pub(super) body: String,
}

/// A response, whatever its status.
#[derive(Debug)]
pub(super) struct AwsResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl AwsClient {
    pub(super) fn new(aws: SdkConfig) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT));
        let tls = HttpsConnectorBuilder::new().with_native_roots();
        let tls = tls.map_err(|error| {
            anyhow!(
                "nothing was sent: this machine has no root certificates to check AWS's by ({error}). Install the \
                 package ca-certificates"
            )
        })?;
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .build(tls.https_or_http().enable_http1().wrap_connector(tcp));
        Ok(Self { aws, client })
    }

    /// Sends a request once. The outer error is one that another try would meet again, too.
    pub(super) async fn send(&self, request: &AwsRequest) -> Result<Result<AwsResponse, NoAnswer>> {
        let signed = self.sign(request).await?;
        Ok(match timeout(ANSWER, self.exchange(signed)).await {
            Ok(answer) => answer,
            Err(_) => Err(NoAnswer::Lost(format!("no answer within {} seconds", ANSWER.as_secs()))),
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<AwsResponse, NoAnswer> {
        let response = self.client.request(request).await.map_err(|error| match error.is_connect() {
            true => NoAnswer::NotSent("the connection was refused or timed out".into()),
            false => NoAnswer::Lost("the connection broke off".into()),
        })?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(|_| NoAnswer::Lost("the answer broke off".into()))?;
        Ok(AwsResponse { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    async fn sign(&self, request: &AwsRequest) -> Result<Request<Full<Bytes>>> {
        let region = self.aws.region().ok_or_else(no_region)?.as_ref();
        let url = format!("{}{}", self.endpoint(request.service), request.path);
        let identity = self.credentials().await?.into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(request.service)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()?
            .into();
        let headers = [("content-type", Some(JSON)), ("x-amz-target", request.target.as_deref())];
        let headers = headers.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let body = SignableBody::Bytes(request.body.as_bytes());
        let (signature, _) = sign(SignableRequest::new("POST", &url, headers.clone(), body)?, &params)?.into_parts();
        let built = headers.fold(Request::post(&url), |built, (name, value)| built.header(name, value));
        let mut signed = built.body(Full::new(Bytes::from(request.body.clone())))?;
        signature.apply_to_request_http1x(&mut signed);
        Ok(signed)
    }

    /// The URL of a service.
    pub(super) fn endpoint(&self, service: &str) -> String {
        let region = self.aws.region().map_or("", |region| region.as_ref());
        match self.aws.endpoint_url() {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("https://{service}.{region}.{}", domain(region)),
        }
    }

    async fn credentials(&self) -> Result<aws_sdk_sts::config::Credentials> {
        let provider = self.aws.credentials_provider().ok_or_else(|| no_credentials("none are configured"))?;
        match timeout(CREDENTIALS, provider.provide_credentials()).await {
            Ok(found) => found.map_err(|error| no_credentials(&causes(&error)).into()),
            Err(_) => Err(no_credentials("they were not found within 15 seconds").into()),
        }
    }
}

/// The domain of a region's services.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

fn no_region() -> CloudError {
    CloudError::Unreached(
        "nothing was sent: no AWS region is set. Add --region, or set AWS_REGION; for the local cloud, add --local"
            .into(),
    )
}

fn no_credentials(why: &str) -> CloudError {
    CloudError::Unreached(format!(
        "nothing was sent: there are no usable AWS credentials. Add --profile NAME; for a profile of IAM Identity Center, \
         run `aws sso login --profile NAME` first; for the local cloud, add --local\nCause: {why}"
    ))
}

/// An error and its causes, on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn china_is_elsewhere() {
        assert_eq!(domain("eu-central-1"), "amazonaws.com");
        assert_eq!(domain("cn-north-1"), "amazonaws.com.cn");
    }
}
