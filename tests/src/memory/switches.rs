//! What operators switch at run time.

use std::time::Duration;

use replay::{Access, Console, serve};
use serde_json::{Value, json};
use shared::base::document::DocumentStore as _;
use shared::base::id::EventId;
use shared::effects::contact::{ContactUpsert, Contacts};
use shared::ledger::{Reason, State};
use shared::model::Script;

use super::world::{World, flows_with};
use crate::fixtures::{NOW, by_ada, flows, lead, lead_of, payload};

async fn operate(world: &World, operation: Value) -> Value {
    replay::handle(&world.replay, operation).await
}

/// The console's first page.
async fn overview(world: &World) -> String {
    let console = Console { replay: &world.replay, access: Access::Read, endpoint: "arn", caller: None };
    let page = serve(&console, json!({"page": "overview", "widgetContext": {}})).await;
    page.expect("a page").as_str().expect("HTML").to_owned()
}

/// Longer than any container believes what it read.
async fn passed(world: &World) {
    world.clock.advance(Duration::from_secs(6));
}

#[tokio::test]
async fn a_paused_flow_calls_nobody_until_it_is_resumed_and_waiting_is_no_attempt() {
    let world = World::new();
    let paused = operate(&world, by_ada(json!({"op": "pause", "flow": "lead-routing"}))).await;
    assert_eq!(paused["board"]["flows"]["lead-routing"]["paused"]["by"], "ada", "{paused}");
    let id = world.post(&lead()).await.expect("intake goes on").id;
    for _ in 0..5 {
        world.poll().await;
        world.clock.advance(Duration::from_secs(600));
    }
    assert_eq!(world.partners.calls().len(), 0);
    let row = world.row(&id).await;
    assert_eq!((row.state, row.effects.len()), (State::Waiting, 0));
    assert!(world.story(&id).await.last().is_some_and(|last| last.ends_with("paused")));
    assert_eq!(world.metrics.sum("Deferrals{lead-routing,paused}"), 1, "until every container knows the flow's mark");
    assert_eq!((world.metrics.sum("Waits{lead-routing,paused}"), world.events.depth()), (1, 0));

    operate(&world, by_ada(json!({"op": "resume", "flow": "lead-routing"}))).await;
    assert_eq!(world.events.depth(), 1, "it is woken at once");
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(world.metrics.sum("EventsSettled{lead-routing,succeeded}"), 1);
}

/// A day of waiting must not use up the receives that the queue allows, nor the event itself.
#[tokio::test]
async fn an_event_outlasts_a_pause_of_almost_a_day_and_expires_after_it() {
    for (hours, state) in [(20, State::Succeeded), (30, State::Dead)] {
        let world = World::new();
        operate(&world, by_ada(json!({"op": "pause", "for": format!("{hours}h")}))).await;
        let id = world.post(&lead()).await.expect("intake goes on").id;
        world.drain().await;
        world.park().await;
        let row = world.row(&id).await;
        assert_eq!(row.state, state, "{hours} hours: {:?}", row.history);
        assert_eq!(row.death.map(|death| death.reason), (state == State::Dead).then_some(Reason::Expired));
    }
}

#[tokio::test]
async fn a_paused_integration_is_not_asked_either() {
    let world = World::with(flows());
    let fields = json!({"consent_email": true}).as_object().cloned().unwrap_or_default();
    let ada = ContactUpsert::new("acme", "ada@example.com", &fields).expect("a contact");
    world.contacts.upsert(&ada, &EventId::named("before"), NOW).await.expect("the model answers");
    operate(&world, by_ada(json!({"op": "pause", "integration": "slack"}))).await;
    let mut cart = payload("cart-abandoned.json");
    cart["discount_percent"] = json!(40);
    let id = world.send("storefront", Some("cart.abandoned"), &cart, &[]).await.expect("a good cart").id;
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 0);
    let row = world.row(&id).await;
    assert_eq!((row.state, row.is_parked()), (State::AwaitingApproval, true), "operators see it all the same");
}

