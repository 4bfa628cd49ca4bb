//! Looking over what is parked, plans, and the replay lane.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::base::machine::{Clock, Sleep};
use shared::ledger::{Progress, Records, Row, Rows, State};
use shared::model::{ModelClock, ModelLedger, Script};

use super::world::{World, flows_with, flows_without_breaker};
use crate::fixtures::{ADA, by_ada, lead_of};

async fn operate(world: &World, operation: Value) -> Value {
    replay::handle(&world.replay, operation).await
}

/// So many dead letters, each of its own contact, and a partner that is well again.
async fn with_dead(world: &World, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    world.partners.script(vec![Script::Status(400); count]);
    for n in 0..count {
        let lead = lead_of(&format!("evt_{n}"), &format!("{n}@example.com"));
        ids.push(world.post(&lead).await.expect("a good lead").id.to_string());
        world.drain().await;
        world.park().await;
        world.clock.advance(Duration::from_secs(1));
    }
    ids
}

/// Works on the lane and on the events until nothing is left to do, and says how long it took.
async fn run_lane(world: &World) -> Duration {
    let began = world.clock.now();
    for _ in 0..10_000 {
        world.park().await;
        world.poll().await;
        let next = [world.dead_letters.next_visible(), world.events.next_visible()].into_iter().flatten().min();
        match next {
            Some(at) => world.clock.advance(at.since(world.clock.now())),
            None if world.dead_letters.depth() + world.events.depth() == 0 => break,
            None => (),
        }
    }
    world.clock.now().since(began)
}

#[tokio::test]
async fn a_list_is_filtered_and_reasons_are_counted() {
    let world = World::new();
    with_dead(&world, 3).await;
    world.partners.script([Script::Panic]);
    let reasons = operate(&world, json!({"op": "reasons"})).await;
    assert_eq!((&reasons["reasons"][0]["reason"], &reasons["reasons"][0]["count"]), (&json!("terminal"), &json!(3)));
    for (only, count) in [
        (json!({"flow": "lead-routing"}), 3),
        (json!({"flow": "other"}), 0),
        (json!({"reason": "terminal", "error": "400"}), 3),
        (json!({"reason": "expired"}), 0),
        (json!({"state": "awaiting_approval"}), 0),
        (json!({"since": world.clock.now().millis()}), 0),
    ] {
        let list = operate(&world, json!({"op": "list", "only": only})).await;
        assert_eq!(list["matching"], count, "{only}");
    }
    let wrong = operate(&world, json!({"op": "list", "only": {"flows": "x"}})).await;
    assert!(wrong["error"].to_string().contains("unknown field `flows`"), "{wrong}");
}

#[tokio::test]
async fn a_plan_says_what_would_be_done_and_apply_does_exactly_that() {
    let world = World::new();
    let ids = with_dead(&world, 2).await;
    let plan = operate(&world, json!({"op": "plan", "ids": ids})).await;
    assert_eq!(plan["events"][0]["steps"], json!([{"effect": "crm", "fate": "run"}]), "{plan}");
    assert_eq!(plan["events"][0]["blocked"], json!(null));
    assert_eq!(world.partners.calls().len(), 2, "nothing happens by making a plan");
    let oldest = operate(&world, json!({"op": "plan", "only": {"flow": "lead-routing"}, "max": 1})).await;
    assert_eq!(oldest["events"][0]["id"], ids[0].as_str(), "as a batch would take them");

    let events: Vec<Value> = (0..2).map(|n| json!({"id": ids[n], "hash": plan["events"][n]["hash"]})).collect();
    let applied = operate(&world, by_ada(json!({"op": "apply", "events": events}))).await;
    assert_eq!(applied["applied"][1]["state"], "queued", "{applied}");
    let again = operate(&world, by_ada(json!({"op": "apply", "events": events}))).await;
    assert!(again["error"].to_string().contains("have changed since"), "{again}");
    assert_eq!(again["changed"].as_array().map(Vec::len), Some(2), "it shows what changed");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 4, "each once");
}

