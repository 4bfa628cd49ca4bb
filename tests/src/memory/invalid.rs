//! Events in a shape that their flow does not take, where the flow parks them.

use std::time::Duration;

use replay::{Operation, operate};
use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::retention::DEDUPLICATION_WINDOW;
use shared::flows::Flows;
use shared::flows::contract::Contracts;
use shared::ledger::batch::Filter;
use shared::ledger::{Reason, Records, State};

use super::faults::OutOfService;
use super::http::{BATCH, HttpRequest, RECEIPT};
use super::world::{RECEIPTS_TOKEN, World, flows_with};
use crate::fixtures::{lead, lead_of};

const CAMPAIGN: &str = "campaign: {type: string, maxLength: 100}";

/// The plain flow, which parks what breaks its schema.
fn parking() -> Flows {
    flows_with(|yaml| format!("{yaml}\non_invalid: park\n"))
}

/// The same, with a schema that takes a campaign of any type.
fn corrected() -> Flows {
    flows_with(|yaml| format!("{}\non_invalid: park\n", yaml.replace(CAMPAIGN, "campaign: {}")))
}

/// A lead whose campaign is a number, which the schema does not take; and a field that it does not list.
fn unfit() -> Value {
    let mut lead = lead();
    lead["data"]["campaign"] = json!(4711);
    lead["data"]["iban"] = json!("GB33BUKB20201555555555");
    lead
}

async fn parked(world: &World) -> EventId {
    world.post(&unfit()).await.expect("it is parked").id
}

fn deploy(world: &mut World, flows: Flows) {
    world.intake.contracts = Contracts::of(&flows);
    world.processor.flows = flows.clone();
    world.replay.flows = flows.clone();
    world.intake.flows = flows;
}

async fn ask(world: &World, operation: Value) -> Result<Value, String> {
    let operation: Operation = serde_json::from_value(operation).expect("an operation");
    operate(&world.replay, operation).await.map_err(|failure| failure.to_string())
}

async fn replay(world: &World, id: &EventId) -> Result<Value, String> {
    ask(world, json!({"op": "replay", "id": id, "by": "ada", "reason": "the schema is right now"})).await
}

#[tokio::test]
async fn it_is_acknowledged_and_parked_with_the_places_and_no_value() {
    let world = World::with(parking());
    let id = parked(&world).await;
    let row = world.row(&id).await;
    assert_eq!((row.state, row.is_parked()), (State::Dead, true));
    assert_eq!(row.death.as_ref().map(|death| death.reason), Some(Reason::Invalid));
    assert_eq!(world.story(&id).await, ["accepted", "dead: invalid", "parked"]);
    assert_eq!((world.events.depth(), world.dead_letters.depth()), (0, 0), "nothing is sent");
    assert_eq!(world.metrics.sum("DeadLetters{lead-routing,invalid}"), 1);

    let error = "the event does not match the schema: /data/campaign breaks `type`";
    let list = ask(&world, json!({"op": "list"})).await.expect("a list");
    assert_eq!((&list["parked"][0]["reason"], &list["parked"][0]["error"]), (&json!("invalid"), &json!(error)));
    let page = ask(&world, json!({"op": "show", "id": id})).await.expect("a page");
    assert!(page["preview"].to_string().contains("campaign"), "{page}");
    for value in ["4711", "GB33", "lovelace"] {
        assert!(!page.to_string().to_lowercase().contains(&value.to_lowercase()), "{value}: {page}");
    }
    let plan = ask(&world, json!({"op": "plan", "ids": [id]})).await.expect("a plan");
    let blocked = plan["events"][0]["blocked"].as_str().expect("it is blocked");
    assert!(blocked.contains("still invalid") && blocked.contains("/data/campaign breaks `type`"), "{blocked}");
}

#[tokio::test]
async fn the_same_delivery_again_is_the_same_event() {
    let world = World::with(parking());
    let first = parked(&world).await;
    let again = world.post(&unfit()).await.expect("it is known");
    assert_eq!((again.id, again.replayed), (first.clone(), true));
    let mut other = unfit();
    other["data"]["campaign"] = json!(4712);
    assert_ne!(world.post(&other).await.expect("it is parked").id, first);
    assert_eq!(world.metrics.sum("DeadLetters{lead-routing,invalid}"), 2);
    let good = world.post(&lead()).await.expect("a good lead");
    assert!(good.id != first && !good.replayed);
}

