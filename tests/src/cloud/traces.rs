//! One trace through the whole local cloud, whose functions export their spans to a real collector.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};
use shared::base::trace::Trace;

use super::new_lead;
use super::system::{System, eventually, variable};
use crate::collected::{CollectedSpan, collected};

/// What the collector has, once it is enough. A container sends what it has gathered with its next invocation: so there
/// are more invocations until then.
pub(super) async fn collected_until(
    system: &System,
    what: &str,
    is_enough: impl Fn(&[CollectedSpan]) -> bool,
) -> Vec<CollectedSpan> {
    let printed = PathBuf::from(variable("LEDGERLINE_SPANS"));
    eventually(what, async || {
        let mut spans = collected(&printed);
        // Of the last, not all may be printed yet.
        spans.pop();
        if is_enough(&spans) {
            return Ok(spans);
        }
        let nudge = system.post(&new_lead("nudge")).await.id();
        system.until(&nudge, "succeeded").await;
        system.operate(json!({"op": "list", "limit": 1})).await;
        Err(json!(spans.iter().map(|span| &span.name).collect::<Vec<_>>()))
    })
    .await
}

/// The span that a partner was told.
pub(super) fn told(call: &Value) -> Trace {
    call["traceparent"].as_str().and_then(Trace::parse).expect("a trace")
}

fn of<'s>(spans: &'s [CollectedSpan], trace: &str) -> Vec<&'s CollectedSpan> {
    spans.iter().filter(|span| span.trace == trace).collect()
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn one_trace_is_in_every_place_and_the_collector_has_its_tree_and_its_links() {
    let system = System::take().await;
    let nanos = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    let senders = Trace::parse(&format!("00-{nanos:032x}-00f067aa0ba902b7-01")).expect("a trace");
    let trace = senders.id();
    system.tell_partner(json!({"mode": "status", "status": 400})).await;
    let body = new_lead("traced").to_string();
    let mut headers = system.signature(&body, system.now());
    headers.push(("traceparent", senders.to_string()));
    let answer = system.send(&body, "application/json", &headers).await;
    let id = answer.id();
    let answered = answer.header("traceresponse").and_then(Trace::parse).expect("a trace");
    assert_eq!(answered.id(), trace, "the intake's answer");
    system.until_parked(&id).await;
    assert_eq!(system.show(&id).await["trace_id"], *trace, "the dead letter");
    system.tell_partner(json!({"mode": "ok"})).await;
    system.operate(json!({"op": "replay", "id": id, "by": "ada", "reason": "the CRM is back"})).await;
    system.until(&id, "succeeded").await;
    let calls = system.calls().await;
    assert_eq!(calls.iter().map(|call| told(call).id()).collect::<Vec<_>>(), [&*trace, &trace], "the partner");

    // The message on the queue says which span sent it: the invocation that took it has a link to that span.
    let taken = |spans: &[CollectedSpan]| -> BTreeSet<String> {
        let links = spans.iter().flat_map(|span| &span.links);
        links.filter(|(linked, _)| *linked == trace).map(|(_, id)| id.clone()).collect()
    };
    let enough = |spans: &[CollectedSpan]| of(spans, &trace).len() >= 10 && taken(spans).len() >= 2;
    let spans = collected_until(&system, "the collector has the trace", enough).await;
    let own = of(&spans, &trace);
    let mut names: Vec<(&str, &str)> = own.iter().map(|span| (span.service(), &*span.name)).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            ("intake", "POST /v1/events/{source}"),
            ("intake", "accept events"),
            ("processor", "call analytics"),
            ("processor", "call crm"),
            ("processor", "call crm"),
            ("processor", "claim"),
            ("processor", "claim"),
            ("processor", "process events"),
            ("processor", "process events"),
            ("replay", "replay events"),
        ]
    );
    let ids: BTreeSet<&str> = own.iter().map(|span| &*span.id).collect();
    assert_eq!(ids.len(), own.len(), "each is there once");
    let parent_of = |span: &CollectedSpan| own.iter().find(|parent| parent.id == span.parent).map(|span| &*span.name);
    for span in &own {
        let expected = match &*span.name {
            "POST /v1/events/{source}" => None,
            "accept events" => Some("POST /v1/events/{source}"),
            "claim" | "call crm" | "call analytics" => Some("process events"),
            "replay events" => Some("accept events"),
            _ if span.attribute("ledgerline.replay") == "1" => Some("replay events"),
            _ => Some("accept events"),
        };
        assert_eq!(parent_of(span), expected, "{span:?}");
    }
    let named = |name: &str| -> BTreeSet<String> {
        own.iter().filter(|span| span.name == name).map(|span| span.id.clone()).collect()
    };
    let served: Vec<&&CollectedSpan> = own.iter().filter(|span| span.name.starts_with("POST")).collect();
    assert_eq!((&*served[0].parent, &*served[0].id), ("00f067aa0ba902b7", &*answered.parent().to_string()));
    let called: BTreeSet<String> = calls.iter().map(|call| told(call).parent().to_string()).collect();
    assert_eq!(named("call crm"), called, "the partner was told these spans");
    let sent: BTreeSet<String> = &named("accept events") | &named("replay events");
    assert_eq!(taken(&spans), sent, "both messages named the spans that sent them");
    let batch = spans.iter().find(|span| span.links.iter().any(|(linked, _)| *linked == trace)).expect("a link");
    assert_eq!([&*batch.name, &*batch.kind], ["process events", "SPAN_KIND_CONSUMER"]);
    assert!(batch.attribute("messaging.destination.name").ends_with(".fifo"), "{batch:?}");

    for name in ["service.namespace", "service.version", "cloud.region", "faas.name", "faas.version"] {
        let known = |span: &&CollectedSpan| span.resource.get(name).is_some_and(|value| !value.is_empty());
        assert!(own.iter().all(known), "{name} of the resource is not told: {own:#?}");
    }

    // Whoever rebuilds the trace from the row names the same spans.
    let rebuilt = system.operate(json!({"op": "trace", "id": id})).await;
    for span in rebuilt["spans"].as_array().expect("spans").iter().filter(|span| span["kind"] != "waited") {
        assert!(ids.contains(span["id"].as_str().expect("an id")), "{span} is not at the collector: {own:#?}");
    }
}
