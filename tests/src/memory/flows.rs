//! The shipped flows, each with its example event.

use std::time::Duration;

use replay::{Operation, QuestionSeen, operate};
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::effects::contact::{ContactUpsert, Contacts};
use shared::ledger::queue::Queue;
use shared::ledger::{Records, Row, State};
use shared::model::Script;

use super::world::World;
use crate::fixtures::{ADA, NOW, by_ada, flows, payload};

pub(super) async fn shipped() -> World {
    let world = World::with(flows());
    consent(&world, json!({"consent_email": true, "consent_sms": true, "consent_push": true})).await;
    world
}

/// What the contact of the example events agrees to.
async fn consent(world: &World, fields: Value) {
    know(world, "ada@example.com", fields).await;
}

async fn know(world: &World, email: &str, fields: Value) {
    let fields = fields.as_object().cloned().unwrap_or_default();
    let upsert = ContactUpsert::new("acme", email, &fields).expect("a contact");
    world.contacts.upsert(&upsert, &EventId::named("before"), NOW).await.expect("the model answers");
}

pub(super) async fn cart(world: &World, change: Value) -> EventId {
    let mut cart = payload("cart-abandoned.json");
    cart.as_object_mut().expect("an object").extend(change.as_object().cloned().unwrap_or_default());
    world.send("storefront", Some("cart.abandoned"), &cart, &[]).await.expect("a good cart").id
}

/// A cart that is not the one before it.
async fn another_cart(world: &World, n: usize) -> EventId {
    let later = NOW + Duration::from_secs(600 * n as u64);
    cart(world, json!({"abandoned_at": later.to_string()})).await
}

fn noop(row: &Row) -> (&str, &Value) {
    let noop = row.noop.as_ref().unwrap_or_else(|| panic!("{:?}", row.history));
    (&noop.guard, &noop.facts)
}

/// What was asked of whom, as integration, method and path.
fn asked(world: &World) -> Vec<String> {
    let calls = world.partners.calls().into_iter();
    calls.map(|(_, request)| format!("{} {} {}", request.integration, request.method, request.path)).collect()
}

#[tokio::test]
async fn contact_intake_makes_a_contact_under_the_senders_own_key() {
    let world = World::with(flows());
    let body = payload("contact-submitted.json");
    let key = [("idempotency-key", "evt_123")];
    let id = world.send("web-forms", None, &body, &key).await.expect("a good form").id;
    world.drain().await;
    let row = world.row(&id).await;
    assert_eq!(row.state, State::Succeeded, "{:?}", row.history);
    assert_eq!((world.contacts.count(), row.results()["contact"]["created"].clone()), (1, json!(true)));
    let again = world.send("web-forms", None, &body, &key).await.expect("the same form");
    assert!(again.replayed && again.id == id);
}

#[tokio::test]
async fn lead_routing_reaches_crm_and_analytics_with_the_place() {
    let world = World::with(flows());
    let mut lead = payload("lead-created.json");
    lead["data"]["ip"] = json!("192.0.2.7");
    let id = world.send("web-forms", None, &lead, &[]).await.expect("a good lead").id;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    let calls = world.partners.calls();
    assert_eq!(calls.len(), 2);
    for (_, request) in calls {
        assert_eq!(request.json().expect("a body")["country"], "DE", "{}", request.integration);
    }
}

#[tokio::test]
async fn a_lead_without_a_place_goes_on_without_one() {
    let world = World::with(flows());
    let id = world.send("web-forms", None, &payload("lead-created.json"), &[]).await.expect("a good lead").id;
    world.drain().await;
    let row = world.row(&id).await;
    assert_eq!((row.state, &row.enrich["place"]), (State::Succeeded, &json!({})));
}

#[tokio::test]
async fn cart_recovery_makes_one_code_and_one_email() {
    let world = shipped().await;
    let id = cart(&world, json!({})).await;
    cart(&world, json!({"cart_id": "cart_2"})).await;
    world.drain().await;
    let row = world.row(&id).await;
    assert_eq!(row.state, State::Succeeded, "{:?}", row.history);
    assert_eq!(asked(&world), ["discounts POST /codes", "email POST /messages"], "within five minutes, one cart");
    let email = world.partners.calls()[1].1.json().expect("a body");
    assert_eq!(email["data"]["code"], row.results()["discount"]["code"]);
}