#[tokio::test]
async fn it_is_replayed_as_the_event_that_it_stands_for() {
    let mut world = World::with(parking());
    let id = parked(&world).await;
    let declined = replay(&world, &id).await.expect_err("the schema is as before");
    assert!(declined.contains("still invalid") && declined.contains("/data/campaign breaks `type`"), "{declined}");
    assert_eq!(world.row(&id).await.state, State::Dead);

    deploy(&mut world, corrected());
    let plan = ask(&world, json!({"op": "plan", "ids": [id]})).await.expect("a plan");
    assert_eq!(plan["events"][0]["steps"], json!([{"effect": "crm", "fate": "run"}]), "{plan}");
    let answer = replay(&world, &id).await.expect("it fits now");
    let event = EventId::named(answer["replayed_as"].as_str().expect("another id"));
    world.drain().await;
    let row = world.row(&event).await;
    assert_eq!((row.state, row.replay), (State::Succeeded, 1));
    assert!(world.story(&event).await.contains(&"replay 1 by ada: the schema is right now".to_owned()));
    let calls = world.partners.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].1.json().expect("a body")["campaign"], 4711, "it is kept exactly");

    let settled = world.row(&id).await;
    assert_eq!((settled.state, settled.listed), (State::Noop, None));
    let noop = settled.noop.expect("it says why");
    assert_eq!((noop.guard.as_str(), noop.facts), ("on_invalid", json!({"replayed_as": event})));
    assert_eq!(world.ledger.payload(&id), None, "the whole body is forgotten");
    let again = world.post(&unfit()).await.expect("a duplicate");
    assert_eq!((again.id, again.replayed), (event, true), "a fresh delivery is the same event");
}

/// The replay's payload is the one that was parked, also when the sender repeats its event in a shape that fits, edited.
#[tokio::test]
async fn an_edited_repetition_does_not_take_the_replays_place() {
    let mut world = World::with(parking());
    let id = parked(&world).await;
    deploy(&mut world, corrected());
    replay(&world, &id).await.expect("it fits now");
    // The queue has forgotten the deduplication id of the replay, which waits behind others.
    world.clock.advance(DEDUPLICATION_WINDOW + Duration::from_secs(1));
    let mut edited = lead();
    edited["data"]["campaign"] = json!("edited");
    assert!(world.post(&edited).await.expect("a duplicate").replayed);
    assert_eq!(world.events.depth(), 1, "the replay is the only message");
    world.drain().await;
    let calls = world.partners.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].1.json().expect("a body")["campaign"], 4711, "what the plan showed");
}

/// A field of the key that no two deliveries could agree on is a shape, too: the flow may key its events otherwise.
#[tokio::test]
async fn what_fits_the_schema_and_not_the_key_is_parked() {
    const ID: &str = "event_id: {type: string, minLength: 1, maxLength: 128}";
    let keyed = |name: &'static str| {
        let of = move |yaml: String| {
            let yaml =
                yaml.replace(ID, "event_id: {}").replace("    - data.event_id\n", &format!("    - data.{name}\n"));
            format!("{}\non_invalid: park\n", yaml.replace("/leads/{{ event.data.event_id }}", "/leads"))
        };
        flows_with(of)
    };
    let mut world = World::with(keyed("event_id"));
    let mut nested = lead();
    nested["data"]["event_id"] = json!({"shop": 1, "order": "secret-7"});
    nested["data"]["iban"] = json!("GB33BUKB20201555555555");
    let id = world.post(&nested).await.expect("it is parked").id;
    let error = world.row(&id).await.death.expect("it is dead").error;
    assert_eq!(error, "the event cannot be keyed: `data.event_id` must be a text, a whole number or a boolean");
    let kept = world.ledger.payload(&id).expect("it is kept");
    assert_eq!(kept.payload["body"]["data"]["iban"], nested["data"]["iban"], "whole");
    assert!(replay(&world, &id).await.is_err_and(|why| why.contains("still invalid")));
    deploy(&mut world, keyed("tenant"));
    replay(&world, &id).await.expect("it has a key now");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);

    let strict = World::with(flows_with(|yaml| yaml.replace(ID, "event_id: {}")));
    assert!(strict.post(&nested).await.is_err(), "a flow that parks nothing rejects it");
}

