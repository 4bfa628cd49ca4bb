//! What operators can do with dead letters.

use std::collections::BTreeMap;
use std::time::Duration;

use replay::{Access, Console, Operation, handle, operate, serve};
use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::ledger::batch::Filter;
use shared::ledger::{Records, State};
use shared::model::Script;

use super::faults::{OutOfService, StaleRow};
use super::flows::{cart, shipped};
use super::log::Log;
use super::world::{World, flows_with};
use crate::fixtures::{ADA, NOW, by_ada, lead};

/// A lead that the partner failed until it died, parked.
async fn parked(world: &World) -> EventId {
    world.partners.script(vec![Script::Status(429); 3]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    assert!(world.park().await.is_empty());
    id
}

async fn replay_it(world: &World, id: &EventId) -> Result<Value, String> {
    let operation = Operation::Replay {
        id: id.clone(),
        by: "ada".into(),
        reason: "the CRM is back".into(),
        version: None,
        with_new: false,
    };
    operate(&world.replay, operation).await.map_err(|failure| failure.to_string())
}

#[tokio::test]
async fn a_dead_letter_is_listed_with_its_context() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let list = operate(&world.replay, Operation::List { limit: 10, only: Filter::default() }).await.expect("a list");
    let [line] = list["parked"].as_array().expect("lines").as_slice() else { panic!("one line: {list}") };
    assert_eq!(line["id"], json!(id));
    assert_eq!(line["reason"], "attempts_spent");
    assert_eq!(line["error"], "answered 429");
    assert_eq!(line["attempts"], 3);

    let page = operate(&world.replay, Operation::Show { id }).await.expect("a page");
    assert!(page["preview"].to_string().contains("email"), "{page}");
    assert!(!page.to_string().to_lowercase().contains("lovelace"), "{page}");
}

/// A worker crashed after it had sent the letter, so that its message is still on the queue when the
/// event is replayed: the old message claims nothing, and its letter is not taken for the replay's.
#[tokio::test]
async fn what_dies_again_beside_its_old_message_is_parked_again() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let event = world.ledger.payload(&id).expect("the payload is kept");
    let body = serde_json::to_string(&event).expect("an event is JSON");
    world.events.put(&event.group, "not-deleted", &body, BTreeMap::new()).expect("SQS takes it");
    replay_it(&world, &id).await.expect("a replay");
    world.partners.script(vec![Script::Status(500); 3]);
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Dead);
    world.park().await;
    assert!(world.row(&id).await.is_parked(), "an operator sees it");
    replay_it(&world, &id).await.expect("another replay");
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

/// An operator's second click read the row before the first one's replay had run and died.
#[tokio::test]
async fn a_late_second_replay_does_not_take_the_payload_away() {
    let mut world = World::without_breaker();
    let id = parked(&world).await;
    replay_it(&world, &id).await.expect("a replay");
    let row = world.row(&id).await;
    world.partners.script(vec![Script::Status(500); 3]);
    world.drain().await;
    world.park().await;
    world.replay.records = Box::new(StaleRow { ledger: world.ledger.clone(), row });
    replay_it(&world, &id).await.expect_err("it is out of date");
    assert!(world.ledger.payload(&id).is_some(), "it can be replayed");
}

#[tokio::test]
async fn a_replay_inside_the_deduplication_window_really_runs() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let answer = replay_it(&world, &id).await.expect("a replay");
    assert_eq!(answer, json!({"id": id, "state": "queued", "replay": 1}));
    world.drain().await;

    assert_eq!(world.partners.calls().len(), 4);
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(world.ledger.parked(10).await, Ok(vec![]));
    assert_eq!(world.ledger.kept(&id).await, Ok(None), "the payload is kept only while it is parked");
    let story = world.story(&id).await;
    assert_eq!(story.first().map(String::as_str), Some("accepted"));
    assert!(story.contains(&"replay 1 by ada: the CRM is back".to_owned()), "{story:?}");
    assert_eq!(story.last().map(String::as_str), Some("succeeded"));
}

