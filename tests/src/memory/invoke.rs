//! Effects that a function of the team's own does.

use std::time::Duration;

use replay::handle;
use serde_json::{Value, json};
use shared::effects::invocation::InvokeFailure;
use shared::flows::{File, Flows};
use shared::ledger::{Reason, State};
use shared::model::{FunctionScript, Script};

use super::effects::{accepted, reason};
use super::world::World;
use crate::fixtures::{files, lead};

/// The flow for leads with these effects, and with these integrations beside its own.
fn parse(effects: &str, integrations: &str) -> Result<Flows, String> {
    let mut files = files();
    let (head, rest) = files[2].text.split_once("effects:\n").expect("a flow has effects");
    let (_, tail) = rest.split_once("\nretry:").expect("a flow has a policy");
    let flow = format!("{head}effects:\n{effects}\nretry:{tail}");
    files[2] = File { path: files[2].path.clone(), text: flow };
    files[1].text += integrations;
    Flows::parse(&files).map_err(|problems| problems.to_string())
}

/// A world of one effect that a function does, with these fields beside.
fn world(more: &str) -> World {
    let effect = format!("  - {{id: a, invoke: team-score, timeout: 3s, result: {{id: /id}}, {more}}}\n");
    World::with(parse(&effect, "").unwrap_or_else(|problems| panic!("{problems}")))
}

const EVERY_GUARANTEE: [&str; 4] =
    ["guarantee: none", "guarantee: native", "guarantee: idempotent", "guarantee: lookup, lookup: {after: 30s}"];

fn operations(world: &World) -> Vec<String> {
    let operation = |document: Value| document["operation"].as_str().unwrap_or_default().to_owned();
    world.functions.documents().into_iter().map(operation).collect()
}

fn answer(answer: Value) -> FunctionScript {
    FunctionScript::Answer(answer)
}

fn lost() -> FunctionScript {
    FunctionScript::Fail(InvokeFailure::Lost("the function raised an error".into()))
}

#[tokio::test]
async fn a_function_gets_the_event_the_results_the_key_and_the_deadline() {
    let effects =
        "  - {id: crm, integration: crm, guarantee: native, request: {method: POST, path: /x}, result: {id: /id}}
  - id: score
    was: [rating]
    invoke: score
    guarantee: native
    timeout: 2s
    with: {email: '{{ event.data.email }}', crm: '{{ effects.crm.id }}', fixed: [1, true]}
    result: {score: /score, note: {at: /note, optional: true}}
";
    let flows = parse(effects, "score: {invoke: 'team-score:live', timeout: 3s}\n").expect("good flows");
    let world = World::with(flows);
    world.functions.script([answer(json!({"outcome": "done", "result": {"score": 7}}))]);
    let id = accepted(&world).await;
    world.poll().await;
    let row = world.row(&id).await;
    assert_eq!((row.state, &row.results()["rating"]), (State::Succeeded, &json!({"score": 7})));

    let (at, request) = world.functions.invocations().remove(0);
    let mut document: Value = serde_json::from_str(&request.document).expect("a document");
    assert_eq!((request.function.as_str(), request.timeout), ("team-score:live", Duration::from_secs(2)));
    assert!(!format!("{request:?}").contains("ada"), "no value in its debug output");
    let trace = document["trace"].take();
    assert!(trace["traceparent"].as_str().is_some_and(|trace| trace.contains(&world_trace())), "{trace}");
    let payload = document["event"].take();
    assert_eq!((&payload["data"]["email"], payload.get("unlisted")), (&lead()["data"]["email"], None));
    let with = json!({"email": lead()["data"]["email"], "crm": "id_1", "fixed": [1, true]});
    assert_eq!(
        document,
        json!({
            "format": 1, "operation": "do", "id": id, "type": "lead.created", "flow": "lead-routing",
            "effect": "score", "received_at": row.received_at.to_string(), "event": null,
            "effects": {"crm": {"id": "id_1"}}, "enrich": {}, "with": with,
            "key": format!("{id}/rating"), "attempt": 1, "epoch": row.epoch,
            "deadline": (at + Duration::from_secs(2)).millis(), "trace": null,
        })
    );
}

