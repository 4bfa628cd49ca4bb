//! One trace: from the sender through the message, the partner's request, the dead letter and the replay, to the spans.

use serde_json::json;
use shared::base::id::EventId;
use shared::base::machine::Clock as _;
use shared::base::trace::{SpanId, Trace};
use shared::flows::Flows;
use shared::ledger::timeline::{EventTimeline, SpanEnd, SpanKind};
use shared::ledger::{Records as _, State};
use shared::model::{ModelSpans, Script};
use shared::operate::log::{LogScope, within};
use shared::operate::span::{self, AttributeValue, SpanLink, TraceSpan};
use std::collections::{BTreeMap, BTreeSet};

use super::effects::replace_effects;
use super::http::HttpRequest;
use super::spans::{invoke, invoke_under};
use super::world::{World, flows_with, flows_without_breaker};
use crate::fixtures::{lead, lead_of};

/// The sender's own span.
const SENDER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A world whose three functions export their spans.
pub(super) fn traced(flows: Flows) -> (World, ModelSpans) {
    let spans = ModelSpans::default();
    (traced_world(flows, &spans), spans)
}

/// The same with these spans.
pub(super) fn traced_world(flows: Flows, spans: &ModelSpans) -> World {
    let mut world = World::with(flows);
    world.intake.spans = Box::new(spans.clone());
    world.processor.spans = Box::new(spans.clone());
    world.replay.spans = Box::new(spans.clone());
    world
}

/// Delivers a lead under the sender's trace, and says under which span it was taken.
pub(super) async fn deliver(world: &World) -> (EventId, Trace) {
    let lead = lead().to_string();
    let request =
        HttpRequest::of(world, lead.as_bytes()).with("traceparent", SENDER).with("tracestate", "rojo=1,congo=2");
    let answer = request.send(world).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let trace = answer.header("traceresponse").and_then(Trace::parse).expect("the answer names the trace");
    (EventId::named(answer.body["id"].as_str().expect("an id")), trace)
}

pub(super) fn text(span: &TraceSpan, name: &str) -> Option<String> {
    span.attributes.iter().find(|(attribute, _)| *attribute == name).map(|(_, value)| match value {
        AttributeValue::Text(text) => text.to_string(),
        AttributeValue::Number(number) => number.to_string(),
        AttributeValue::Flag(flag) => flag.to_string(),
    })
}

pub(super) fn by_id(spans: &[TraceSpan]) -> BTreeMap<SpanId, &TraceSpan> {
    let by_id: BTreeMap<SpanId, &TraceSpan> = spans.iter().map(|span| (span.id, span)).collect();
    assert_eq!(by_id.len(), spans.len(), "each span is exported once: {spans:#?}");
    by_id
}

/// The spans are one tree of the sender's trace, below the sender's span.
pub(super) fn assert_one_tree(spans: &[TraceSpan]) {
    let sender = Trace::parse(SENDER).expect("a trace");
    let by_id = by_id(spans);
    for span in spans {
        assert_eq!(span.trace_id, sender.trace_id(), "{span:#?}");
        let parent = span.parent.expect("each belongs to another");
        assert!(parent == sender.parent() || by_id.contains_key(&parent), "{span:#?} has no parent");
    }
    assert_eq!(spans.iter().filter(|span| span.parent == Some(sender.parent())).count(), 1);
}

/// The parents that the partner was told, and what was handed on beside.
pub(super) fn told_partners(world: &World) -> Vec<(Trace, Option<String>)> {
    let calls = world.partners.calls();
    let header = |headers: &[(String, String)], name: &str| {
        headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    };
    let told = |headers: &[(String, String)]| {
        let trace = header(headers, "traceparent").and_then(|trace| Trace::parse(&trace)).expect("a trace");
        (trace, header(headers, "tracestate"))
    };
    calls.iter().map(|(_, request)| told(&request.headers)).collect()
}