#[tokio::test]
async fn a_replay_calls_only_what_is_not_done() {
    let world = World::with(flows_with(|yaml| {
        let second =
            "  - id: second\n    integration: crm\n    guarantee: native\n    request: {method: POST, path: /notes}\n";
        yaml.replace("\nretry:", &format!("{second}\nretry:"))
    }));
    world.partners.script([Script::Status(200), Script::Status(400)]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    world.park().await;
    replay_it(&world, &id).await.expect("a replay");
    world.drain().await;
    let paths: Vec<String> = world.partners.calls().into_iter().map(|(_, request)| request.path).collect();
    assert_eq!(paths, ["/leads/evt_1001", "/notes", "/notes"]);
}

#[tokio::test]
async fn two_operators_make_one_replay() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    replay_it(&world, &id).await.expect("the first");
    let second = replay_it(&world, &id).await.expect_err("the second sees why not");
    assert!(second.contains("on its way"), "{second}");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 4);
    let third = replay_it(&world, &id).await.expect_err("it is done");
    assert!(third.contains("not kept"), "{third}");
}

/// The crash between the row and the send: it stays listed, and the same request sends it.
#[tokio::test]
async fn a_replay_that_was_never_sent_is_seen_and_sent() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let row = world.row(&id).await;
    let next = row.clone().replayed(ADA, NOW).expect("it may be replayed");
    world.ledger.replace(Some(&row), &next).await.expect("nobody else wrote");

    let list = operate(&world.replay, Operation::List { limit: 10, only: Filter::default() }).await.expect("a list");
    assert_eq!(list["parked"][0]["state"], "queued");
    let seen = format!("{}.{}", row.epoch, row.step);
    let pressed = json!({"op": "replay", "id": id, "by": "eve", "reason": "it is back", "version": seen});
    let late = ::replay::handle(&world.replay, pressed).await;
    assert!(
        late["error"].as_str().is_some_and(|why| why.contains("look again")),
        "it was dead when eve looked: {late}"
    );
    assert_eq!(world.events.depth(), 0);
    replay_it(&world, &id).await.expect("it is sent now");
    world.drain().await;
    assert_eq!((world.row(&id).await.state, world.row(&id).await.replay), (State::Succeeded, 1));
}

#[tokio::test]
async fn an_unknown_outcome_is_not_replayed() {
    let world = World::with(flows_with(|yaml| yaml.replace("guarantee: native", "guarantee: none")));
    world.partners.script([Script::Hang]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    world.park().await;
    let refused = replay_it(&world, &id).await.expect_err("nobody knows");
    assert!(refused.contains("the outcome of `crm`"), "{refused}");
    assert_eq!(world.partners.calls().len(), 1);
}

#[tokio::test]
async fn parking_the_same_letter_twice_changes_nothing() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let row = world.row(&id).await;
    let body = serde_json::to_string(&world.ledger.kept(&id).await.expect("kept").expect("a payload")).expect("JSON");
    world.dead_letters.put("group", "a-copy", &body, BTreeMap::new()).expect("SQS takes it");
    assert!(world.park().await.is_empty());
    assert_eq!(world.row(&id).await, row);
}

#[tokio::test]
async fn a_letter_that_the_queue_gave_up_on_gets_its_context_from_the_row() {
    let world = World::new();
    let id = world.post(&lead()).await.expect("a good lead").id;
    // It comes too often, and no worker ever claims it, until the queue moves the message as it is.
    while world.dead_letters.depth() == 0 {
        world.events.receive(10);
        world.clock.advance(Duration::from_secs(200));
    }
    assert!(world.park().await.is_empty());
    let list = operate(&world.replay, Operation::List { limit: 10, only: Filter::default() }).await.expect("a list");
    assert_eq!((&list["parked"][0]["id"], &list["parked"][0]["reason"]), (&json!(id), &json!("undelivered")));
}

