//! End to end through the local cloud: the real template, the real binaries, real signatures, and a
//! partner that does as it is told.

mod alarms;
mod answers;
mod browser;
mod cli;
mod console;
mod deploys;
mod flows;
mod intruders;
mod invoke;
mod openapi;
mod orders;
mod other_stack;
mod replay;
mod side_by_side;
mod stacks;
mod system;
mod tokens;
mod traces;

pub(crate) use cli::binary;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use shared::base::time::Timestamp;
use system::{System, SystemAnswer, TRIES};

use crate::collected::CollectedSpan;
use crate::fixtures::{lead, lead_of};

/// A lead of a person that no other test knows.
fn new_lead(name: &str) -> Value {
    let unique = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    lead_of(&format!("evt_{name}_{unique}"), &format!("{name}.{unique}@example.com"))
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn an_event_reaches_the_partner_once_and_never_twice() {
    let system = System::take().await;
    let (lead, first) = system.post_new("once").await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (202, None));
    let id = first.id();
    let page = system.until(&id, "succeeded").await;

    let again = system.post(&lead).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (202, Some("true")));
    assert_eq!((&again.body["id"], &again.body["status"]), (&first.body["id"], &first.body["status"]));
    assert_eq!(again.body["result"]["crm"], json!({"crm_id": page["effects"]["crm"]["result"]["crm_id"]}));

    let calls = system.calls_for(&id).await;
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0]["authorized"], true);
    let trace = calls[0]["traceparent"].as_str().expect("a trace");
    assert!(trace.contains(page["trace_id"].as_str().expect("a trace")), "one trace from webhook to partner");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn what_is_not_genuine_is_refused_and_nothing_is_stored() {
    let system = System::take().await;
    for _ in 0..TRIES {
        let lead = new_lead("forged");
        refused_in_every_doubt(&system, &lead).await;
        // At its first try: a second one may be known by the first.
        let accepted = system.post_once(&lead).await;
        if accepted.status < 500 {
            assert_eq!((accepted.status, accepted.header("idempotent-replayed")), (202, None), "nothing was stored");
            system.until(&accepted.id(), "succeeded").await;
            assert_eq!(system.calls_for(&accepted.id()).await.len(), 1);
            return;
        }
    }
    panic!("the intake took none of {TRIES} leads at once");
}

