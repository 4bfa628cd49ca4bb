//! Every kind of span: what the conventions require of it, whose it is, and when it ends.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures::poll;
use serde_json::json;
use shared::base::machine::Clock as _;
use shared::base::trace::Trace;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::{Flows, PartnerAnswer};
use shared::ledger::queue::Received;
use shared::ledger::{Reason, State};
use shared::model::{Delivered, ModelSpans, Script};
use shared::operate::log::{LogScope, within};
use shared::operate::span::{self, SpanSide, TraceSpan};

use super::effects::replace_effects;
use super::http::{HANDSHAKE, HttpRequest, RECEIPT};
use super::issuer::{Fetch, Issuer};
use super::traces::{assert_one_tree, by_id, deliver, text, told_partners, traced, traced_world};
use super::world::{World, flows_with, flows_without_breaker};
use crate::fixtures::files;

/// Lambda's own trace, as its header tells it. X-Ray does not record it, which is none of our business.
pub(super) const LAMBDA: &str =
    "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0;Lineage=a87bd80c:1|68fd508a:5";

/// The event source mapping's invocation with what is on the queue.
pub(super) async fn invoke(world: &World, request: &str) {
    invoke_under(world, request, LAMBDA).await;
}

/// The same under this header of Lambda's.
pub(super) async fn invoke_under(world: &World, request: &str, lambda: &str) {
    let record = |message: Received| {
        json!({"messageId": message.message_id, "receiptHandle": message.receipt, "body": message.body,
               "attributes": {"MessageGroupId": message.group}})
    };
    let records: Vec<_> = world.events.receive(10).iter().map(Delivered::received).map(record).collect();
    let batch = serde_json::from_value(json!({"Records": records})).expect("a batch");
    let handled = processor::handle(&world.processor, batch, world.clock.now() + world.processor.timeout);
    within(LogScope::of_invocation(request, Some(lambda)), handled).await;
}

/// What is required of a span with this name, by the semantic conventions for HTTP, messaging and functions: of that, only
/// the URL of a partner is left out. Its paths and queries have ids and addresses of people in them.
fn required(name: &str) -> (SpanSide, &'static [&'static str]) {
    const SERVED: &[&str] = &[
        span::HTTP_REQUEST_METHOD,
        span::HTTP_RESPONSE_STATUS_CODE,
        span::HTTP_ROUTE,
        span::URL_SCHEME,
        span::FAAS_TRIGGER,
        span::FAAS_INVOCATION_ID,
    ];
    const SENT: &[&str] = &[span::MESSAGING_SYSTEM, span::MESSAGING_OPERATION_NAME, span::MESSAGING_OPERATION_TYPE];
    const TAKEN: &[&str] =
        &[span::MESSAGING_SYSTEM, span::MESSAGING_OPERATION_NAME, span::MESSAGING_OPERATION_TYPE, span::FAAS_TRIGGER];
    const ASKED: &[&str] = &[
        span::HTTP_REQUEST_METHOD,
        span::HTTP_RESPONSE_STATUS_CODE,
        span::SERVER_ADDRESS,
        span::SERVER_PORT,
        span::INTEGRATION,
    ];
    match kind(name) {
        "POST" | "GET" => (SpanSide::Server, SERVED),
        "accept" | "replay" => (SpanSide::Producer, SENT),
        "process" => (SpanSide::Consumer, TAKEN),
        "claim" | "guard" => (SpanSide::Internal, &[]),
        "call" | "look" | "ask" | "token" => (SpanSide::Client, ASKED),
        other => panic!("nothing is known of spans called {other}"),
    }
}

fn kind(name: &str) -> &str {
    name.split(' ').next().unwrap_or(name)
}

