//! The stale guard: what a newer event of its entity has overtaken is not replayed.

use std::time::Duration;

use replay::handle;
use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::ledger::{Reason, Row, State};
use shared::model::Script;

use super::world::{World, flows_without_breaker};
use crate::fixtures::lead_of;

fn latest_wins() -> World {
    World::with(flows_without_breaker(|yaml| yaml.replace("\nttl:", "\nlatest_wins: true\nttl:")))
}

async fn post(world: &World, name: &str) -> EventId {
    world.clock.advance(Duration::from_secs(1));
    world.post(&lead_of(name, "ada@example.com")).await.expect("a good lead").id
}

/// An event that its partner refused for good, parked.
async fn parked(world: &World, name: &str) -> EventId {
    world.partners.script([Script::Status(422)]);
    let id = post(world, name).await;
    world.drain().await;
    world.park().await;
    id
}

async fn replay(world: &World, id: &EventId) -> Value {
    handle(&world.replay, json!({"op": "replay", "id": id, "by": "ada", "reason": "it is mended"})).await
}

async fn blocked(world: &World, id: &EventId) -> Value {
    handle(&world.replay, json!({"op": "plan", "ids": [id]})).await["events"][0]["blocked"].clone()
}

fn reason(row: &Row) -> Option<Reason> {
    row.death.as_ref().map(|death| death.reason)
}

#[tokio::test]
async fn what_a_newer_event_has_overtaken_is_planned_as_blocked_and_not_replayed() {
    let world = latest_wins();
    let older = parked(&world, "older").await;
    assert_eq!(blocked(&world, &older).await, Value::Null);
    let newer = post(&world, "newer").await;
    world.drain().await;
    assert_eq!(world.row(&newer).await.state, State::Succeeded);

    let why = blocked(&world, &older).await.to_string();
    assert!(why.contains("a newer event of the same entity was applied"), "{why}");
    let refused = replay(&world, &older).await["error"].to_string();
    assert!(refused.contains("is stale"), "{refused}");
    assert_eq!((world.row(&older).await.state, world.row(&older).await.replay), (State::Dead, 0), "nothing changed");
    let dropped = json!({"op": "drop", "id": older, "by": "ada", "reason": "overtaken"});
    assert_eq!(handle(&world.replay, dropped).await["state"], "dropped");
}

/// The newer event was still on the queue when the operator looked.
#[tokio::test]
async fn what_is_overtaken_on_the_queue_is_held_back_by_the_processor() {
    let world = latest_wins();
    let older = parked(&world, "older").await;
    let newer = post(&world, "newer").await;
    assert_eq!(replay(&world, &older).await["state"], "queued", "nobody could know");
    world.drain().await;
    world.park().await;
    assert_eq!(world.row(&newer).await.state, State::Succeeded);
    let row = world.row(&older).await;
    assert_eq!((row.state, reason(&row)), (State::Dead, Some(Reason::Stale)), "{:?}", row.history);
    let calls = world.partners.calls();
    let paths: Vec<&str> = calls.iter().map(|(_, request)| request.path.as_str()).collect();
    assert_eq!(paths, ["/leads/older", "/leads/newer"], "the older one was called in its turn alone");
}

#[tokio::test]
async fn a_newer_event_that_was_not_applied_overtakes_nobody() {
    let world = latest_wins();
    let older = parked(&world, "older").await;
    let newer = parked(&world, "newer").await;
    replay(&world, &older).await;
    world.drain().await;
    assert_eq!(world.row(&older).await.state, State::Succeeded);
    replay(&world, &newer).await;
    world.drain().await;
    assert_eq!(world.row(&newer).await.state, State::Succeeded, "nor does an older one");
}

#[tokio::test]
async fn where_the_latest_does_not_win_every_replay_runs() {
    let world = World::new();
    let older = parked(&world, "older").await;
    post(&world, "newer").await;
    world.drain().await;
    replay(&world, &older).await;
    world.drain().await;
    assert_eq!(world.row(&older).await.state, State::Succeeded);
}

/// An event whose first delivery comes late has not been overtaken: the queue keeps the order.
#[tokio::test]
async fn a_retry_in_its_turn_is_not_judged() {
    let world = latest_wins();
    world.partners.script([Script::Status(500)]);
    let older = post(&world, "older").await;
    let newer = post(&world, "newer").await;
    world.drain().await;
    assert_eq!(world.row(&older).await.state, State::Succeeded);
    assert_eq!(world.row(&newer).await.state, State::Succeeded);
}

/// A call that may have happened is not hidden behind another reason.
#[tokio::test]
async fn a_doubt_is_said_although_the_event_is_stale() {
    let world = latest_wins();
    world.partners.script(vec![Script::Hang; 3]);
    let older = post(&world, "older").await;
    world.drain().await;
    world.park().await;
    let newer = post(&world, "newer").await;
    assert_eq!(replay(&world, &older).await["state"], "queued");
    world.drain().await;
    assert_eq!(world.row(&newer).await.state, State::Succeeded);
    assert_eq!(reason(&world.row(&older).await), Some(Reason::UnknownOutcome));
}
