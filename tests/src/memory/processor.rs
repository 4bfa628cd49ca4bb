//! What the processor does, whatever the partner does.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use shared::arrival::signature::Secret;
use shared::base::id::EventId;
use shared::base::machine::Clock;
use shared::effects::credentials::Credentials;
use shared::flows::Flows;
use shared::ledger::queue::{Depth, Depths};
use shared::ledger::{Progress, Reason, Row, State};
use shared::model::Script;

use super::world::{World, flows_with, flows_without_breaker, policy};
use crate::fixtures::{lead, lead_of};

async fn accepted(world: &World) -> EventId {
    world.post(&lead()).await.expect("a good lead").id
}

fn death(row: &Row) -> (Reason, u32) {
    let death = row.death.as_ref().expect("a dead letter has a reason");
    (death.reason, death.attempts)
}

#[tokio::test]
async fn one_effect_costs_two_writes_and_one_call() {
    let world = World::new();
    let id = accepted(&world).await;
    assert!(world.poll().await.is_empty());
    assert_eq!(world.ledger.writes(), 1 + 2, "the admission, the claim, the outcome");
    assert_eq!(world.story(&id).await, ["accepted", "claimed", "crm 1: done", "succeeded"]);
    assert_eq!(world.row(&id).await.results(), json!({"crm": {"crm_id": "id_1"}}));

    let calls = world.partners.calls();
    let [(_, request)] = calls.as_slice() else { panic!("one call, not {}", calls.len()) };
    assert_eq!(request.path, "/leads/evt_1001");
    assert_eq!(request.json().map(|body| body["email"].clone()), Some(json!("Ada.Lovelace@example.com")));
    assert!(request.headers.contains(&("Idempotency-Key".into(), format!("{id}/crm"))));
    assert!(request.headers.iter().any(|(name, value)| name == "traceparent" && value.contains(&world.trace_id())));
    assert_eq!(request.credentials, Credentials::bearer(&Secret::new("token")));
}

#[tokio::test]
async fn n_effects_cost_n_plus_one_writes() {
    for n in 1..=4 {
        let world = World::with(flows_with(|yaml| effects(&yaml, n, "native")));
        let id = accepted(&world).await;
        world.poll().await;
        assert_eq!(world.row(&id).await.state, State::Succeeded);
        assert_eq!(world.ledger.writes(), 1 + n + 1, "{n} effects");
        assert_eq!(world.partners.calls().len(), n);
    }
}

