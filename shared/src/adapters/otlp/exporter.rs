//! The exporter: spans are gathered, and sent over HTTP beside the work of a later invocation.
//!
//! No answer waits for it. What an invocation gathers stays in memory until the next one begins; then it is sent in a task
//! of its own, which goes on whenever that invocation waits for something else, or for nothing. What a container gathered
//! last is lost with it, and so is what a collector does not take in time: it is dropped and counted. The ledger's own
//! spans make up for it.
//!
//! Deliberately absent: a retry, a file, a queue. And anything that is built, read or looked up before there is a span to
//! be sent: the root certificates are loaded on a thread beside the task, for all who call over TLS.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use aws_config::SdkConfig;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use tokio::time::timeout;

use super::SpansOf;
use super::requests::{MOST_BYTES, requests};
use super::wire::{self, WireSpan};
use crate::adapters::aws::signed::{credentials, endpoint_of, post};
use crate::adapters::http::{LazyPool, PlainPool, plain_pool};
use crate::adapters::machine::SystemClock;
use crate::base::machine::Clock as _;
use crate::base::sample_rate::SampleRate;
use crate::base::trace::Trace;
use crate::operate::metric::{Fact, Metrics, Tally};
use crate::operate::span::{FAAS_COLDSTART, FAAS_INVOCATION_ID, Spans, TraceSpan};

/// The most spans that are kept for the next invocation, and so the most that are on their way at once.
const MOST_SPANS: usize = 2048;

/// As many spans as are worth a request at any time.
const MANY_SPANS: usize = 128;

/// The most bytes of them. A span has half a kilobyte.
const MOST_GATHERED: usize = 1024 * 1024;

/// The age from which on CloudWatch rejects a span, and with it all that are in its request; less an hour for its way.
const TOO_OLD: Duration = Duration::from_secs((14 * 24 - 1) * 3600);

/// How long a collector may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of a collector's answer that are read.
const MAX_ANSWER: usize = 16 * 1024;

/// Where spans are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracesTo {
    /// A collector, at this URL.
    Collector(String),
    /// CloudWatch's own OTLP endpoint in the function's region. Requests are signed.
    CloudWatch,
}

impl TracesTo {
    /// Reads what the template says: `cloudwatch`, or the URL of a collector. Spans cross no network in plain text.
    pub fn named(text: &str) -> Option<Self> {
        let local = ["http://localhost", "http://127.0.0.1", "http://[::1]"];
        let is_local = |url: &str| {
            local.iter().any(|host| url.strip_prefix(host).is_some_and(|rest| rest.starts_with([':', '/'])))
        };
        match text {
            "cloudwatch" => Some(TracesTo::CloudWatch),
            url if url.parse::<http::Uri>().is_err() => None,
            url if url.starts_with("https://") || is_local(url) => Some(TracesTo::Collector(url.to_owned())),
            _ => None,
        }
    }
}

/// What of the spans is exported: where to, of how many traces, and as whose.
#[derive(Clone, Debug)]
pub struct TracesExport {
    /// Where they are sent.
    pub to: TracesTo,
    /// The share of the traces.
    pub share: SampleRate,
    /// The function.
    pub of: SpansOf,
    /// The shortest time between two requests, unless many spans are gathered. A request costs as much as a dozen spans.
    pub every: Duration,
}

impl TracesExport {
    /// How often a container sends, unless it has much to send.
    pub const EVERY: Duration = Duration::from_secs(1);
}

/// Spans over OTLP/HTTP, as protobuf.
#[derive(Clone, Debug)]
pub struct OtlpSpans(Arc<Exporter>);

#[derive(Debug)]
struct Exporter {
    export: TracesExport,
    aws: SdkConfig,
    /// For a collector on this machine: no certificates are loaded.
    plain: OnceLock<PlainPool>,
    tls: LazyPool,
    gathered: Mutex<Gathered>,
    is_sending: AtomicBool,
    dropped: AtomicU64,
    /// How many invocations have begun in this container.
    invocations: AtomicU64,
}

#[derive(Debug, Default)]
struct Gathered {
    spans: Vec<WireSpan>,
    bytes: usize,
    /// When some were last sent.
    sent_at: Option<Instant>,
}

impl Gathered {
    /// Whether what is gathered is worth a request.
    fn is_due(&self, every: Duration) -> bool {
        let lately = self.sent_at.is_some_and(|sent_at| sent_at.elapsed() < every);
        !self.spans.is_empty() && (!lately || self.spans.len() >= MANY_SPANS)
    }

    fn take(&mut self) -> Vec<WireSpan> {
        let sent = std::mem::take(self);
        self.sent_at = Some(Instant::now());
        sent.spans
    }
}

/// Why spans were not taken.
enum NotTaken {
    /// The collector rejected so many, and would reject them again.
    Rejected(u64),
    /// The collector does not answer, or has no room. It gets nothing more for now.
    Away,
}

impl OtlpSpans {
    /// Exports spans over the connections that the container shares.
    pub fn new(export: TracesExport, aws: &SdkConfig, tls: LazyPool) -> Self {
        OtlpSpans(Arc::new(Exporter {
            export,
            aws: aws.clone(),
            plain: OnceLock::new(),
            tls,
            gathered: Mutex::default(),
            is_sending: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            invocations: AtomicU64::new(0),
        }))
    }

