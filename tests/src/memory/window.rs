//! What is close in time is one event, on both sides of every edge and in every order.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use intake::{Receipt, Rejection};
use serde_json::{Value, json};
use shared::arrival::key::KeyError;
use shared::base::time::Timestamp;
use shared::ledger::{Reason, State};

use super::flows::{cart, shipped};
use super::world::{World, flows_with};
use crate::fixtures::{NOW, lead_of, payload};

/// The two moments of the incident: two seconds apart, on both sides of an edge of every grid of five minutes.
const EDGE: [&str; 2] = ["2026-11-16T09:04:59Z", "2026-11-16T09:05:01Z"];

/// How many codes were made, and how many emails were sent.
fn codes_and_emails(world: &World) -> (usize, usize) {
    let calls = world.partners.calls();
    let of = |name: &str| calls.iter().filter(|(_, request)| request.integration == name).count();
    (of("discounts"), of("email"))
}

async fn abandon(world: &World, at: &str, cart_id: &str) -> Result<Receipt, Rejection> {
    let mut body = payload("cart-abandoned.json");
    body["abandoned_at"] = json!(at);
    body["cart_id"] = json!(cart_id);
    world.send("storefront", Some("cart.abandoned"), &body, &[]).await
}

#[tokio::test]
async fn a_cart_on_both_sides_of_an_edge_makes_one_code() {
    let [before, after] = EDGE;
    for (first, second) in [(before, after), (after, before), (before, before), (after, after)] {
        let world = shipped().await;
        let one = abandon(&world, first, "cart_1").await.expect("a good cart");
        let other = abandon(&world, second, "cart_2").await.expect("a good cart");
        assert_eq!((&other.id, one.replayed, other.replayed), (&one.id, false, true), "{first}, then {second}");
        world.drain().await;
        // And again, once it is done.
        let late = abandon(&world, first, "cart_3").await.expect("a good cart");
        assert!(late.replayed && late.result.is_some(), "{first}, then {second}");
        world.drain().await;
        assert_eq!(world.row(&one.id).await.state, State::Succeeded);
        assert_eq!(codes_and_emails(&world), (1, 1), "{first}, then {second}");
    }
}

#[tokio::test]
async fn carts_at_the_same_moment_make_one_code() {
    let world = shipped().await;
    let carts = (0..20).map(|n| (EDGE[n % 2], format!("cart_{n}")));
    let carts: Vec<_> = carts.collect();
    let receipts = join_all(carts.iter().map(|(at, id)| abandon(&world, at, id))).await;
    let ids: BTreeSet<_> = receipts.into_iter().map(|receipt| receipt.expect("a good cart").id).collect();
    assert_eq!(ids.len(), 1);
    world.drain().await;
    assert_eq!(codes_and_emails(&world), (1, 1));
}

#[tokio::test]
async fn carts_that_are_far_apart_make_a_code_each() {
    let world = shipped().await;
    let first = cart(&world, json!({"abandoned_at": "2026-11-16T09:00:00Z"})).await;
    let last = cart(&world, json!({"abandoned_at": "2026-11-16T09:06:00Z"})).await;
    // Five minutes from the first, and one from the last: the earlier one has it.
    let between = cart(&world, json!({"abandoned_at": "2026-11-16T09:05:00Z"})).await;
    let after = cart(&world, json!({"abandoned_at": "2026-11-16T09:05:01Z"})).await;
    assert_ne!(first, last);
    assert_eq!((between, after), (first, last));
    world.drain().await;
    assert_eq!(codes_and_emails(&world), (2, 2));
}