/// The reads and the writes of every port so far, but for the writes of the ledger and of the limits.
fn asked_of_others(world: &World) -> [(&'static str, usize); 12] {
    [
        ("reads of the ledger", world.ledger.reads()),
        ("writes of anchors", world.windows.writes()),
        ("reads of breakers", world.pressure.reads()),
        ("writes of slots and breakers", world.pressure.writes()),
        ("reads of the switchboard", world.board.reads()),
        ("reads of contacts", world.contacts.reads()),
        ("writes of contacts", world.contacts.writes()),
        ("the latest", world.latest.asked()),
        ("reads of caps", world.caps.reads()),
        ("budgets", world.budgets.asked()),
        ("tokens", world.tokens.asked()),
        ("dead letters", world.dead_letters.depth()),
    ]
}

/// What many events share is not counted here: the switchboard, every five seconds. The sender's rate costs one write,
/// unless its container has drawn ahead.
#[tokio::test]
async fn the_happy_path_reads_nothing_and_writes_to_the_ledger_alone() {
    for n in 1..=4 {
        let world = World::with(flows_with(|yaml| effects(&yaml, n, "native")));
        accepted(&world).await;
        world.poll().await;
        let (before, written, drawn) = (asked_of_others(&world), world.ledger.writes(), world.limits.writes());
        let id = world.post(&lead_of("evt_2", "ada@example.com")).await.expect("a good lead").id;
        world.poll().await;
        assert_eq!(asked_of_others(&world), before, "{n} effects");
        assert_eq!(world.ledger.writes() - written, n + 2, "{n} effects");
        assert!(world.limits.writes() - drawn <= 1, "{n} effects: the sender's rate alone");
        assert_eq!(world.row(&id).await.state, State::Succeeded);
    }
}

#[tokio::test]
async fn a_transient_failure_is_tried_again_after_a_growing_delay() {
    let world = World::new();
    world.partners.script([Script::Status(500), Script::Status(503)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);

    let at: Vec<_> = world.partners.calls().into_iter().map(|(at, _)| at).collect();
    assert_eq!(at.len(), 3);
    let keys: Vec<_> = world.partners.calls().into_iter().map(|(_, request)| request.headers[0].1.clone()).collect();
    assert_eq!(keys, [keys[0].clone(), keys[0].clone(), keys[0].clone()], "every try has the same key");
    for (attempt, pair) in (1..).zip(at.windows(2)) {
        assert!(pair[1].since(pair[0]) <= policy().ceiling(attempt), "attempt {attempt}");
    }
    assert!(policy().ceiling(2) > policy().ceiling(1));
}

#[tokio::test]
async fn a_permanent_failure_stops_at_the_policy_and_becomes_a_letter_with_its_context() {
    let world = World::without_breaker();
    world.partners.script(vec![Script::Status(429); 10]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 3);
    let row = world.row(&id).await;
    assert_eq!((row.state, death(&row)), (State::Dead, (Reason::AttemptsSpent, 3)));

    let letters = world.dead_letters.receive(10);
    assert_eq!(letters.len(), 1);
    let context: BTreeMap<&str, &str> = letters[0].attributes.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(context["reason"], "attempts_spent");
    assert_eq!(context["effect"], "crm");
    assert_eq!(context["error"], "answered 429");
    assert_eq!(context["attempts"], "3");
}

#[tokio::test]
async fn a_refusal_by_the_partner_is_final() {
    let world = World::new();
    world.partners.script([Script::Status(400)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
    assert_eq!(death(&world.row(&id).await), (Reason::Terminal, 1));
}

#[tokio::test]
async fn retry_after_is_waited_out() {
    let world = World::new();
    world.partners.script([Script::RetryAfter(429, "7")]);
    accepted(&world).await;
    world.drain().await;
    let calls = world.partners.calls();
    assert!(calls[1].0.since(calls[0].0) >= Duration::from_secs(7));
}

#[tokio::test]
async fn a_worker_that_dies_in_a_call_is_followed_after_its_lease() {
    let world = World::new();
    world.partners.script([Script::Panic]);
    let id = accepted(&world).await;
    let started = world.clock.now();
    assert_eq!(world.poll().await.len(), 1, "the message is kept");
    assert_eq!(world.row(&id).await.state, State::Running);
    world.drain().await;

    let calls = world.partners.calls();
    assert_eq!(calls.len(), 2, "a native partner is called again");
    assert_eq!(calls[0].1.headers[0], calls[1].1.headers[0], "under the same key");
    assert!(calls[1].0.since(started) >= Duration::from_secs(60), "not before the lease ended");
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

/// Whatever leaves the outcome open, an effect without a guarantee is not tried a second time.
#[tokio::test]
async fn an_unknown_outcome_is_said_and_not_guessed() {
    let statuses = [303, 408, 409, 423, 425, 500, 503, 504].map(Script::Status);
    for script in [Script::Panic, Script::Hang].into_iter().chain(statuses) {
        let world = World::with(flows_with(|yaml| effects(&yaml, 1, "none")));
        world.partners.script([script.clone()]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(world.partners.calls().len(), 1, "{script:?}");
        let row = world.row(&id).await;
        assert_eq!((row.state, death(&row)), (State::Dead, (Reason::UnknownOutcome, 1)), "{script:?}");
        assert!(matches!(row.effects["e1"].progress, Progress::Unknown { .. }), "{script:?}");
        assert_eq!(world.dead_letters.depth(), 1, "{script:?}");
    }
}

#[tokio::test]
async fn what_surely_did_not_happen_is_tried_again_even_without_a_guarantee() {
    let world = World::with(flows_with(|yaml| effects(&yaml, 1, "none")));
    world.partners.script([Script::Status(429), Script::Status(429)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(world.partners.calls().len(), 3);
}

#[tokio::test]
async fn an_effect_that_is_done_is_never_called_again() {
    let world = World::with(flows_with(|yaml| effects(&yaml, 3, "native")));
    world.partners.script([Script::Status(200), Script::Status(500), Script::Panic]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    let keys: Vec<String> =
        world.partners.calls().into_iter().map(|(_, request)| request.headers[0].1.clone()).collect();
    let of = |effect: &str| keys.iter().filter(|key| key.ends_with(effect)).count();
    assert_eq!((of("/e1"), of("/e2"), of("/e3")), (1, 3, 1));
}

#[tokio::test]
async fn the_head_of_a_group_backs_off_and_its_tail_waits_for_it() {
    let world = World::new();
    world.partners.script([Script::Status(500)]);
    for n in 1..=3 {
        world.post(&lead_of(&format!("evt_{n}"), "ada@example.com")).await.expect("a good lead");
    }
    world.post(&lead_of("evt_4", "grace@example.com")).await.expect("a good lead");
    assert_eq!(world.poll().await.len(), 3, "the group stops at its first failure");
    let Depth { queued, in_flight } = Depths::depth(&world.events).await.expect("the queue answers");
    assert_eq!((queued, in_flight), (2, 1), "a tail that stayed in flight would stall its group");
    world.drain().await;
    let paths: Vec<String> = world.partners.calls().into_iter().map(|(_, request)| request.path).collect();
    assert_eq!(paths, ["/leads/evt_1", "/leads/evt_4", "/leads/evt_1", "/leads/evt_2", "/leads/evt_3"]);
}

#[tokio::test]
async fn a_batch_over_four_groups_keeps_exactly_what_is_not_done() {
    let world = World::new();
    // Groups a to d of 3, 3, 2 and 2 messages; the second of a and the first of c fail.
    for (n, person) in ["a", "a", "a", "b", "b", "b", "c", "c", "d", "d"].into_iter().enumerate() {
        world.post(&lead_of(&format!("{person}{n}"), &format!("{person}@example.com"))).await.expect("a good lead");
    }
    world.partners.fail_paths(&["/leads/a1", "/leads/c6"]);
    let kept = world.poll().await;
    assert_eq!(kept.len(), 2 + 2, "a from its second message on, and all of c");
    let succeeded = world.ledger.rows().into_iter().filter(|row| row.state == State::Succeeded).count();
    assert_eq!(succeeded, 6);
    world.drain().await;
    for person in ["a", "b", "c", "d"] {
        let paths: Vec<String> = world.partners.calls().into_iter().map(|(_, request)| request.path).collect();
        let mut of_one: Vec<&String> =
            paths.iter().filter(|path| path.starts_with(&format!("/leads/{person}"))).collect();
        of_one.dedup();
        assert!(of_one.is_sorted(), "order is kept in each group: {of_one:?}");
    }
}

/// One contact whose partner always fails does not hold up the others.
#[tokio::test]
async fn a_failing_contact_holds_up_nobody_else() {
    let world = World::new();
    for n in 0..20 {
        world.post(&lead_of(&format!("noisy{n}"), "noisy@example.com")).await.expect("a good lead");
    }
    for n in 0..5 {
        world.post(&lead_of(&format!("quiet{n}"), &format!("quiet{n}@example.com"))).await.expect("a good lead");
    }
    let noisy: Vec<String> = (0..20).map(|n| format!("/leads/noisy{n}")).collect();
    world.partners.fail_paths(&noisy.iter().map(String::as_str).collect::<Vec<_>>());
    let started = world.clock.now();
    while world.ledger.rows().iter().filter(|row| row.state == State::Succeeded).count() < 5 {
        world.poll().await;
        assert!(world.clock.now().since(started) < Duration::from_secs(1), "the quiet ones do not wait");
    }
}

#[tokio::test]
async fn a_body_that_is_no_event_touches_nobody_else() {
    let world = World::new();
    world.events.put("group", "bad", "not an event", BTreeMap::new()).expect("SQS takes it");
    let id = accepted(&world).await;
    assert!(world.poll().await.is_empty(), "nothing goes round and round");
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(world.dead_letters.receive(10)[0].attributes["reason"], "malformed");
}

#[tokio::test]
async fn a_second_copy_of_a_message_does_nothing() {
    let world = World::new();
    let id = accepted(&world).await;
    let copy = world.events.receive(1)[0].clone();
    world.events.delete(&copy.receipt);
    world.events.put(&copy.group, "first-copy", &copy.body, BTreeMap::new()).expect("SQS takes it");
    world.events.put("another-group", "second-copy", &copy.body, BTreeMap::new()).expect("SQS takes it");
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 1);
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

#[tokio::test]
async fn an_event_of_a_flow_that_is_gone_is_kept_for_a_human() {
    let mut world = World::new();
    let id = accepted(&world).await;
    world.processor.flows = Flows::default();
    world.drain().await;
    assert_eq!(death(&world.row(&id).await), (Reason::UnknownFlow, 0));
    assert_eq!(world.dead_letters.depth(), 1);
}

#[tokio::test]
async fn an_event_that_no_request_can_be_made_of_is_kept_for_a_human() {
    let world =
        World::with(flows_with(|yaml| yaml.replace("event.data.company | default(none)", "event.data.company")));
    let mut lead = lead();
    lead["data"].as_object_mut().expect("an object").remove("company");
    let id = world.post(&lead).await.expect("company is optional").id;
    world.drain().await;
    assert!(world.partners.calls().is_empty());
    assert_eq!(death(&world.row(&id).await).0, Reason::Template);
}

#[tokio::test]
async fn the_row_of_three_effects_stays_under_a_kilobyte() {
    let world = World::with(flows_with(|yaml| effects(&yaml, 3, "native")));
    let id = accepted(&world).await;
    world.drain().await;
    let size = serde_json::to_string(&world.row(&id).await).expect("JSON").len();
    assert!(size < 1024, "{size} bytes");
}

/// What a partner says costs a row at most this much, and only the row of an event that fails.
#[tokio::test]
async fn what_a_partner_says_adds_less_than_half_a_kilobyte_to_a_dead_row() {
    let mut sizes = Vec::new();
    for words in ["", "x"] {
        let world = World::with(flows_with(|yaml| effects(&yaml, 6, "native")));
        let failure = Script::Body(422, Some(json!({"message": words.repeat(2000)})));
        world.partners.script(vec![Script::Status(200); 5]);
        world.partners.script([failure]);
        let id = accepted(&world).await;
        world.drain().await;
        let row = world.row(&id).await;
        assert_eq!(death(&row).0, Reason::Terminal);
        sizes.push(serde_json::to_string(&row).expect("JSON").len());
    }
    assert!(sizes[1] - sizes[0] < 512, "{sizes:?}");
}

/// The shipped flow with `n` effects of this guarantee.
fn effects(yaml: &str, n: usize, guarantee: &str) -> String {
    let (head, rest) = yaml.split_once("effects:\n").expect("a flow has effects");
    let (effect, tail) = rest.split_once("\nretry:").expect("a flow has a policy");
    let one = |n| {
        effect
            .replace("id: crm\n", &format!("id: e{n}\n"))
            .replace("guarantee: native", &format!("guarantee: {guarantee}"))
    };
    format!("{head}effects:\n{}\nretry:{tail}", (1..=n).map(one).collect::<String>())
}

impl World {
    fn trace_id(&self) -> String {
        self.ledger.rows()[0].trace.id()
    }
}

/// One contact's failing events share its retries; another contact's do not.
#[tokio::test]
async fn a_contact_has_so_many_retries_and_no_more() {
    let world = World::with(flows_without_breaker(|yaml| {
        yaml.replace("max_attempts: 3", "max_attempts: 3\n  budget_per_contact: {count: 3, window: 1h}")
    }));
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(world.post(&lead_of(&format!("evt_{n}"), "ada@example.com")).await.expect("a good lead").id);
    }
    let other = world.post(&lead_of("evt_9", "grace@example.com")).await.expect("a good lead").id;
    world.partners.script(vec![Script::Status(429); 100]);
    world.drain().await;
    let mut reasons = Vec::new();
    for id in &ids {
        reasons.push(death(&world.row(id).await).0);
    }
    assert_eq!(reasons[0], Reason::AttemptsSpent, "the first event takes two of the three retries");
    assert!(reasons[1..].iter().all(|reason| *reason == Reason::BudgetExhausted), "{reasons:?}");
    assert_eq!(death(&world.row(&other).await), (Reason::AttemptsSpent, 3));
    assert_eq!(world.partners.calls().len(), 3 + 2 + 1 + 1 + 3, "the bound holds over all of them");
}