    /// An invocation begins: sends what was gathered before, beside what comes now, and counts what was dropped. Nothing
    /// waits for it.
    ///
    /// While a collector has not answered, the next spans are gathered, as many as there is room for.
    pub fn send_gathered(&self, metrics: &dyn Metrics) {
        let exporter = &self.0;
        exporter.invocations.fetch_add(1, Ordering::Relaxed);
        match exporter.dropped.swap(0, Ordering::Relaxed) {
            0 => (),
            dropped => {
                let mut tally = Tally::default();
                tally.count(&Fact::SpansDropped(dropped));
                metrics.put(&tally);
            }
        }
        if !exporter.gathered().is_due(exporter.export.every) || exporter.is_sending.swap(true, Ordering::Relaxed) {
            return;
        }
        let spans = exporter.gathered().take();
        let sending = Sending(Arc::clone(exporter));
        tokio::spawn(async move { sending.send(spans).await });
    }
}

impl Spans for OtlpSpans {
    fn share_has(&self, trace: &Trace) -> Option<bool> {
        // The last digits are random in every kind of id; the first are a time in X-Ray's.
        Some(self.0.export.share.takes(trace.trace_id() as u32))
    }

    fn are_in_cloudwatch(&self) -> bool {
        self.0.export.to == TracesTo::CloudWatch
    }

    fn put(&self, mut span: TraceSpan) {
        if span.attributes.iter().any(|(name, _)| *name == FAAS_INVOCATION_ID) {
            let is_cold = self.0.invocations.load(Ordering::Relaxed) <= 1;
            span.attributes.push((FAAS_COLDSTART, is_cold.into()));
        }
        let span = WireSpan::new(&span, &self.0.export.of);
        let (mut gathered, bytes) = (self.0.gathered(), span.bytes.len());
        let has_room = gathered.spans.len() < MOST_SPANS && gathered.bytes + bytes <= MOST_GATHERED;
        if has_room && bytes <= MOST_BYTES {
            gathered.bytes += bytes;
            gathered.spans.push(span);
        } else {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Exporter {
    fn gathered(&self) -> std::sync::MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends spans, a request at a time, and returns how many were not taken.
    async fn send(&self, mut spans: Vec<WireSpan>) -> u64 {
        let all = spans.len();
        if self.export.to == TracesTo::CloudWatch {
            let now = SystemClock.now();
            spans.retain(|span| now.since(span.began) < TOO_OLD);
        }
        let mut dropped = (all - spans.len()) as u64;
        let mut requests = requests(spans).into_iter();
        while let Some(spans) = requests.next() {
            let count = spans.len() as u64;
            match self.send_one(spans).await {
                Ok(()) => (),
                Err(NotTaken::Rejected(some)) => dropped += some.min(count),
                Err(NotTaken::Away) => return dropped + count + requests.map(|left| left.len() as u64).sum::<u64>(),
            }
        }
        dropped
    }

    async fn send_one(&self, spans: Vec<WireSpan>) -> Result<(), NotTaken> {
        let all = spans.len() as u64;
        let sent = timeout(TIMEOUT, self.exchange(&spans)).await;
        let Ok(Some(answer)) = sent else { return Err(NotTaken::Away) };
        match answer.status() {
            status if status.is_success() => match rejected(answer).await {
                0 => Ok(()),
                some => Err(NotTaken::Rejected(some)),
            },
            StatusCode::TOO_MANY_REQUESTS => Err(NotTaken::Away),
            status if status.is_server_error() => Err(NotTaken::Away),
            _ => Err(NotTaken::Rejected(all)),
        }
    }

    async fn exchange(&self, spans: &[WireSpan]) -> Option<Response<Incoming>> {
        let body = Bytes::from(wire::request(&self.export.of, spans));
        let request = self.request(body).await?;
        let answer = match &self.export.to {
            TracesTo::Collector(url) if url.starts_with("http://") => {
                self.plain.get_or_init(plain_pool).request(request).await
            }
            _ => self.tls.load_aside().await.ok()?.request(request).await,
        };
        answer.ok()
    }

    async fn request(&self, body: Bytes) -> Option<Request<Full<Bytes>>> {
        match &self.export.to {
            TracesTo::Collector(url) => Request::post(url).header("content-type", PROTOBUF).body(Full::new(body)).ok(),
            TracesTo::CloudWatch => {
                let credentials = credentials(&self.aws).await.ok()?;
                let url = format!("{}/v1/traces", endpoint_of(&self.aws, "xray"));
                post(&self.aws, "xray", &url, PROTOBUF, body, credentials).ok()
            }
        }
    }
}

const PROTOBUF: &str = "application/x-protobuf";

/// How many spans a collector says that it did not take, although it took the request.
async fn rejected(answer: Response<Incoming>) -> u64 {
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect();
    let Ok(Ok(body)) = timeout(TIMEOUT, body).await else { return 0 };
    let said = ExportTraceServiceResponse::decode(body.to_bytes()).ok();
    let rejected = said.and_then(|said| said.partial_success).map(|partly| partly.rejected_spans);
    rejected.and_then(|spans| u64::try_from(spans).ok()).unwrap_or_default()
}

/// Spans on their way. However their task ends, the next may go.
struct Sending(Arc<Exporter>);

impl Sending {
    async fn send(self, spans: Vec<WireSpan>) {
        let dropped = self.0.send(spans).await;
        self.0.dropped.fetch_add(dropped, Ordering::Relaxed);
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.is_sending.store(false, Ordering::Relaxed);
    }
}