/// A flow with guards, an enrichment, and an effect whose partner can be asked; the partner takes tokens if `auth` says so.
fn whole_flow(auth: &str) -> Flows {
    let lookup =
        "guarantee: lookup, lookup: {after: 5s, request: {path: '/find?key={{ event.data.event_id }}'}, found: /id}";
    let before = "enrich:\n  - {id: company, integration: crm, path: /companies, result: {name: /id}, on_error: continue}\n\
                  guards:\n  - expression: {name: has-email, that: event.data.email is defined}\n";
    let mut files = files();
    files[1].text = files[1].text.replace("auth: bearer", auth);
    let flow = replace_effects(&files[2].text, &[("crm", lookup)]);
    files[2].text = flow.replacen("\nretry:", &format!("\n{before}retry:"), 1);
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

#[tokio::test]
async fn every_kind_of_span_has_what_the_conventions_require() {
    let (world, spans) = traced(whole_flow("auth: bearer"));
    let mut tokens = traced_world(whole_flow(OAUTH2), &spans);
    tokens.processor.partners = Box::new(Issuer::new(tokens.clock.clone()));
    let invoked = LogScope::of_invocation("r-1", Some(LAMBDA));
    world.partners.script([Script::Status(200), Script::Hang, Script::Status(404), Script::Status(422)]);
    // What it hangs at is asked for, is not there, and is then rejected.
    let (id, _) = within(invoked.clone(), deliver(&world)).await;
    invoke(&world, "r-2").await;
    world.drain().await;
    world.park().await;
    assert_eq!(world.row(&id).await.state, State::Dead, "{:?}", world.story(&id).await);
    let again = json!({"op": "replay", "id": id, "by": "ada", "reason": "the CRM is back"});
    assert_eq!(replay::handle(&world.replay, again).await["state"], "queued");
    within(invoked, deliver(&tokens)).await;
    tokens.drain().await;

    let all = spans.all();
    for span in &all {
        let (side, attributes) = required(&span.name);
        assert_eq!(span.side, side, "{span:#?}");
        let never_answered = span.error.as_deref() == Some("unknown");
        for name in attributes.iter().filter(|name| !never_answered || **name != span::HTTP_RESPONSE_STATUS_CODE) {
            assert!(text(span, name).is_some_and(|text| !text.is_empty()), "{name} is missing: {span:#?}");
        }
        assert_eq!(
            span.error.is_some() && side == SpanSide::Client,
            text(span, span::ERROR_TYPE).is_some(),
            "{span:#?}"
        );
        assert!(span.ended >= span.began, "{span:#?}");
    }
    let seen: BTreeSet<&str> = all.iter().map(|span| kind(&span.name)).collect();
    let expected = ["POST", "accept", "ask", "call", "claim", "guard", "look", "process", "replay", "token"];
    assert_eq!(seen, BTreeSet::from(expected));
    let printed = format!("{all:?}");
    for never in ["/companies", "/find", "evt_", "/leads", "canary"] {
        assert!(!printed.contains(never), "a path or a secret of a partner is in a span: {never}");
    }
}

const OAUTH2: &str = "auth: {oauth2: {token_url: 'https://login.example.com:8443/token', client_id: me}}";

#[tokio::test]
async fn a_request_has_the_method_that_it_came_with() {
    let (world, spans) = traced(crate::fixtures::plain_flows());
    for (route, name) in [(RECEIPT, "id"), (HANDSHAKE, "source")] {
        HttpRequest::of(&world, b"").to(route, name, "nothing").send(&world).await;
        let served = spans.all().pop().expect("a span");
        assert_eq!((&*served.name, text(&served, span::HTTP_REQUEST_METHOD).as_deref()), (route, Some("GET")));
    }
    deliver(&world).await;
    let served = spans.all().pop().expect("a span");
    assert_eq!(text(&served, span::HTTP_REQUEST_METHOD).as_deref(), Some("POST"));
}

/// Partners that never answer, on a clock that stands still.
struct Silent;

#[async_trait]
impl Partners for Silent {
    async fn call(&self, _: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        std::future::pending().await
    }
}

fn batches(spans: &ModelSpans) -> Vec<TraceSpan> {
    let counted = |span: &TraceSpan| text(span, span::MESSAGING_BATCH_MESSAGE_COUNT).is_some();
    spans.all().into_iter().filter(counted).collect()
}

#[tokio::test]
async fn an_invocation_has_a_span_of_its_whole_work() {
    let (world, spans) = traced(crate::fixtures::plain_flows());
    deliver(&world).await;
    world.partners.script([Script::Hang]);
    invoke(&world, "r-2").await;
    let [batch] = &batches(&spans)[..] else { panic!("one invocation") };
    let calls = spans.all().into_iter().find(|span| span.name == "call crm").expect("it was called");
    assert!(calls.ended > calls.began && batch.began <= calls.began && batch.ended >= calls.ended, "{batch:#?}");
    assert_eq!((&*batch.name, batch.error.as_deref()), ("process events", None));
}

#[tokio::test]
async fn an_invocation_that_is_cut_off_has_a_span_that_says_so() {
    let (mut world, spans) = traced(crate::fixtures::plain_flows());
    world.processor.partners = Box::new(Silent);
    deliver(&world).await;
    {
        let mut working = std::pin::pin!(invoke(&world, "r-2"));
        assert!(poll!(&mut working).is_pending());
        world.clock.advance(Duration::from_secs(30));
    }
    let [batch] = &batches(&spans)[..] else { panic!("one invocation") };
    assert_eq!(batch.error.as_deref(), Some("cut_off"));
    assert!(batch.ended.since(batch.began) >= Duration::from_secs(30), "{batch:#?}");
}

#[tokio::test]
async fn the_last_worker_of_a_poison_message_is_in_the_trace_by_its_letters_word() {
    let (world, spans) = traced(flows_without_breaker(|yaml| yaml));
    world.partners.script([Script::Panic]);
    let (id, _) = deliver(&world).await;
    world.poll().await;
    let called = told_partners(&world)[0].0.parent();
    world.clock.advance(Duration::from_secs(300));
    let before = spans.all().len();
    world.give_up_on_first();
    world.park().await;
    let row = world.row(&id).await;
    assert_eq!(row.death.as_ref().map(|death| death.reason), Some(Reason::Crashed));
    let all = spans.all();
    assert_one_tree(&all);
    let told = &all[before..];
    let mut names: Vec<&str> = told.iter().map(|span| &*span.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["call crm", "process events"], "{told:#?}");
    let lost = by_id(&all)[&called];
    assert_eq!([text(lost, span::END), text(lost, span::REBUILT)].map(Option::unwrap), ["unknown", "true"]);
    assert!(lost.ended.since(lost.began) <= Duration::from_secs(60), "it ended with its lease: {lost:#?}");
}

#[tokio::test]
async fn a_letter_of_whom_its_worker_has_buried_has_no_spans_of_its_own() {
    let (world, spans) = traced(crate::fixtures::plain_flows());
    world.partners.script([Script::Status(422)]);
    deliver(&world).await;
    world.poll().await;
    let before = spans.all().len();
    world.park().await;
    assert_eq!(spans.all().len(), before);
}

#[tokio::test]
async fn a_question_for_an_enrichment_has_the_span_that_the_partner_is_told() {
    let enrich = "enrich:\n  - {id: company, integration: crm, path: /companies, result: {name: /id}, on_error: continue}\n\neffects:";
    let (world, spans) = traced(flows_with(|yaml| yaml.replace("effects:", enrich)));
    world.partners.script([Script::Status(503)]);
    deliver(&world).await;
    world.poll().await;
    let all = spans.all();
    assert_one_tree(&all);
    let asked = by_id(&all)[&told_partners(&world)[0].0.parent()];
    assert_eq!(&*asked.name, "ask crm");
    let told = [span::ENRICHMENT, span::HTTP_RESPONSE_STATUS_CODE, span::END, span::ERROR_TYPE];
    assert_eq!(told.map(|name| text(asked, name).unwrap_or_default()), ["company", "503", "failed", "503"]);
}

#[tokio::test]
async fn each_request_for_a_token_has_a_span_that_its_end_point_is_told() {
    let (mut world, spans) = traced(whole_flow(OAUTH2));
    let issuer = Issuer::new(world.clock.clone());
    world.processor.partners = Box::new(issuer.clone());
    issuer.script([Fetch::Hang, Fetch::Token]);
    deliver(&world).await;
    world.drain().await;
    let all = spans.all();
    assert_one_tree(&all);
    let trace = |request: &PartnerRequest| {
        let header = request.headers.iter().find(|(name, _)| name == "traceparent");
        header.and_then(|(_, value)| Trace::parse(value)).expect("a trace").parent()
    };
    let fetched: Vec<_> = issuer.fetches().iter().map(|(_, request)| by_id(&all)[&trace(request)]).collect();
    let told = |span: &&TraceSpan| {
        let port = text(span, span::SERVER_PORT).unwrap_or_default();
        (span.name.to_string(), port, text(span, span::ERROR_TYPE))
    };
    let token = |error: Option<&str>| ("token crm".to_owned(), "8443".to_owned(), error.map(str::to_owned));
    assert_eq!(fetched.iter().map(told).collect::<Vec<_>>(), [token(Some("no_answer")), token(None)]);
    assert!(fetched[0].ended > fetched[0].began);
    assert_eq!(all.iter().filter(|span| span.name == "token crm").count(), 2);
}
