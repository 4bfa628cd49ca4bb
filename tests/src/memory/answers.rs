//! What a partner's answer means: the defaults, what a table declares, and credentials that a partner does not take.

use std::time::Duration;

use replay::handle;
use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::machine::Clock;
use shared::flows::Flows;
use shared::ledger::{Death, Reason, State};
use shared::model::Script;

use super::effects::{accepted, asked, reason, replace_effects};
use super::log::Log;
use super::world::World;
use crate::fixtures::{files, lead_of};

/// A world of one effect with these lines, at a partner with these.
fn world(effect: &str, integration: &str) -> World {
    let mut files = files();
    files[1].text.push_str(integration);
    files[2].text = replace_effects(&files[2].text, &[("a", effect)]);
    World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")))
}

/// A partner whose events die when their attempts are spent, also if it may be down.
const NO_BREAKER: &str = "  breaker: off\n";

/// A question that a partner answers about the effect.
const LOOKUP: &str = "lookup: {after: 5s, request: {path: '/find'}, found: /id}";

/// The effect is parked, and an operator states its result and replays the event.
async fn resolved(world: &World, id: &EventId, verdict: Value) -> Value {
    world.park().await;
    let row = world.row(id).await;
    let version = format!("{}.{}", row.epoch, row.step);
    let said = json!({"op": "resolve", "id": id, "effect": "a", "verdict": verdict, "by": "ada",
        "reason": "saw it", "version": version});
    let answer = handle(&world.replay, said).await;
    if answer["state"] == "dead" {
        let again = json!({"op": "replay", "id": id, "by": "ada", "reason": "it is known now"});
        let replayed = handle(&world.replay, again).await;
        assert_eq!(replayed["state"], "queued", "{replayed}");
        world.drain().await;
    }
    answer
}

/// Statuses of which only the partner knows whether it had acted.
const DOUBTFUL: [u16; 7] = [303, 408, 409, 423, 500, 503, 504];

#[tokio::test]
async fn a_doubtful_status_is_repeated_under_one_key_where_the_partner_honours_it() {
    for status in DOUBTFUL {
        let world = world("guarantee: native", "");
        world.partners.script([Script::Status(status)]);
        let id = accepted(&world).await;
        world.drain().await;
        let calls = world.partners.calls();
        let keys: Vec<_> = calls
            .iter()
            .filter_map(|(_, call)| call.headers.iter().find(|(name, _)| name == "Idempotency-Key"))
            .collect();
        assert_eq!(keys.len(), 2, "{status}");
        assert_eq!(keys[0], keys[1], "{status}: the same key");
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{status}");
    }
}

#[tokio::test]
async fn a_doubtful_status_is_parked_where_nobody_can_know() {
    for status in DOUBTFUL {
        let world = world("guarantee: none", "");
        world.partners.script([Script::Status(status)]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(asked(&world).len(), 1, "{status}");
        assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome), "{status}");
    }
}

/// Stripe replays a saved 500 under the same key: repeating may never clear it up.
#[tokio::test]
async fn attempts_that_are_spent_in_doubt_park_as_unknown() {
    let world = world("guarantee: native", NO_BREAKER);
    world.partners.script(vec![Script::Status(500); 10]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome));
    assert!(world.row(&id).await.may_replay().is_ok(), "the same key again is harmless while the partner knows it");
}

/// A later answer speaks for itself alone.
#[tokio::test]
async fn a_clear_failure_after_a_doubt_does_not_clear_the_doubt() {
    let world = world("guarantee: native", "");
    world.partners.script([Script::Status(503), Script::Status(422)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome));
}

