//! The console's pages, as a dashboard gets them.

use std::collections::BTreeMap;

use replay::{Access, Console, serve};
use serde_json::{Map, Value, json};
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::ledger::{Ask, Death, Entry, Moment, Noop, Progress, Reason, Records, Row, State};
use shared::model::Script;

use super::faults::OutOfService;
use super::flows::{cart, shipped};
use super::world::World;
use crate::fixtures::{NOW, event, lead, lead_of};

/// What somebody would write to have it run in an operator's browser.
pub(crate) const HOSTILE: &str = r#"x"'><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>"#;

const ARN: &str = "arn:aws:lambda:eu-central-1:000000000000:function:ledgerline-replay";

/// A parked event of this id, with this text in every field of it and of its row.
pub(crate) fn hostile(id: &str, text: &str) -> (Row, Event) {
    let text = || text.to_owned();
    let mut event = Event { id: EventId::named(id), flow: text(), source: text(), ..event("evt_hostile") };
    event.payload = json!({text(): {text(): [text()]}});
    let entry = |progress| Entry { progress, ..Entry::intended(NOW) };
    let results = [
        Progress::Unknown { error: text() },
        Progress::Failed { error: text() },
        Progress::Done { result: json!({text(): text()}) },
    ];
    let effects = (0..).zip(results).map(|(n, progress)| (format!("{n}{}", text()), entry(progress)));
    let row = Row {
        fingerprint: text(),
        state: State::Dead,
        effects: effects.collect::<BTreeMap<_, _>>(),
        enrich: Map::from_iter([(text(), json!(text()))]),
        ask: Some(Ask { hash: text(), until: NOW, approved_by: Some(text()) }),
        noop: Some(Noop { guard: text(), facts: json!({text(): text()}) }),
        death: Some(Death {
            reason: Reason::UnknownOutcome,
            effect: Some(text()),
            error: text(),
            attempts: 3,
            at: NOW,
        }),
        history: vec![Moment { at: NOW, what: text() }],
        ..Row::admitted(&event, NOW).park(NOW)
    };
    (row, event)
}

async fn call(world: &World, access: Access, params: Value, fields: Value) -> String {
    let mut payload = params;
    payload["widgetContext"] = json!({"theme": "dark", "forms": {"all": fields}, "params": {"page": "overview"}});
    let console = Console { replay: &world.replay, access, endpoint: ARN, caller: None };
    serve(&console, payload).await.expect("a page").as_str().expect("HTML").to_owned()
}

async fn page(world: &World, params: Value) -> String {
    call(world, Access::Operate, params, json!({})).await
}

/// What the button of this label carries.
fn carried(page: &str, label: &str) -> Value {
    let (_, rest) = page.split_once(&format!(">{label}</a>")).unwrap_or_else(|| panic!("no button {label}: {page}"));
    let (action, _) = rest.split_once("</cwdb-action>").expect("an action right after it");
    assert!(action.contains(&format!("endpoint=\"{ARN}\"")), "{action}");
    serde_json::from_str(action.rsplit_once('>').expect("a tag").1).expect("JSON")
}

/// Presses a button of the page, signed.
async fn press(world: &World, page: &str, label: &str) -> String {
    call(world, Access::Operate, carried(page, label), json!({"by": "ada", "reason": "the CRM is back"})).await
}