fn world_trace() -> String {
    shared::base::trace::Trace::start(1, 2, 3).id()
}

#[tokio::test]
async fn an_effect_of_a_function_costs_what_a_call_costs() {
    let world = world("guarantee: native");
    accepted(&world).await;
    world.poll().await;
    assert_eq!(world.ledger.writes(), 1 + 2, "the admission, the claim, the outcome");
    assert_eq!(world.secrets.reads(), 1, "that of the intake alone: a function has no secret of ours");
}

/// What its answers and Lambda's mean, for each guarantee: the state in the end, why it died, and what it was asked.
#[tokio::test]
async fn what_a_function_answers_is_what_becomes_of_the_event() {
    use State::{Dead, Succeeded};
    let not_run = || FunctionScript::Fail(InvokeFailure::NotRun { why: "throttled".into(), retry_after: None });
    let never = || FunctionScript::Fail(InvokeFailure::NeverRuns("too large".into()));
    let (unknown, terminal) = (Some(Reason::UnknownOutcome), Some(Reason::Terminal));
    let (once, again, asked) = (vec!["do"], vec!["do", "do"], vec!["do", "ask"]);
    let doubts = [
        ("raised", lost()),
        ("hangs", FunctionScript::Hang),
        ("does not know", answer(json!({"outcome": "in_doubt"}))),
        ("returns nothing", answer(Value::Null)),
        ("returns a text", answer(json!("done"))),
        ("says something else", answer(json!({"outcome": "ok"}))),
        ("answers another question", answer(json!({"outcome": "found"}))),
        ("says no outcome", answer(json!({"result": {"id": 1}}))),
        ("has a list as its result", answer(json!({"outcome": "done", "result": [1]}))),
        ("has a text as its delay", answer(json!({"outcome": "retry", "retry_after": "soon"}))),
        ("worker lost", FunctionScript::Panic),
    ];
    for [none, native, idempotent, lookup] in [EVERY_GUARANTEE] {
        for (what, script) in &doubts {
            for (guarantee, state, dead, operations_) in [
                (none, Dead, unknown, &once),
                (native, Succeeded, None, &again),
                (idempotent, Succeeded, None, &again),
                (lookup, Succeeded, None, &asked),
            ] {
                check(what, script.clone(), guarantee, (state, dead), operations_).await;
            }
        }
        for guarantee in [none, native, idempotent, lookup] {
            check("retry", answer(json!({"outcome": "retry"})), guarantee, (Succeeded, None), &again).await;
            check("not run", not_run(), guarantee, (Succeeded, None), &again).await;
            check("failed", answer(json!({"outcome": "failed"})), guarantee, (Dead, terminal), &once).await;
            check("never runs", never(), guarantee, (Dead, terminal), &once).await;
            check("done", answer(json!({"outcome": "done", "result": {"id": 1}})), guarantee, (Succeeded, None), &once)
                .await;
        }
    }
}

async fn check(what: &str, script: FunctionScript, guarantee: &str, end: (State, Option<Reason>), asked: &[&str]) {
    let world = world(guarantee);
    world.functions.script([script]);
    let id = accepted(&world).await;
    world.drain().await;
    let row = world.row(&id).await;
    assert_eq!((row.state, reason(&world, &id).await), end, "{what}, {guarantee}: {:?}", row.history);
    assert_eq!(operations(&world), asked, "{what}, {guarantee}");
    let keys: std::collections::BTreeSet<String> =
        world.functions.documents().iter().map(|document| document["key"].to_string()).collect();
    assert_eq!(keys.len(), 1, "{what}, {guarantee}: one key");
}

