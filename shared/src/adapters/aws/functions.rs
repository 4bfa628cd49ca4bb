//! The team's own functions, by Lambda's Invoke.
//!
//! By hand, for it is one request: Lambda's SDK is a quarter of a million lines to compile. It is sent once. The SDK
//! would send it again after a lost answer, and the function would act twice.
//!
//! Deliberately absent: anything that is built or read before a flow invokes a function for the first time.

use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::Credentials;
use http::Request;
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::time::timeout;

use super::signed::{SigningFailed, credentials, endpoint_of, post};
use crate::adapters::http::{LazyPool, within_interim_answers};
use crate::effects::invocation::{FunctionRequest, InvokeFailure, TeamFunctions};
use crate::effects::outcome::NoAnswer;
use crate::flows::{FunctionName, PartnerAnswer};

/// The team's own functions on Lambda.
#[derive(Debug)]
pub struct LambdaFunctions {
    aws: SdkConfig,
    pool: LazyPool,
}

impl LambdaFunctions {
    /// Functions of the account and the region of this configuration.
    pub fn new(aws: &SdkConfig, pool: LazyPool) -> Self {
        Self { aws: aws.clone(), pool }
    }

    async fn signed(&self, request: &FunctionRequest) -> Result<Request<Full<Bytes>>, InvokeFailure> {
        let credentials = timeout(request.timeout, credentials(&self.aws)).await;
        let credentials = credentials.map_err(|_| not_run("no credentials in time"))?.map_err(not_run)?;
        self.sign(request, credentials).map_err(|_| not_run("the request could not be signed"))
    }

    fn sign(&self, request: &FunctionRequest, credentials: Credentials) -> Result<Request<Full<Bytes>>, SigningFailed> {
        let url = url(&endpoint_of(&self.aws, "lambda"), &request.function);
        let body = Bytes::from(request.document.clone());
        post(&self.aws, "lambda", &url, "application/json", body, credentials)
    }
}

#[async_trait]
impl TeamFunctions for LambdaFunctions {
    async fn invoke(&self, request: FunctionRequest) -> Result<Value, InvokeFailure> {
        let pool = self.pool.get().map_err(|error| not_run(&error.to_string()))?;
        let signed = self.signed(&request).await?;
        match within_interim_answers(pool, signed, request.timeout).await {
            Ok(answer) => read(answer),
            Err(NoAnswer::NotSent(why)) => Err(not_run(&why)),
            Err(NoAnswer::Lost(why)) => Err(InvokeFailure::Lost(format!("no answer of the function: {why}"))),
        }
    }
}

/// The URL of a function's invocations. Its name has no character that means something in a URL.
fn url(lambda: &str, function: &FunctionName) -> String {
    let qualifier = function.qualifier().map(|qualifier| format!("?Qualifier={qualifier}")).unwrap_or_default();
    format!("{lambda}/2015-03-31/functions/{}/invocations{qualifier}", function.name())
}

fn not_run(why: &str) -> InvokeFailure {
    InvokeFailure::NotRun { why: why.to_owned(), retry_after: None }
}

/// Reads Lambda's answer. A 200 with `X-Amz-Function-Error` comes from a function that ran: it may have acted before it
/// raised, ran out of time or died. Any other 200 is the function's own answer.
fn read(answer: PartnerAnswer) -> Result<Value, InvokeFailure> {
    match answer.status {
        200 if answer.headers.contains_key("x-amz-function-error") => Err(InvokeFailure::Lost(raised(&answer))),
        200 => answer.body.ok_or_else(|| {
            InvokeFailure::Lost("the function's answer is cut off, longer than 64 KiB, or no JSON".into())
        }),
        _ => Err(read_error(&answer)),
    }
}

