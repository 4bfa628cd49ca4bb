//! The export of spans: to a real collector, to one that never answers, and to none.

mod requests;

use std::path::Path;
use std::time::Duration;

use aws_config::SdkConfig;
use local::collector::Collector;
use serde_json::json;
use shared::adapters::LazyPool;
use shared::adapters::otlp::{OtlpSpans, SpansOf, TracesExport, TracesTo};
use shared::base::sample_rate::SampleRate;
use shared::base::time::Timestamp;
use shared::base::trace::{SpanId, Trace};
use shared::model::{ModelMetrics, Script};
use shared::operate::span::{SpanSide, Spans as _, TraceSpan};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

use crate::collected::collected;
use crate::fixtures::lead;
use crate::memory::{HttpRequest, World};

const SENDER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn exporter(address: &str, share: f64) -> OtlpSpans {
    let to = TracesTo::named(&format!("http://{address}/v1/traces")).expect("a collector's URL");
    export(to, share, &SdkConfig::builder().build())
}

fn export(to: TracesTo, share: f64, aws: &SdkConfig) -> OtlpSpans {
    export_every(Duration::ZERO, to, share, aws)
}

fn export_every(every: Duration, to: TracesTo, share: f64, aws: &SdkConfig) -> OtlpSpans {
    let share = SampleRate::new(share).expect("a share");
    OtlpSpans::new(TracesExport { to, share, of: SpansOf::new("tests"), every }, aws, LazyPool::default())
}

/// An exporter to a collector that nobody asks for anything.
pub(crate) fn exporter_to_collector() -> OtlpSpans {
    exporter("127.0.0.1:1", 1.0)
}

/// An exporter of this share to CloudWatch.
pub(crate) fn exporter_to_cloudwatch(share: f64) -> OtlpSpans {
    export(TracesTo::CloudWatch, share, &SdkConfig::builder().build())
}

fn trace() -> Trace {
    Trace::parse(SENDER).expect("a trace")
}

fn put(spans: &OtlpSpans, how_many: u64) {
    for number in 0..how_many {
        let now = Timestamp::from_secs(1_794_819_600);
        spans.put(TraceSpan::new(&trace(), (SpanId::new(number), None), "claim", SpanSide::Internal, (now, now)));
    }
}

/// How many spans the next invocation says were dropped.
fn dropped(spans: &OtlpSpans) -> u64 {
    let metrics = ModelMetrics::default();
    spans.send_gathered(&metrics);
    metrics.sum("SpansDropped{}")
}

/// A world whose three functions send their spans there.
fn exporting(spans: &OtlpSpans) -> World {
    let mut world = World::new();
    world.intake.spans = Box::new(spans.clone());
    world.processor.spans = Box::new(spans.clone());
    world.replay.spans = Box::new(spans.clone());
    world
}

/// The clock stands still while there is something to do: whatever takes time waits for a timer, or for the collector.
#[tokio::test(start_paused = true)]
async fn a_collector_that_never_answers_keeps_nobody_waiting_and_takes_no_more_room() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let spans = exporter(&listener.local_addr().expect("an address").to_string(), 1.0);
    let world = exporting(&spans);
    let began = Instant::now();
    put(&spans, 10);
    assert_eq!(dropped(&spans), 0, "the ten are on their way, beside what follows");
    let lead = lead().to_string();
    let answer = HttpRequest::of(&world, lead.as_bytes()).send(&world).await;
    assert_eq!(answer.status, 202);
    world.poll().await;
    assert_eq!(world.ledger.rows()[0].state, shared::ledger::State::Succeeded);
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody waited");

    // Whatever comes while it hangs is kept, as long as there is room.
    put(&spans, 5000);
    let over = dropped(&spans);
    assert!((2900..3000).contains(&over), "{over} of 5,000 and a few had no room");
    let (_open, _) = listener.accept().await.expect("the exporter has connected");
    sleep(Duration::from_secs(6)).await;
    assert_eq!(dropped(&spans), 10, "the collector had its time");
    sleep(Duration::from_secs(6)).await;
    assert_eq!(dropped(&spans), 2048, "and so had those that were kept");
    assert_eq!(dropped(&spans), 0, "each is counted once");
}