async fn refused_in_every_doubt(system: &System, lead: &Value) {
    let body = lead.to_string();
    let now = system.now();
    let genuine = system.signature(&body, now);
    let forged = system.signature(&lead_of("evt_other", "eve@example.com").to_string(), now);
    let stale = system.signature(&body, now - 301);
    for (why, headers) in [
        ("unsigned", vec![]),
        ("wrongly signed", forged),
        ("stale", stale),
        ("under another id", [vec![("webhook-id", "msg_other".into())], genuine[1..].to_vec()].concat()),
    ] {
        let answer = system.send(&body, "application/json", &headers).await;
        assert_eq!(answer.status, 401, "{why}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{why}");
        assert_eq!(answer.body["type"], "urn:ledgerline:problem:bad-signature", "{why}");
    }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_bad_request_gets_a_clear_answer() {
    let system = System::take().await;
    let form = system.send("a=b", "application/x-www-form-urlencoded", &system.signature("a=b", system.now())).await;
    assert_eq!((form.status, &form.body["title"]), (415, &json!("Unsupported form")));

    let mut invalid = lead();
    invalid["data"]["email"] = json!("nobody");
    let invalid = system.post(&invalid).await;
    assert_eq!(invalid.status, 422);
    assert_eq!(invalid.body["errors"], json!([{"pointer": "/data/email", "rule": "pattern"}]));

    let large = " ".repeat(200 * 1024);
    let large = system.send(&large, "application/json", &system.signature(&large, system.now())).await;
    assert_eq!(large.status, 413);
    assert_eq!(system.calls().await, Vec::<Value>::new());
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_partner_that_fails_for_good_makes_a_dead_letter_that_can_be_replayed() {
    let system = System::take().await;
    system.tell_partner(json!({"mode": "status", "status": 400})).await;
    let id = system.post(&new_lead("dead")).await.id();
    let line = system.until_parked(&id).await;
    assert_eq!((&line["reason"], &line["attempts"]), (&json!("terminal"), &json!(1)));
    assert!(line["error"].to_string().contains("answered 400"), "{line}");
    assert_eq!(line["effect"], "crm");
    assert_eq!(system.calls().await.len(), 1, "what will not pass is not tried again");

    // Inside the five minutes in which the queue remembers the event's first id.
    system.tell_partner(json!({"mode": "ok"})).await;
    let replayed = system.operate(json!({"op": "replay", "id": id, "by": "ada", "reason": "the CRM is back"})).await;
    assert_eq!((&replayed["state"], &replayed["replay"]), (&json!("queued"), &json!(1)));
    let page = system.until(&id, "succeeded").await;

    let calls = system.calls().await;
    assert_eq!(calls.len(), 2);
    assert_eq!(calls.iter().filter(|call| call["applied"] == true).count(), 1);
    let keys: BTreeSet<String> = calls.iter().map(|call| call["idempotency_key"].to_string()).collect();
    assert_eq!(keys.len(), 1, "a replay has the original key");
    let history = page["history"].to_string();
    for moment in [
        "accepted",
        "claimed",
        "crm 1: answered 400",
        "dead: terminal",
        "parked",
        "replay 1 by ada: the CRM is back",
        "crm 1: done",
        "succeeded",
    ] {
        assert!(history.contains(moment), "{moment}: {history}");
    }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_failure_that_passes_is_tried_again_within_growing_delays() {
    let system = System::take().await;
    system.tell_partner(json!({"mode": "status", "status": 500, "times": 2})).await;
    let id = system.post(&new_lead("transient")).await.id();
    let page = system.until(&id, "succeeded").await;
    let calls = system.calls().await;
    assert_eq!(
        calls.iter().map(|call| call["status"].clone()).collect::<Vec<_>>(),
        [json!(500), json!(500), json!(200)]
    );
    let policy = crate::fixtures::lead_routing().retry;
    let history: Vec<String> = page["history"].as_array().expect("moments").iter().map(Value::to_string).collect();
    let delays: Vec<u64> =
        history.iter().filter_map(|moment| moment.split("retry in ").nth(1)?.split(' ').next()?.parse().ok()).collect();
    assert_eq!(delays.len(), 2, "{history:?}");
    for (attempt, delay) in (1..).zip(delays) {
        assert!(u128::from(delay) <= policy.ceiling(attempt).as_millis(), "delay {attempt} is {delay} ms");
    }
    assert!(policy.ceiling(2) > policy.ceiling(1), "the ceiling grows");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_partner_that_asks_for_patience_gets_it() {
    let system = System::take().await;
    system.tell_partner(json!({"mode": "status", "status": 429, "retry_after": "7", "times": 1})).await;
    let id = system.post(&new_lead("patience")).await.id();
    system.until(&id, "succeeded").await;
    let times: Vec<Timestamp> =
        system.calls().await.iter().filter_map(|call| Timestamp::parse(call["time"].as_str()?)).collect();
    assert_eq!(times.len(), 2);
    assert!(times[1].since(times[0]) >= Duration::from_secs(7), "{times:?}");
}

/// The partner does what it is asked, and the worker dies before it hears so.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_worker_killed_in_the_middle_of_a_call_is_followed_and_the_effect_happens_once() {
    let system = System::take().await;
    system.let_messages_return_soon().await;
    let id = killed_in_the_call(&system).await;
    let page = system.until(&id, "succeeded").await;
    let calls = system.calls_for(&id).await;
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0]["idempotency_key"], calls[1]["idempotency_key"]);
    assert_eq!(calls.iter().filter(|call| call["applied"] == true).count(), 1, "the partner applied it once");
    assert_eq!(page["effects"]["crm"]["attempts"], 2);
    let moments = page["history"].as_array().expect("moments").iter().filter_map(Value::as_str);
    let claims: Vec<Timestamp> = moments
        .filter(|moment| moment.contains("claimed"))
        .map(|moment| Timestamp::parse(moment.split(' ').next().unwrap_or_default()).expect("its time"))
        .collect();
    assert_eq!(claims.len(), 2, "{page}");
    assert!(claims[1].since(claims[0]) >= LEASE, "nobody acts before the lease has ended: {page}");
    let trace = system.operate(json!({"op": "trace", "id": id})).await;
    let spans = trace["spans"].as_array().expect("spans").iter();
    let ends: Vec<&Value> =
        spans.filter(|span| span["kind"] == "called" && span["effect"] == "crm").map(|span| &span["end"]).collect();
    assert_eq!(ends, ["unknown", "done"], "the call of the worker that was killed is in the trace: {trace}");

    let ids: Vec<String> = calls.iter().map(|call| traces::told(call).parent().to_string()).collect();
    let has = |spans: &[CollectedSpan]| ids.iter().all(|id| spans.iter().any(|span| span.id == *id));
    let spans = traces::collected_until(&system, "the collector has both calls", has).await;
    let called = |id: &String| spans.iter().find(|span| span.id == *id).expect("it is there");
    let told = |name: &str| ids.iter().map(|id| called(id).attribute(name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        (told("ledgerline.end"), &*told("ledgerline.rebuilt")[0]),
        (vec!["unknown".into(), "done".into()], "true")
    );
    assert!(ids.iter().all(|id| called(id).name == "call crm" && called(id).trace == trace["trace_id"]));
}

/// The length of a lease here.
const LEASE: Duration = Duration::from_secs(local::deploy::TIMES[1]);

/// An event whose worker was killed between the intent and the record of what came of the call. Where the worker was
/// quicker, that event is done as well, and there is another one.
async fn killed_in_the_call(system: &System) -> String {
    let mut seen = Value::Null;
    for _ in 0..TRIES {
        system.tell_partner(json!({"mode": "hang", "apply": true, "seconds": 20, "times": 1})).await;
        let id = system.post(&new_lead("killed")).await.id();
        system.until_call_for(&id).await;
        assert!(system.kill("processor").await > 0);
        // Nobody touches what a dead worker left for as long as its lease lasts.
        seen = system.show(&id).await["effects"]["crm"]["state"].clone();
        if seen == "intent" {
            return id;
        }
        system.until(&id, "succeeded").await;
    }
    panic!("the intent does not stand before the call: {seen}");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn the_same_event_from_many_senders_at_once_is_one_event() {
    let system = System::take().await;
    let answers = storm(&system).await;
    let ids: BTreeSet<String> = answers.iter().map(|answer| answer.id()).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.header("idempotent-replayed").is_none()).count(), 1);
    let id = answers[0].id();
    system.until(&id, "succeeded").await;
    assert_eq!(system.calls_for(&id).await.len(), 1);
}

/// What twenty senders of one lead are answered, each of them at its first try.
async fn storm(system: &System) -> Vec<SystemAnswer> {
    let mut answers = Vec::new();
    for _ in 0..TRIES {
        let lead = new_lead("storm");
        answers = join_all((0..20).map(|_| system.post_once(&lead))).await;
        if answers.iter().all(|answer| answer.status < 500) {
            break;
        }
    }
    answers
}

/// A slow contact holds up its own group and nobody else's.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn groups_run_side_by_side_and_a_group_in_order() {
    let system = System::take().await;
    system.tell_partner(json!({"mode": "slow", "ms": 1000})).await;
    let mut open = Vec::new();
    for _ in 0..TRIES {
        open = four_groups_of_three(&system).await;
        if open.iter().filter(|open| **open > 1).count() >= 4 {
            return;
        }
    }
    panic!("calls come while others are not answered yet: {open:?}");
}