#[tokio::test]
async fn nobody_is_written_to_who_did_not_agree() {
    let world = shipped().await;
    consent(&world, json!({"consent_email": false})).await;
    let id = cart(&world, json!({})).await;
    world.drain().await;
    let row = world.row(&id).await;
    assert_eq!(noop(&row), ("consent", &json!({"channel": "email", "consent": "withheld"})));
    let stranger = cart(&world, json!({"customer_id": "cus_2", "email": "grace@example.com"})).await;
    world.drain().await;
    assert_eq!(noop(&world.row(&stranger).await), ("consent", &json!({"channel": "email", "contact": "unknown"})));
    assert_eq!(asked(&world).len(), 0);
    assert_eq!(world.metrics.sum("EventsSettled{cart-recovery,noop}"), 2);
}

#[tokio::test]
async fn a_small_cart_is_not_worth_it() {
    let world = shipped().await;
    let id = cart(&world, json!({"total": 19.99})).await;
    world.drain().await;
    assert_eq!(noop(&world.row(&id).await), ("worth-it", &json!({"not": "event.total >= 20"})));
}

#[tokio::test]
async fn three_a_day_and_no_more_however_often_each_is_tried() {
    let world = shipped().await;
    // The first is tried three times and dies; it has its place all the same, and only one.
    world.partners.script([Script::Status(503), Script::Status(503), Script::Status(400)]);
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(another_cart(&world, n).await);
        world.drain().await;
    }
    let mut states = Vec::new();
    for id in &ids {
        states.push(world.row(id).await.state);
    }
    assert_eq!(states, [State::Dead, State::Succeeded, State::Succeeded, State::Noop, State::Noop]);
    let last = world.row(&ids[4]).await;
    let (guard, facts) = noop(&last);
    assert_eq!((guard, &facts["limit"], &facts["channel"]), ("cap", &json!(3), &json!("email")));
    world.clock.advance(Duration::from_secs(24 * 3600));
    let tomorrow = cart(&world, json!({"abandoned_at": "2026-11-17T10:00:00Z"})).await;
    world.drain().await;
    assert_eq!(world.row(&tomorrow).await.state, State::Succeeded);
}

#[tokio::test]
async fn at_night_an_event_waits_for_the_morning() {
    let world = shipped().await;
    world.clock.advance(Duration::from_secs(13 * 3600));
    let id = cart(&world, json!({})).await;
    world.poll().await;
    assert_eq!(world.row(&id).await.state, State::Retrying, "until every container knows the flow's mark");
    world.clock.advance(Duration::from_secs(8));
    world.poll().await;
    let row = world.row(&id).await;
    assert_eq!((row.state, row.effects.len(), world.events.depth()), (State::Waiting, 0, 0));
    assert!(
        row.wait.and_then(|wait| wait.until)
            >= Some(shared::base::time::Timestamp::parse("2026-11-17T07:00:00Z").expect("a moment"))
    );
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    // Ada moved to Tokyo, where it is morning.
    let world = shipped().await;
    consent(&world, json!({"time_zone": "Asia/Tokyo"})).await;
    world.clock.advance(Duration::from_secs(14 * 3600 + 1800));
    let id = cart(&world, json!({})).await;
    world.poll().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

/// The event's question, as an operator would see it.
async fn question(world: &World, id: &EventId) -> QuestionSeen {
    let row = world.row(id).await;
    QuestionSeen { id: id.clone(), hash: row.ask.unwrap_or_else(|| panic!("{:?}", row.history)).hash }
}

async fn approve(world: &World, questions: Vec<QuestionSeen>) -> Value {
    let approve = Operation::Approve { questions, by: "ada".into(), reason: "looks right".into() };
    operate(&world.replay, approve).await.expect("an answer")
}

#[tokio::test]
async fn a_large_discount_waits_for_a_human_who_is_asked_once_and_masked() {
    let world = shipped().await;
    let id = cart(&world, json!({"discount_percent": 40})).await;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::AwaitingApproval);
    assert_eq!(asked(&world), ["slack POST /chat.postMessage"]);
    let message = world.partners.calls()[0].1.json().expect("a message").to_string();
    assert!(message.contains("cart-recovery") && message.contains(id.as_str()), "{message}");
    assert!(!message.contains("ada@example.com") && !message.contains("cus_1001"), "{message}");
    assert!(world.story(&id).await.contains(&"awaiting approval: asked in Slack".to_owned()));

    let answered = approve(&world, vec![question(&world, &id).await]).await;
    assert_eq!(answered["answered"][0]["state"], "queued", "{answered}");
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(asked(&world)[1..], ["discounts POST /codes", "email POST /messages"]);
    let late = approve(&world, vec![question(&world, &id).await]).await;
    assert!(late["answered"][0]["error"].to_string().contains("not kept"), "{late}");
}