#[tokio::test]
async fn a_collector_that_is_away_costs_its_spans_and_nothing_else() {
    let spans = exporter("127.0.0.1:1", 1.0);
    let world = exporting(&spans);
    let lead = lead().to_string();
    assert_eq!(HttpRequest::of(&world, lead.as_bytes()).send(&world).await.status, 202);
    world.poll().await;
    assert_eq!(dropped(&spans), 0);
    let counted = async {
        loop {
            sleep(Duration::from_millis(5)).await;
            if let all @ 1.. = dropped(&spans) {
                return all;
            }
        }
    };
    // The request, its event, the message, the claim and the call.
    assert_eq!(timeout(Duration::from_secs(60), counted).await, Ok(5));
}

#[tokio::test]
async fn a_share_of_the_traces_is_the_same_in_every_function() {
    let [one, other] = [0, 1].map(|_| exporter("127.0.0.1:1", 0.25));
    let traces = (0..4000_u64).map(|n| Trace::start(n, n.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1));
    let taken = traces.filter(|trace| {
        assert_eq!(one.takes(trace), other.takes(trace));
        one.takes(trace)
    });
    assert!((900..1100).contains(&taken.count()));
    assert!(!exporter("127.0.0.1:1", 0.0).takes(&trace()) && exporter("127.0.0.1:1", 1.0).takes(&trace()));
}

#[test]
fn spans_cross_no_network_in_plain_text() {
    for good in [
        "cloudwatch",
        "https://collector.example.com/v1/traces",
        "http://localhost:4318/v1/traces",
        "http://127.0.0.1:1/",
    ] {
        assert!(TracesTo::named(good).is_some(), "{good}");
    }
    for bad in [
        "",
        "CloudWatch",
        "http://collector.example.com/v1/traces",
        "http://localhost.example.com/",
        "ftp://x",
        "localhost:4318",
    ] {
        assert_eq!(TracesTo::named(bad), None, "{bad}");
    }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_real_collector_has_the_trace_that_the_partner_and_the_answer_name() {
    let python = std::env::var("LEDGERLINE_PYTHON").expect("LEDGERLINE_PYTHON is not set: run this by `make test`");
    let printed = std::env::temp_dir().join(format!("ledgerline-spans-{}.log", std::process::id()));
    let collector = Collector::start(Path::new(&python), printed).await.expect("the collector starts");
    let to = TracesTo::named(&collector.url).expect("a collector's URL");
    let spans = export(to, 1.0, &SdkConfig::builder().build());
    let world = exporting(&spans);
    world.partners.script([Script::Status(422)]);
    let lead = lead().to_string();
    let request = HttpRequest::of(&world, lead.as_bytes()).with("traceparent", SENDER);
    let answer = request.send(&world).await;
    world.poll().await;
    world.park().await;
    let again = json!({"op": "replay", "id": answer.body["id"], "by": "ada", "reason": "the CRM is back"});
    assert_eq!(replay::handle(&world.replay, again).await["state"], "queued");
    world.poll().await;
    assert_eq!(dropped(&spans), 0);

    let got = async {
        loop {
            let told = collected(&collector.spans);
            if told.len() == 9 && told.iter().all(|span| !span.kind.is_empty()) {
                return told;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let told = timeout(Duration::from_secs(30), got).await.expect("the collector got them all");
    std::fs::remove_file(&collector.spans).expect("it is there");
    let trace = answer.header("traceresponse").and_then(Trace::parse).expect("a trace");
    let ids: Vec<&str> = told.iter().map(|span| &*span.id).collect();
    for span in &told {
        assert_eq!(span.trace, trace.id(), "{span:?}");
        let parent = &*span.parent;
        assert!(ids.contains(&parent) || parent == "00f067aa0ba902b7", "it hangs below nothing: {span:?}");
    }
    let calls: Vec<&str> = told.iter().filter(|span| span.name == "call crm").map(|span| &*span.id).collect();
    let partners = world.partners.calls();
    let named = partners.iter().flat_map(|(_, request)| &request.headers).filter(|(name, _)| name == "traceparent");
    let named: Vec<String> = named.filter_map(|(_, trace)| Some(Trace::parse(trace)?.parent().to_string())).collect();
    assert_eq!(calls, named, "the partner was told the spans that the collector has");
}
