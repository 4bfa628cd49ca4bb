//! Effects side by side, and effects of which nobody knows whether they happened.

use std::sync::Mutex;
use std::time::Duration;

use replay::{EffectVerdict, Operation, operate};
use serde_json::json;
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::flows::Flows;
use shared::ledger::{Reason, State};
use shared::model::Script;

use super::faults::SlowFirstClaim;
use super::world::{World, flows_with};
use crate::fixtures::{claim_of, files, lead};

/// The shipped flow with these effects: a name, and what else its YAML says.
pub(crate) fn flow_of(effects: &[(&str, &str)]) -> Flows {
    flows_with(|yaml| replace_effects(&yaml, effects))
}

pub(crate) fn replace_effects(yaml: &str, effects: &[(&str, &str)]) -> String {
    let (head, rest) = yaml.split_once("effects:\n").expect("a flow has effects");
    let (_, tail) = rest.split_once("\nretry:").expect("a flow has a policy");
    let one = |(id, more): &(&str, &str)| {
        format!(
            "  - {{id: {id}, integration: crm, request: {{method: POST, path: /{id}}}, result: {{id: /id}}, {more}}}\n"
        )
    };
    format!("{head}effects:\n{}\nretry:{tail}", effects.iter().map(one).collect::<String>())
}

const LOOKUP: &str =
    "guarantee: lookup, lookup: {after: 5s, request: {path: '/find?key={{ event.data.event_id }}'}, found: /id}";

pub(crate) async fn accepted(world: &World) -> EventId {
    world.post(&lead()).await.expect("a good lead").id
}

/// What the partner was asked, as method and path.
pub(crate) fn asked(world: &World) -> Vec<String> {
    world.partners.calls().into_iter().map(|(_, request)| format!("{} {}", request.method, request.path)).collect()
}

pub(crate) async fn reason(world: &World, id: &EventId) -> Option<Reason> {
    world.row(id).await.death.map(|death| death.reason)
}

#[tokio::test]
async fn effects_side_by_side_cost_two_writes() {
    let side = "guarantee: native, needs: []";
    let world = World::with(flow_of(&[("a", side), ("b", side), ("c", side)]));
    let id = accepted(&world).await;
    world.poll().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(world.ledger.writes(), 1 + 2, "the admission, the claim, the outcomes");
}

#[tokio::test]
async fn an_effect_without_a_guarantee_is_written_down_at_once() {
    let side = "guarantee: none, needs: []";
    let world = World::with(flow_of(&[("a", side), ("b", side), ("c", side)]));
    accepted(&world).await;
    world.poll().await;
    assert_eq!(world.ledger.writes(), 1 + 1 + 3, "the admission, the claim, each outcome alone");
}

#[tokio::test]
async fn an_effect_waits_for_what_it_needs() {
    let world = World::with(flow_of(&[
        ("a", "guarantee: native, needs: []"),
        ("b", "guarantee: native, needs: []"),
        ("c", "guarantee: native, needs: [a, b]"),
    ]));
    accepted(&world).await;
    world.poll().await;
    assert_eq!(asked(&world), ["POST /a", "POST /b", "POST /c"]);
    assert_eq!(world.ledger.writes(), 1 + 3, "two stages cost three writes");
}