/// The effect of a partner that says what is wrong, and quotes whom it is about.
#[tokio::test]
async fn a_dead_letter_says_what_the_partner_said() {
    let log = Log::capture();
    let world = world("guarantee: none", "  error: {code: /code, message: /message}\n");
    let message = "Property \"tier\" of Ada.Lovelace@example.com (+442079460018) does not exist";
    world.partners.script([Script::Body(400, Some(json!({"code": "PROPERTY_DOESNT_EXIST", "message": message})))]);
    let id = accepted(&world).await;
    world.drain().await;
    let full = "answered 400 (PROPERTY_DOESNT_EXIST): Property \"tier\" of *** (***) does not exist";
    let row = world.row(&id).await;
    assert_eq!(row.death.as_ref().map(|death| death.error.as_str()), Some(full), "in the row and its letter");
    assert_eq!(row.effects["a"].progress.error(), Some(full), "with its effect");
    let lines: Vec<&str> = row.history.iter().map(|moment| moment.what.as_str()).collect();
    assert!(lines.contains(&"a 1: answered 400 (PROPERTY_DOESNT_EXIST)"), "the history has the code: {lines:?}");
    world.park().await;
    let shown = handle(&world.replay, json!({"op": "show", "id": id})).await.to_string();
    assert!(shown.contains("does not exist"), "operators see it: {shown}");
    assert!(!log.text().contains("PROPERTY") && !log.text().contains("tier"), "no log has a word of it");
}

/// Whoever looks it up is told why the partner does not say.
#[tokio::test]
async fn a_lookup_that_is_refused_says_why() {
    let world = world(&format!("guarantee: lookup, {LOOKUP}"), "");
    world
        .partners
        .script([Script::Hang, Script::Body(403, Some(json!({"message": "the scope `history` is missing"})))]);
    let id = accepted(&world).await;
    world.poll().await;
    world.clock.advance(Duration::from_secs(10));
    world.poll().await;
    let row = world.row(&id).await;
    let error = row.effects["a"].progress.error();
    assert_eq!(error, Some("looked up: answered 403: the scope `history` is missing"));
}

/// The event comes back until the credentials are right, and its row does not grow by the partner's words.
#[tokio::test]
async fn rejected_credentials_are_explained_once() {
    let world = world("guarantee: none", "");
    world.partners.script(vec![Script::Body(403, Some(json!({"message": "scope contacts.write is missing"}))); 5]);
    let id = accepted(&world).await;
    for _ in 0..40 {
        world.poll().await;
        world.wake().await;
        world.clock.advance(Duration::from_secs(60));
    }
    let row = world.row(&id).await;
    let said = row.history.iter().filter(|moment| moment.what.contains("contacts.write")).count();
    let rejected = row.history.iter().filter(|moment| moment.what.contains("credentials rejected")).count();
    assert!(said == 1 && rejected > 1, "{:?}", row.history);
}

