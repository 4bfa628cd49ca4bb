//! What a collector gets of the exporter, and what the exporter makes of its answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use local::sigv4::{Signable, verify};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use shared::adapters::machine::SystemClock;
use shared::adapters::otlp::{OtlpSpans, TracesTo};
use shared::base::machine::Clock as _;
use shared::base::time::Timestamp;
use shared::base::trace::{SpanId, Trace};
use shared::operate::span::{FAAS_COLDSTART, FAAS_INVOCATION_ID, SAID, SpanSide, Spans as _, TraceSpan};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::{SENDER, dropped, export, export_every, exporter, trace};
use crate::memory::HttpRequest;

/// A request, as the stub got it.
#[derive(Clone, Debug)]
struct Got {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl Got {
    fn spans(&self) -> Vec<opentelemetry_proto::tonic::trace::v1::Span> {
        let request = ExportTraceServiceRequest::decode(self.body.clone()).expect("OTLP");
        request.resource_spans.into_iter().flat_map(|spans| spans.scope_spans).flat_map(|spans| spans.spans).collect()
    }
}

/// A collector that answers as it is told, and remembers.
#[derive(Clone, Default)]
struct Stub {
    got: Arc<Mutex<Vec<Got>>>,
}

impl Stub {
    /// Serves, with these answers one after the other, and 200 afterwards. Returns the address.
    async fn serve(&self, answers: Vec<(StatusCode, Vec<u8>)>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (stub, answers) = (self.clone(), Arc::new(Mutex::new(answers.into_iter())));
        let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let answers = Arc::clone(&answers);
            let stub = stub.clone();
            async move {
                stub.got.lock().expect("no panic").push(Got { method, uri, headers, body });
                answers.lock().expect("no panic").next().unwrap_or_default()
            }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        address
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().expect("no panic").clone()
    }

    /// The requests, once there are so many.
    async fn requests(&self, how_many: usize) -> Vec<Got> {
        self.requests_while(how_many, || ()).await
    }

    /// The same, while one invocation after the other begins: what is gathered while a request is on its way is sent by the
    /// first that begins when it has been answered.
    async fn requests_by_invocations(&self, how_many: usize, spans: &OtlpSpans) -> Vec<Got> {
        self.requests_while(how_many, || assert_eq!(dropped(spans), 0)).await
    }

    async fn requests_while(&self, how_many: usize, meanwhile: impl Fn()) -> Vec<Got> {
        let seen = async {
            while self.got().len() < how_many {
                sleep(Duration::from_millis(5)).await;
                meanwhile();
            }
        };
        timeout(Duration::from_secs(20), seen).await.unwrap_or_else(|_| panic!("{} requests", self.got().len()));
        self.got()
    }
}

/// The dropped spans, once some are counted.
async fn counted(spans: &OtlpSpans) -> u64 {
    let counted = async {
        loop {
            sleep(Duration::from_millis(5)).await;
            if let all @ 1.. = dropped(spans) {
                return all;
            }
        }
    };
    timeout(Duration::from_secs(20), counted).await.expect("something was dropped")
}

fn aws(address: &str) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .endpoint_url(format!("http://{address}"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new("ID", "secret", None, None, "tests")))
        .build()
}

fn put_at(spans: &OtlpSpans, ago: Duration, number: u64) {
    let began = Timestamp::from_millis(SystemClock.now().millis() - i64::try_from(ago.as_millis()).expect("a time"));
    put(spans, TraceSpan::new(&trace(), (SpanId::new(number), None), "claim", SpanSide::Internal, (began, began)));
}

fn put(spans: &OtlpSpans, span: TraceSpan) {
    spans.put(span);
}

fn put_now(spans: &OtlpSpans, how_many: u64) {
    (0..how_many).for_each(|number| put_at(spans, Duration::ZERO, number));
}