#[tokio::test]
async fn one_trace_goes_from_the_sender_to_the_replay_and_holds() {
    let (world, spans) = traced(crate::fixtures::plain_flows());
    world.partners.script([Script::Status(422)]);
    let (id, taken) = deliver(&world).await;
    world.poll().await;
    world.park().await;
    let kept = world.ledger.kept(&id).await.expect("the model answers").expect("it is parked");
    assert_eq!(kept.trace, taken, "the dead letter");
    let again = json!({"op": "replay", "id": id, "by": "ada", "reason": "Ada Lovelace says so"});
    assert_eq!(replay::handle(&world.replay, again).await["state"], "queued");
    world.poll().await;
    let row = world.row(&id).await;
    assert_eq!(row.state, State::Succeeded);

    let all = spans.all();
    assert_one_tree(&all);
    let mut names: Vec<&str> = all.iter().map(|span| &*span.name).collect();
    names.sort_unstable();
    let expected = [
        "POST /v1/events/{source}",
        "accept events",
        "call crm",
        "call crm",
        "claim",
        "claim",
        "process events",
        "process events",
        "replay events",
    ];
    assert_eq!(names, expected);

    // The partner got the very spans, and what the sender's systems hand on.
    let [first, second] = &told_partners(&world)[..] else { panic!("two calls") };
    assert_eq!([first.0.id(), second.0.id()], [taken.id(), taken.id()]);
    assert_eq!(first.1.as_deref(), Some("rojo=1,congo=2"));
    assert_eq!(second.1.as_deref(), Some("ledgerline=replay:1,rojo=1,congo=2"));
    let by_id = by_id(&all);
    let called = [first, second].map(|(trace, _)| by_id[&trace.parent()]);
    assert_eq!(called.map(|span| text(span, span::END)), [Some("failed".into()), Some("done".into())]);
    assert_eq!(text(called[0], span::SAID).as_deref(), Some("answered 422"));

    // Whoever reads the row long after computes the same.
    for span in EventTimeline::of(&row, world.clock.now()).spans.iter().filter(|span| !span.kind.is_waiting()) {
        let exported = by_id.get(&span.id).unwrap_or_else(|| panic!("{span:#?} was not exported"));
        assert_eq!(exported.parent, Some(span.parent), "{span:#?}");
        let effect = matches!(span.kind, SpanKind::Called { .. });
        assert!(!effect || text(exported, span::END).as_deref() == Some(span.end.as_str()), "{span:#?}");
    }
    let printed = format!("{all:?}");
    for person in ["Ada", "ada", "Lovelace", "@", "rojo"] {
        assert!(!printed.contains(person), "{person}: {all:#?}");
    }
}

#[tokio::test]
async fn a_worker_that_was_killed_in_a_call_is_in_the_trace_by_its_successors_word() {
    let (world, spans) = traced(flows_without_breaker(|yaml| yaml));
    world.partners.script([Script::Panic]);
    let (id, _) = deliver(&world).await;
    world.poll().await;
    let called = told_partners(&world)[0].0.parent();
    assert!(spans.all().iter().all(|span| span.id != called), "it died with its worker");
    world.drain().await;
    let row = world.row(&id).await;
    assert_eq!(row.state, State::Succeeded, "{:?}", world.story(&id).await);

    let all = spans.all();
    assert_one_tree(&all);
    let lost = by_id(&all)[&called];
    assert_eq!(text(lost, span::END).as_deref(), Some(SpanEnd::Unknown.as_str()));
    assert_eq!(text(lost, span::REBUILT).as_deref(), Some("true"));
    assert_eq!(lost.error.as_deref(), Some("unknown"));
    let worker = by_id(&all)[&lost.parent.expect("its worker")];
    assert_eq!((&*worker.name, text(worker, span::END).as_deref()), ("process events", Some("unknown")));
    let rebuilt = EventTimeline::of(&row, world.clock.now()).spans.into_iter().find(|span| span.id == called);
    assert_eq!(rebuilt.map(|span| span.end), Some(SpanEnd::Unknown), "the row tells it, too");
}