#[tokio::test]
async fn letters_that_nobody_knows_are_kept_too() {
    let world = World::new();
    world.dead_letters.put("group", "bad", "not an event", BTreeMap::new()).expect("SQS takes it");
    let orphan = serde_json::to_string(&crate::fixtures::event("evt_orphan")).expect("JSON");
    world.dead_letters.put("group", "orphan", &orphan, BTreeMap::new()).expect("SQS takes it");
    assert!(world.park().await.is_empty());
    let list = operate(&world.replay, Operation::List { limit: 10, only: Filter::default() }).await.expect("a list");
    let mut reasons: Vec<_> =
        list["parked"].as_array().expect("lines").iter().map(|line| line["reason"].clone()).collect();
    reasons.sort_by_key(Value::to_string);
    assert_eq!(reasons, [json!("malformed"), json!("orphaned")]);
    for line in list["parked"].as_array().expect("lines") {
        let id = EventId::named(line["id"].as_str().expect("an id"));
        let refused = replay_it(&world, &id).await.expect_err("nobody knows what was done");
        assert!(refused.contains("no history"), "{refused}");
    }
}

/// Somebody decides by a page that is out of date.
#[tokio::test]
async fn a_decision_on_what_has_changed_since_is_refused() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let seen = operate(&world.replay, Operation::Show { id: id.clone() }).await.expect("a page");
    replay_it(&world, &id).await.expect("a replay");
    world.partners.script(vec![Script::Status(500); 3]);
    world.drain().await;
    world.park().await;
    let (by, reason) = ("grace", "it looks dead");
    for op in [
        json!({"op": "replay"}),
        json!({"op": "drop"}),
        json!({"op": "resolve", "effect": "crm", "verdict": "did_not_happen"}),
    ] {
        let mut stale = json!({"id": id, "by": by, "reason": reason, "version": seen["version"]});
        stale.as_object_mut().expect("an object").extend(op.as_object().expect("an object").clone());
        let answer = replay::handle(&world.replay, stale.clone()).await;
        assert!(answer["error"].as_str().is_some_and(|error| error.contains("look again")), "{stale}: {answer}");
    }
    let fresh = operate(&world.replay, Operation::Show { id: id.clone() }).await.expect("a page");
    let version = fresh["version"].as_str().map(str::to_owned);
    let drop = Operation::Drop { id, by: by.into(), reason: reason.into(), version };
    assert_eq!(operate(&world.replay, drop).await.expect("it is as it was seen")["state"], "dropped");
}

#[tokio::test]
async fn a_bad_request_is_told_what_to_write_instead() {
    let world = World::new();
    for bad in [json!({}), json!({"op": "lsit"}), json!({"op": "show"}), json!({"op": "list", "limmit": 3}), json!(7)] {
        let answer = replay::handle(&world.replay, bad.clone()).await;
        let error = answer["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(r#"{"op": "list"}"#), "{bad}: {answer}");
    }
    let nameless = Operation::Replay {
        id: EventId::named("x"),
        by: " ".into(),
        reason: "r".into(),
        version: None,
        with_new: false,
    };
    let error = operate(&world.replay, nameless).await.expect_err("nobody").to_string();
    assert!(error.contains("`by`"), "{error}");
}

/// Each sample works when it is pasted into the AWS console's test tab.
#[tokio::test]
async fn every_sample_is_understood() {
    let world = World::with(crate::fixtures::flows());
    let samples = std::fs::read_dir(crate::fixtures::root().join("events/replay")).expect("samples");
    for sample in samples.flatten() {
        let text = std::fs::read_to_string(sample.path()).expect("a sample");
        let answer = replay::handle(&world.replay, serde_json::from_str(&text).expect("JSON")).await;
        let error = answer["error"].as_str().unwrap_or_default().to_owned();
        let absent = ["there is no event", "there is no batch", "there is no contact"]
            .iter()
            .any(|absent| error.contains(absent));
        assert!(error.is_empty() || absent, "{text}: {answer}");
    }
}

/// The page of an event tells an `error`, too: the last that the event met. So what asks tells the two apart by
/// the `id`, which a refusal never has.
#[tokio::test]
async fn a_refusal_is_told_from_an_answer() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let page = handle(&world.replay, json!({"op": "show", "id": id})).await;
    assert_eq!((&page["id"], &page["error"]), (&json!(id), &json!("answered 429")));
    let word = json!({"id": id, "by": "ada", "reason": "a test"});
    for (op, more) in [
        ("show", json!({"id": "nobody"})),
        ("replay", json!({"id": id, "version": "0.0", "by": "ada", "reason": "a test"})),
        ("drop", json!({"id": id, "version": "0.0", "by": "ada", "reason": "a test"})),
        ("replay", json!({"id": id, "by": "", "reason": ""})),
        ("resolve", json!({"id": id, "effect": "none", "verdict": "did_not_happen", "by": "ada", "reason": "a test"})),
        ("apply", json!({"events": [{"id": id, "hash": "old"}], "by": "ada", "reason": "a test"})),
        ("stop", json!({"batch": "none", "by": "ada", "reason": "a test"})),
        ("nonsense", word),
    ] {
        let mut request = more;
        request["op"] = json!(op);
        let refused = handle(&world.replay, request.clone()).await;
        assert!(refused["error"].is_string() && refused.get("id").is_none(), "{request}: {refused}");
    }
}