/// The same body again sends what a crash left unsent.
#[tokio::test]
async fn the_same_delivery_again_sends_a_replay_that_was_cut_off() {
    let mut world = World::with(parking());
    let id = parked(&world).await;
    deploy(&mut world, corrected());
    let queue = std::mem::replace(&mut world.replay.queue, Box::new(OutOfService));
    assert!(replay(&world, &id).await.is_err());
    world.replay.queue = queue;
    world.post(&unfit()).await.expect("a duplicate");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
    replay(&world, &id).await.expect("it is settled");
    world.drain().await;
    assert_eq!((world.partners.calls().len(), world.row(&id).await.state), (1, State::Noop));
}

#[tokio::test]
async fn what_was_sent_again_meanwhile_is_not_done_twice() {
    let mut world = World::with(parking());
    let id = parked(&world).await;
    deploy(&mut world, corrected());
    let event = world.post(&unfit()).await.expect("it fits now").id;
    world.drain().await;
    let plan = ask(&world, json!({"op": "plan", "ids": [id]})).await.expect("a plan");
    assert!(plan["events"][0]["blocked"].as_str().is_some_and(|why| why.contains("sent again as")), "{plan}");
    let answer = replay(&world, &id).await.expect("it is settled");
    assert_eq!(answer["replayed_as"], json!(event));
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
    assert_eq!(world.row(&id).await.state, State::Noop);
}

#[tokio::test]
async fn a_replay_that_was_cut_off_goes_on() {
    let mut world = World::with(parking());
    let id = parked(&world).await;
    deploy(&mut world, corrected());
    let queue = std::mem::replace(&mut world.replay.queue, Box::new(OutOfService));
    assert!(replay(&world, &id).await.is_err_and(|why| why.contains("may have been made")));
    assert_eq!(world.row(&id).await.state, State::Dead, "it stays parked");
    assert!(world.ledger.payload(&id).is_some());
    world.replay.queue = queue;
    replay(&world, &id).await.expect("it goes on");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
}

#[tokio::test]
async fn a_batch_takes_it_once_it_fits() {
    let mut world = World::with(parking());
    let id = parked(&world).await;
    let batch = json!({"op": "batch", "only": {"reason": "invalid"}, "by": "ada", "reason": "try"});
    ask(&world, batch.clone()).await.expect("a batch");
    world.park().await;
    world.park().await;
    let status = ask(&world, json!({"op": "status"})).await.expect("a status");
    assert_eq!((&status["batches"][0]["progress"], &status["batches"][0]["replayed"]), (&json!("done"), &json!(0)));

    deploy(&mut world, corrected());
    world.clock.advance(Duration::from_secs(60));
    ask(&world, batch).await.expect("a batch");
    world.park().await;
    world.drain().await;
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Noop, 1));
}

#[tokio::test]
async fn it_can_be_dropped() {
    let world = World::with(parking());
    let id = parked(&world).await;
    ask(&world, json!({"op": "drop", "id": id, "by": "ada", "reason": "a test"})).await.expect("it is dropped");
    assert_eq!((world.row(&id).await.state, world.ledger.payload(&id)), (State::Dropped, None));
    let parked = world.ledger.parked(10).await.expect("the model answers");
    assert!(parked.is_empty(), "{parked:?}");
}

/// The sender's own receipt says what became of it.
#[tokio::test]
async fn a_receipt_tells_that_it_is_parked() {
    let world = World::with(parking());
    let id = parked(&world).await;
    let request = HttpRequest::of(&world, b"").to(RECEIPT, "id", id.as_str());
    let answer = request.with("authorization", &format!("Bearer {RECEIPTS_TOKEN}")).send(&world).await;
    assert_eq!((&answer.body["state"], &answer.body["reason"]), (&json!("dead"), &json!("invalid")));
}

#[tokio::test]
async fn only_the_shape_is_forgiven() {
    let world = World::with(parking());
    let exact = |text: &str| unfit().to_string().replace("4711", text);
    let deep = "[".repeat(70) + &"]".repeat(70);
    for (name, body, status, problem) in [
        ("no JSON", "{".to_owned(), 400, "malformed"),
        ("no type", json!({"data": 1}).to_string(), 422, "unknown-type"),
        ("a number that would change", exact("18446744073709551616"), 422, "invalid-event"),
        ("a character that the queue refuses", exact("[\"\\uFFFE\"]"), 422, "invalid-event"),
        ("too deep", exact(&deep), 422, "invalid-event"),
    ] {
        let answer = HttpRequest::of(&world, body.as_bytes()).send(&world).await;
        assert_eq!((answer.status, answer.problem()), (status, problem), "{name}: {}", answer.body);
    }
    let forged = HttpRequest::of(&world, unfit().to_string().as_bytes()).with("webhook-signature", "v1,AAAA");
    assert_eq!(forged.send(&world).await.status, 401);
    assert_eq!(world.ledger.writes(), 0, "nothing is kept");
    let place = HttpRequest::of(&world, exact("18446744073709551616").as_bytes()).send(&world).await;
    assert_eq!(place.body["errors"], json!([{"pointer": "/data/campaign", "rule": "number"}]));
}