async fn parked(world: &World) -> EventId {
    world.partners.script(vec![Script::Status(429); 3]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    assert!(world.park().await.is_empty());
    id
}

/// The names of a page's tags, in order.
fn skeleton(page: &str) -> Vec<String> {
    let name = |tag: &str| tag.chars().take_while(|c| c.is_ascii_alphanumeric() || "/-".contains(*c)).collect();
    page.split('<').skip(1).map(name).collect()
}

/// Every page of a world in which every text is this one.
async fn pages_of(text: &str) -> Vec<String> {
    let world = World::new();
    let (row, event) = hostile(text, text);
    world.ledger.put_aside(&row);
    world.ledger.overwrite(&row);
    world.ledger.keep(&event, row.expires_at).await.expect("the model keeps it");
    let words = json!({"by": text, "reason": text, "for": text, "result": text, "filter_flow": text});
    let pause = json!({"op": "pause", "flow": "lead-routing", "by": text, "reason": text});
    assert_eq!(replay::handle(&world.replay, pause).await["version"], 1);
    let mut pages = Vec::new();
    for params in [
        json!({"page": "overview"}),
        json!({"page": "list"}),
        json!({"page": "list", "filter": "fields"}),
        json!({"page": "event", "id": text}),
        json!({"page": "plan", "id": text}),
        json!({"page": text}),
        json!({"op": "drop", "id": text, "version": text}),
        json!({"op": text}),
        json!({"op": "resolve", "id": text, "effect": text, "verdict": "did_not_happen"}),
    ] {
        pages.push(call(&world, Access::Operate, params, words.clone()).await);
    }
    pages
}

#[tokio::test]
async fn a_hostile_text_in_any_field_stays_text() {
    let pages = pages_of(HOSTILE).await;
    for (hostile, harmless) in pages.iter().zip(pages_of("harmless").await) {
        assert_eq!(skeleton(hostile), skeleton(&harmless), "{hostile}");
        assert!(!hostile.contains(r#"x"'"#) && !hostile.contains("<img"), "{hostile}");
    }
    for shown in &pages[..6] {
        assert!(shown.contains("x&quot;&#39;&gt;&lt;img src=x"), "{shown}");
    }
}

#[tokio::test]
async fn an_event_is_found_read_and_replayed() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let overview = page(&world, json!({})).await;
    assert!(overview.contains("<b>1</b> dead") && overview.contains("attempts_spent"), "{overview}");
    assert!(overview.contains("<b>0</b> on the queue"), "{overview}");
    let list = page(&world, carried(&overview, "attempts_spent")).await;
    assert!(list.contains(id.as_str()) && list.contains("answered 429"), "{list}");

    let event = page(&world, json!({"page": "event", "id": id})).await;
    for shown in ["crm 3: answered 429", "&quot;company&quot;: &quot;A***&quot;", "<code>ledgerline trace "] {
        assert!(event.contains(shown), "{shown}: {event}");
    }
    assert!(!event.to_lowercase().contains("lovelace"), "{event}");
    let done = press(&world, &event, "Replay").await;
    assert!(done.contains("the event is queued now"), "{done}");
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert!(world.story(&id).await.contains(&"replay 1 by ada: the CRM is back".to_owned()));
}

#[tokio::test]
async fn a_plan_is_applied_as_it_was_seen_or_not_at_all() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let event = page(&world, json!({"page": "event", "id": id})).await;
    let plan = page(&world, carried(&event, "Plan")).await;
    assert!(plan.contains(r#"crm <span class="badge run">run</span>"#), "{plan}");
    assert_eq!(world.row(&id).await.state, State::Dead, "nothing happens by a plan");
    let done = press(&world, &plan, "Apply").await;
    assert!(done.contains("the event is queued now"), "{done}");
    let late = press(&world, &plan, "Apply").await;
    assert!(late.contains("Not done") && late.contains("have changed since"), "{late}");
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(world.metrics.sum("ReplaysSettled{}"), 1);
    assert_eq!(world.metrics.sum("TimeToSettled{lead-routing,succeeded}"), 0, "it waited for a human");
}

#[tokio::test]
async fn what_the_list_shows_is_planned_and_applied_together() {
    let world = World::new();
    world.partners.script(vec![Script::Status(422); 2]);
    for name in ["evt_1", "evt_2"] {
        world.post(&lead_of(name, &format!("{name}@example.com"))).await.expect("a good lead");
    }
    world.drain().await;
    world.park().await;
    let list = page(&world, json!({"page": "list", "reason": "terminal"})).await;
    let planned = carried(&list, "Plan a replay");
    assert_eq!(planned["reason"], "terminal");
    let done = press(&world, &page(&world, planned.clone()).await, "Apply").await;
    assert_eq!(done.matches("the event is queued now").count(), 2, "{done}");
    let nothing = page(&world, planned).await;
    assert!(nothing.contains("Nothing here can be replayed") && !nothing.contains("Apply"), "{nothing}");
}

#[tokio::test]
async fn a_button_of_a_page_that_is_out_of_date_is_refused() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let stale = page(&world, json!({"page": "event", "id": id})).await;
    press(&world, &stale, "Replay").await;
    world.partners.script(vec![Script::Status(429); 3]);
    world.drain().await;
    world.park().await;
    for label in ["Replay", "Drop"] {
        let refused = press(&world, &stale, label).await;
        assert!(refused.contains("Not done") && refused.contains("look again"), "{refused}");
    }
    let fresh = page(&world, json!({"page": "event", "id": id})).await;
    assert!(press(&world, &fresh, "Drop").await.contains("the event is dropped now"));
}

#[tokio::test]
async fn a_button_whose_work_may_be_done_does_not_say_that_it_is_not() {
    let mut world = World::without_breaker();
    let id = parked(&world).await;
    let event = page(&world, json!({"page": "event", "id": id})).await;
    world.replay.queue = Box::new(OutOfService);
    let lost = press(&world, &event, "Replay").await;
    assert!(lost.contains("No answer") && !lost.contains("Not done"), "{lost}");
}

/// The key was used again after its `ttl`. The past of the event is where people look for it, and nothing acts on it.
#[tokio::test]
async fn earlier_events_of_the_same_key_are_on_the_event_s_page() {
    let world = World::new();
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    let alone = page(&world, json!({"page": "event", "id": id})).await;
    assert!(!alone.contains("Earlier events"), "{alone}");
    let first = world.row(&id).await.received_at.to_string();
    world.clock.advance(std::time::Duration::from_secs(24 * 3600 + 1));
    assert_eq!(world.post(&lead()).await.expect("the key is free").id, id);
    for access in [Access::Operate, Access::Read] {
        let page = call(&world, access, json!({"page": "event", "id": id}), json!({})).await;
        let (_, earlier) = page.split_once("Earlier events of the same key").unwrap_or_else(|| panic!("{page}"));
        assert!(earlier.contains(&first) && earlier.contains("crm 1: done"), "{earlier}");
        assert!(!earlier.contains("cwdb-action"), "{earlier}");
    }
}

#[tokio::test]
async fn an_unsigned_button_is_refused() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let event = page(&world, json!({"page": "event", "id": id})).await;
    let refused = call(&world, Access::Operate, carried(&event, "Replay"), json!({"by": " "})).await;
    assert!(refused.contains("`by` must say something"), "{refused}");
    assert_eq!(world.row(&id).await.state, State::Dead);
}

#[tokio::test]
async fn who_may_only_look_has_no_buttons_and_cannot_do_without() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let words = json!({"by": "eve", "reason": "because"});
    for params in [json!({}), json!({"page": "list"}), json!({"page": "event", "id": id})] {
        let page = call(&world, Access::Read, params, json!({})).await;
        assert!(page.contains("crm") || page.contains("lead-routing"), "it shows: {page}");
        assert!(!page.contains("display=\"popup\""), "{page}");
    }
    let drop = json!({"op": "drop", "id": id});
    let refused = call(&world, Access::Read, drop.clone(), words).await;
    assert!(refused.contains("only shows"), "{refused}");
    let console = Console { replay: &world.replay, access: Access::Read, endpoint: ARN, caller: None };
    let refused =
        serve(&console, json!({"op": "drop", "id": id, "by": "eve", "reason": "because"})).await.expect("an answer");
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("only shows")), "{refused}");
    assert_eq!(world.row(&id).await.state, State::Dead);
}

