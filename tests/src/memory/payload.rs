//! One event, one payload: from the first effect to the last, over replays, and as the plan showed it.

use std::collections::BTreeMap;
use std::time::Duration;

use replay::{Operation, PlanSeen, operate};
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::base::machine::Clock;
use shared::base::retention::{DEDUPLICATION_WINDOW, QUEUE_RETENTION};
use shared::ledger::batch::Filter;
use shared::ledger::plan::Plan;
use shared::ledger::{Reason, State};
use shared::model::{ModelQueue, Script};

use super::faults::OutOfService;
use super::world::World;
use crate::fixtures::lead;

/// The lead of the sender that edits what it repeats.
fn edited(campaign: &str) -> Value {
    let mut lead = lead();
    lead["data"]["campaign"] = campaign.into();
    lead
}

async fn post(world: &World, campaign: &str) -> EventId {
    world.post(&edited(campaign)).await.expect("a good lead").id
}

/// The campaigns that the partner was told of, in order.
fn told(world: &World) -> Vec<Value> {
    let calls = world.partners.calls().into_iter();
    calls.map(|(_, request)| request.json().expect("a body")["campaign"].clone()).collect()
}

/// The event's message that waits on the queue, as a dead letter with another campaign.
fn letter(world: &World, event: &Event, campaign: &str) {
    let mut payload = event.payload.clone();
    payload["data"]["campaign"] = campaign.into();
    let fingerprint = Some(shared::arrival::key::fingerprint(&payload));
    put(&world.dead_letters, &Event { payload, fingerprint, ..event.clone() });
}

fn put(queue: &ModelQueue, event: &Event) {
    let body = serde_json::to_string(event).expect("an event is JSON");
    queue.put(&event.group, &event.deduplication_id(), &body, BTreeMap::new()).expect("SQS takes it");
}

/// The first message on the queue.
fn waiting(world: &World) -> Event {
    serde_json::from_str(&world.events.receive(1)[0].body).expect("an event")
}

#[tokio::test]
async fn a_partner_gets_what_the_plan_showed_whatever_a_sender_repeats() {
    let world = World::without_breaker();
    let id = post(&world, "first").await;
    post(&world, "before the claim").await;
    assert_eq!(world.events.depth(), 2, "the claim decides between them");
    world.partners.script(vec![Script::Status(429); 3]);
    world.poll().await;
    post(&world, "while it is retried").await;
    world.drain().await;
    post(&world, "when it is dead").await;
    world.park().await;
    post(&world, "when it is parked").await;

    let plan = Operation::Plan { ids: vec![id.clone()], only: Filter::default(), max: 1, with_new: false };
    let plan = operate(&world.replay, plan).await.expect("a plan");
    let kept = world.ledger.payload(&id).expect("it is kept");
    let flow = world.replay.flows.flow("lead-routing").expect("the flow");
    let shown = Plan::of(flow, &kept, &world.row(&id).await).steps[0].what["body"].clone();
    post(&world, "when it is planned").await;
    let hash = plan["events"][0]["hash"].as_str().expect("a hash").to_owned();
    let events = vec![PlanSeen { id: id.clone(), hash }];
    operate(
        &world.replay,
        Operation::Apply { events, by: "ada".into(), reason: "the CRM is back".into(), with_new: false },
    )
    .await
    .expect("an applied plan");
    post(&world, "when it is replayed").await;
    // A copy under the replay's own number would be swallowed only for so long.
    world.clock.advance(DEDUPLICATION_WINDOW + Duration::from_secs(1));
    post(&world, "when the queue has forgotten its number").await;
    assert_eq!(world.events.depth(), 1, "the replay is the only message");
    world.drain().await;

    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(told(&world), ["first"; 4]);
    assert_eq!(world.partners.calls()[3].1.json(), Some(shown));
}

#[tokio::test]
async fn a_sender_that_edits_loses_nothing_when_the_first_message_was_never_sent() {
    let mut world = World::new();
    let queue = std::mem::replace(&mut world.intake.queue, Box::new(OutOfService));
    world.post(&edited("first")).await.expect_err("the queue is down");
    world.intake.queue = queue;
    let id = post(&world, "second").await;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(told(&world), ["second"]);
}

#[tokio::test]
async fn a_letter_of_another_payload_buries_nothing() {
    let world = World::without_breaker();
    let id = post(&world, "first").await;
    let event = waiting(&world);
    world.clock.advance(Duration::from_secs(200));
    world.partners.script(vec![Script::Status(429); 3]);
    world.poll().await;
    letter(&world, &event, "while it is retried");
    world.clock.advance(Duration::from_secs(200));
    assert!(world.park().await.is_empty(), "the letter is deleted");
    assert_eq!(world.row(&id).await.state, State::Retrying);
    assert_eq!(world.ledger.payload(&id), None);

    world.drain().await;
    letter(&world, &event, "before its own letter");
    assert!(world.park().await.is_empty());
    assert_eq!(world.ledger.payload(&id), Some(event), "its own letter is parked");
}

/// The message of the first delivery may never have been sent.
#[tokio::test]
async fn the_letter_of_a_message_that_was_never_claimed_is_parked() {
    let world = World::new();
    let id = post(&world, "first").await;
    letter(&world, &waiting(&world), "second");
    assert!(world.park().await.is_empty());
    let row = world.row(&id).await;
    assert_eq!(row.death.expect("it is dead").reason, Reason::Undelivered);
    assert_eq!(world.ledger.payload(&id).expect("it is kept").fingerprint, Some(row.fingerprint));

    let replay = json!({"op": "replay", "id": id, "by": "ada", "reason": "the deploy is back"});
    ::replay::handle(&world.replay, replay).await;
    world.clock.advance(Duration::from_secs(200));
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(told(&world), ["second"]);
}

#[tokio::test]
async fn an_event_whose_message_is_lost_is_accepted_anew() {
    let world = World::new();
    let id = post(&world, "first").await;
    let lost = world.events.receive(1)[0].clone();
    world.events.delete(&lost.receipt);
    world.clock.advance(QUEUE_RETENTION + Duration::from_secs(1));
    let again = world.post(&edited("second")).await.expect("a good lead");
    assert_eq!((again.id, again.replayed), (id.clone(), false));
    assert_eq!(world.row(&id).await.queued_at, world.clock.now());
    world.drain().await;
    assert_eq!(told(&world), ["second"]);
}