/// Lets four people have three events each, and checks the order of each. How many calls were open when each of theirs
/// came.
async fn four_groups_of_three(system: &System) -> Vec<u64> {
    let people: Vec<Value> = (0..4).map(|_| new_lead("order")["data"]["email"].clone()).collect();
    let posted = join_all(people.iter().map(|person| three_leads_of(system, person))).await;
    for id in posted.iter().flatten() {
        system.until(id, "succeeded").await;
    }
    let mut calls = system.calls().await;
    calls.retain(|call| people.contains(&call["body"]["email"]));
    for person in &people {
        let applied = calls.iter().filter(|call| call["body"]["email"] == *person && call["applied"] == true);
        let campaigns: Vec<&Value> = applied.map(|call| &call["body"]["campaign"]).collect();
        assert_eq!(campaigns, ["0", "1", "2"], "{person}: {calls:?}");
    }
    calls.iter().filter_map(|call| call["open"].as_u64()).collect()
}

/// The ids of three leads of a person, one after the other.
async fn three_leads_of(system: &System, person: &Value) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..3 {
        let mut lead = new_lead("order");
        lead["data"]["email"] = person.clone();
        lead["data"]["campaign"] = json!(number.to_string());
        ids.push(system.post(&lead).await.id());
    }
    ids
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_batch_and_its_receipts_go_through_the_front_door() {
    let system = System::take().await;
    let mut bad = new_lead("batch");
    bad["data"]["email"] = json!("nobody");
    let batch = json!([new_lead("batch"), bad, new_lead("batch")]).to_string();
    let answer = system.send_to("/v1/events/web-forms/batch", &batch, &system.signature(&batch, system.now())).await;
    assert_eq!(answer.status, 207, "{}", answer.body);
    let results = answer.body["results"].as_array().expect("results");
    let statuses: Vec<_> = results.iter().map(|result| result["http_status"].as_i64().unwrap_or_default()).collect();
    assert_eq!(statuses, [202, 422, 202]);

    let id = results[2]["id"].as_str().expect("an id");
    system.until(id, "succeeded").await;
    let receipt = system.receipt(id, &system::variable("LEDGERLINE_RECEIPTS_TOKEN")).await;
    assert_eq!((receipt.status, &receipt.body["state"]), (200, &json!("succeeded")));
    assert!(receipt.body["result"]["crm"]["crm_id"].is_string(), "{}", receipt.body);
    assert_eq!(system.receipt(id, "web-forms.wrong").await.status, 401);
}