#[tokio::test]
async fn the_list_shows_what_is_asked_for() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    for (field, value, shown) in [
        ("filter_flow", "lead-routing", true),
        ("filter_reason", "attempts_spent", true),
        ("filter_state", "dead", true),
        ("filter_flow", "another", false),
        ("filter_reason", "terminal", false),
        ("filter_state", "awaiting_approval", false),
    ] {
        let filter = json!({"page": "list", "filter": "fields"});
        let list = call(&world, Access::Operate, filter, json!({field: value})).await;
        assert_eq!(list.contains(id.as_str()), shown, "{field}={value}: {list}");
    }
}

/// The list ends with the newest: of what is older it knows nothing.
#[tokio::test]
async fn a_list_that_was_cut_says_so() {
    let world = World::new();
    let shown = async |state: &str| page(&world, json!({"page": "list", "state": state})).await;
    assert!(shown("queued").await.contains("Nothing is parked here"));
    let (row, _) = hostile("0", "crm");
    for n in 0..5000 {
        world.ledger.overwrite(&Row { id: EventId::named(n.to_string()), ..row.clone() });
    }
    for state in ["dead", "queued"] {
        let list = shown(state).await;
        assert!(list.contains("Only the newest 5000 are looked at"), "{list}");
        assert!(!list.contains("Nothing is parked here"), "{list}");
    }
}