#[tokio::test]
async fn a_delivery_without_a_trace_goes_on_in_lambdas_own() {
    let (world, spans) = traced(crate::fixtures::plain_flows());
    let header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    for (place, spoiled) in [None, Some("00-0-0-0")].into_iter().enumerate() {
        let lead = lead_of(&format!("evt_{place}"), &format!("ada{place}@example.com")).to_string();
        let mut request = HttpRequest::of(&world, lead.as_bytes()).with("tracestate", "rojo=1");
        if let Some(spoiled) = spoiled {
            request = request.with("traceparent", spoiled);
        }
        let answer = within(LogScope::of_invocation("r-1", Some(header)), request.send(&world)).await;
        let trace = answer.header("traceresponse").and_then(Trace::parse).expect("a trace");
        assert_eq!(trace.id(), "5759e988bd862e3fe1be46a994272793");
        let served = spans.all().pop().expect("a span");
        assert_eq!(served.id, trace.parent());
        assert_eq!(served.parent, None, "a collector has no span of X-Ray's");
        assert_eq!(text(&served, span::FAAS_INVOCATION_ID).as_deref(), Some("r-1"));
    }
    world.poll().await;
    assert!(told_partners(&world).iter().all(|(_, state)| state.is_none()), "a state without its trace is nobody's");
}

/// The parents of the request and of the batch, whose sender names no trace, where Lambda's header says that X-Ray records it
/// or not.
async fn parents_below_lambda(spans: ModelSpans, sampled: u8) -> [Option<String>; 2] {
    let header = format!("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled={sampled}");
    let world = traced_world(crate::fixtures::plain_flows(), &spans);
    let request = HttpRequest::of(&world, lead().to_string().as_bytes());
    assert_eq!(within(LogScope::of_invocation("r-1", Some(&header)), request.send(&world)).await.status, 202);
    invoke_under(&world, "r-2", &header).await;
    let all = spans.all();
    assert!(all.iter().all(|span| format!("{:032x}", span.trace_id) == "5759e988bd862e3fe1be46a994272793"));
    let exported = by_id(&all);
    let below = |span: &&TraceSpan| span.parent.is_none_or(|parent| !exported.contains_key(&parent));
    let tops: Vec<_> = all.iter().filter(below).collect();
    let [request, batch] = tops[..] else { panic!("the request and the batch stand above: {tops:#?}") };
    [request, batch].map(|span| span.parent.map(|parent| parent.to_string()))
}

#[tokio::test]
async fn only_where_x_ray_has_lambdas_span_is_it_a_parent() {
    let x_rays = || Some("53995c3f42cd8ad8".to_owned());
    assert_eq!(parents_below_lambda(ModelSpans::in_cloudwatch(), 1).await, [x_rays(), x_rays()]);
    assert_eq!(parents_below_lambda(ModelSpans::in_cloudwatch(), 0).await, [None, None]);
    assert_eq!(parents_below_lambda(ModelSpans::default(), 1).await, [None, None]);
    assert_eq!(parents_below_lambda(ModelSpans::default(), 0).await, [None, None]);
}