/// The row was written, and then the queue took nothing. Whoever hears "refused" would not look.
#[tokio::test]
async fn what_is_out_of_reach_is_told_from_what_is_refused() {
    let mut world = World::without_breaker();
    let id = parked(&world).await;
    let plan = handle(&world.replay, json!({"op": "plan", "ids": [id]})).await;
    world.replay.queue = Box::new(OutOfService);
    let log = Log::capture();
    let events = json!([{"id": id, "hash": plan["events"][0]["hash"]}]);
    let applied = handle(&world.replay, by_ada(json!({"op": "apply", "events": events}))).await;
    assert_eq!((&applied["applied"][0]["id"], &applied["applied"][0]["unavailable"]), (&json!(id), &json!(true)));
    assert_eq!(world.row(&id).await.state, State::Queued);

    let answer = handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
    let why = "the port did not answer: it is down; a change may have been made, or a part of it: look at `show` or `status` before you try again";
    assert_eq!(answer, json!({"error": why, "unavailable": true}));
    let refused = handle(&world.replay, by_ada(json!({"op": "drop", "id": id}))).await;
    assert!(refused["error"].is_string() && refused.get("unavailable").is_none(), "{refused}");

    let logged = log.text();
    for part in [r#""op":"replay""#, r#""op":"drop""#, why, id.as_str()] {
        assert!(logged.contains(part), "{part}: {logged}");
    }
    assert!(!logged.to_lowercase().contains("lovelace"), "{logged}");
}

#[tokio::test]
async fn an_answer_that_could_not_be_sent_on_is_told_as_one() {
    let mut world = shipped().await;
    let id = cart(&world, json!({"discount_percent": 40})).await;
    world.drain().await;
    let hash = world.row(&id).await.ask.expect("a question").hash;
    world.replay.queue = Box::new(OutOfService);
    let approve = by_ada(json!({"op": "approve", "questions": [{"id": id, "hash": hash}]}));
    let answered = &handle(&world.replay, approve).await["answered"][0];
    assert_eq!((&answered["id"], &answered["unavailable"]), (&json!(id), &json!(true)), "{answered}");
}

/// Nobody reads the answer: an invocation that fails is asked again, and an alarm sees it.
#[tokio::test]
async fn a_schedule_that_could_not_be_kept_fails_as_an_invocation() {
    let mut world = World::without_breaker();
    let id = parked(&world).await;
    world.replay.queue = Box::new(OutOfService);
    replay_it(&world, &id).await.expect_err("it is queued, and nothing took it");
    let log = Log::capture();
    let console = Console { replay: &world.replay, access: Access::Operate, endpoint: "", caller: None };
    let failed = serve(&console, json!({"op": "schedule"})).await.expect_err("an invocation that failed");
    assert!(failed.to_string().contains("it is down"), "{failed}");
    assert!(log.text().contains(r#""op":"schedule""#), "{}", log.text());
    let operator = serve(&console, by_ada(json!({"op": "replay", "id": id}))).await.expect("an operator reads it");
    assert_eq!(operator["unavailable"], true, "{operator}");

    world.replay.queue = Box::new(world.events.clone());
    let console = Console { replay: &world.replay, access: Access::Operate, endpoint: "", caller: None };
    let kept = serve(&console, json!({"op": "schedule"})).await.expect("it is kept");
    assert_eq!(kept["sent"], 1, "{kept}");
}