#[tokio::test]
async fn a_function_is_asked_once_it_surely_runs_no_more() {
    for (lookup, after) in [("", Duration::from_secs(900)), (", lookup: {after: 30s}", Duration::from_secs(30))] {
        let world = world(&format!("guarantee: lookup{lookup}"));
        let found = json!({"outcome": "found", "result": {"id": "v_9"}});
        world.functions.script([lost(), answer(json!({"outcome": "cannot_say"})), lost(), answer(found)]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(operations(&world), ["do", "ask", "ask", "ask"], "who cannot say is asked again");
        let asked = world.functions.invocations();
        assert!(asked[1].0.since(asked[0].0) >= after, "{lookup}: not before");
        assert_eq!(world.row(&id).await.results()["a"], json!({"id": "v_9"}));
    }
}

#[tokio::test]
async fn a_function_that_did_not_do_it_is_invoked_again() {
    let world = world("guarantee: lookup, lookup: {after: 30s}");
    world.functions.script([lost(), answer(json!({"outcome": "absent"}))]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(operations(&world), ["do", "ask", "do"]);
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

#[tokio::test]
async fn a_result_that_a_function_leaves_out_is_asked_for() {
    for (guarantee, asked) in [("native", vec!["do", "do"]), ("lookup, lookup: {after: 30s}", vec!["do", "ask"])] {
        let world = world(&format!("guarantee: {guarantee}"));
        world.functions.script([answer(json!({"outcome": "done"}))]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(operations(&world), asked, "{guarantee}");
        assert_eq!(world.row(&id).await.results()["a"], json!({"id": "id_2"}), "{guarantee}");
    }
    let world = world("guarantee: none");
    world.functions.script([answer(json!({"outcome": "done", "result": {"other": 1}}))]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::ResultMissing));
}

#[tokio::test]
async fn a_function_may_ask_for_patience() {
    for script in [
        answer(json!({"outcome": "retry", "retry_after": 40.5})),
        FunctionScript::Fail(InvokeFailure::NotRun {
            why: "throttled".into(),
            retry_after: Some(Duration::from_secs(41)),
        }),
    ] {
        let world = world("guarantee: none");
        world.functions.script([script.clone()]);
        accepted(&world).await;
        world.drain().await;
        let tries = world.functions.invocations();
        assert!(tries[1].0.since(tries[0].0) >= Duration::from_millis(40_500), "{script:?}");
    }
}

/// A pattern in the role that does not fit is our own fault: it buries nothing, spends no attempt, and is told.
#[tokio::test]
async fn a_function_that_may_not_be_invoked_makes_events_wait() {
    let world = world("guarantee: none");
    let denied = FunctionScript::Fail(InvokeFailure::NotAllowed("Lambda answered 403 AccessDeniedException".into()));
    world.functions.script(vec![denied; 8]);
    let id = accepted(&world).await;
    world.drain().await;
    let row = world.row(&id).await;
    assert_eq!((row.state, row.effects["a"].attempts), (State::Succeeded, 1), "{:?}", row.death);
    let told = row.history.iter().any(|moment| moment.what.contains("credentials rejected"));
    assert!(told, "{:?}", row.history);
}

/// What a function says is told, unless it quotes the event.
#[tokio::test]
async fn a_functions_message_reaches_the_operator_without_the_events_values() {
    let email = lead()["data"]["email"].as_str().expect("an email").to_owned();
    for (message, error) in [
        ("no such list".to_owned(), "the function answered failed: no such list"),
        (format!("{email} is not known"), "the function answered failed"),
    ] {
        let world = world("guarantee: none");
        world.functions.script([answer(json!({"outcome": "failed", "message": message}))]);
        let id = accepted(&world).await;
        world.drain().await;
        let row = world.row(&id).await;
        assert_eq!(row.death.map(|death| death.error).as_deref(), Some(error));
        assert!(!format!("{:?}", row.history).contains(&email));
    }
}

/// Pause, breaker and rate go by the function's integration, which need not be written down.
#[tokio::test]
async fn a_function_can_be_paused_and_has_a_breaker() {
    let world = world("guarantee: native");
    let pause = json!({"op": "pause", "integration": "team-score", "for": "10m", "by": "ada", "reason": "a bug"});
    let paused = handle(&world.replay, pause).await;
    assert!(paused.get("error").is_none(), "{paused}");
    let id = accepted(&world).await;
    world.poll().await;
    assert_eq!(operations(&world), Vec::<String>::new());
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);

    let down = World::with(parse(
        "  - {id: a, invoke: score, guarantee: native}\n",
        "score: {invoke: team-score, timeout: 3s, breaker: {window: 30s, min_calls: 1, error_rate: 0.5, open_for: 5m, probes: 1}}\n",
    ).expect("good flows"));
    down.functions.script([lost()]);
    accepted(&down).await;
    down.poll().await;
    down.clock.advance(Duration::from_secs(60));
    down.poll().await;
    assert_eq!(operations(&down), ["do"], "the breaker holds the second one back");
}

#[tokio::test]
async fn a_function_that_takes_too_long_for_an_invocation_is_told_and_parked() {
    let flows = parse("  - {id: a, invoke: team-score, timeout: 40s, guarantee: native}\n", "").expect("good flows");
    let told = flows.fit_into(&files(), Duration::from_secs(30)).expect_err("too long").to_string();
    assert!(told.contains("flows/lead-routing.yaml") && told.contains("`team-score` is 40 s"), "{told}");
    let world = World::with(flows);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::Misconfigured));
    assert_eq!(operations(&world), Vec::<String>::new());
}

