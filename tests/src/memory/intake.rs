//! What the intake accepts, and what it refuses.

use std::collections::BTreeSet;
use std::time::Duration;

use intake::{Rejection, accept_batch};
use serde_json::{Value, json};
use shared::arrival::delivery::Delivery;
use shared::base::machine::Clock;
use shared::base::trace::Trace;
use shared::ledger::State;
use shared::operate::metric::WorkUnit;

use super::world::{World, flows_with, one_event, signed, signed_bytes};
use crate::fixtures::{lead, lead_of};

#[tokio::test]
async fn a_new_event_costs_one_write_and_one_message() {
    let world = World::new();
    let receipt = world.post(&lead()).await.expect("a good lead");
    assert!(!receipt.replayed);
    assert_eq!(world.ledger.writes(), 1);
    assert_eq!(world.events.depth(), 1);
    assert_eq!(world.row(&receipt.id).await.state, State::Queued);
}

#[tokio::test]
async fn a_duplicate_gets_the_first_answer_then_the_result() {
    let world = World::new();
    let first = world.post(&lead()).await.expect("a good lead");
    let again = world.post(&lead()).await.expect("a duplicate is welcome");
    assert_eq!((again.id.clone(), again.replayed, again.result), (first.id, true, None));
    assert_eq!(world.events.depth(), 1);

    world.drain().await;
    let writes = world.ledger.writes();
    let done = world.post(&lead()).await.expect("a duplicate is welcome");
    assert_eq!(done.result, Some(json!({"crm": {"crm_id": "id_1"}})));
    assert_eq!(world.ledger.writes(), writes + 1, "a duplicate costs one failed write");
    assert_eq!(world.partners.calls().len(), 1);
}

/// The case, the white space and what the key does not name make no new event.
#[tokio::test]
async fn the_key_decides_what_is_the_same() {
    let world = World::new();
    let first = world.post(&lead_of("evt_1", "ada@example.com")).await.expect("a good lead");
    let shouted = world.post(&lead_of("evt_1", " ADA@Example.com\n")).await;
    assert_eq!(shouted.map(|receipt| receipt.id), Err(Rejection::Invalid(vec![violation("/data/email", "pattern")])));
    let shouted = world.post(&lead_of("evt_1", "ADA@Example.com")).await.expect("the same lead");
    assert_eq!((shouted.id, shouted.replayed), (first.id.clone(), true));
    let other = world.post(&lead_of("evt_2", "ada@example.com")).await.expect("another lead");
    assert_ne!(other.id, first.id);
}

#[tokio::test]
async fn a_key_is_forgotten_after_its_time_and_not_before() {
    let world = World::new();
    world.post(&lead()).await.expect("a good lead");
    world.drain().await;
    world.clock.advance(Duration::from_secs(24 * 3600 - 60));
    assert!(world.post(&lead()).await.expect("a duplicate").replayed);
    world.clock.advance(Duration::from_secs(120));
    assert!(!world.post(&lead()).await.expect("a new event").replayed);
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 2);
}

/// The crash between the ledger and the queue: the row is there, the message is not.
#[tokio::test]
async fn a_duplicate_of_what_was_never_sent_sends_it() {
    let world = World::new();
    world.post(&lead()).await.expect("a good lead");
    let lost = world.events.receive(1);
    world.events.delete(&lost[0].receipt);
    assert_eq!(world.events.depth(), 0);

    // Inside five minutes the queue still remembers the lost message's id.
    world.clock.advance(Duration::from_secs(301));
    assert!(world.post(&lead()).await.expect("the sender tries again").replayed);
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
}

#[tokio::test]
async fn what_the_schema_does_not_list_never_enters() {
    let world = World::new();
    let receipt = world.post(&lead()).await.expect("a good lead");
    let message = &world.events.receive(1)[0];
    for dropped in ["Mozilla", "c-93f1", "user_agent"] {
        assert!(lead().to_string().contains(dropped), "the fixture has it");
        assert!(!message.body.contains(dropped), "{dropped}");
        assert!(!format!("{:?}", world.row(&receipt.id).await).contains(dropped), "{dropped}");
    }
    assert!(!message.group.contains('@'), "a group is no email");
}

