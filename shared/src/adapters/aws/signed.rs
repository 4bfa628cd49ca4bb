//! Requests to AWS that no SDK of ours knows, signed by hand.

use std::time::SystemTime;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials as _};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use http::Request;
use http_body_util::Full;
use hyper::body::Bytes;

/// The request could not be signed.
pub(crate) type SigningFailed = Box<dyn std::error::Error + Send + Sync>;

/// The URL of a service in the configuration's region.
pub(crate) fn endpoint_of(aws: &SdkConfig, service: &str) -> String {
    endpoint(aws.endpoint_url(), service, region(aws))
}

/// The URL of a service, unless another one is given.
pub(crate) fn endpoint(given: Option<&str>, service: &str, region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    let host = given.map_or_else(|| format!("https://{service}.{region}.{domain}"), str::to_owned);
    host.trim_end_matches('/').to_owned()
}

fn region(aws: &SdkConfig) -> &str {
    aws.region().map_or("", |region| region.as_ref())
}

/// The credentials of this configuration. The error says why there are none.
pub(crate) async fn credentials(aws: &SdkConfig) -> Result<Credentials, &'static str> {
    let provider = aws.credentials_provider().ok_or("no credentials are configured")?;
    provider.provide_credentials().await.map_err(|_| "no credentials were found")
}

/// A POST to a service of AWS, signed.
pub(crate) fn post(
    aws: &SdkConfig,
    service: &str,
    url: &str,
    content_type: &str,
    body: Bytes,
    credentials: Credentials,
) -> Result<Request<Full<Bytes>>, SigningFailed> {
    post_with(aws, service, url, &[("content-type", content_type)], body, credentials)
}

/// The same with these headers, which are signed, too.
pub(crate) fn post_with(
    aws: &SdkConfig,
    service: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: Bytes,
    credentials: Credentials,
) -> Result<Request<Full<Bytes>>, SigningFailed> {
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region(aws))
        .name(service)
        .time(SystemTime::now())
        .settings(SigningSettings::default())
        .build()?
        .into();
    let signable = SignableRequest::new("POST", url, headers.iter().copied(), SignableBody::Bytes(&body))?;
    let (signature, _) = sign(signable, &params)?.into_parts();
    let built = headers.iter().fold(Request::post(url), |built, (name, value)| built.header(*name, *value));
    let mut signed = built.body(Full::new(body))?;
    signature.apply_to_request_http1x(&mut signed);
    Ok(signed)
}