/// What a function that ran ended with. Of Lambda's words only the error's type is quoted, and only Lambda's own: the
/// rest is the function's, and may hold values of the event.
fn raised(answer: &PartnerAnswer) -> String {
    let named = answer.body.as_ref().and_then(|body| body["errorType"].as_str());
    let own = named.filter(|name| name.starts_with("Runtime.") || name.starts_with("Sandbox."));
    let own =
        own.filter(|name| name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'));
    own.map_or_else(|| "the function raised an error".into(), |name| format!("the function ended with {name}"))
}

/// Reads an error of Lambda's own. "Error codes are reserved for errors that prevent your function from executing"
/// (Lambda's API reference, Invoke): but only those are believed that say which.
fn read_error(answer: &PartnerAnswer) -> InvokeFailure {
    let named = error_type(answer);
    let why = format!("Lambda answered {}{}", answer.status, named.map(|name| format!(" {name}")).unwrap_or_default());
    match (answer.status, named.unwrap_or_default()) {
        (429, _) => InvokeFailure::NotRun { why, retry_after: retry_after(answer) },
        (_, named) if NOT_RUN.contains(&named) => InvokeFailure::NotRun { why, retry_after: retry_after(answer) },
        (_, named) if NEVER_RUNS.contains(&named) => InvokeFailure::NeverRuns(why),
        (401 | 403, _) => InvokeFailure::NotAllowed(why),
        _ => InvokeFailure::Lost(why),
    }
}

/// The type of an error, if it is one that we know: an unknown one is not quoted.
fn error_type(answer: &PartnerAnswer) -> Option<&'static str> {
    let in_body = || answer.body.as_ref().and_then(|body| body["__type"].as_str());
    let text = answer.headers.get("x-amzn-errortype").map(String::as_str).or_else(in_body)?;
    let text = text.rsplit('#').next()?.split(':').next()?;
    NOT_RUN.iter().chain(NEVER_RUNS).chain(OTHERS).copied().find(|known| *known == text)
}

fn retry_after(answer: &PartnerAnswer) -> Option<Duration> {
    Some(Duration::from_secs(answer.headers.get("retry-after")?.trim().parse().ok()?))
}

/// Errors that say why the function did not run, and may pass or be put right.
const NOT_RUN: &[&str] = &[
    "CodeArtifactUserDeletedException",
    "CodeArtifactUserFailedException",
    "CodeArtifactUserPendingException",
    "EC2AccessDeniedException",
    "EC2ThrottledException",
    "EC2UnexpectedException",
    "EFSMountConnectivityException",
    "EFSMountFailureException",
    "EFSMountTimeoutException",
    "ENILimitReachedException",
    "ENINotReadyException",
    "InvalidRuntimeException",
    "InvalidSecurityGroupIDException",
    "InvalidSubnetIDException",
    "InvalidZipFileException",
    "KMSAccessDeniedException",
    "KMSDisabledException",
    "KMSInvalidStateException",
    "KMSNotFoundException",
    "ModeNotSupportedException",
    "NoPublishedVersionException",
    "RecursiveInvocationException",
    "ResourceConflictException",
    "ResourceNotFoundException",
    "ResourceNotReadyException",
    "S3FilesMountConnectivityException",
    "S3FilesMountFailureException",
    "S3FilesMountTimeoutException",
    "ServiceQuotaExceededException",
    "SnapStartNotReadyException",
    "SnapStartRegenerationFailureException",
    "SnapStartTimeoutException",
    "SubnetIPAddressLimitReachedException",
    "ThrottlingException",
    "TooManyRequestsException",
];

/// Errors of the request itself: the same one is never accepted.
const NEVER_RUNS: &[&str] = &[
    "InvalidParameterValueException",
    "InvalidRequestContentException",
    "RequestTooLargeException",
    "SerializedRequestEntityTooLargeException",
    "UnsupportedMediaTypeException",
];