#[tokio::test]
async fn what_goes_to_cloudwatch_is_signed_and_of_a_time_that_it_takes() {
    let stub = Stub::default();
    let spans = export(TracesTo::CloudWatch, 1.0, &aws(&stub.serve(Vec::new()).await));
    let day = Duration::from_secs(24 * 3600);
    put_at(&spans, Duration::ZERO, 1);
    put_at(&spans, 3 * day, 2);
    put_at(&spans, 14 * day, 3);
    assert_eq!(dropped(&spans), 0);
    let got = stub.requests(2).await;
    for request in &got {
        let Got { method, uri, headers, body } = request;
        assert_eq!((method, uri.path()), (&Method::POST, "/v1/traces"));
        assert_eq!(headers["content-type"], "application/x-protobuf");
        let signable = Signable { method, uri, headers, body };
        assert_eq!(verify(&signable, &["ID"], "secret"), Ok(()));
        let authorization = headers["authorization"].to_str().expect("text");
        assert!(authorization.contains("/eu-central-1/xray/aws4_request"), "{authorization}");
        assert!(verify(&Signable { body: b"other", ..signable }, &["ID"], "secret").is_err());
    }
    let ids: Vec<u8> = got.iter().flat_map(Got::spans).map(|span| span.span_id[7]).collect();
    assert_eq!(ids, [2, 1], "the oldest first; what is too old would have spoiled its request");
    assert_eq!(counted(&spans).await, 1, "it is counted");
}

#[tokio::test]
async fn invocations_that_follow_closely_share_a_request_unless_much_is_gathered() {
    let stub = Stub::default();
    let to = TracesTo::named(&format!("http://{}/v1/traces", stub.serve(Vec::new()).await)).expect("a collector");
    let spans = export_every(Duration::from_secs(3600), to, 1.0, &SdkConfig::builder().build());
    put_now(&spans, 3);
    dropped(&spans);
    stub.requests(1).await;
    // An hour has not passed: these wait, and go with what follows.
    for _ in 0..4 {
        put_now(&spans, 30);
        dropped(&spans);
        sleep(Duration::from_millis(5)).await;
    }
    put_now(&spans, 8);
    let sent: Vec<usize> = stub.requests_by_invocations(2, &spans).await.iter().map(|got| got.spans().len()).collect();
    assert_eq!(sent, [3, 128]);
}

#[tokio::test]
async fn a_collector_gets_what_is_old_and_says_itself_what_it_does_not_take() {
    let stub = Stub::default();
    let partly = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess { rejected_spans: 2, error_message: "no".into() }),
    };
    let answers = vec![(StatusCode::OK, partly.encode_to_vec())];
    let spans = exporter(&stub.serve(answers).await, 1.0);
    put_at(&spans, Duration::from_secs(20 * 24 * 3600), 0);
    put_now(&spans, 3);
    assert_eq!(dropped(&spans), 0);
    assert_eq!(counted(&spans).await, 1, "the answer counts more than there were");
    assert_eq!(stub.requests(2).await.iter().map(|got| got.spans().len()).collect::<Vec<_>>(), [1, 3]);
}

#[tokio::test]
async fn each_answer_of_a_collector_costs_the_spans_that_it_means() {
    let no = |status| (status, Vec::new());
    for (answers, expected, asked) in [
        // What is wrong with one request may be right with the next; a collector that is down is left alone for now.
        (vec![no(StatusCode::BAD_REQUEST)], 256, 3),
        (vec![no(StatusCode::SERVICE_UNAVAILABLE)], 600, 1),
        (vec![no(StatusCode::TOO_MANY_REQUESTS)], 600, 1),
        (vec![no(StatusCode::OK), no(StatusCode::BAD_GATEWAY)], 344, 2),
        (vec![no(StatusCode::OK), no(StatusCode::OK), no(StatusCode::UNAUTHORIZED)], 88, 3),
    ] {
        let stub = Stub::default();
        let spans = exporter(&stub.serve(answers.clone()).await, 1.0);
        put_now(&spans, 600);
        assert_eq!(dropped(&spans), 0);
        assert_eq!(counted(&spans).await, expected, "{answers:?}");
        assert_eq!(stub.got().len(), asked, "{answers:?}");
        put_now(&spans, 1);
        assert_eq!(dropped(&spans), 0, "the next are sent");
        stub.requests(asked + 1).await;
    }
}

#[tokio::test]
async fn spans_take_no_more_room_than_a_megabyte() {
    let stub = Stub::default();
    let spans = exporter(&stub.serve(Vec::new()).await, 1.0);
    let now = SystemClock.now();
    let large = |bytes: usize| {
        let span = TraceSpan::new(&trace(), (SpanId::new(1), None), "claim", SpanSide::Internal, (now, now));
        span.with(SAID, "x".repeat(bytes))
    };
    put(&spans, large(200_000));
    (0..100).for_each(|_| put(&spans, large(20_000)));
    assert_eq!(dropped(&spans), 1 + 48, "52 of them have room");
    let got = stub.requests(9).await;
    assert!(got.iter().all(|request| request.body.len() <= 128 * 1024 + 1024));
    assert_eq!(got.iter().map(|request| request.spans().len()).sum::<usize>(), 52);
}

