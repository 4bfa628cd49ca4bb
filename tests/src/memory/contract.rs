//! What senders may rely on: forms, versions, keys, batches, receipts, and what never leaks.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use intake::Rejection;
use serde_json::{Value, json};
use shared::arrival::key::KeyError;
use shared::arrival::signature::{Secret, sign};
use shared::flows::Flows;
use shared::model::Script;

use super::faults::{FaultyQueue, OutOfService, Slow};
use super::http::{BATCH, HttpRequest, RECEIPT, TYPED};
use super::log::Log;
use super::world::{RECEIPTS_TOKEN, World, flows_with, signed};
use crate::fixtures::{lead, lead_of};

fn cloud_event() -> Value {
    let data = lead()["data"].clone();
    json!({"specversion": "1.0", "id": "1", "source": "/forms", "type": "lead.created", "data": data})
}

/// The plain flow, of a source that sends CloudEvents.
fn world_of_cloud_events() -> World {
    let mut files = crate::fixtures::files();
    files[0].text = files[0].text.replacen("type_at: type\n", "type_at: type\n  envelope: cloudevents\n", 1);
    World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")))
}

#[tokio::test]
async fn every_form_of_an_event_is_the_same_event() {
    let world = world_of_cloud_events();
    let post = async |event: &Value| {
        let event = event.to_string();
        HttpRequest::of(&world, event.as_bytes()).in_base64(event.as_bytes()).send(&world).await
    };
    let first = post(&cloud_event()).await;
    assert_eq!(first.status, 202, "{}", first.body);

    let mut encoded = cloud_event();
    encoded["data_base64"] = json!(STANDARD.encode(encoded["data"].to_string()));
    encoded.as_object_mut().expect("an object").remove("data");
    let again = post(&encoded).await;
    assert_eq!((again.status, &again.body["id"]), (202, &first.body["id"]), "{}", again.body);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let batch = HttpRequest::of(&world, json!([cloud_event(), encoded]).to_string().as_bytes());
    let batch = batch.to(BATCH, "source", "web-forms").send(&world).await;
    assert_eq!(batch.status, 202, "{}", batch.body);
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
}

#[tokio::test]
async fn a_source_of_cloud_events_sends_nothing_else() {
    let world = world_of_cloud_events();
    for more in [
        json!({"specversion": "0.3"}),
        json!({"id": ""}),
        json!({"source": null}),
        json!({"data_base64": "e30="}),
        json!({"data": null, "data_base64": "***"}),
    ] {
        let mut event = cloud_event();
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let answer = HttpRequest::of(&world, event.to_string().as_bytes()).send(&world).await;
        assert_eq!((answer.status, answer.problem()), (400, "malformed"), "{more}");
    }
    let plain = HttpRequest::of(&world, lead().to_string().as_bytes());
    let answer = plain.with("ce-specversion", "1.0").with("ce-id", "1").with("ce-source", "/forms").send(&world).await;
    assert_eq!((answer.status, answer.problem()), (400, "malformed"), "headers make no CloudEvent");
    assert_eq!((world.ledger.writes(), world.events.depth()), (0, 0), "nothing is admitted");
}

/// In binary mode the body is the data, and the path names the type: the schema is of the data itself.
#[tokio::test]
async fn the_data_of_a_cloud_event_in_binary_mode_is_a_plain_event() {
    let world = World::new();
    let request = HttpRequest::of(&world, lead().to_string().as_bytes()).to(TYPED, "type", "lead.created");
    let request = request.with("ce-specversion", "1.0").with("ce-type", "forged").with("ce-id", "forged");
    let answer = request.send(&world).await;
    let plain = HttpRequest::of(&world, lead().to_string().as_bytes()).send(&world).await;
    assert_eq!((answer.status, &answer.body["id"]), (202, &plain.body["id"]), "{}", answer.body);
}