/// What nobody can replay takes no place in a plan from what a batch would replay.
#[tokio::test]
async fn a_plan_begins_with_what_a_batch_would_take() {
    let world = World::new();
    let ids = with_dead(&world, 3).await;
    come_to(&world, &ids[0], &Progress::Unknown { error: "no answer".into() }).await;
    for (max, planned) in [(2, vec![1, 2]), (3, vec![1, 2, 0])] {
        let plan = operate(&world, json!({"op": "plan", "max": max})).await;
        let found: Vec<&Value> = plan["events"].as_array().into_iter().flatten().map(|event| &event["id"]).collect();
        assert_eq!(found, planned.into_iter().map(|n: usize| ids[n].as_str()).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_batch_goes_slowly_and_replays_each_once() {
    let world = World::new();
    let ids = with_dead(&world, 12).await;
    let batch = operate(&world, by_ada(json!({"op": "batch", "only": {"flow": "lead-routing"}, "max": 10}))).await;
    assert_eq!(batch["progress"], "running", "{batch}");
    let took = run_lane(&world).await;
    assert!(took >= Duration::from_secs(9 * 12), "five a minute: {took:?}");
    assert_eq!(world.partners.calls().len(), 12 + 10, "as many as it may, each once");
    let mut states = Vec::new();
    for id in &ids {
        states.push(state(&world, id).await);
    }
    assert_eq!(states.iter().filter(|state| **state == State::Succeeded).count(), 10);
    assert_eq!(states[10..], [State::Dead, State::Dead], "the oldest first");
    let status = operate(&world, json!({"op": "status"})).await;
    assert_eq!((&status["batches"][0]["progress"], &status["batches"][0]["replayed"]), (&json!("done"), &json!(10)));
}

#[tokio::test]
async fn a_batch_can_be_stopped_and_what_dies_again_is_left_alone() {
    let world = World::new();
    with_dead(&world, 5).await;
    world.partners.script(vec![Script::Status(400); 50]);
    let batch = operate(&world, by_ada(json!({"op": "batch", "max": 100, "rate": 60}))).await;
    run_lane(&world).await;
    assert_eq!(world.partners.calls().len(), 5 + 5, "what died again after the batch began is not part of it");

    let batch_two = operate(&world, by_ada(json!({"op": "batch", "max": 100}))).await;
    assert_ne!(batch["id"], batch_two["id"]);
    let stopped = operate(&world, by_ada(json!({"op": "stop", "batch": batch_two["id"]}))).await;
    assert_eq!(stopped["progress"], "stopped", "{stopped}");
    let status = operate(&world, json!({"op": "status"})).await;
    assert_eq!(status["batches"][0]["stopped_by"], "ada: the CRM is back");
    run_lane(&world).await;
    assert_eq!(world.partners.calls().len(), 10);
}

#[tokio::test]
async fn the_schedule_lets_questions_lapse_and_replays_what_may_have_healed() {
    let world = World::without_breaker();
    world.partners.script(vec![Script::Status(429); 3]);
    let id = world.post(&lead_of("evt_1", "ada@example.com")).await.expect("a good lead").id;
    world.drain().await;
    world.park().await;
    let scheduled = operate(&world, json!({"op": "schedule"})).await;
    assert_eq!(scheduled["opened"].as_array().map(Vec::len), Some(1), "{scheduled}");
    run_lane(&world).await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert!(world.story(&id).await.iter().any(|moment| moment.starts_with("replay 1 by schedule (batch")));
}

#[tokio::test]
async fn the_schedule_gives_up_where_nothing_heals_and_leaves_alone_what_was_refused() {
    let world = World::with(flows_without_breaker(|yaml| yaml));
    let refused = with_dead(&world, 1).await.remove(0);
    world.partners.script(vec![Script::Status(429); 100]);
    let failed = world.post(&lead_of("evt_failed", "ada@example.com")).await.expect("a good lead").id;
    world.drain().await;
    world.park().await;
    for replays in [1, 2, 3, 3] {
        operate(&world, json!({"op": "schedule"})).await;
        run_lane(&world).await;
        assert_eq!(world.row(&failed).await.replay, replays);
    }
    assert_eq!(world.row(&EventId::named(refused.as_str())).await.replay, 0);
}

#[tokio::test]
async fn the_schedule_replays_at_most_twenty_and_nothing_of_a_flow_that_does_not_want_it() {
    for (written, replayed) in [("", 20), ("auto_replay: false\n", 0)] {
        let flows = flows_without_breaker(|yaml| yaml.replace("ttl: 24h", &format!("{written}ttl: 24h")));
        let world = World::with(flows);
        world.partners.script(vec![Script::Status(429); 25 * 3]);
        for n in 0..25 {
            let lead = lead_of(&format!("evt_{n}"), &format!("{n}@example.com"));
            world.post(&lead).await.expect("a good lead");
            world.drain().await;
            world.park().await;
        }
        operate(&world, json!({"op": "schedule"})).await;
        run_lane(&world).await;
        assert_eq!(world.partners.calls().len(), 25 * 3 + replayed, "{written}");
    }
}

/// A batch and its tick, as a crash between the two leaves them, and all ticks lost.
async fn opened_without_a_tick(world: &World, only: Value) -> Value {
    let batch = operate(world, by_ada(json!({"op": "batch", "only": only}))).await;
    for delivered in world.dead_letters.receive(10) {
        world.dead_letters.delete(&delivered.receipt);
    }
    batch
}

#[tokio::test]
async fn a_batch_whose_tick_was_lost_is_driven_on_by_the_schedule() {
    let world = World::new();
    let ids = with_dead(&world, 1).await;
    opened_without_a_tick(&world, json!({})).await;
    world.clock.advance(Duration::from_secs(600));
    run_lane(&world).await;
    assert_eq!(state(&world, &ids[0]).await, State::Dead, "nothing drives it");
    operate(&world, json!({"op": "schedule"})).await;
    run_lane(&world).await;
    assert_eq!(state(&world, &ids[0]).await, State::Succeeded);
    let status = operate(&world, json!({"op": "status"})).await;
    assert_eq!(status["batches"][0]["progress"], "done");
}

#[tokio::test]
async fn any_tick_drives_the_oldest_batch_and_the_others_after_it() {
    let world = World::new();
    with_dead(&world, 2).await;
    opened_without_a_tick(&world, json!({"reason": "expired"})).await;
    operate(&world, by_ada(json!({"op": "batch", "rate": 600}))).await;
    operate(&world, by_ada(json!({"op": "batch", "max": 1}))).await;
    run_lane(&world).await;
    let status = operate(&world, json!({"op": "status"})).await;
    let batches = status["batches"].as_array().expect("a list");
    let ends: Vec<_> = batches.iter().map(|batch| (&batch["progress"], &batch["replayed"])).collect();
    assert_eq!(ends, [(&json!("done"), &json!(0)), (&json!("done"), &json!(2)), (&json!("done"), &json!(0))]);
}

/// What is older than a crowd of others is reached, too.
#[tokio::test]
async fn a_batch_comes_to_what_it_wants_behind_many_that_it_does_not() {
    let world = World::new();
    world.partners.script(vec![Script::Status(422); 150]);
    for n in 0..150 {
        world.post(&lead_of(&format!("other_{n}"), &format!("o{n}@example.com"))).await.expect("a good lead");
    }
    while world.events.depth() + world.dead_letters.depth() > 0 {
        world.poll().await;
        world.park().await;
    }
    world.clock.advance(Duration::from_secs(1));
    let ids = with_dead(&world, 1).await;
    operate(&world, by_ada(json!({"op": "batch", "only": {"error": "400"}}))).await;
    run_lane(&world).await;
    assert_eq!(state(&world, &ids[0]).await, State::Succeeded);
    assert_eq!(world.partners.calls().len(), 150 + 1 + 1, "and no other is replayed");
}

#[tokio::test]
async fn what_was_replayed_and_never_sent_is_sent_by_the_schedule() {
    let world = World::new();
    let ids = with_dead(&world, 1).await;
    never_sent(&world, &ids[0]).await;
    let scheduled = operate(&world, json!({"op": "schedule"})).await;
    assert_eq!(scheduled["sent"], 1, "{scheduled}");
    world.drain().await;
    assert_eq!(state(&world, &ids[0]).await, State::Succeeded);
    assert_eq!(operate(&world, json!({"op": "schedule"})).await["sent"], 0);
}

/// Another operator replays an event while a tick is at work, and it dies again.
struct Meanwhile {
    clock: ModelClock,
    ledger: ModelLedger,
    id: EventId,
}

#[async_trait]
impl Sleep for Meanwhile {
    async fn sleep(&self, time: Duration) {
        self.clock.advance(time);
        let row = self.ledger.row(&self.id).await.expect("an answer").expect("a row");
        if row.replay == 0 {
            let kept = self.ledger.kept(&self.id).await.expect("an answer").expect("a payload");
            self.ledger.keep(&Event { replay: 1, ..kept }, 0).await.expect("an answer");
            let now = self.clock.now();
            self.ledger.overwrite(&row.replayed(ADA, now).expect("it is dead").park(now));
        }
    }
}

#[tokio::test]
async fn what_died_again_while_a_tick_was_at_work_is_neither_counted_nor_passed() {
    let mut world = World::new();
    let ids = with_dead(&world, 3).await;
    let (clock, ledger, id) = (world.clock.clone(), world.ledger.clone(), EventId::named(&ids[1]));
    world.replay.sleep = Box::new(Meanwhile { clock, ledger, id });
    operate(&world, by_ada(json!({"op": "batch", "rate": 600}))).await;
    run_lane(&world).await;
    let status = operate(&world, json!({"op": "status"})).await;
    let batch = &status["batches"][0];
    assert_eq!((&batch["progress"], &batch["replayed"]), (&json!("done"), &json!(2)), "{batch}");
    assert!(batch["passed"].as_i64() <= batch["started_at"].as_i64(), "{batch}");
    assert_eq!(state(&world, &ids[2]).await, State::Succeeded);
    assert_eq!(row(&world, &ids[1]).await.replay, 1, "it is the other operator's");
}

/// The schedule looks at both ends: what is oldest a batch takes first.
#[tokio::test]
async fn what_was_never_sent_is_found_behind_thousands_that_are_newer() {
    let world = World::new();
    let ids = with_dead(&world, 1).await;
    let dead = row(&world, &ids[0]).await;
    never_sent(&world, &ids[0]).await;
    for n in 0..5_000 {
        let id = EventId::named(format!("{n}"));
        world.ledger.overwrite(&Row { id, ..dead.clone() }.park(world.clock.now() + Duration::from_secs(1)));
    }
    let scheduled = operate(&world, json!({"op": "schedule"})).await;
    assert_eq!(scheduled["sent"], 1, "{scheduled}");
}

/// What is stale stays parked. It must not be taken for what may have healed, time after time.
#[tokio::test]
async fn the_schedule_opens_no_batch_for_what_is_stale() {
    let world = World::with(flows_with(|yaml| yaml.replace("\nttl:", "\nlatest_wins: true\nttl:")));
    world.partners.script(vec![Script::Status(500); 3]);
    world.post(&lead_of("evt_old", "0@example.com")).await.expect("a good lead");
    world.drain().await;
    world.park().await;
    world.clock.advance(Duration::from_secs(1));
    world.post(&lead_of("evt_newer", "0@example.com")).await.expect("a good lead");
    world.drain().await;
    let scheduled = operate(&world, json!({"op": "schedule"})).await;
    assert_eq!(scheduled["opened"], json!([]), "{scheduled}");
}

/// Its calls may have happened, and its partner has forgotten our key: a replay would not call it.
#[tokio::test]
async fn a_plan_does_not_promise_what_the_processor_would_refuse() {
    let world = World::without_breaker();
    world.partners.script(vec![Script::Status(500); 3]);
    let id = world.post(&lead_of("evt_1", "0@example.com")).await.expect("a good lead").id.to_string();
    world.drain().await;
    world.park().await;
    let fate = async || operate(&world, json!({"op": "plan", "ids": [id]})).await["events"][0].clone();
    assert_eq!((&fate().await["steps"][0]["fate"], &fate().await["blocked"]), (&json!("run"), &json!(null)));
    world.clock.advance(Duration::from_secs(90 * 24 * 3600));
    let later = fate().await;
    assert_eq!(
        (&later["steps"][0]["fate"], &later["blocked"]),
        (
            &json!("unknown"),
            &json!("the outcome of `crm` is unknown: look in the partner's records, then `resolve` it")
        )
    );
}

/// What a newer event has overtaken costs a batch nothing.
#[tokio::test]
async fn a_batch_is_not_spent_on_what_is_stale() {
    let world = World::with(flows_with(|yaml| yaml.replace("\nttl:", "\nlatest_wins: true\nttl:")));
    let stale = with_dead(&world, 1).await;
    world.post(&lead_of("evt_newer", "0@example.com")).await.expect("a good lead");
    world.drain().await;
    let lead = lead_of("evt_other", "other@example.com");
    world.partners.script([Script::Status(400)]);
    let other = world.post(&lead).await.expect("a good lead").id.to_string();
    world.drain().await;
    world.park().await;
    operate(&world, by_ada(json!({"op": "batch", "max": 1}))).await;
    run_lane(&world).await;
    assert_eq!(state(&world, &other).await, State::Succeeded);
    assert_eq!(state(&world, &stale[0]).await, State::Dead);
}

/// A worker crashed during the call, and the queue gave up: a replay could find out, but the plan held it back.
#[tokio::test]
async fn an_apply_sends_nothing_that_its_plan_held_back() {
    let world = World::new();
    let ids = with_dead(&world, 1).await;
    come_to(&world, &ids[0], &Progress::Intent).await;
    let plan = operate(&world, json!({"op": "plan", "ids": ids})).await;
    assert_eq!(plan["events"][0]["steps"], json!([{"effect": "crm", "fate": "unknown"}]));
    let events = json!([{"id": ids[0], "hash": plan["events"][0]["hash"]}]);
    let applied = operate(&world, by_ada(json!({"op": "apply", "events": events}))).await;
    assert!(applied["applied"][0]["error"].to_string().contains("is unknown"), "{applied}");
    assert_eq!(state(&world, &ids[0]).await, State::Dead);
}

#[tokio::test]
async fn a_batch_that_has_ended_is_not_stopped() {
    let world = World::new();
    let batch = operate(&world, by_ada(json!({"op": "batch"}))).await;
    run_lane(&world).await;
    let refused = operate(&world, by_ada(json!({"op": "stop", "batch": batch["id"]}))).await;
    assert!(refused["error"].to_string().contains("is done"), "{refused}");
}

/// Every effect of the event came to this.
async fn come_to(world: &World, id: &str, progress: &Progress) {
    let seen = row(world, id).await;
    let mut next = seen.clone();
    next.step += 1;
    next.effects.values_mut().for_each(|entry| entry.progress = progress.clone());
    world.ledger.replace(Some(&seen), &next).await.expect("nobody else writes");
}

/// The event is replayed, and the worker is lost before it sends the message.
async fn never_sent(world: &World, id: &str) {
    let seen = row(world, id).await;
    let next = seen.clone().replayed(ADA, world.clock.now()).expect("it is dead");
    world.ledger.replace(Some(&seen), &next).await.expect("nobody else writes");
}

async fn row(world: &World, id: &str) -> Row {
    world.row(&EventId::named(id)).await
}

async fn state(world: &World, id: &str) -> State {
    row(world, id).await.state
}