#[tokio::test]
async fn calls_and_functions_run_side_by_side() {
    let effects = "  - {id: a, integration: crm, guarantee: native, needs: [], request: {method: POST, path: /a}}
  - {id: b, invoke: team-score, timeout: 3s, guarantee: native, needs: []}
";
    let world = World::with(parse(effects, "").expect("good flows"));
    world.partners.script([Script::Status(200)]);
    let id = accepted(&world).await;
    world.poll().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    assert_eq!(world.ledger.writes(), 1 + 2);
}

#[test]
fn a_flow_says_of_a_function_only_what_a_function_takes() {
    for (effect, integrations, told) in [
        ("invoke: team-score", "", "does not say how long `team-score` may take"),
        ("invoke: team-score, timeout: 0s", "", "does not say how long"),
        ("invoke: crm, timeout: 3s", "", "`crm`, which is a partner with a base_url"),
        ("invoke: 'arn:aws:lambda:x:1:function:f', timeout: 3s", "", "no name of a function"),
        ("invoke: score, timeout: 9s", "score: {invoke: team-score, timeout: 3s}\n", "waits longer for `score`"),
        ("invoke: f, timeout: 3s, answers: [{status: 200, means: done}]", "", "takes no answers"),
        ("invoke: f, timeout: 3s, integration: crm, request: {method: POST, path: /x}", "", "does two things"),
        ("integration: crm, timeout: 3s, request: {method: POST, path: /x}", "", "it takes no timeout"),
        ("invoke: f, timeout: 3s, lookup: {after: 1s, request: {path: /x}, found: /x}", "", "takes only `after`"),
        ("invoke: f, timeout: 3s, with: {x: '{{ event.data.emial }}'}", "", "can never be there"),
        ("integration: s, request: {method: POST, path: /x}", "s: {invoke: f, timeout: 3s}\n", "`s` is a function"),
        (
            "invoke: s",
            "s: {invoke: f, base_url: 'https://x.example.com', timeout: 3s}\n",
            "a function takes no base_url",
        ),
        ("invoke: s", "s: {invoke: f, auth: bearer, timeout: 3s}\n", "a function takes no auth"),
        ("invoke: s", "s: {invoke: 'a b', timeout: 3s}\n", "no name of a function"),
        ("invoke: s", "s: {timeout: 3s}\n", "the field `base_url` is missing"),
        (
            "integration: crm, guarantee: lookup, lookup: {after: 1s}, request: {method: POST, path: /x}",
            "",
            "needs a request",
        ),
    ] {
        let problems = parse(&format!("  - {{id: a, {effect}}}\n"), integrations).expect_err(effect);
        assert!(problems.contains(told), "{effect}: {problems}");
    }
}
