//! What is counted of a delivery, of a message, and of a replay.

use std::time::Duration;

use replay::{Operation, handle, operate};
use serde_json::json;
use shared::base::machine::Clock;
use shared::ledger::queue::Queue;
use shared::model::Script;

use super::faults::OutOfService;
use super::http::{BATCH, HttpRequest, RECEIPT};
use super::world::{World, flows_with, flows_without_breaker};
use crate::fixtures::{by_ada, event, lead, lead_of};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn with_slo(yaml: String) -> String {
    yaml.replace("\neffects:", "\nslo: {p95: 2s, success: 99.9%}\neffects:")
}

fn sums<const N: usize>(world: &World, names: [&str; N]) -> [u64; N] {
    names.map(|name| world.metrics.sum(name))
}

#[tokio::test]
async fn deliveries_are_counted_by_what_becomes_of_them() {
    let world = World::new();
    let body = lead().to_string();
    let good = HttpRequest::of(&world, body.as_bytes());
    good.clone().send(&world).await;
    good.clone().send(&world).await;
    good.clone().with("webhook-signature", "v1,bm8=").send(&world).await;
    good.to("POST /v1/events/{source}", "source", "<script>stranger").send(&world).await;
    let told = ["Accepted{web-forms}", "Duplicates{web-forms}", "Accepted{}", "Duplicates{}"];
    assert_eq!(sums(&world, told), [1, 1, 1, 1]);
    let rejected = [
        "Rejected{web-forms,bad-signature}",
        "Rejected{bad-signature}",
        "Rejected{(unknown),unknown-source}",
        "Rejected{}",
    ];
    assert_eq!(sums(&world, rejected), [1, 1, 1, 2]);
    assert!(!format!("{:?}", world.metrics.names()).contains("stranger"), "a stranger writes no dimension");
}

#[tokio::test]
async fn each_stage_of_a_delivery_has_its_time() {
    let world = World::new();
    HttpRequest::of(&world, lead().to_string().as_bytes()).send(&world).await;
    for stage in ["IntakeTime{}", "VerifyTime{}", "RateTime{}", "AdmitTime{}", "SendTime{}"] {
        assert_eq!(world.metrics.values(stage).len(), 1, "{stage}");
    }
}

#[tokio::test]
async fn each_event_of_a_batch_is_counted_and_a_receipt_is_no_delivery() {
    let world = World::new();
    let (one, bad) = (lead_of("evt_1", "ada@example.com"), json!({"type": "lead.created", "data": {}}));
    let batch = json!([one, bad, one]).to_string();
    HttpRequest::of(&world, batch.as_bytes()).to(BATCH, "source", "web-forms").send(&world).await;
    HttpRequest::of(&world, b"").to(RECEIPT, "id", "evt").send(&world).await;
    let told = ["Accepted{web-forms}", "Duplicates{web-forms}", "Rejected{web-forms,invalid-event}", "Rejected{}"];
    assert_eq!(sums(&world, told), [1, 1, 1, 1]);
    assert_eq!(world.metrics.values("AdmitTime{}").len(), 2, "what was rejected before has no time");
    assert_eq!(world.metrics.values("IntakeTime{}").len(), 1);
}

#[tokio::test]
async fn a_settled_event_says_what_it_took() {
    let world = World::with(flows_with(with_slo));
    world.partners.script([Script::Status(503)]);
    world.post(&lead()).await.expect("a good lead");
    world.drain().await;
    let effects = world.processor.flows.flow("lead-routing").expect("the flow").effects.len() as u64;
    let told =
        ["EventsSettled{lead-routing,succeeded}", "EventsSettled{succeeded}", "Retries{lead-routing}", "Retries{}"];
    assert_eq!(sums(&world, told), [1, 1, 1, 1]);
    assert_eq!(world.metrics.values("Attempts{lead-routing}"), [2]);
    assert_eq!(sums(&world, ["Effects{lead-routing}", "ProtectedEffects{lead-routing}"]), [effects, effects]);
    assert_eq!(sums(&world, ["PartnerCalls{crm,done}", "PartnerCalls{crm,retry}", "PartnerFailures{crm}"]), [1, 1, 1]);
}