/// A kept result may be a discount code.
#[tokio::test]
async fn who_may_only_look_sees_the_shape_of_a_result() {
    let world = World::new();
    let id = parked(&world).await;
    let mut row = world.row(&id).await;
    let result = json!({"code": "SAVE-40-ADA", "percent": 4711, "sent": true});
    row.effects.values_mut().for_each(|entry| entry.progress = Progress::Done { result: result.clone() });
    world.ledger.overwrite(&row);
    let params = json!({"page": "event", "id": id});
    let seen = call(&world, Access::Read, params.clone(), json!({})).await;
    assert!(seen.contains("code") && !seen.contains("SAVE-40") && !seen.contains("4711"), "{seen}");
    let operated = call(&world, Access::Operate, params, json!({})).await;
    assert!(operated.contains("SAVE-40-ADA"), "an operator compares it with the partner's records: {operated}");
}

/// What a partner says of an error, and why an operator did what, may name people.
#[tokio::test]
async fn who_may_only_look_sees_no_word_of_partners_and_operators() {
    let world = World::without_breaker();
    let said = json!({"code": "E17", "message": "Turing is blocked"});
    world.partners.script([Script::Body(422, Some(said.clone())), Script::Body(422, Some(said))]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    world.park().await;
    let replay = json!({"op": "replay", "id": id, "by": "grace", "reason": "Hopper telephoned"});
    assert_eq!(replay::handle(&world.replay, replay).await["state"], "queued");
    world.drain().await;
    world.park().await;
    let mut row = world.row(&id).await;
    row.ask = Some(Ask { hash: "h".into(), until: NOW, approved_by: Some("grace".into()) });
    row.history.push(Moment { at: NOW, what: "crm 1: credentials rejected: answered 401: Turing left".into() });
    world.ledger.put_aside(&row);
    world.ledger.overwrite(&row);
    for params in [json!({"page": "event", "id": id}), json!({"page": "list"})] {
        let operated = call(&world, Access::Operate, params.clone(), json!({})).await;
        assert!(operated.contains("Turing is blocked"), "an operator sees it: {operated}");
        let seen = call(&world, Access::Read, params, json!({})).await;
        assert!(seen.contains("answered 422"), "a viewer sees what came back: {seen}");
        for word in ["Turing", "Hopper", "grace"] {
            assert!(!seen.contains(word), "{word}: {seen}");
        }
    }
}

#[tokio::test]
async fn an_unknown_is_resolved_with_what_came_of_it() {
    let world = World::new();
    let (mut row, event) = hostile("0", "crm");
    row.effects.retain(|_, entry| matches!(entry.progress, Progress::Unknown { .. }));
    world.ledger.overwrite(&row);
    world.ledger.keep(&event, row.expires_at).await.expect("the model keeps it");
    let page = page(&world, json!({"page": "event", "id": "0"})).await;
    let mut words = json!({"by": "ada", "reason": "saw it there", "result": "{"});
    let refused = call(&world, Access::Operate, carried(&page, "Happened"), words.clone()).await;
    assert!(refused.contains("the result is not JSON"), "{refused}");
    words["result"] = json!(r#"{"crm_id": "c-1"}"#);
    let done = call(&world, Access::Operate, carried(&page, "Happened"), words.clone()).await;
    assert!(done.contains("Done"), "{done}");
    let row = world.row(&EventId::named("0")).await;
    assert_eq!(row.effects["0crm"].progress, Progress::Done { result: json!({"crm_id": "c-1"}) });
    let late = call(&world, Access::Operate, carried(&page, "Did not happen"), words).await;
    assert!(late.contains("look again"), "{late}");
}

#[tokio::test]
async fn a_question_is_answered_by_a_button() {
    for (label, state) in [("Approve", State::Succeeded), ("Reject", State::Noop)] {
        let world = shipped().await;
        let id = cart(&world, json!({"discount_percent": 40})).await;
        world.drain().await;
        let page = page(&world, json!({"page": "event", "id": id})).await;
        let answer = press(&world, &page, label).await;
        assert!(answer.contains("Done"), "{answer}");
        world.drain().await;
        assert_eq!(world.row(&id).await.state, state);
        let said = format!("{}ed by ada: the CRM is back", label.to_lowercase().trim_end_matches('e'));
        assert!(world.story(&id).await.contains(&said), "{said}");
        assert!(press(&world, &page, label).await.contains("Not done"), "once");
    }
}

#[tokio::test]
async fn a_flow_is_paused_for_a_while_and_resumed() {
    let world = World::new();
    let overview = page(&world, json!({"page": "overview"})).await;
    assert!(overview.contains("None is on"), "{overview}");
    let words = json!({"by": "ada", "reason": "the CRM is moving", "for": "30m"});
    let done = call(&world, Access::Operate, carried(&overview, "Pause"), words).await;
    assert!(done.contains("the switch is turned"), "{done}");
    let paused = page(&world, json!({"page": "overview"})).await;
    assert!(paused.contains("the CRM is moving"), "{paused}");
    press(&world, &paused, "Resume").await;
    assert!(page(&world, json!({"page": "overview"})).await.contains("None is on"));

    press(&world, &overview, "Pause").await;
    assert!(page(&world, json!({"page": "overview"})).await.contains("it is turned off"), "without an end");
}

/// Who came with an identity cannot sign with another's name.
#[tokio::test]
async fn who_lambda_says_it_is_goes_before_who_they_say_they_are() {
    let world = World::without_breaker();
    let id = parked(&world).await;
    let console = Console { replay: &world.replay, access: Access::Operate, endpoint: ARN, caller: Some("eu-1:eve") };
    serve(&console, json!({"op": "replay", "id": id, "by": "ada", "reason": "the CRM is back"}))
        .await
        .expect("an answer");
    world.partners.script(vec![Script::Status(429); 3]);
    world.drain().await;
    world.park().await;
    let mut pressed = json!({"op": "drop", "id": id});
    pressed["widgetContext"] = json!({"forms": {"all": {"by": "ada", "reason": "enough"}}});
    serve(&console, pressed).await.expect("a page");
    let story = world.story(&id).await.join("\n");
    assert!(story.contains("replay 1 by eu-1:eve: the CRM is back"), "{story}");
    assert!(story.contains("dropped by eu-1:eve: enough"), "{story}");
}

#[tokio::test]
async fn the_widget_describes_itself() {
    let world = World::new();
    let console = Console { replay: &world.replay, access: Access::Read, endpoint: ARN, caller: None };
    let markdown = serve(&console, json!({"describe": true})).await.expect("Markdown");
    assert!(markdown.as_str().is_some_and(|text| text.starts_with("## ") && text.contains("**page**")), "{markdown}");
}

/// Approvers invoke the function by an alias of their own, and IAM lets them use no other.
#[tokio::test]
async fn an_approver_looks_and_answers_and_does_nothing_else() {
    let world = World::new();
    let approvers = format!("{ARN}:approvers");
    let ask = async |endpoint: &str, payload: Value| {
        let console = Console { replay: &world.replay, access: Access::Operate, endpoint, caller: None };
        serve(&console, payload).await.expect("an answer")
    };
    let pause = json!({"op": "pause", "flow": "lead-routing", "by": "eve", "reason": "for fun"});
    let letters = json!({"Records": [{"messageId": "m", "body": "{}"}]});
    let page = json!({"op": "status", "widgetContext": {"theme": "dark"}});
    for payload in [pause.clone(), letters, page, json!({"op": "schedule"}), json!({"describe": true}), json!(null)] {
        let answer = ask(&approvers, payload.clone()).await;
        assert!(answer["error"].as_str().is_some_and(|why| why.contains("nothing was done")), "{payload}: {answer}");
    }
    assert!(ask(&approvers, json!({"op": "list"})).await["parked"].is_array());
    let question = json!({"op": "approve", "questions": [], "by": "ada", "reason": "a good customer"});
    let same = [ask(&approvers, question.clone()).await, ask(&format!("{ARN}:live"), question).await];
    assert_eq!(same[0], same[1], "an answer is an answer");
    assert!(ask(&format!("{ARN}:live"), pause).await.get("error").is_none(), "an operator does all");
}