#[tokio::test]
async fn an_older_version_is_taken_where_the_flow_knows_it() {
    let world = World::with(flows_with(|yaml| {
        let older = "version_at: data.version\nolder:\n  1: {required: [data], properties: {data: {required: \
                     [event_id, tenant, email], properties: {version: {}, event_id: {}, tenant: {}, email: {}}}}}\n";
        yaml.replace("\nversion: 1\n", &format!("\nversion: 2\n{older}"))
    }));
    let of = |version: Value| {
        let mut lead = lead();
        lead["data"]["version"] = version;
        lead
    };
    let mut current = lead();
    current["data"]["event_id"] = json!("evt_2");
    assert!(world.post(&of(json!(1))).await.is_ok());
    assert!(world.post(&current).await.is_ok(), "without a word it is of the flow's own version");
    for unknown in [json!(3), json!("two"), json!(-1), json!([1]), json!(1.5)] {
        assert_eq!(world.post(&of(unknown.clone())).await, Err(Rejection::UnknownVersion), "{unknown}");
    }
    let bodies: Vec<Value> =
        world.events.receive(10).iter().map(|m| serde_json::from_str(&m.body).expect("JSON")).collect();
    let seen: Vec<_> =
        bodies.iter().map(|body| (body["version"].clone(), body["payload"]["data"].get("phone").is_some())).collect();
    assert_eq!(seen, [(json!(1), false), (json!(2), true)], "each is trimmed by its own schema");
}

#[tokio::test]
async fn a_key_in_a_header_names_one_payload() {
    let world = World::with(flows_with(|yaml| {
        let (head, rest) = yaml.split_once("key:\n").expect("a key");
        let (_, tail) = rest.split_once("order_by:").expect("an order");
        format!("{head}key: {{version: 1, header: required}}\norder_by:{tail}")
    }));
    let post =
        |lead: &Value, key: &str| HttpRequest::of(&world, lead.to_string().as_bytes()).with("idempotency-key", key);
    let missing = HttpRequest::of(&world, lead().to_string().as_bytes()).send(&world).await;
    assert_eq!((missing.status, missing.problem()), (400, "key-missing"));
    let malformed = post(&lead(), "two words").send(&world).await;
    assert_eq!((malformed.status, malformed.problem()), (400, "key-malformed"));

    let first = post(&lead(), "\"8e03978e\"").send(&world).await;
    let again = post(&lead(), "8e03978e").send(&world).await;
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!(first.body["id"], again.body["id"]);
    let reused = post(&lead_of("evt_1001", "eve@example.com"), "8e03978e").send(&world).await;
    assert_eq!((reused.status, reused.problem()), (422, "key-reused"));
    let other = post(&lead_of("evt_1001", "eve@example.com"), "another").send(&world).await;
    assert_eq!(other.status, 202);
    assert_eq!(world.events.depth(), 2);
}

#[tokio::test]
async fn a_field_that_is_no_key_is_said() {
    let world = World::with(flows_with(|yaml| {
        yaml.replace("event_id: {type: string, minLength: 1, maxLength: 128}", "event_id: {}")
    }));
    let mut lead = lead();
    lead["data"]["event_id"] = json!(1.5);
    assert_eq!(world.post(&lead).await, Err(Rejection::Unkeyed(KeyError::NotPlain("data.event_id".into()))));
    let answer = HttpRequest::of(&world, lead.to_string().as_bytes()).send(&world).await;
    assert_eq!(answer.body["errors"], json!([{"pointer": "/data/event_id", "rule": "key"}]));
}

#[tokio::test]
async fn a_batch_is_answered_item_by_item_in_order() {
    let world = World::new();
    let mut bad = lead();
    bad["data"]["email"] = json!("nobody");
    let batch = json!([
        lead_of("evt_1", "a@example.com"),
        bad,
        lead_of("evt_2", "b@example.com"),
        lead_of("evt_1", "a@example.com"),
        7
    ]);
    let answer =
        HttpRequest::of(&world, batch.to_string().as_bytes()).to(BATCH, "source", "web-forms").send(&world).await;
    assert_eq!(answer.status, 207, "{}", answer.body);
    let results = answer.body["results"].as_array().expect("results");
    let statuses: Vec<_> = results.iter().map(|result| result["http_status"].as_i64().unwrap_or_default()).collect();
    assert_eq!(statuses, [202, 422, 202, 202, 422]);
    assert_eq!(results[1]["errors"], json!([{"pointer": "/data/email", "rule": "pattern"}]));
    assert_eq!(results[3]["id"], results[0]["id"], "the same event twice is one event");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 2);
}