#[tokio::test]
async fn a_paused_integration_holds_back_its_own_effects_only() {
    let world = World::with(flows_with(|yaml| {
        yaml.replace(
            "effects:\n",
            "contact: {tenant: '{{ event.data.tenant }}', email: '{{ event.data.email }}'}\n\
             effects:\n  - {id: contact, upsert: {}}\n",
        )
    }));
    operate(&world, by_ada(json!({"op": "pause", "integration": "crm"}))).await;
    let id = world.post(&lead()).await.expect("accepted").id;
    world.poll().await;
    let row = world.row(&id).await;
    assert!(row.results().get("contact").is_some(), "{:?}", row.history);
    assert_eq!(world.partners.calls().len(), 0);
    operate(&world, by_ada(json!({"op": "resume", "integration": "crm"}))).await;
    passed(&world).await;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

#[tokio::test]
async fn an_operator_changes_the_policy_without_a_deploy() {
    let world = World::without_breaker();
    operate(&world, by_ada(json!({"op": "policy", "flow": "lead-routing", "retry": {"max_attempts": 5}}))).await;
    world.partners.script(vec![Script::Status(429); 10]);
    let id = world.post(&lead()).await.expect("accepted").id;
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 5);
    assert_eq!(world.row(&id).await.death.map(|death| death.attempts), Some(5));
    assert_eq!(world.metrics.sum("DeadLetters{lead-routing,attempts_spent}"), 1);
}

#[tokio::test]
async fn who_turned_what_and_why_is_told_after_the_switch_is_off() {
    let world = World::new();
    for operation in [
        json!({"op": "pause", "integration": "crm", "by": "ada", "reason": "it moves"}),
        json!({"op": "resume", "integration": "crm", "by": "bob", "reason": "it has moved"}),
        json!({"op": "policy", "flow": "lead-routing", "retry": {"max_attempts": 5}, "by": "bob", "reason": "slow"}),
        json!({"op": "policy", "flow": "lead-routing", "retry": {}, "by": "ada", "reason": "<b>well</b>"}),
        json!({"op": "safe_mode", "for": "5m", "by": "ada", "reason": "odd codes"}),
        json!({"op": "safe_mode", "for": "0s", "by": "bob", "reason": "good codes"}),
    ] {
        let turned = operate(&world, operation.clone()).await;
        let newest = &turned["board"]["turned"][0];
        assert_eq!((&newest["by"], &newest["why"]), (&operation["by"], &operation["reason"]), "{turned}");
        world.clock.advance(Duration::from_secs(60));
    }
    let status = operate(&world, json!({"op": "status"})).await;
    let turned = status["board"]["turned"].as_array().expect("turns");
    let told: Vec<String> = turned.iter().map(|turned| format!("{} {}", turned["what"], turned["of"])).collect();
    assert_eq!(
        told,
        [
            r#""safe mode off" "all""#,
            r#""safe mode" "all""#,
            r#""policy taken back" {"flow":"lead-routing"}"#,
            r#""policy" {"flow":"lead-routing"}"#,
            r#""resumed" {"integration":"crm"}"#,
            r#""paused" {"integration":"crm"}"#,
        ]
    );
    let page = overview(&world).await;
    assert!(page.contains("None is on") && page.contains("Turned last"), "{page}");
    let resumed = "5 min ago</span></td><td>resumed</td><td>integration crm</td><td>bob</td><td>it has moved</td>";
    assert!(page.contains(resumed), "{page}");
    assert!(page.contains("<td>&lt;b&gt;well&lt;/b&gt;</td>"), "{page}");
}

#[tokio::test]
async fn a_policy_is_shown_with_who_changed_it_and_why() {
    let world = World::new();
    operate(&world, by_ada(json!({"op": "policy", "flow": "lead-routing", "retry": {"max_attempts": 5}}))).await;
    let page = overview(&world).await;
    let row = "<code>{&quot;max_attempts&quot;:5}</code></td><td>ada</td><td>the CRM is back</td>";
    assert!(page.contains(row), "{page}");
}