#[tokio::test]
async fn a_clear_failure_is_one() {
    for status in [400, 404, 405, 410, 413, 415, 422] {
        let world = world("guarantee: none", "");
        world.partners.script([Script::Status(status)]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!((asked(&world).len(), reason(&world, &id).await), (1, Some(Reason::Terminal)), "{status}");
    }
}

#[tokio::test]
async fn who_knows_the_partner_better_declares_what_its_answers_mean() {
    let partner = "  answers: [{status: 503, means: retry}, {status: 409, means: failed}]\n";
    for (effect, script, calls, end) in [
        ("guarantee: none", 503, 2, (State::Succeeded, None)),
        ("guarantee: none", 409, 1, (State::Dead, Some(Reason::Terminal))),
        ("guarantee: none, answers: [{status: 409, means: done}]", 409, 1, (State::Succeeded, None)),
        ("guarantee: none, answers: [{status: 400..499, means: retry}]", 401, 2, (State::Succeeded, None)),
        (
            "guarantee: none, answers: [{status: 200..299, means: in_doubt}]",
            202,
            1,
            (State::Dead, Some(Reason::UnknownOutcome)),
        ),
    ] {
        let world = world(effect, partner);
        world.partners.script([Script::Status(script)]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(asked(&world).len(), calls, "{effect}: {script}");
        assert_eq!((world.row(&id).await.state, reason(&world, &id).await), end, "{effect}: {script}");
    }
}

/// A rotated key is our own fault: it buries no traffic, and spends no attempt.
#[tokio::test]
async fn credentials_that_a_partner_does_not_take_make_events_wait() {
    for status in [401, 403] {
        for guarantee in ["native", "none"] {
            let world = world(&format!("guarantee: {guarantee}"), "");
            // More than the policy's attempts.
            world.partners.script(vec![Script::Status(status); 8]);
            let id = accepted(&world).await;
            world.drain().await;
            let row = world.row(&id).await;
            assert_eq!(row.state, State::Succeeded, "{status} {guarantee}: {:?}", row.death);
            assert_eq!(row.effects["a"].attempts, 1, "{status} {guarantee}: waiting is no attempt");
            let told = row.history.iter().filter(|moment| moment.what.contains("credentials rejected")).count();
            assert!(told > 0, "{:?}", row.history);
        }
    }
}

#[tokio::test]
async fn rejected_credentials_open_the_breaker_at_once() {
    let breaker = "  breaker: {window: 30s, min_calls: 100, error_rate: 0.5, open_for: 5m, probes: 1}\n";
    let world = world("guarantee: none", breaker);
    world.partners.script([Script::Status(401)]);
    accepted(&world).await;
    world.poll().await;
    let began = asked(&world).len();
    world.clock.advance(Duration::from_secs(120));
    world.poll().await;
    assert_eq!((began, asked(&world).len()), (1, 1), "the breaker holds the second call back");
}

/// A 200 that lacks what a later effect needs happened: it is asked for again where that is harmless, and nowhere else.
#[tokio::test]
async fn a_result_that_is_missing_is_asked_for() {
    let without = [None, Some(json!({})), Some(json!({"id": null})), Some(json!({"id": "x".repeat(600)}))];
    for body in without {
        let bare = Script::Body(200, body.clone());
        for (effect, calls) in [
            ("guarantee: native".to_owned(), vec!["POST /a", "POST /a"]),
            ("guarantee: idempotent".to_owned(), vec!["POST /a", "POST /a"]),
            (format!("guarantee: lookup, {LOOKUP}"), vec!["POST /a", "GET /find"]),
        ] {
            let world = world(&effect, "");
            world.partners.script([bare.clone()]);
            let id = accepted(&world).await;
            world.drain().await;
            assert_eq!(asked(&world), calls, "{effect}: {body:?}");
            assert_eq!(world.row(&id).await.results()["a"], json!({"id": "id_2"}), "{effect}: {body:?}");
        }
    }
}

#[tokio::test]
async fn a_result_that_nobody_can_be_asked_for_is_an_operators_to_state() {
    let world = world("guarantee: none", "");
    world.partners.script([Script::Body(200, None)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::ResultMissing));

    for short in [json!({}), json!({"id": null}), json!({"other": 1})] {
        let declined = resolved(&world, &id, json!({"happened": short})).await["error"].to_string();
        assert!(declined.contains("the result lacks `id`"), "{declined}");
    }
    let page = handle(&world.replay, json!({"op": "show", "id": id})).await;
    assert_eq!(page["effects"]["a"]["needs"], json!(["id"]), "what `resolve` takes: {page}");
    let misspelt = json!({"op": "resolve", "id": id, "effect": "aa", "verdict": {"happened": {"id": "1"}}, "by": "ada",
        "reason": "saw it", "version": page["version"]});
    let misspelt = handle(&world.replay, misspelt).await["error"].to_string();
    assert!(misspelt.contains("has no effect `aa`: did you mean `a`?"), "{misspelt}");
    let blind = json!({"op": "replay", "id": id, "by": "ada", "reason": "hope"});
    let blind = handle(&world.replay, blind).await["error"].to_string();
    assert!(blind.contains("resolve"), "{blind}");

    resolved(&world, &id, json!({"happened": {"id": "c-1"}})).await;
    assert_eq!(asked(&world), ["POST /a"], "what happened is not called again");
    assert_eq!(world.row(&id).await.results()["a"], json!({"id": "c-1"}));
}

#[tokio::test]
async fn a_result_that_never_comes_is_parked_under_every_guarantee() {
    for effect in ["guarantee: native", "guarantee: idempotent"] {
        let world = world(effect, "");
        world.partners.script(vec![Script::Body(200, None); 10]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(reason(&world, &id).await, Some(Reason::ResultMissing), "{effect}");
        resolved(&world, &id, json!({"happened": {"id": "c-1"}})).await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{effect}");
    }
}

#[tokio::test]
async fn an_optional_result_may_be_missing() {
    let mut files = files();
    files[2].text = replace_effects(&files[2].text, &[("a", "guarantee: none")])
        .replace("result: {id: /id}", "result: {id: {at: /id, optional: true}}");
    let world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    world.partners.script([Script::Body(200, None)]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!((asked(&world).len(), world.row(&id).await.state), (1, State::Succeeded));
}

/// A partner that saves its 500 under our key never clears it up by repetition. It can be asked.
#[tokio::test]
async fn a_saved_error_is_looked_up_once_the_attempts_are_spent() {
    let world = world(&format!("guarantee: native, {LOOKUP}"), "");
    world.partners.script(vec![Script::Status(500); 3]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(asked(&world), ["POST /a", "POST /a", "POST /a", "GET /find"]);
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

#[tokio::test]
async fn a_body_decides_where_the_table_reads_it() {
    let table = "  answers:
    - {status: 200..299, when: body.ok == true, means: done}
    - {status: 200..299, when: body.error == 'later', means: retry, retry_after: {body: /wait}}
    - {status: 200..299, when: body.ok == false, means: failed}
    - {status: 409, means: done, result: {id: \"{{ body.message | split('ID: ') | last }}\"}}
";
    let ok = || Script::Body(200, Some(json!({"ok": true, "id": "id_9"})));
    let unknown = (State::Dead, Some(Reason::UnknownOutcome));
    for (body, calls, end) in [
        (Some(json!({"ok": true, "id": "id_1"})), 1, (State::Succeeded, None)),
        (Some(json!({"ok": false})), 1, (State::Dead, Some(Reason::Terminal))),
        (Some(json!({"error": "later", "wait": 7})), 2, (State::Succeeded, None)),
        (Some(json!({"id": "id_1"})), 1, unknown),
        (Some(json!("ok")), 1, unknown),
        (None, 1, unknown),
    ] {
        let world = world("guarantee: none", table);
        world.partners.script([Script::Body(200, body.clone()), ok()]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(asked(&world).len(), calls, "{body:?}");
        assert_eq!((world.row(&id).await.state, reason(&world, &id).await), end, "{body:?}");
        if let [(first, _), (second, _)] = &world.partners.calls()[..] {
            assert!(second.since(*first) >= Duration::from_secs(7), "{body:?}: the body says how long to wait");
        }
    }
    let world = world("guarantee: none", table);
    world.partners.script([Script::Body(409, Some(json!({"message": "Contact exists. Existing ID: 51"})))]);
    let id = accepted(&world).await;
    world.drain().await;
    assert_eq!(world.row(&id).await.results()["a"], json!({"id": "51"}));
}

/// A repetition is harmless only as long as nobody newer has written.
#[tokio::test]
async fn a_late_repetition_undoes_nothing() {
    let world = world("guarantee: idempotent", NO_BREAKER);
    world.partners.script(vec![Script::Status(503); 3]);
    let older = world.post(&lead_of("older", "ada@example.com")).await.expect("a good lead").id;
    world.drain().await;
    assert_eq!((asked(&world).len(), reason(&world, &older).await), (3, Some(Reason::UnknownOutcome)));
    world.park().await;
    world.clock.advance(Duration::from_secs(1));
    let newer = world.post(&lead_of("newer", "ada@example.com")).await.expect("a good lead").id;
    world.drain().await;
    assert_eq!(world.row(&newer).await.state, State::Succeeded);
    let again = json!({"op": "replay", "id": older, "by": "ada", "reason": "the CRM is back"});
    let declined = handle(&world.replay, again).await["error"].to_string();
    assert!(declined.contains("is stale"), "{declined}");
    assert_eq!(asked(&world).len(), 4);
    let dropped = json!({"op": "drop", "id": older, "by": "ada", "reason": "overtaken"});
    assert_eq!(handle(&world.replay, dropped).await["state"], "dropped", "an operator can end it");
}

/// The first message of an event was never sent, and its sender delivers it again after a newer one. It is no replay, and
/// older all the same.
#[tokio::test]
async fn a_late_delivery_undoes_nothing() {
    let world = world("guarantee: idempotent", "");
    let older = world.post(&lead_of("older", "ada@example.com")).await.expect("a good lead").id;
    let lost = world.events.receive(1);
    world.events.delete(&lost[0].receipt);
    world.clock.advance(Duration::from_secs(6 * 60));
    let newer = world.post(&lead_of("newer", "ada@example.com")).await.expect("a good lead").id;
    world.drain().await;
    assert_eq!((asked(&world).len(), world.row(&newer).await.state), (1, State::Succeeded));
    world.post(&lead_of("older", "ada@example.com")).await.expect("a good lead");
    world.drain().await;
    assert_eq!((asked(&world).len(), reason(&world, &older).await), (1, Some(Reason::Stale)));
}

/// An operator may know better than a partner's refusal.
#[tokio::test]
async fn a_failed_effect_can_be_resolved() {
    let world = world("guarantee: none", "");
    world.partners.script([Script::Status(422)]);
    let id = accepted(&world).await;
    world.drain().await;
    resolved(&world, &id, json!({"happened": {"id": "entered by hand"}})).await;
    assert_eq!(asked(&world), ["POST /a"]);
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

#[tokio::test]
async fn a_verdict_is_on_what_was_shown() {
    let world = world("guarantee: none", "");
    world.partners.script([Script::Hang]);
    let id = accepted(&world).await;
    world.drain().await;
    world.park().await;
    let said = |version: Option<&str>| {
        let mut said = json!({"op": "resolve", "id": id, "effect": "a", "verdict": "did_not_happen", "by": "ada",
            "reason": "saw it"});
        if let Some(version) = version {
            said["version"] = json!(version);
        }
        handle(&world.replay, said)
    };
    assert!(said(None).await["error"].to_string().contains("version"));
    assert!(said(Some("0.0")).await["error"].to_string().contains("has changed since you looked"));
}

/// The lease of a worker that died is the last moment at which its call can have been made.
#[tokio::test]
async fn a_lookup_waits_from_the_end_of_the_lost_lease() {
    let world = world(&format!("guarantee: lookup, {}", LOOKUP.replace("5s", "300s")), "");
    world.partners.script([Script::Panic]);
    accepted(&world).await;
    world.drain().await;
    let calls = world.partners.calls();
    let lease = Duration::from_secs(60);
    assert!(calls[1].0.since(calls[0].0) >= lease + Duration::from_secs(300), "{:?}", calls[1].0.since(calls[0].0));
}

/// A world that was cut off in its call, and whose queue has given up on the event since.
async fn crashed_and_parked() -> (World, EventId) {
    let world = world(&format!("guarantee: lookup, {}", LOOKUP.replace("5s", "300s")), "");
    world.partners.script([Script::Panic]);
    let id = accepted(&world).await;
    world.poll().await;
    world.clock.advance(Duration::from_secs(180));
    world.give_up_on_first();
    world.park().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::Crashed));
    (world, id)
}

/// The lease of a worker that died.
const LEASE: Duration = Duration::from_secs(60);

fn between_the_calls(world: &World) -> Duration {
    let calls = world.partners.calls();
    assert_eq!(asked(world)[..2], ["POST /a", "GET /find"]);
    calls[1].0.since(calls[0].0)
}

/// What the queue gives up on has lost its lease as well.
#[tokio::test]
async fn a_replay_looks_up_no_earlier_than_from_the_end_of_the_lost_lease() {
    let (world, id) = crashed_and_parked().await;
    let again = json!({"op": "replay", "id": id, "by": "ada", "reason": "the workers are back"});
    assert_eq!(handle(&world.replay, again).await["state"], "queued");
    world.drain().await;
    assert!(between_the_calls(&world) >= LEASE + Duration::from_secs(300), "{:?}", between_the_calls(&world));
}

/// So has what is parked because no invocation has time for it any more.
#[tokio::test]
async fn a_lost_lease_is_dated_before_the_event_is_parked_as_misconfigured() {
    let effect = format!("guarantee: lookup, {}", LOOKUP.replace("5s", "300s"));
    let mut world = world(&effect, "");
    world.partners.script([Script::Panic]);
    let id = accepted(&world).await;
    world.poll().await;
    let fitting = world.processor.timeout;
    world.processor.timeout = Duration::from_secs(1);
    world.clock.advance(Duration::from_secs(180));
    world.poll().await;
    world.park().await;
    assert_eq!(reason(&world, &id).await, Some(Reason::UnknownOutcome));
    let intended = world.row(&id).await.effects["a"].at;
    assert_eq!(intended, world.partners.calls()[0].0 + LEASE, "the last moment at which it may have been called");
    world.processor.timeout = fitting;
}

/// A row that is declared goes before what a lookup means by itself.
#[tokio::test]
async fn a_lookup_is_read_by_the_declared_table_first() {
    for status in [404, 410] {
        let partner = format!("  answers: [{{status: {status}, means: in_doubt}}]\n");
        let world = world(&format!("guarantee: lookup, {LOOKUP}"), &partner);
        world.partners.script([Script::Hang, Script::Status(status)]);
        let id = accepted(&world).await;
        world.drain().await;
        assert_eq!(asked(&world), ["POST /a", "GET /find", "GET /find"], "{status} says nothing, so it is asked again");
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{status}");
    }
}

/// A breaker that only rejected credentials open, for long.
const BREAKER: &str = "  breaker: {window: 30s, min_calls: 100, error_rate: 0.5, open_for: 5m, probes: 1}\n";

/// A question whose credentials are not taken says nothing of the partner, and everything of us.
#[tokio::test]
async fn rejected_credentials_of_a_lookup_make_the_event_wait() {
    for status in [401, 403] {
        let world = world(&format!("guarantee: lookup, {LOOKUP}"), BREAKER);
        world.partners.script([Script::Hang, Script::Status(status)]);
        let id = accepted(&world).await;
        world.poll().await;
        world.clock.advance(Duration::from_secs(10));
        world.poll().await;
        assert_eq!(asked(&world), ["POST /a", "GET /find"], "{status}");
        let row = world.row(&id).await;
        assert!(row.effects["a"].in_doubt(), "the doubt stays");
        let told = row
            .history
            .iter()
            .any(|moment| moment.what.starts_with("deferred") && moment.what.ends_with("credentials rejected"));
        assert!(told, "{status}: {:?}", row.history);
        world.clock.advance(Duration::from_secs(120));
        world.poll().await;
        assert_eq!(asked(&world).len(), 2, "{status}: the breaker is open at once");
        world.drain().await;
        assert_eq!((world.row(&id).await.state, asked(&world).len()), (State::Succeeded, 3), "{status}");
    }
}

/// A flow that finds something out first, and buries what it cannot find out.
fn enriching(on_error: &str) -> World {
    let mut files = files();
    files[1].text.push_str(BREAKER);
    let enrich = format!(
        "enrich:\n  - {{id: company, integration: crm, path: /companies, result: {{name: /id}}, on_error: {on_error}}}\n\neffects:"
    );
    files[2].text = files[2].text.replace("effects:", &enrich);
    World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")))
}

#[tokio::test]
async fn rejected_credentials_of_an_enrichment_make_the_event_wait() {
    for on_error in ["dead", "retry", "continue"] {
        let world = enriching(on_error);
        world.partners.script(vec![Script::Status(401); 3]);
        let id = accepted(&world).await;
        world.poll().await;
        world.clock.advance(Duration::from_secs(120));
        world.poll().await;
        assert_eq!(asked(&world), ["GET /companies"], "{on_error}: the breaker is open at once");
        assert_eq!(world.metrics.sum("Deferrals{lead-routing,credentials rejected}"), 1, "{on_error}");
        world.drain().await;
        let row = world.row(&id).await;
        assert_eq!((row.state, row.effects["crm"].attempts), (State::Succeeded, 1), "{on_error}: {:?}", row.death);
        assert_eq!(row.enrich["company"], json!({"name": "id_4"}), "{on_error}");
    }
}

/// Whoever declares that a 403 is no matter of credentials is believed.
#[tokio::test]
async fn an_enrichment_is_read_by_the_declared_table_first() {
    let mut files = files();
    files[1].text.push_str("  answers: [{status: 403, means: failed}]\n");
    let enrich = "enrich:\n  - {id: company, integration: crm, path: /companies, result: {name: /id}, on_error: continue}\n\neffects:";
    files[2].text = files[2].text.replace("effects:", enrich);
    let world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    world.partners.script([Script::Status(403)]);
    let id = accepted(&world).await;
    world.poll().await;
    assert_eq!((world.row(&id).await.state, asked(&world).len()), (State::Succeeded, 2));
}

/// A version that needs more of a result than the one that called did not have it kept.
#[tokio::test]
async fn a_result_that_lacks_a_needed_name_is_an_operators_to_state() {
    let mut world = world("guarantee: none", "");
    world.partners.script([Script::Status(200)]);
    let id = accepted(&world).await;
    world.drain().await;
    let mut row = world.row(&id).await;
    assert_eq!(row.results()["a"], json!({"id": "id_1"}));
    let death =
        Death { reason: Reason::Template, effect: None, error: "no `url`".into(), attempts: 1, at: row.queued_at };
    (row.state, row.death) = (State::Dead, Some(death));
    world.ledger.overwrite(&row.park(world.clock.now()));
    let declined = resolved(&world, &id, json!({"happened": {"id": "id_1"}})).await["error"].to_string();
    assert!(declined.contains("`a` of") && declined.contains("is done"), "it lacks nothing: {declined}");

    let mut files = files();
    files[2].text = replace_effects(&files[2].text, &[("a", "guarantee: none")])
        .replace("result: {id: /id}", "result: {id: /id, url: /url, note: {at: /note, optional: true}}");
    world.replay.flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let declined = resolved(&world, &id, json!({"happened": {"id": "id_1"}})).await["error"].to_string();
    assert!(declined.contains("the result lacks `url`"), "{declined}");
    let declined = resolved(&world, &id, json!("did_not_happen")).await["error"].to_string();
    assert!(declined.contains("is done"), "what is done stays done: {declined}");
    let stated = json!({"id": "id_1", "url": "https://crm.example.com/1"});
    let row = world.row(&id).await;
    let said = json!({"op": "resolve", "id": id, "effect": "a", "verdict": {"happened": stated}, "by": "ada",
        "reason": "saw it", "version": format!("{}.{}", row.epoch, row.step)});
    assert_eq!(handle(&world.replay, said).await["effects"]["a"]["result"], stated);
    assert_eq!(world.row(&id).await.results()["a"], stated);
}