/// Many servers hang up after five seconds, which a frozen function does not notice.
#[tokio::test(start_paused = true)]
async fn a_connection_to_a_collector_is_not_used_for_long() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let spans = exporter(&listener.local_addr().expect("an address").to_string(), 1.0);
    let connections = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let place = {
                let mut seen = seen.lock().expect("no panic");
                seen.push(0_usize);
                seen.len() - 1
            };
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let mut bytes = vec![0; 64 * 1024];
                while connection.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                    seen.lock().expect("no panic")[place] += 1;
                    connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("it listens");
                }
            });
        }
    });
    for wait in [1, 10, 0] {
        put_now(&spans, 1);
        assert_eq!(dropped(&spans), 0);
        sleep(Duration::from_secs(wait)).await;
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(*connections.lock().expect("no panic"), [2, 1], "after a second it is used again, after ten it is not");
}

#[tokio::test]
async fn the_first_invocation_of_a_container_says_that_it_was() {
    let stub = Stub::default();
    let spans = exporter(&stub.serve(Vec::new()).await, 1.0);
    for request in 1..=3_usize {
        assert_eq!(dropped(&spans), 0, "an invocation begins");
        let now = SystemClock.now();
        let span = TraceSpan::new(&trace(), (SpanId::new(1), None), "GET /", SpanSide::Server, (now, now));
        put(&spans, span.with(FAAS_INVOCATION_ID, format!("r-{request}")));
        if request > 1 {
            stub.requests_by_invocations(request - 1, &spans).await;
        }
    }
    let cold: Vec<String> = stub
        .requests_by_invocations(2, &spans)
        .await
        .iter()
        .flat_map(Got::spans)
        .map(|span| format!("{span:?}"))
        .collect();
    let said = |span: &String, value: bool| {
        let place = span.find(FAAS_COLDSTART).expect("it is said");
        span[place..].contains(&format!("BoolValue({value})"))
    };
    assert!(said(&cold[0], true) && said(&cold[1], false), "{cold:#?}");
}

/// A sender can lower the share of its own traces, and not raise it; partners are told what is done.
#[tokio::test]
async fn what_a_sender_says_of_recording_never_raises_the_share() {
    let unsampled = SENDER.replace("-01", "-00");
    for (share, sender, recorded) in [
        (Some(1.0), Some(SENDER), true),
        (Some(1.0), Some(&*unsampled), false),
        (Some(0.0), Some(SENDER), false),
        (Some(0.0), None, false),
        (Some(1.0), None, true),
        // Where nothing is exported, what the sender says is handed on.
        (None, Some(SENDER), true),
        (None, Some(&*unsampled), false),
    ] {
        let stub = Stub::default();
        let spans = match share {
            Some(share) => Some(exporter(&stub.serve(Vec::new()).await, share)),
            None => None,
        };
        let mut world = crate::memory::World::new();
        world.intake.spans = Box::new(spans.clone());
        world.processor.spans = Box::new(spans.clone());
        let lead = crate::fixtures::lead().to_string();
        let mut request = HttpRequest::of(&world, lead.as_bytes());
        if let Some(sender) = sender {
            request = request.with("traceparent", sender);
        }
        let answer = request.send(&world).await;
        world.poll().await;
        let case = format!("{share:?} {sender:?}");
        let answered = answer.header("traceresponse").and_then(Trace::parse).expect("a trace");
        assert_eq!(answered.is_sampled(), recorded, "{case}");
        let calls = world.partners.calls();
        let told = calls[0].1.headers.iter().find(|(name, _)| name == "traceparent").expect("a trace");
        assert_eq!(Trace::parse(&told.1).expect("a trace").is_sampled(), recorded, "{case}");
        if let Some(spans) = spans {
            put_at(&spans, Duration::ZERO, 7);
            assert_eq!(dropped(&spans), 0);
            let got = stub.requests(1).await[0].spans().len();
            assert_eq!(got > 1, recorded, "{case}: the stub got {got}");
        }
    }
}