#[tokio::test]
async fn an_invocation_links_its_messages_from_whatever_traces() {
    let (world, spans) = traced(crate::fixtures::plain_flows());
    for n in 0..2 {
        let lead = lead_of(&format!("evt_{n}"), &format!("ada{n}@example.com")).to_string();
        HttpRequest::of(&world, lead.as_bytes()).send(&world).await;
    }
    let accepted: BTreeSet<(u128, SpanId)> =
        spans.all().iter().filter(|span| span.name == "accept events").map(|span| (span.trace_id, span.id)).collect();
    invoke(&world, "r-2").await;
    let all = spans.all();
    let counted = |span: &&TraceSpan| text(span, span::MESSAGING_BATCH_MESSAGE_COUNT).is_some();
    let received = all.iter().find(counted).expect("the invocation's span");
    assert_eq!(format!("{:032x}", received.trace_id), "5759e988bd862e3fe1be46a994272793");
    let links: BTreeSet<(u128, SpanId)> =
        received.links.iter().map(|SpanLink(trace)| (trace.trace_id(), trace.parent())).collect();
    assert_eq!((links.len(), links), (2, accepted));
    assert_eq!(text(received, span::MESSAGING_BATCH_MESSAGE_COUNT).as_deref(), Some("2"));
    let processed = all.iter().filter(|span| span.name == "process events" && !counted(span));
    assert!(processed.clone().count() == 2 && processed.clone().all(|span| span.trace_id != received.trace_id));
    assert!(processed.clone().all(|span| text(span, span::FAAS_INVOCATION_ID).as_deref() == Some("r-2")));
}

#[tokio::test]
async fn each_guard_and_each_question_has_a_span_under_its_claim() {
    let lookup =
        "guarantee: lookup, lookup: {after: 5s, request: {path: '/find?key={{ event.data.event_id }}'}, found: /id}";
    let guards = "guards:\n  - expression: {name: has-email, that: event.data.email is defined}\n  - cap: {channel: crm, entity: \"{{ event.data.tenant }}\", limit: 3, per: 24h}\n";
    let flows = flows_with(|yaml| {
        replace_effects(&yaml, &[("crm", lookup)]).replacen("\nretry:", &format!("\n{guards}retry:"), 1)
    });
    let (world, spans) = traced(flows);
    world.partners.script([Script::Hang, Script::Status(500), Script::Status(404)]);
    let (id, _) = deliver(&world).await;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded, "{:?}", world.story(&id).await);
    let all = spans.all();
    assert_one_tree(&all);
    let ends = |name: &str| -> Vec<Option<String>> {
        all.iter().filter(|span| span.name == name).map(|span| text(span, span::END)).collect()
    };
    assert!(ends("guard has-email").iter().all(|end| end.as_deref() == Some("passed")), "{all:#?}");
    assert!(ends("guard cap").iter().all(|end| end.as_deref() == Some("passed")), "{all:#?}");
    assert!(!ends("guard has-email").is_empty() && !ends("guard cap").is_empty());
    let some = |ends: &[&str]| ends.iter().map(|end| Some((*end).to_owned())).collect::<Vec<_>>();
    assert_eq!(ends("call crm"), some(&["unknown", "done"]));
    assert_eq!(ends("look up crm"), some(&["unknown", "failed"]));
    // Each is under the claim that it was done under.
    let claims: BTreeMap<SpanId, &TraceSpan> =
        all.iter().filter(|span| span.name == "process events").map(|span| (span.id, span)).collect();
    let below = all.iter().filter(|span| ["guard", "call", "look"].iter().any(|start| span.name.starts_with(start)));
    assert!(below.clone().all(|span| span.parent.is_some_and(|parent| claims.contains_key(&parent))));
}

#[tokio::test]
async fn what_is_rejected_has_a_span_with_its_problem_and_no_word_of_the_senders() {
    let (world, spans) = traced(crate::fixtures::plain_flows());
    let request = HttpRequest::of(&world, br#"{"email": "ada@example.com"}"#).with("webhook-signature", "v1,bm8=");
    let answer = request.send(&world).await;
    assert_eq!(answer.status, 401);
    assert!(answer.header("traceresponse").is_some());
    let [served] = &spans.all()[..] else { panic!("one span: {:#?}", spans.all()) };
    assert_eq!(text(served, span::ERROR_TYPE).as_deref(), Some("bad-signature"));
    assert_eq!(text(served, span::HTTP_RESPONSE_STATUS_CODE).as_deref(), Some("401"));
    assert_eq!(served.error, None, "the sender's error is not ours");
}