/// A write for the anchor and one for the row, where a flow has a window; the row's alone where it has none.
#[tokio::test]
async fn a_window_costs_one_write() {
    let world = shipped().await;
    let writes = |world: &World| (world.windows.writes(), world.ledger.writes());
    cart(&world, json!({"abandoned_at": EDGE[0]})).await;
    assert_eq!(writes(&world), (1, 1), "a new event");
    cart(&world, json!({"abandoned_at": EDGE[1]})).await;
    assert_eq!(writes(&world), (2, 2), "a repetition: both fail");
    cart(&world, json!({"abandoned_at": "2026-11-16T08:00:00Z"})).await;
    assert_eq!(writes(&world), (4, 3), "a new event that is older than the newest");
    let plain = World::new();
    plain.post(&lead_of("evt_1", "ada@example.com")).await.expect("a good lead");
    plain.drain().await;
    assert_eq!(writes(&plain), (0, 3), "the admission, the claim, the outcome");
}

/// The plain flow with a window in its key.
fn windowed(window: &str) -> World {
    World::with(flows_with(|text| text.replace("key:\n", &format!("key:\n  window: {window}\n"))))
}

fn lead(n: usize) -> Value {
    let mut lead = lead_of("evt_1", "ada@example.com");
    lead["data"]["campaign"] = json!(format!("{n}"));
    lead
}

#[tokio::test]
async fn without_a_field_the_moment_is_that_of_reception() {
    let world = windowed("5m");
    let first = world.post(&lead(1)).await.expect("a good lead").id;
    world.clock.advance(Duration::from_secs(300));
    assert_eq!(world.post(&lead(2)).await.expect("a good lead").id, first);
    world.clock.advance(Duration::from_secs(1));
    let second = world.post(&lead(3)).await.expect("a good lead");
    assert!(second.id != first && !second.replayed);
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 2);
}

#[tokio::test]
async fn a_silly_moment_is_rejected_and_changes_nothing() {
    let world = shipped().await;
    let day = Duration::from_secs(24 * 3600);
    let ahead = |by: Duration| (NOW + by).to_string();
    let rejected = abandon(&world, &ahead(day + Duration::from_secs(1)), "cart_1").await;
    assert_eq!(rejected, Err(Rejection::Unkeyed(KeyError::MomentAhead)));
    assert_eq!((world.windows.writes(), world.ledger.writes(), world.events.depth()), (0, 0, 0));
    assert!(abandon(&world, &ahead(day), "cart_1").await.is_ok(), "a sender may take its own time for UTC");
    let now = abandon(&world, &NOW.to_string(), "cart_1").await.expect("a good cart");
    assert!(!now.replayed, "what is far ahead has nothing to do with it");
}

/// The flow parks a shape that it does not take, and leaves no anchor for it.
#[tokio::test]
async fn what_is_no_moment_is_parked() {
    let world = shipped().await;
    let id = abandon(&world, "soon", "cart_1").await.expect("it is parked").id;
    let death = world.row(&id).await.death.expect("it is dead");
    assert_eq!(death.reason, Reason::Invalid);
    assert!(death.error.contains("`abandoned_at` must be a moment"), "{}", death.error);
    assert_eq!((world.windows.writes(), world.events.depth()), (0, 0));
}

/// The sender of a moment that is older than everything that is remembered is told so, instead of a guess.
#[tokio::test]
async fn what_may_be_forgotten_is_not_taken_for_new() {
    let world = shipped().await;
    let hour = |n: i64| Timestamp::from_secs(NOW.secs() - (100 - n) * 3600).to_string();
    for n in 0..65 {
        assert!(!abandon(&world, &hour(n), "cart_1").await.expect("a good cart").replayed, "{n}");
        // The sender's rate has its time to recover.
        world.clock.advance(Duration::from_secs(1));
    }
    let rows = world.ledger.rows().len();
    let forgotten = abandon(&world, &hour(3), "cart_1").await;
    assert_eq!(forgotten, Err(Rejection::Unkeyed(KeyError::MomentForgotten)));
    assert_eq!(world.ledger.rows().len(), rows);
    assert!(abandon(&world, &hour(40), "cart_1").await.expect("a good cart").replayed);
}