#[tokio::test]
async fn a_switch_that_makes_no_sense_is_refused_in_a_sentence() {
    let world = World::new();
    for (operation, sentence) in [
        (json!({"op": "pause", "flow": "led-routing"}), "there is no flow `led-routing`"),
        (json!({"op": "pause", "flow": "lead-routing", "integration": "crm"}), "not both"),
        (json!({"op": "pause", "flow": "lead-routing", "for": "soon"}), "write `500ms`, `2s`, `48h`"),
        (json!({"op": "safe_mode", "flow": "lead-routing", "for": "200h"}), "within 7 days"),
        (json!({"op": "policy", "flow": "lead-routing", "retry": {"max_attempts": 99}}), "from 1 to 20"),
        (json!({"op": "policy", "flow": "lead-routing", "retry": {"attempts": 9}}), "unknown field `attempts`"),
    ] {
        let refused = operate(&world, by_ada(operation.clone())).await;
        assert!(refused["error"].as_str().is_some_and(|error| error.contains(sentence)), "{operation}: {refused}");
    }
    let nameless = operate(&world, json!({"op": "pause", "by": " ", "reason": "x"})).await;
    assert!(nameless["error"].to_string().contains("`by` must say something"), "{nameless}");
    let mut status = operate(&world, json!({"op": "status"})).await;
    status.as_object_mut().expect("an answer").remove("figures");
    assert_eq!(status, json!({"version": 0, "board": {}, "batches": [], "waiting": []}));
}

#[tokio::test]
async fn a_scribbled_board_is_told_and_changes_nothing() {
    let world = World::new();
    world.poll().await;
    let known = world.post(&lead()).await.expect("accepted").id;
    world.drain().await;
    assert_eq!(world.row(&known).await.state, State::Succeeded);
    world.board.scribble(3, "paused: true");
    passed(&world).await;
    let id = world.post(&lead_of("evt_2", "b@example.com")).await.expect("accepted").id;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded, "the container goes by the board that it knows");
    assert_eq!(world.metrics.sum("BadSwitchboard{}"), 1);
}

/// A new container knows of no board but the one that it cannot use: something may be paused on it.
#[tokio::test]
async fn a_container_that_starts_with_a_scribbled_board_stands_still() {
    let world = World::new();
    world.board.scribble(3, "paused: true");
    let id = world.post(&lead()).await.expect("accepted").id;
    world.poll().await;
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Queued, 0));
    assert_eq!((world.metrics.sum("BadSwitchboard{}"), world.metrics.sum("StoodStill{}")), (1, 1));
}

#[tokio::test]
async fn a_switch_that_this_version_does_not_know_stops_what_it_names_and_is_not_overwritten() {
    for (board, is_stopped) in [
        (json!({"flows": {"lead-routing": {"half_speed": true}}}), true),
        (json!({"integrations": {"crm": {"paused": {"since": 0, "by": "ada", "why": "x", "scope": "bulk"}}}}), true),
        (json!({"tenants": {"north": {"paused": true}}}), true),
        (json!({"flows": {"cart-recovery": {"half_speed": true}}}), false),
    ] {
        let world = World::new();
        world.board.scribble(3, &board.to_string());
        let id = world.post(&lead()).await.expect("accepted").id;
        world.poll().await;
        let state = world.row(&id).await.state;
        assert_eq!(state == State::Retrying, is_stopped, "{board}: {state:?}");
        assert_eq!(world.metrics.sum("BadSwitchboard{}"), 1, "{board}");

        let declined = operate(&world, by_ada(json!({"op": "resume"}))).await;
        assert!(declined["error"].as_str().is_some_and(|why| why.contains("unknown field")), "{declined}");
        let stored = world.board.read().await.expect("the model answers").expect("a board");
        assert_eq!((stored.version, stored.text), (3, board.to_string()), "it is not overwritten");
    }
}