#[tokio::test]
async fn of_effects_side_by_side_only_the_failed_one_is_tried_again() {
    let side = "guarantee: native, needs: []";
    let world = World::with(flow_of(&[("a", side), ("b", side), ("c", "guarantee: native, needs: [a, b]")]));
    world.partners.script([Script::Status(200), Script::Status(500)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(asked(&world), ["POST /a", "POST /b", "POST /b", "POST /c"]);
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

#[tokio::test]
async fn of_effects_side_by_side_one_that_is_refused_buries_the_event_and_keeps_the_others() {
    let side = "guarantee: native, needs: []";
    let world = World::with(flow_of(&[("a", side), ("b", side)]));
    world.partners.script([Script::Status(400), Script::Status(200)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::Terminal));
    assert_eq!(world.row(&id).await.results(), json!({"b": {"id": "id_2"}}));
}

#[tokio::test]
async fn a_lookup_that_finds_it_spares_the_second_call() {
    for lost in [Script::Hang, Script::Panic, Script::Status(502)] {
        let world = World::with(flow_of(&[("a", LOOKUP)]));
        world.partners.script([lost.clone(), Script::Status(200)]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(asked(&world), ["POST /a", "GET /find?key=evt_1001"], "{lost:?}");
        assert_eq!(world.row(&id).await.results(), json!({"a": {"id": "id_2"}}), "{lost:?}");
        let calls = world.partners.calls();
        assert!(calls[1].0.since(calls[0].0) >= Duration::from_secs(5), "not before it has settled: {lost:?}");
        assert!(calls[1].1.headers.iter().all(|(name, _)| name != "Idempotency-Key"), "a question has no key");
    }
}

#[tokio::test]
async fn a_lookup_that_misses_it_lets_it_be_called_again() {
    let world = World::with(flow_of(&[("a", LOOKUP)]));
    world.partners.script([Script::Hang, Script::Status(404)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(asked(&world), ["POST /a", "GET /find?key=evt_1001", "POST /a"]);
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

#[tokio::test]
async fn a_lookup_that_cannot_say_is_asked_again_and_is_no_attempt() {
    let world = World::with(flow_of(&[("a", LOOKUP)]));
    world.partners.script([Script::Hang].into_iter().chain(vec![Script::Status(500); 6]));
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(asked(&world).len(), 1 + 7);
    let row = world.row(&id).await;
    assert_eq!((row.state, row.effects["a"].attempts), (State::Succeeded, 1));
}

#[tokio::test]
async fn a_lookup_that_never_says_ends_as_unknown() {
    let world = World::with(flow_of(&[("a", LOOKUP)]));
    world.partners.script([Script::Hang].into_iter().chain(vec![Script::Status(500); 20_000]));
    let id = accepted(&world).await;
    // Hour by hour: the policy alone would ask a thousand times.
    for _ in 0..30 {
        world.poll().await;
        world.clock.advance(Duration::from_secs(3600));
    }
    assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome));
    assert_eq!(asked(&world).iter().filter(|asked| asked.starts_with("POST")).count(), 1);
}

/// A partner forgets our key after a while. A call that may have happened before must not be repeated.
#[tokio::test]
async fn a_key_that_the_partner_forgot_guards_nothing() {
    let flows = |effect: &str| {
        let mut files = files();
        files[1].text.push_str("  key_window: 1m\n");
        files[2].text = replace_effects(&files[2].text, &[("a", effect)]);
        Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
    };
    // The lease and the redelivery take longer than the window.
    let world = World::with(flows("guarantee: native"));
    world.partners.script([Script::Panic]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!((asked(&world).len(), reason(&world, &id).await), (1, Some(Reason::UnknownOutcome)));

    let world = World::with(flows(&LOOKUP.replace("guarantee: lookup", "guarantee: native")));
    world.partners.script([Script::Panic]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(asked(&world), ["POST /a", "GET /find?key=evt_1001"], "where it can be asked, it is");
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

/// A failure that does not say that nothing happened is no licence to call again under a key that the
/// partner has forgotten, and a later failure that does say so speaks only for itself.
#[tokio::test]
async fn a_doubt_outlives_the_failures_after_it() {
    use Script::{RetryAfter, Status};
    let unknown = (State::Dead, Some(Reason::UnknownOutcome));
    for (script, calls, end) in [
        (vec![RetryAfter(429, "120")], 2, (State::Succeeded, None)),
        (vec![RetryAfter(503, "120")], 1, unknown),
        (vec![Status(500)], 2, (State::Succeeded, None)),
        (vec![RetryAfter(500, "120")], 1, unknown),
        (vec![Status(500), RetryAfter(429, "120")], 2, unknown),
    ] {
        let mut files = files();
        files[1].text.push_str("  key_window: 1m\n");
        files[2].text = replace_effects(&files[2].text, &[("a", "guarantee: native")]);
        let world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
        world.partners.script(script.clone());
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(asked(&world).len(), calls, "{script:?}");
        assert_eq!((world.row(&id).await.state, reason(&world, &id).await), end, "{script:?}");
    }
}

#[tokio::test]
async fn an_event_that_waited_too_long_is_given_up_on_and_can_be_replayed() {
    let world = World::new();
    let id = accepted(&world).await;
    world.clock.advance(Duration::from_secs(25 * 3600));
    world.poll().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::Expired));
    assert!(asked(&world).is_empty());
    assert!(world.row(&id).await.effects.is_empty(), "an intent that was withdrawn is no doubt");

    world.park().await;
    let again = Operation::Replay {
        id: id.clone(),
        by: "ada".into(),
        reason: "better late".into(),
        version: None,
        with_new: false,
    };
    operate(&world.replay, again).await.expect("a replay");
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded, "its age counts from the replay");
}

#[tokio::test]
async fn what_may_have_happened_is_said_of_an_event_that_waited_too_long() {
    let world = World::with(flow_of(&[("a", "guarantee: native")]));
    world.partners.script([Script::Status(500)]);
    let id = accepted(&world).await;
    world.poll().await;
    world.clock.advance(Duration::from_secs(25 * 3600));
    world.drain().await;
    world.park().await;
    assert_eq!((asked(&world).len(), reason(&world, &id).await), (1, Some(Reason::UnknownOutcome)));
    resolve_and_replay(&world, &id, EffectVerdict::Happened(json!({"id": "found by hand"}).into())).await;
    assert_eq!((asked(&world).len(), world.row(&id).await.state), (1, State::Succeeded));
}

/// An event whose one effect may have happened, parked.
async fn in_doubt() -> (World, EventId) {
    let world = World::with(flow_of(&[("a", "guarantee: none"), ("b", "guarantee: native")]));
    world.partners.script([Script::Hang]);
    let id = accepted(&world).await;
    world.drain().await;
    world.park().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome));
    (world, id)
}

async fn resolve_and_replay(world: &World, id: &EventId, verdict: EffectVerdict) {
    let (id, by, reason) = (id.clone(), "ada".to_owned(), "saw the partner's log".to_owned());
    let row = world.row(&id).await;
    let resolve = Operation::Resolve {
        id: id.clone(),
        effect: "a".into(),
        verdict,
        by: by.clone(),
        reason: reason.clone(),
        version: format!("{}.{}", row.epoch, row.step),
    };
    operate(&world.replay, resolve.clone()).await.expect("it is unknown");
    let twice = operate(&world.replay, resolve).await.expect_err("it is known now").to_string();
    assert!(twice.contains("has changed since you looked at it"), "{twice}");
    operate(&world.replay, Operation::Replay { id, by, reason, version: None, with_new: false })
        .await
        .expect("nothing is unknown");
    world.drain().await;
}

#[tokio::test]
async fn what_happened_is_not_called_again() {
    let (world, id) = in_doubt().await;
    resolve_and_replay(&world, &id, EffectVerdict::Happened(json!({"id": "found by hand"}).into())).await;
    assert_eq!(asked(&world), ["POST /a", "POST /b"]);
    assert_eq!(world.row(&id).await.results()["a"], json!({"id": "found by hand"}));
    assert!(world.story(&id).await.contains(&"a happened, says ada: saw the partner's log".to_owned()));
}

#[tokio::test]
async fn what_did_not_happen_is_called() {
    let (world, id) = in_doubt().await;
    resolve_and_replay(&world, &id, EffectVerdict::DidNotHappen).await;
    assert_eq!(asked(&world), ["POST /a", "POST /a", "POST /b"]);
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

/// A worker wakes up after its lease ended, and both it and its successor finish the call.
#[tokio::test]
async fn a_lease_that_ends_under_a_slow_call_leaves_one_story() {
    for (guarantee, calls) in [("native", 2), ("none", 1)] {
        let world = World::with(flow_of(&[("a", &format!("guarantee: {guarantee}"))]));
        let id = accepted(&world).await;
        let slow = world.events.receive(1)[0].clone();
        let sent: Event = serde_json::from_str(&slow.body).expect("an event");
        let claim = claim_of(&sent, crate::fixtures::NOW, &["a"]);
        let lease =
            shared::ledger::Claims::claim(&world.ledger, &id, &claim).await.expect("an answer").expect("it is free");
        let mut late = lease.clone();
        late.record_done(
            &world.processor.flows.flow("lead-routing").expect("the flow").effects[0],
            json!({}),
            crate::fixtures::NOW,
        );
        // The slow worker is in its call, which the model does not see. Its successor comes after the lease.
        world.clock.advance(Duration::from_secs(200));
        world.drain().await;
        assert_eq!(asked(&world).len() + 1, calls, "{guarantee}");
        let late = late.succeed(Duration::from_secs(1), crate::fixtures::NOW);
        let fenced = shared::ledger::Claims::close(&world.ledger, &late).await;
        assert_eq!(fenced, Err(shared::base::errors::WriteError::Fenced), "{guarantee}: {}", slow.message_id);
    }
}

/// The shipped flow with a contact before its call.
pub(super) fn with_contact(whom: &str, upsert: &str) -> Flows {
    flows_with(|yaml| {
        let contact = format!("{whom}\neffects:\n  - {{id: contact, upsert: {upsert}}}\n");
        yaml.replace("effects:\n", &contact).replace("/leads/", "/contacts/{{ effects.contact.id }}/")
    })
}

pub(super) const CONTACT: &str = "contact: {tenant: '{{ event.data.tenant }}', email: '{{ event.data.email }}'}";

#[tokio::test]
async fn a_contact_is_upserted_and_later_effects_know_its_id() {
    let world = World::with(with_contact(CONTACT, "{fields: {first_name: '{{ event.data.first_name }}'}}"));
    let id = accepted(&world).await;
    world.poll().await;
    let row = world.row(&id).await;
    assert_eq!(row.state, State::Succeeded, "{:?}", row.history);
    let contact = row.results()["contact"].clone();
    assert_eq!(contact["created"], true);
    let path = format!("PUT /contacts/{}/evt_1001", contact["id"].as_str().expect("an id"));
    assert_eq!(asked(&world), [path]);
    assert!(!json!(row).to_string().contains("Ada"), "the row knows no person");
}

#[tokio::test]
async fn what_is_no_contact_is_a_dead_letter_without_its_value() {
    let world = World::with(with_contact("contact: {tenant: t, email: '{{ event.data.first_name }}'}", "{}"));
    let id = accepted(&world).await;
    world.poll().await;
    let death = world.row(&id).await.death.expect("dead");
    assert_eq!(death.reason, Reason::Terminal);
    assert!(death.error.starts_with("an email must have"), "{}", death.error);
}

#[tokio::test]
async fn an_effect_whose_condition_is_false_is_skipped_and_counts_as_done() {
    let world = World::with(flow_of(&[
        ("a", "guarantee: native, when: event.data.tenant == 'nobody'"),
        ("b", "guarantee: native, needs: [a], when: '{{ event.data.tenant is defined }}'"),
    ]));
    let id = accepted(&world).await;
    world.poll().await;
    assert_eq!(asked(&world), ["POST /b"]);
    let row = world.row(&id).await;
    assert_eq!((row.state, row.results()), (State::Succeeded, json!({"b": {"id": "id_1"}})));
    assert_eq!(world.ledger.writes(), 1 + 3, "the admission, the claim, the intent, the end");
}

#[tokio::test]
async fn a_condition_that_cannot_be_decided_decides_nothing() {
    let world = World::with(flow_of(&[("a", "guarantee: native, when: flow.nothing.at_all")]));
    let id = accepted(&world).await;
    world.poll().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::Template));
    assert_eq!(asked(&world).len(), 0);
}

#[tokio::test]
async fn a_call_for_which_no_time_is_left_is_not_made() {
    let mut world = World::with(flow_of(&[("mail", "guarantee: none")]));
    let time = Mutex::new(Duration::from_secs(29));
    world.processor.ledger =
        Box::new(SlowFirstClaim { ledger: world.ledger.clone(), clock: world.clock.clone(), time });
    let id = accepted(&world).await;
    world.poll().await;
    assert!(asked(&world).is_empty(), "it could only have ended as an unknown");
    world.drain().await;
    assert_eq!(asked(&world), ["POST /mail"]);
    assert_eq!(world.ledger.get(&id).expect("its row").state, State::Succeeded);
}

/// A deploy while nobody knows what came of a call: the doubt is said, also if the flow has no such effect any more.
#[tokio::test]
async fn a_doubt_about_an_effect_that_is_gone_is_said() {
    let mut world = World::with(flow_of(&[("a", LOOKUP), ("b", "guarantee: native, needs: []")]));
    world.partners.script([Script::Hang]);
    let id = accepted(&world).await;
    world.poll().await;
    assert!(world.row(&id).await.effects["a"].in_doubt());
    world.processor.flows = flow_of(&[("b", "guarantee: native, needs: []")]);
    world.drain().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome));
}

/// A condition that turns false does not settle what was called before.
#[tokio::test]
async fn a_call_in_doubt_is_not_skipped() {
    let mut world = World::with(flow_of(&[("a", "guarantee: native")]));
    world.partners.script([Script::Status(503)]);
    let id = accepted(&world).await;
    world.poll().await;
    world.processor.flows = flow_of(&[("a", "guarantee: native, when: 'event.data.tenant == 1'")]);
    world.drain().await;
    assert_eq!((asked(&world).len(), world.row(&id).await.state), (2, State::Succeeded));
    assert_eq!(world.row(&id).await.effects["a"].progress.as_str(), "done");
}
