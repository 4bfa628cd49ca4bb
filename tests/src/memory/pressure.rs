//! What holds calls back, and that being held back is no attempt.

use std::time::Duration;

use shared::base::machine::Clock;
use shared::flows::Flows;
use shared::ledger::{Reason, State};
use shared::model::Script;

use super::world::World;
use crate::fixtures::{files, lead, lead_of};

/// The shipped flow with a partner that may be pressed only so hard.
fn pressed(pressure: &str) -> World {
    let mut files = files();
    files[1].text.push_str(pressure);
    World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")))
}

#[tokio::test]
async fn a_partner_without_limits_costs_no_call_more() {
    let world = World::new();
    world.post(&lead()).await.expect("a good lead");
    let limits = world.limits.writes();
    world.poll().await;
    assert_eq!((world.pressure.writes(), world.pressure.reads()), (0, 0));
    assert_eq!((world.limits.writes(), world.ledger.writes()), (limits, 1 + 2));
}

#[tokio::test]
async fn an_event_over_its_partners_rate_waits_and_that_is_no_attempt() {
    let world = pressed("  rate: {limit: 1/min, burst: 1}\n");
    let ids = [
        world.post(&lead_of("evt_1", "a@example.com")).await.expect("a good lead").id,
        world.post(&lead_of("evt_2", "b@example.com")).await.expect("a good lead").id,
        world.post(&lead_of("evt_3", "c@example.com")).await.expect("a good lead").id,
    ];
    let started = world.clock.now();
    world.drain().await;
    for id in &ids {
        let row = world.row(id).await;
        assert_eq!((row.state, row.effects["crm"].attempts), (State::Succeeded, 1));
    }
    let calls = world.partners.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls[2].0.since(started) >= Duration::from_secs(110), "one a minute");
    let stories = [world.story(&ids[0]).await, world.story(&ids[1]).await, world.story(&ids[2]).await].concat();
    assert!(stories.iter().any(|moment| moment.contains("rate spent")), "{stories:?}");
}

#[tokio::test]
async fn a_partner_that_fails_is_left_alone_and_tried_again() {
    let world = pressed("  breaker: {window: 30s, min_calls: 5, error_rate: 0.5, open_for: 60s, probes: 1}\n");
    world.partners.script(vec![Script::Status(503); 5]);
    let mut ids = Vec::new();
    for n in 0..20 {
        let lead = lead_of(&format!("evt_{n}"), &format!("person{n}@example.com"));
        ids.push(world.post(&lead).await.expect("a good lead").id);
    }
    world.poll().await;
    world.poll().await;
    let before = world.partners.calls().len();
    assert!(before < 20, "the breaker opened: {before} calls");
    world.drain().await;
    for id in &ids {
        assert_eq!(world.row(id).await.state, State::Succeeded);
    }
    assert_eq!(world.dead_letters.depth(), 0, "nobody spent its attempts on a partner that was down");
}

#[tokio::test]
async fn an_event_that_is_held_back_too_long_expires() {
    let world = pressed("  rate: {limit: 1/h, burst: 1}\n");
    for n in 0..40 {
        world.post(&lead_of(&format!("evt_{n}"), &format!("person{n}@example.com"))).await.expect("a good lead");
    }
    world.drain().await;
    let rows = world.ledger.rows();
    let succeeded = rows.iter().filter(|row| row.state == State::Succeeded).count();
    let expired =
        rows.iter().filter(|row| row.death.as_ref().is_some_and(|death| death.reason == Reason::Expired)).count();
    assert_eq!(succeeded + expired, 40);
    assert!((20..=26).contains(&succeeded), "about one an hour for a day: {succeeded}");
    assert!(rows.iter().all(|row| !row.in_doubt()), "what was held back was never called");
}

#[tokio::test]
async fn a_slot_is_given_back_whatever_comes_of_the_call() {
    let world = pressed("  concurrency: 1\n");
    world.partners.script([Script::Status(500), Script::Hang, Script::Status(400)]);
    for n in 0..6 {
        world.post(&lead_of(&format!("evt_{n}"), &format!("person{n}@example.com"))).await.expect("a good lead");
    }
    world.drain().await;
    let settled = world.ledger.rows().iter().filter(|row| matches!(row.state, State::Succeeded | State::Dead)).count();
    assert_eq!(settled, 6);
    assert!(world.partners.calls().len() >= 6);
}