#[tokio::test]
async fn an_event_is_good_by_its_service_level_when_it_settles_in_time() {
    let world = World::with(flows_with(with_slo));
    world.post(&lead_of("evt_1", "ada@example.com")).await.expect("a good lead");
    world.drain().await;
    world.post(&lead_of("evt_2", "grace@example.com")).await.expect("a good lead");
    world.clock.advance(Duration::from_millis(2001));
    world.drain().await;
    assert_eq!(sums(&world, ["SloGood{lead-routing}", "SloBad{lead-routing}", "SloSpent{}"]), [1, 1, 20]);
}

#[tokio::test]
async fn a_dead_event_spends_its_service_level_once_however_often_it_dies() {
    let world = World::with(flows_without_breaker(with_slo));
    world.partners.script(vec![Script::Status(429); 6]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    world.park().await;
    handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
    world.drain().await;
    world.park().await;
    let told = [
        "SloGood{}",
        "SloBad{}",
        "SloSpent{}",
        "DeadLetters{lead-routing,attempts_spent}",
        "ReplaysDead{}",
        "DeadLetters{}",
    ];
    assert_eq!(sums(&world, told), [0, 1, 1000, 2, 1, 2]);
    assert_eq!(world.metrics.values("Attempts{}"), [3, 3]);
    assert_eq!(sums(&world, ["Parked{attempts_spent}", "Parked{}"]), [2, 2]);
}

#[tokio::test]
async fn a_flow_without_a_service_level_has_none() {
    let world = World::new();
    world.post(&lead()).await.expect("a good lead");
    world.drain().await;
    assert!(!world.metrics.names().iter().any(|name| name.starts_with("Slo")), "{:?}", world.metrics.names());
}

/// From the first call that was in vain: that is when somebody could have known.
#[tokio::test]
async fn the_time_to_a_signal_runs_from_the_first_failure() {
    let world = World::without_breaker();
    world.partners.script(vec![Script::Status(429); 3]);
    world.clock.advance(Duration::from_secs(60));
    world.post(&lead()).await.expect("a good lead");
    world.clock.advance(Duration::from_secs(60));
    let first_failed = world.clock.now();
    world.drain().await;
    world.clock.advance(Duration::from_secs(90));
    let parked = world.clock.now().since(first_failed).as_secs();
    world.park().await;
    assert_eq!(world.metrics.values("TimeToSignal{}"), [parked]);
    assert!(parked >= 90, "{parked}");
}

async fn parked_lead(world: &World) -> shared::base::id::EventId {
    world.partners.script(vec![Script::Status(429); 3]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    world.park().await;
    id
}

#[tokio::test]
async fn a_replay_is_counted_with_its_time_and_by_the_day() {
    for (waited, expected) in [(DAY / 2, [1, 1, 0, 1]), (DAY + DAY, [1, 0, 1, 1])] {
        let world = World::without_breaker();
        let id = parked_lead(&world).await;
        world.clock.advance(waited);
        handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
        world.drain().await;
        let told = ["Replayed{}", "ReplayedWithinADay{}", "ReplayedLater{}", "ReplaysSettled{}"];
        assert_eq!(sums(&world, told), expected);
        assert_eq!(world.metrics.values("TimeToReplay{}"), [waited.as_secs()]);
        assert_eq!(world.metrics.values("TimeToSettled{}"), Vec::<u64>::new(), "it waited for a human");
    }
}

#[tokio::test]
async fn a_replay_that_cannot_be_is_skipped() {
    let world = World::without_breaker();
    let id = parked_lead(&world).await;
    let again = || by_ada(json!({"op": "replay", "id": id}));
    handle(&world.replay, again()).await;
    world.drain().await;
    handle(&world.replay, again()).await;
    assert_eq!(sums(&world, ["Replayed{}", "ReplaysSkipped{}", "ReplaysFailed{}"]), [1, 1, 0]);
}

#[tokio::test]
async fn the_schedule_says_what_is_parked_and_that_it_ran() {
    let world = World::without_breaker();
    operate(&world.replay, Operation::Schedule).await.expect("the models answer");
    assert_eq!(world.metrics.values("ParkedNow{}"), [0], "nothing is a number, too");
    parked_lead(&world).await;
    world.clock.advance(DAY);
    operate(&world.replay, Operation::Schedule).await.expect("the models answer");
    assert_eq!(world.metrics.values("ParkedNow{}"), [0, 1]);
    assert_eq!(world.metrics.values("OldestParkedAge{}"), [0, DAY.as_secs()]);
    let told = ["ScheduleRan{}", "AwaitingApprovalNow{}", "WaitingNow{}", "BatchesStalled{}"];
    assert_eq!(sums(&world, told), [2, 0, 0, 0]);
}

#[tokio::test]
async fn a_batch_that_does_not_come_to_an_end_is_stalled() {
    let world = World::without_breaker();
    parked_lead(&world).await;
    handle(&world.replay, by_ada(json!({"op": "batch", "max": 10, "rate": 5}))).await;
    operate(&world.replay, Operation::Schedule).await.expect("the models answer");
    world.clock.advance(Duration::from_secs(3600 + 2 * 60 * 3 + 1));
    operate(&world.replay, Operation::Schedule).await.expect("the models answer");
    assert_eq!(world.metrics.values("BatchesOpen{}"), [1, 1]);
    assert_eq!(world.metrics.values("BatchesStalled{}"), [0, 1]);
}

/// Half an hour after the end of a night the queue takes nothing, and then it does.
#[tokio::test]
async fn what_should_have_been_woken_and_was_not_is_overdue() {
    let guards = "contact: {tenant: \"{{ event.data.tenant }}\", email: \"{{ event.data.email }}\"}\n\
        guards:\n  - quiet_hours: {from: \"21:00\", to: \"08:00\", zone: Europe/Berlin}\n\neffects:";
    let mut world = World::with(flows_with(|yaml| yaml.replace("\neffects:", &format!("\n{guards}"))));
    world.clock.advance(DAY / 24 * 13);
    world.post(&lead()).await.expect("a good lead");
    // The first time it marks its flow, and the second time it leaves the queue.
    for _ in 0..2 {
        world.poll().await;
        world.clock.advance(Duration::from_secs(10));
    }
    let due = world.ledger.rows()[0].listed_at.expect("the event waits for a moment");
    let late = due + Duration::from_secs(1800);
    world.clock.advance(late.since(world.clock.now()));
    let queue = std::mem::replace(&mut world.replay.queue, Box::new(OutOfService));
    world.wake().await;
    world.replay.queue = queue;
    world.clock.advance(DAY / 24);
    world.wake().await;
    assert_eq!(world.metrics.values("OldestWaitingOverdue{}"), [1800, 0], "what is sent has waited, and does no more");
    assert_eq!(sums(&world, ["Woken{}", "WakeRan{}"]), [1, 2]);
}

#[tokio::test]
async fn an_unknown_outcome_is_counted_as_one_that_is_not_protected() {
    let unprotected = flows_with(|yaml| yaml.replace("guarantee: native", "guarantee: none"));
    let world = World::with(unprotected);
    world.partners.script([Script::Hang]);
    world.post(&lead()).await.expect("a good lead");
    world.drain().await;
    let told = ["UnknownOutcomes{lead-routing}", "UnknownOutcomes{}", "Effects{}", "ProtectedEffects{}"];
    assert_eq!(sums(&world, told), [1, 1, 1, 0]);
    assert_eq!(sums(&world, ["PartnerCalls{crm,in_doubt}", "PartnerFailures{crm}"]), [1, 1]);
}

#[tokio::test]
async fn a_panic_is_counted_and_nothing_is_lost_that_was_counted_before() {
    let second = "  - {id: again, integration: crm, guarantee: native, request: {method: PUT, path: /again}}";
    let world = World::with(flows_with(|yaml| yaml.replace("\nretry:", &format!("{second}\nretry:"))));
    world.partners.script([Script::Body(200, Some(json!({"id": "crm_1"}))), Script::Panic]);
    world.post(&lead()).await.expect("a good lead");
    world.poll().await;
    assert_eq!(sums(&world, ["WorkerPanics{}", "PartnerCalls{crm,done}"]), [1, 1]);
}

/// No worker buried it: nobody else would count it.
#[tokio::test]
async fn an_event_that_no_worker_buried_is_counted_when_it_is_parked() {
    let world = World::with(flows_with(with_slo));
    world.events.send(&event("evt_unknown")).await.expect("the model answers");
    world.poll().await;
    assert_eq!(world.metrics.sum("DeadLetters{}"), 0);
    world.park().await;
    assert_eq!(sums(&world, ["DeadLetters{lead-routing,orphaned}", "DeadLetters{}", "SloBad{}"]), [1, 1, 1]);
}
