//! Invocations of the team's own functions, over a real socket: what leaves, once, and how each end is read.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use serde_json::json;
use shared::adapters::LazyPool;
use shared::adapters::aws::LambdaFunctions;
use shared::effects::invocation::{FunctionRequest, InvokeFailure, TeamFunctions};
use shared::flows::FunctionName;

use super::effects::server;

const CANARY: &str = "ada@example.com";

fn aws(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("AKIDEXAMPLE", "s3cret-of-ours", Some("t0ken-of-ours".into()), None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(endpoint)
        .build()
}

fn request(timeout: Duration) -> FunctionRequest {
    FunctionRequest {
        integration: "score".into(),
        function: FunctionName::try_from("team-score:live".to_owned()).expect("a name"),
        document: json!({"event": {"email": CANARY}}).to_string(),
        timeout,
    }
}

/// Longer than any answer here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What comes of an invocation that is answered with this, and the requests that left.
async fn invoke(answer: &str) -> (Result<serde_json::Value, InvokeFailure>, Vec<String>) {
    let (address, mut asked) = server(answer.to_owned()).await;
    let functions = LambdaFunctions::new(&aws(&address), LazyPool::default());
    let ended = functions.invoke(request(PATIENCE)).await;
    let mut requests = Vec::new();
    while let Ok(request) = asked.try_recv() {
        requests.push(request);
    }
    (ended, requests)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn an_invocation_is_signed_and_sent_once() {
    let (ended, requests) = invoke(&answer("200 OK", "", r#"{"outcome": "done"}"#)).await;
    assert_eq!(ended, Ok(json!({"outcome": "done"})));
    let [request] = requests.as_slice() else { panic!("one request: {requests:?}") };
    assert!(request.starts_with("POST /2015-03-31/functions/team-score/invocations?Qualifier=live HTTP/1.1\r\n"));
    let signed = "authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/";
    assert!(request.to_lowercase().contains(&signed.to_lowercase()), "{request}");
    assert!(request.contains("/eu-central-1/lambda/aws4_request") && request.contains("t0ken-of-ours"), "{request}");
    assert!(
        !request.contains("s3cret-of-ours") && request.ends_with(&super::functions::request(Duration::ZERO).document)
    );
}

/// Lambda's SDK would send these again, and a function would act twice.
#[tokio::test]
async fn a_failure_is_never_sent_again_and_quotes_nothing() {
    let raised = format!(r#"{{"errorType": "{CANARY}", "errorMessage": "no contact {CANARY}"}}"#);
    for (said, is) in [
        (answer("500 Internal Server Error", "x-amzn-errortype: ServiceException\r\n", &raised), "lost"),
        (answer("503 Service Unavailable", "", &raised), "lost"),
        (answer("200 OK", "x-amz-function-error: Unhandled\r\n", &raised), "lost"),
        (answer("200 OK", "", CANARY), "lost"),
        (answer("200 OK", "", &format!(r#"{{"outcome": "done", "x": "{}"}}"#, "x".repeat(70 * 1024))), "lost"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{\"outcome\"".to_owned(), "lost"),
        (String::new(), "lost"),
        (answer("307 Temporary Redirect", "location: http://127.0.0.1:1/steal\r\n", ""), "lost"),
        (answer("429 Too Many Requests", "retry-after: 3\r\n", &raised), "not run"),
        (answer("404 Not Found", "x-amzn-errortype: ResourceNotFoundException:\r\n", &raised), "not run"),
        (answer("403 Forbidden", "", &raised), "not allowed"),
        (answer("413 Payload Too Large", "x-amzn-errortype: RequestTooLargeException\r\n", &raised), "never"),
    ] {
        let (ended, requests) = invoke(&said).await;
        let failure = ended.expect_err("no answer of the function");
        let kind = match &failure {
            InvokeFailure::NotRun { .. } => "not run",
            InvokeFailure::NeverRuns(_) => "never",
            InvokeFailure::NotAllowed(_) => "not allowed",
            InvokeFailure::Lost(_) => "lost",
        };
        assert_eq!((kind, requests.len()), (is, 1), "{said}");
        assert!(!format!("{failure} {failure:?}").contains(CANARY), "{failure}");
    }
}

#[tokio::test]
async fn a_function_that_is_not_reached_did_not_run_and_one_that_hangs_may_have() {
    let functions = LambdaFunctions::new(&aws("http://127.0.0.1:1"), LazyPool::default());
    let ended = functions.invoke(request(PATIENCE)).await;
    assert!(matches!(ended, Err(InvokeFailure::NotRun { .. })), "{ended:?}");

    let hanging = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", hanging.local_addr().expect("an address"));
    let ended =
        LambdaFunctions::new(&aws(&address), LazyPool::default()).invoke(request(Duration::from_millis(300))).await;
    assert_eq!(ended, Err(InvokeFailure::Lost("no answer of the function: timed out after 300 ms".into())));
}

#[tokio::test]
async fn without_credentials_nothing_leaves() {
    let (address, mut asked) = server(answer("200 OK", "", "{}")).await;
    let bare = SdkConfig::builder().region(Region::new("eu-central-1")).endpoint_url(&address).build();
    let ended = LambdaFunctions::new(&bare, LazyPool::default()).invoke(request(PATIENCE)).await;
    assert!(matches!(ended, Err(InvokeFailure::NotRun { .. })), "{ended:?}");
    assert!(asked.try_recv().is_err());
}