/// It was never parked, so that its end is none of a replay. The replay of one that died is one.
#[tokio::test]
async fn what_was_approved_is_no_replay_however_it_ends() {
    for (declined, given_up) in [(false, false), (true, false), (false, true)] {
        let world = shipped().await;
        let id = cart(&world, json!({"discount_percent": 40})).await;
        world.drain().await;
        approve(&world, vec![question(&world, &id).await]).await;
        world.partners.script(vec![Script::Status(422); usize::from(declined)]);
        if given_up {
            world.give_up_on_first();
        }
        world.drain().await;
        world.park().await;
        let sums = |names: [&str; 3]| names.map(|name| world.metrics.sum(name));
        let dead = u64::from(declined || given_up);
        assert_eq!(sums(["DeadLetters{}", "ReplaysDead{}", "ReplaysSettled{}"]), [dead, 0, 0]);
        if dead == 1 {
            ::replay::handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
            world.drain().await;
            assert_eq!(world.row(&id).await.state, State::Succeeded);
            assert_eq!(sums(["ReplaysDead{}", "ReplaysSettled{}", "ReplayedWithinADay{}"]), [0, 1, 1]);
        }
    }
}

#[tokio::test]
async fn an_answer_in_slack_reaches_the_event_through_the_front_door() {
    for (answer, state, said) in [("approve", State::Succeeded, "approved"), ("reject", State::Noop, "rejected")] {
        let world = shipped().await;
        let id = cart(&world, json!({"discount_percent": 40})).await;
        world.drain().await;
        let asked = question(&world, &id).await;
        let mut press = payload("slack-approval.json");
        press["actions"][0]["action_id"] = json!(answer);
        press["actions"][0]["value"] = json!(format!("{} {}", asked.id, asked.hash));
        let form =
            format!("payload={}", form_urlencoded::byte_serialize(press.to_string().as_bytes()).collect::<String>());
        world.send_form("slack", &form).await.expect("Slack signs it");
        world.drain().await;
        let row = world.row(&id).await;
        assert_eq!(row.state, state, "{:?}", row.history);
        let said = format!("{said} by slack:U0ADA: answered through approvals");
        assert!(row.history.iter().any(|moment| moment.what == said), "{:?}", row.history);
        let facts = row.noop.map(|noop| noop.facts.to_string()).unwrap_or_default();
        assert!(!facts.contains("U0ADA"), "its sender sees them in the receipt: {facts}");
        assert_eq!(world.replay.records.kept(&id).await, Ok(None), "nobody asks for its payload any more");
    }
}

#[tokio::test]
async fn an_approval_is_of_what_was_seen_and_nothing_else() {
    let world = shipped().await;
    let id = cart(&world, json!({"discount_percent": 40})).await;
    world.drain().await;
    let seen = QuestionSeen { hash: "another".into(), ..question(&world, &id).await };
    let refused = approve(&world, vec![seen]).await;
    assert!(refused["answered"][0]["error"].to_string().contains("not what you saw"), "{refused}");
    assert_eq!(world.row(&id).await.state, State::AwaitingApproval);
}

/// The message from before an approval may come again: it claims nothing. What the approved one asks anew is kept under
/// its own number, so that the approval which is still under way does not forget it.
#[tokio::test]
async fn what_is_asked_anew_is_kept_under_its_own_number() {
    let world = shipped().await;
    let id = cart(&world, json!({"discount_percent": 40})).await;
    world.drain().await;
    let before = world.ledger.payload(&id).expect("what waits is kept");
    let row = world.row(&id).await;
    let hash = row.ask.clone().expect("a question").hash;
    let approved = row.clone().approved(&hash, ADA, NOW).expect("it waits");
    world.ledger.replace(Some(&row), &approved).await.expect("nobody else approves");
    // Safe mode does something else, so that it is asked about anew.
    let switch = json!({"op": "safe_mode", "for": "24h", "by": "ada", "reason": "the codes are odd"});
    ::replay::handle(&world.replay, switch).await;
    world.clock.advance(Duration::from_secs(600));
    world.events.send(&before).await.expect("the model answers");
    world.drain().await;
    assert_eq!(world.row(&id).await, approved);
    world.events.send(&Event { replay: 1, ..before.clone() }).await.expect("the model answers");
    world.drain().await;
    world.ledger.forget(&before).await.expect("the model answers");
    assert_eq!(world.row(&id).await.state, State::AwaitingApproval);
    assert_eq!(world.ledger.payload(&id).map(|kept| kept.replay), Some(1));
}