#[tokio::test]
async fn a_refusal_changes_nothing() {
    let world = World::new();
    let now = world.clock.now().secs();
    let good = || signed(&lead(), now);
    let unsigned = Delivery { headers: [("content-type", "application/json")].into_iter().collect(), ..good() };
    let forged = Delivery { body: lead_of("evt_1", "eve@example.com").to_string().into_bytes(), ..good() };
    let refused = Rejection::BadSignature(shared::arrival::signature::Rejected);
    let mut no_email = lead();
    no_email["data"].as_object_mut().expect("an object").remove("email");

    for (why, delivery, expected) in [
        ("unsigned", unsigned, refused.clone()),
        ("wrongly signed", forged, refused.clone()),
        ("stale", signed(&lead(), now - 301), refused.clone()),
        ("from the future", signed(&lead(), now + 301), refused),
        ("nobody", Delivery { source: "nobody".into(), ..good() }, Rejection::UnknownSource),
        ("too large", Delivery { body: vec![b' '; 128 * 1024 + 1], ..good() }, Rejection::TooLarge),
        (
            "a form",
            Delivery { headers: [("content-type", "text/plain")].into_iter().collect(), ..good() },
            Rejection::UnsupportedMediaType,
        ),
        ("no JSON", signed_bytes(b"{\"type\":", now), Rejection::Malformed),
        ("deep", signed_bytes("[".repeat(10_000).as_bytes(), now), Rejection::Malformed),
        ("another type", signed(&json!({"type": "lead.deleted"}), now), Rejection::UnknownType),
        (
            "another type by path",
            Delivery { event_type: Some("lead.deleted".into()), ..good() },
            Rejection::TypeMismatch("/type".into()),
        ),
        ("no email", signed(&no_email, now), Rejection::Invalid(vec![violation("/data", "required")])),
    ] {
        assert_eq!(world.deliver(delivery).await.expect_err(why), expected, "{why}");
    }
    assert_eq!(world.ledger.writes(), 0);
    assert_eq!(world.events.depth(), 0);
}

fn violation(pointer: &str, rule: &str) -> shared::flows::contract::SchemaViolation {
    shared::flows::contract::SchemaViolation { pointer: pointer.into(), rule: rule.into() }
}

/// A header names the whole batch, and each event in it by its place.
#[tokio::test]
async fn each_event_of_a_batch_under_one_idempotency_key_is_its_own() {
    let keyed = |yaml: String| yaml.replace("key:\n  version: 1\n", "key:\n  version: 1\n  header: preferred\n");
    let world = World::with(flows_with(keyed));
    let under = |body: &Value, key: &str| {
        let delivery = signed(body, world.clock.now().secs());
        let signature = ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature"];
        let signature = signature.map(|name| (name, delivery.headers.get(name).unwrap_or_default().to_owned()));
        let headers = signature.into_iter().chain([("idempotency-key", key.to_owned())]).collect();
        Delivery { headers, ..delivery }
    };
    let send = async |leads: &[Value], key: &str| {
        let delivery = under(&json!(leads), key);
        let results = accept_batch(
            &world.intake,
            &WorkUnit::new(&*world.intake.metrics),
            delivery,
            Trace::start(1, 2, 3),
            world.clock.now(),
        )
        .await;
        results.expect("a batch").into_iter().map(one_event).collect::<Vec<_>>()
    };
    let leads =
        [lead_of("evt_1", "a@example.com"), lead_of("evt_2", "b@example.com"), lead_of("evt_1", "a@example.com")];
    let first: Vec<_> = send(&leads, "k-1").await.into_iter().map(|result| result.expect("accepted")).collect();
    assert!(first.iter().all(|receipt| !receipt.replayed), "{first:?}");
    let ids: BTreeSet<_> = first.iter().map(|receipt| receipt.id.clone()).collect();
    assert_eq!(ids.len(), 3, "also where two are alike");

    let again: Vec<_> = send(&leads, "k-1").await.into_iter().map(|result| result.expect("duplicates")).collect();
    assert!(again.iter().zip(&first).all(|(again, first)| again.replayed && again.id == first.id), "{again:?}");
    let swapped = send(&[leads[1].clone(), leads[0].clone()], "k-1").await;
    assert!(swapped.iter().all(|result| *result == Err(Rejection::KeyReused)), "{swapped:?}");
    let alone = world.deliver(under(&leads[0], "k-1")).await.expect("a good lead");
    assert!(!alone.replayed && !ids.contains(&alone.id), "the header of one event is no batch's");
}