#[tokio::test]
async fn a_batch_of_a_sender_parks_what_is_unfit_and_takes_the_rest() {
    let world = World::with(parking());
    let batch = json!([lead_of("evt_1", "ada@example.com"), unfit()]).to_string();
    let answer = HttpRequest::of(&world, batch.as_bytes()).to(BATCH, "source", "web-forms").send(&world).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!(world.events.depth(), 1);
    assert_eq!(world.ledger.parked(10).await.expect("the model answers").len(), 1);
}

#[tokio::test]
async fn a_ledger_that_does_not_answer_acknowledges_nothing() {
    let mut world = World::with(parking());
    world.intake.ledger = Box::new(OutOfService);
    assert!(world.post(&unfit()).await.is_err());
    assert_eq!(world.metrics.sum("DeadLetters{lead-routing,invalid}"), 0);
}

/// A version that the flow does not know yet is a shape, too.
#[tokio::test]
async fn an_unknown_version_is_parked() {
    let mut world = World::with(flows_with(|yaml| format!("{yaml}\nversion_at: data.version\non_invalid: park\n")));
    let mut lead = lead();
    lead["data"]["version"] = json!(2);
    let id = world.post(&lead).await.expect("it is parked").id;
    let error = world.row(&id).await.death.expect("it is dead").error;
    assert_eq!(error, "the event names a schema version that the flow does not have");
    deploy(&mut world, flows_with(|yaml| yaml.replace("\nversion: 1\n", "\nversion: 2\nversion_at: data.version\n")));
    replay(&world, &id).await.expect("it is known now");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
}

/// Nothing of this costs a flow that does not park anything more than a word.
#[tokio::test]
async fn without_a_word_it_is_rejected() {
    let world = World::new();
    assert!(world.post(&unfit()).await.is_err());
    assert_eq!(world.ledger.writes(), 0);
    let none = operate(&world.replay, Operation::List { limit: 10, only: Filter::default() }).await.expect("a list");
    assert_eq!(none["matching"], 0);
}

/// A parked event has its place in time, too: one that came in another shape is the same cart.
#[tokio::test]
async fn it_belongs_to_what_is_close_in_time() {
    const WINDOW: &str = "key: {version: 2, fields: [data.tenant], window: 5m}";
    let windowed = |yaml: String| {
        let (head, rest) = yaml.split_once("key:\n").expect("a key");
        let (_, tail) = rest.split_once("order_by:").expect("an order");
        format!("{head}{WINDOW}\norder_by:{tail}\non_invalid: park\n")
    };
    let mut world = World::with(flows_with(windowed));
    let unfit = parked(&world).await;
    let fit = world.post(&lead_of("fit", "ada@example.com")).await.expect("a good lead").id;
    world.drain().await;
    let calls = world.partners.calls().len();
    deploy(&mut world, flows_with(|yaml| windowed(yaml.replace(CAMPAIGN, "campaign: {}"))));
    replay(&world, &unfit).await.expect("the schema takes it now");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), calls, "the cart was done already");
    let noop = world.row(&unfit).await.noop.expect("it is settled");
    assert_eq!(noop.facts, json!({"replayed_as": fit}));
}

/// No schema could make an event of what has no key.
#[tokio::test]
async fn without_the_names_of_its_key_it_is_rejected() {
    let header = |yaml: String| {
        let (head, rest) = yaml.split_once("key:\n").expect("a key");
        let (_, tail) = rest.split_once("order_by:").expect("an order");
        format!("{head}key: {{version: 2, header: required}}\norder_by:{tail}\non_invalid: park\n")
    };
    let world = World::with(flows_with(header));
    let rejection = world.post(&unfit()).await.expect_err("it has no key").to_string();
    assert!(rejection.contains("Idempotency-Key"), "{rejection}");
    assert_eq!(world.ledger.writes(), 0);
}