#[tokio::test]
async fn an_approval_that_comes_too_late_is_refused() {
    let world = shipped().await;
    let id = cart(&world, json!({"discount_percent": 40})).await;
    world.drain().await;
    world.clock.advance(Duration::from_secs(24 * 3600 + 60));
    let refused = approve(&world, vec![question(&world, &id).await]).await;
    assert!(refused["answered"][0]["error"].to_string().contains("expired"), "{refused}");
}

#[tokio::test]
async fn in_safe_mode_there_are_no_codes_and_one_reminder_a_day() {
    let world = shipped().await;
    let switch =
        json!({"op": "safe_mode", "flow": "cart-recovery", "for": "24h", "by": "ada", "reason": "the codes are odd"});
    let on = ::replay::handle(&world.replay, switch).await;
    assert_eq!(on["version"], 1, "{on}");
    let (first, second) = (another_cart(&world, 0).await, another_cart(&world, 1).await);
    world.drain().await;
    assert_eq!(asked(&world), ["email POST /messages"]);
    assert_eq!(world.partners.calls()[0].1.json().expect("a body")["template"], "cart-reminder");
    assert_eq!(world.row(&first).await.state, State::Succeeded);
    assert_eq!(noop(&world.row(&second).await).0, "cap");
}

#[tokio::test]
async fn nudges_go_by_their_own_channels() {
    for (file, event_type, integration) in
        [("cart-nudge-sms.json", "cart.nudge.sms", "sms"), ("cart-nudge-push.json", "cart.nudge.push", "push")]
    {
        let world = shipped().await;
        let id = world.send("storefront", Some(event_type), &payload(file), &[]).await.expect("a good nudge").id;
        world.drain().await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{event_type}");
        assert_eq!(asked(&world), [format!("{integration} POST /messages")]);
    }
}

#[tokio::test]
async fn an_opened_breaker_turns_the_safe_mode_on() {
    let world = shipped().await;
    world.partners.script(vec![Script::Status(503); 20]);
    for n in 0..40 {
        let email = format!("{n}@example.com");
        know(&world, &email, json!({"consent_email": true})).await;
        cart(&world, json!({"customer_id": format!("cus_{n}"), "email": email})).await;
        world.poll().await;
        world.clock.advance(Duration::from_millis(200));
    }
    let status = ::replay::handle(&world.replay, json!({"op": "status"})).await;
    let safe = &status["board"]["flows"]["cart-recovery"]["safe_mode"];
    assert_eq!(world.metrics.sum("BreakerOpened{discounts}"), 1);
    assert_eq!((&safe["by"], &safe["why"]), (&json!("breaker"), &json!("the breaker of discounts opened")), "{status}");
}

#[tokio::test]
async fn a_question_that_nobody_answers_in_time_is_a_no_op() {
    let world = shipped().await;
    let id = cart(&world, json!({"discount_percent": 40})).await;
    world.drain().await;
    let schedule = || ::replay::handle(&world.replay, json!({"op": "schedule"}));
    assert_eq!(schedule().await["lapsed"], 0, "there is time left");
    world.clock.advance(Duration::from_secs(24 * 3600 + 60));
    assert_eq!(schedule().await["lapsed"], 1);
    let row = world.row(&id).await;
    assert_eq!(noop(&row), ("approval", &json!({"expired": true})));
    assert_eq!((row.state, row.listed), (State::Noop, None), "and it is listed no more");
    assert_eq!(world.replay.records.kept(&id).await, Ok(None), "nor is its payload kept");
    assert_eq!(asked(&world), ["slack POST /chat.postMessage"], "nothing was done");
}