#[tokio::test]
async fn a_hundred_events_at_once_keep_their_order() {
    let world = World::new();
    let batch: Vec<Value> = (0..100).map(|n| lead_of(&format!("evt_{n}"), "ada@example.com")).collect();
    let answer = HttpRequest::of(&world, json!(batch).to_string().as_bytes())
        .to(BATCH, "source", "web-forms")
        .send(&world)
        .await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    world.drain().await;
    let paths: Vec<String> = world.partners.calls().into_iter().map(|(_, request)| request.path).collect();
    assert_eq!(paths, (0..100).map(|n| format!("/leads/evt_{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_queue_that_takes_some_of_a_batch_is_reported_for_the_others() {
    let mut world = World::new();
    world.intake.queue = Box::new(FaultyQueue::refusing(world.events.clone(), &[1, 2]));
    let batch: Vec<Value> = (0..4).map(|n| lead_of(&format!("evt_{n}"), "ada@example.com")).collect();
    let results = world.post_batch(&json!(batch)).await.expect("a batch");
    let accepted: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(accepted, [true, false, false, true]);
    assert!(matches!(results[1], Err(Rejection::Unavailable(_))));

    // The sender tries again, and what was not sent is sent.
    world.intake.queue = Box::new(world.events.clone());
    let results = world.post_batch(&json!(batch)).await.expect("a batch");
    assert!(results.iter().all(|result| result.as_ref().is_ok_and(|receipt| receipt.replayed)));
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 4);
}

/// One header signs the whole batch: taken for an event's own id, it would make one event of them all.
#[tokio::test]
async fn a_header_names_no_event_of_a_batch() {
    let world = World::with(flows_with(|yaml| {
        let (before, key) = yaml.split_once("\nkey:").expect("a key");
        let (_, after) = key.split_once("\norder_by:").expect("an order after it");
        format!("{before}\nkey: {{version: 1, fields: [$id]}}\norder_by:{after}")
    }));
    let leads = [lead_of("evt_1", "a@example.com"), lead_of("evt_2", "b@example.com")];
    let results = world.post_batch(&json!(leads)).await.expect("a batch");
    assert!(results.iter().all(|result| matches!(result, Err(Rejection::Unkeyed(_)))), "{results:?}");
    assert!(world.post(&leads[0]).await.is_ok(), "alone it has a name");
}

#[tokio::test]
async fn a_receipt_tells_a_sender_about_its_own_events() {
    let world = World::new();
    world.partners.script([Script::Status(400)]);
    let dead = world.post(&lead_of("evt_1", "a@example.com")).await.expect("a good lead").id;
    world.drain().await;
    let done = world.post(&lead_of("evt_2", "b@example.com")).await.expect("a good lead").id;
    let ask = |id: &str| {
        HttpRequest::of(&world, b"").to(RECEIPT, "id", id).with("authorization", &format!("Bearer {RECEIPTS_TOKEN}"))
    };
    assert_eq!(ask(done.as_str()).send(&world).await.body["state"], "queued");
    world.drain().await;
    let receipt = ask(done.as_str()).send(&world).await;
    assert_eq!((receipt.status, &receipt.body["state"]), (200, &json!("succeeded")));
    assert_eq!(receipt.body["result"], json!({"crm": {"crm_id": "id_2"}}));
    let receipt = ask(dead.as_str()).send(&world).await;
    assert_eq!((&receipt.body["state"], &receipt.body["reason"]), (&json!("dead"), &json!("terminal")));
}

#[tokio::test]
async fn somebody_elses_receipt_is_no_receipt() {
    let mut world = World::new();
    let id = world.post(&lead()).await.expect("a good lead").id;
    let mut sources = crate::fixtures::files();
    sources[0].text.push_str("\nrival:\n  scheme: github\n  max_body: 1KiB\n  rate: 9/s\n  type_at: type\n");
    world.intake.flows = shared::flows::Flows::parse(&sources).expect("good flows");
    world.secrets.put("receipts/rival", "rival.secret");
    let ask =
        |id: &str| HttpRequest::of(&world, b"").to(RECEIPT, "id", id).with("authorization", "Bearer rival.secret");
    let (foreign, absent) = (ask(id.as_str()).send(&world).await, ask(&"0".repeat(64)).send(&world).await);
    assert_eq!((foreign.status, absent.status), (404, 404));
    assert_eq!(foreign.body["type"], absent.body["type"]);
    assert_eq!(foreign.body["detail"], absent.body["detail"]);
}

/// The shipped source with a rate of its own.
fn at_rate(rate: &str) -> World {
    let mut files = crate::fixtures::files();
    files[0].text = files[0].text.replace("rate: {limit: 100/s, burst: 200}", &format!("rate: {rate}"));
    World::with(shared::flows::Flows::parse(&files).expect("good flows"))
}

#[tokio::test]
async fn a_sender_over_its_rate_is_told_when_to_come_back() {
    let world = at_rate("{limit: 2/s, burst: 2}");
    let post = async |n: u32| {
        let lead = lead_of(&format!("evt_{n}"), "ada@example.com").to_string();
        HttpRequest::of(&world, lead.as_bytes()).send(&world).await
    };
    let first = post(1).await;
    assert_eq!((first.status, first.header("ratelimit-policy")), (202, Some(r#""sender";q=2;w=1"#)));
    assert!(first.header("ratelimit").is_some_and(|limit| limit.starts_with(r#""sender";r="#)));
    assert_eq!(post(2).await.status, 202);
    let denied = post(3).await;
    assert_eq!((denied.status, denied.problem(), denied.header("retry-after")), (429, "too-many", Some("1")));
    assert_eq!((world.ledger.rows().len(), world.events.depth()), (2, 2), "nothing of it is stored");

    world.clock.advance(Duration::from_secs(1));
    assert_eq!(post(3).await.status, 202);
}

#[tokio::test]
async fn a_stranger_cannot_spend_a_senders_rate() {
    let world = at_rate("{limit: 1/h, burst: 1}");
    for _ in 0..50 {
        let forged = HttpRequest::of(&world, lead().to_string().as_bytes()).with("webhook-signature", "v1,AAAA");
        assert_eq!(forged.send(&world).await.status, 401);
    }
    assert_eq!(world.limits.writes(), 0);
    assert_eq!(HttpRequest::of(&world, lead().to_string().as_bytes()).send(&world).await.status, 202);
}

#[tokio::test]
async fn a_batch_over_the_rate_is_denied_item_by_item() {
    let world = at_rate("{limit: 1/min, burst: 3}");
    let batch: Vec<Value> = (0..5).map(|n| lead_of(&format!("evt_{n}"), "ada@example.com")).collect();
    let results = world.post_batch(&json!(batch)).await.expect("a batch");
    let denied = results.iter().filter(|result| matches!(result, Err(Rejection::Throttled(_)))).count();
    assert_eq!((results.iter().filter(|result| result.is_ok()).count(), denied), (3, 2));
}

#[tokio::test]
async fn a_limit_that_nobody_can_know_holds_nobody_up() {
    let world = at_rate("1/h");
    world.limits.down(true);
    for n in 0..3 {
        assert!(world.post(&lead_of(&format!("evt_{n}"), "ada@example.com")).await.is_ok());
    }
}

#[tokio::test]
async fn what_is_down_makes_a_503_and_nothing_half_accepted() {
    let mut world = World::new();
    world.intake.ledger = Box::new(OutOfService);
    let answer = HttpRequest::of(&world, lead().to_string().as_bytes()).send(&world).await;
    assert_eq!((answer.status, answer.problem(), answer.header("retry-after")), (503, "unavailable", Some("5")));
    assert_eq!(world.events.depth(), 0, "the queue is never written before the ledger");

    world.intake.ledger = Box::new(world.ledger.clone());
    world.intake.queue = Box::new(OutOfService);
    let answer = HttpRequest::of(&world, lead().to_string().as_bytes()).send(&world).await;
    assert_eq!((answer.status, answer.problem()), (503, "unavailable"));

    world.intake.queue = Box::new(world.events.clone());
    let retried = HttpRequest::of(&world, lead().to_string().as_bytes()).send(&world).await;
    assert_eq!(retried.status, 202, "the sender's own retry brings it through");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1, "exactly one run");

    world.intake.secrets = Box::new(OutOfService);
    let answer = HttpRequest::of(&world, lead().to_string().as_bytes()).send(&world).await;
    assert_eq!(answer.status, 503, "never accepted unverified");
}

#[tokio::test(start_paused = true)]
async fn a_sender_is_answered_before_it_hangs_up() {
    let mut world = World::new();
    world.intake.ledger = Box::new(Slow);
    let asked = tokio::time::Instant::now();
    let answer = HttpRequest::of(&world, lead().to_string().as_bytes()).send(&world).await;
    assert_eq!((answer.status, answer.problem()), (503, "unavailable"));
    assert!(asked.elapsed() < Duration::from_secs(3));
}

/// Slack posts a form whose field `payload` holds JSON, and API Gateway makes base64 of it.
#[tokio::test]
async fn a_form_of_slacks_is_an_event() {
    let mut files = crate::fixtures::files();
    files[0].text = "slack: {scheme: slack, max_body: 64KiB, rate: 10/s, type_at: type, form: payload}".into();
    files[2].text = files[2].text.replace("source: web-forms", "source: slack");
    let world = World::with(shared::flows::Flows::parse(&files).expect("good flows"));
    world.secrets.put("sources/slack", "8f742231b10e8888abcd99yyyzzz85a5");
    let form: String =
        form_urlencoded::Serializer::new("token=x".to_owned()).append_pair("payload", &lead().to_string()).finish();
    let now = shared::base::machine::Clock::now(&world.clock).secs();
    let secret = Secret::new("8f742231b10e8888abcd99yyyzzz85a5");
    let headers =
        sign(&world.intake.flows.source("slack").expect("a source").scheme, &secret, "", now, form.as_bytes())
            .expect("a good secret");
    let post = |form: &str| {
        let request = HttpRequest::of(&world, b"").to(super::http::EVENT, "source", "slack").in_base64(form.as_bytes());
        let request = request.with("content-type", "application/x-www-form-urlencoded");
        headers.iter().fold(request, |request, (name, value)| request.with(&name.to_lowercase(), value))
    };
    let answer = post(&form).send(&world).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!(post(&form.replace("Ada", "Eve")).send(&world).await.status, 401);
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
}

/// Whatever we do not need shows up nowhere: not in the queue, the ledger or the logs.
#[tokio::test]
async fn canaries_are_seen_nowhere() {
    let log = Log::capture();

    let world = World::new();
    let canary = "canary-7f3a";
    let mut unlisted = lead();
    unlisted["data"]["ssn"] = json!(format!("{canary}-unlisted"));
    unlisted[format!("{canary}-name")] = json!(1);
    let mut invalid = lead();
    invalid["data"]["email"] = json!(format!("{canary}-invalid"));
    invalid["type"] = json!(format!("lead.created"));
    let mut unknown = lead();
    unknown["type"] = json!(format!("{canary}-type"));

    let good = |body: &Value| HttpRequest::of(&world, body.to_string().as_bytes());
    let requests = [
        good(&unlisted).with("x-customer", canary).with("cookie", canary).with("authorization", canary),
        good(&invalid),
        good(&unknown),
        good(&lead()).with("webhook-signature", &format!("v1,{canary}")),
        good(&lead()).with("content-type", canary),
        good(&lead()).to(super::http::EVENT, "source", canary),
        good(&lead()).with("traceparent", canary),
        HttpRequest::of(&world, format!("{{\"{canary}").as_bytes()),
        HttpRequest::of(&world, b"").to(RECEIPT, "id", canary).with("authorization", &format!("Bearer {canary}.x")),
    ];
    let mut answers = String::new();
    for request in requests {
        answers.push_str(&request.send(&world).await.body.to_string());
    }
    let queued: String = world.events.receive(10).iter().map(|message| format!("{message:?}")).collect();
    assert!(queued.contains("Lovelace"), "an event went through");
    let ledger = format!("{:?}", world.ledger.rows());
    for (where_, text) in [("queue", &queued), ("ledger", &ledger), ("logs", &log.text()), ("answers", &answers)] {
        assert!(!text.contains(canary), "{where_}: {text}");
    }
    assert!(log.text().contains("rejected"), "the log was read");
    for listed in ["Lovelace", "example.com", "7946 0018"] {
        assert!(!ledger.contains(listed) && !log.text().contains(listed), "{listed}");
    }
}

/// The answer to the first retry is the same whenever it comes.
#[tokio::test]
async fn a_crash_after_the_row_is_healed_by_the_senders_retry() {
    let mut world = World::new();
    world.intake.queue = Box::new(FaultyQueue::refusing(world.events.clone(), &[0]));
    assert!(world.post(&lead()).await.is_err());
    assert_eq!((world.ledger.rows().len(), world.events.depth()), (1, 0), "the row is there, the message is not");
    world.clock.advance(Duration::from_secs(30));
    let delivery = signed(&lead(), shared::base::machine::Clock::now(&world.clock).secs());
    assert!(world.deliver(delivery).await.expect("the retry").replayed);
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
}

/// The order of a batch is the order of its events: of two about one contact, the later one counts.
#[tokio::test]
async fn the_events_of_a_batch_are_received_one_after_the_other() {
    let world = World::new();
    let batch: Vec<_> = (0..20).map(|number| lead_of(&format!("n{number}"), "ada@example.com")).collect();
    let results = world.post_batch(&json!(batch)).await.expect("a batch");
    let mut received = Vec::new();
    for receipt in results {
        received.push(world.row(&receipt.expect("a good lead").id).await.received_at);
    }
    assert!(received.is_sorted_by(|one, next| one < next), "{received:?}");
}