/// Errors that are only named. A function may have been at work when its file system failed, and nobody knows what
/// happened inside of Lambda.
const OTHERS: &[&str] = &[
    "AccessDeniedException",
    "EFSIOException",
    "ExpiredTokenException",
    "InvalidSignatureException",
    "ServiceException",
    "SnapStartException",
    "UnrecognizedClientException",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::signed::endpoint;
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: Value) -> PartnerAnswer {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        PartnerAnswer { status, headers, body: Some(body) }
    }

    #[test]
    fn a_function_is_invoked_in_its_own_region_and_by_its_alias() {
        let plain = FunctionName::try_from("team-score".to_owned()).expect("a name");
        let live = FunctionName::try_from("team-score:live".to_owned()).expect("a name");
        let path = "/2015-03-31/functions/team-score/invocations";
        let url = |given, region, function| url(&endpoint(given, "lambda", region), function);
        assert_eq!(url(None, "eu-central-1", &plain), format!("https://lambda.eu-central-1.amazonaws.com{path}"));
        assert_eq!(url(None, "cn-north-1", &plain), format!("https://lambda.cn-north-1.amazonaws.com.cn{path}"));
        let local = url(Some("http://127.0.0.1:4566/"), "us-east-1", &live);
        assert_eq!(local, format!("http://127.0.0.1:4566{path}?Qualifier=live"));
    }

    /// The errors of Invoke as Lambda's API model lists them (2026-11), each with its status.
    #[test]
    fn only_errors_that_say_so_surely_did_nothing() {
        for (status, named, kind) in [
            (404, "ResourceNotFoundException", "not run"),
            (409, "ResourceConflictException", "not run"),
            (429, "TooManyRequestsException", "not run"),
            (429, "", "not run"),
            (400, "ThrottlingException", "not run"),
            (502, "KMSAccessDeniedException", "not run"),
            (502, "EC2ThrottledException", "not run"),
            (403, "EFSMountFailureException", "not run"),
            (413, "RequestTooLargeException", "never"),
            (400, "InvalidRequestContentException", "never"),
            (403, "AccessDeniedException", "not allowed"),
            (403, "ExpiredTokenException", "not allowed"),
            (403, "", "not allowed"),
            (500, "ServiceException", "lost"),
            (410, "EFSIOException", "lost"),
            (400, "SnapStartException", "lost"),
            (502, "", "lost"),
            (503, "", "lost"),
            (504, "", "lost"),
            (302, "", "lost"),
            (202, "", "lost"),
            (400, "BrandNewException", "lost"),
        ] {
            let of_header = answer(status, &[("x-amzn-errortype", &format!("{named}:http://internal/"))], json!({}));
            let of_body = answer(status, &[], json!({"__type": format!("com.amazonaws#{named}")}));
            for answer in [of_header, of_body] {
                let failure = read(answer).expect_err("no answer of the function");
                let is = match &failure {
                    InvokeFailure::NotRun { .. } => "not run",
                    InvokeFailure::NeverRuns(_) => "never",
                    InvokeFailure::NotAllowed(_) => "not allowed",
                    InvokeFailure::Lost(_) => "lost",
                };
                assert_eq!(is, kind, "{status} {named}");
                assert!(!failure.to_string().contains("BrandNew"), "what is not known is not quoted: {failure}");
            }
        }
    }

    #[test]
    fn a_throttle_may_say_how_long() {
        let throttled = answer(429, &[("retry-after", "7")], json!({}));
        let Err(InvokeFailure::NotRun { retry_after, .. }) = read(throttled) else { panic!("it did not run") };
        assert_eq!(retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn a_function_that_raised_may_have_acted_and_its_words_are_not_quoted() {
        for (named, told) in [
            ("Sandbox.Timedout", "the function ended with Sandbox.Timedout"),
            ("Runtime.ExitError", "the function ended with Runtime.ExitError"),
            ("ada@example.com", "the function raised an error"),
            ("Runtime.ada@example.com", "the function raised an error"),
        ] {
            let body = json!({"errorType": named, "errorMessage": "no such contact: ada@example.com"});
            let raised = answer(200, &[("x-amz-function-error", "Unhandled")], body);
            assert_eq!(read(raised), Err(InvokeFailure::Lost(told.into())));
        }
    }

    #[test]
    fn an_answer_is_the_functions_own_or_none() {
        assert_eq!(read(answer(200, &[], json!({"outcome": "done"}))), Ok(json!({"outcome": "done"})));
        assert_eq!(read(answer(200, &[], Value::Null)), Ok(Value::Null), "a function that returns nothing");
        let cut = read(PartnerAnswer { status: 200, ..PartnerAnswer::default() });
        assert!(matches!(cut, Err(InvokeFailure::Lost(_))));
    }
}
