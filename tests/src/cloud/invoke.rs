//! Effects that the samples of functions do, in Python and in TypeScript: killed in the call, late, raising, and with the
//! processor killed beside them. The partner's own log says what really happened.

use futures::future::join_all;
use serde_json::{Value, json};

use super::system::{System, TRIES, eventually};

const GUARANTEES: [&str; 4] = ["none", "native", "idempotent", "lookup"];
const LANGUAGES: [&str; 2] = ["python", "typescript"];

/// One event, which one effect of one sample is for.
struct Asked {
    id: String,
    effect: String,
    guarantee: &'static str,
}

impl Asked {
    async fn post(system: &System, language: &str, guarantee: &'static str) -> Self {
        let effect = format!("{language}-{guarantee}");
        Asked { id: post(system, &effect).await, effect, guarantee }
    }

    /// What the partner was asked for this event: the calls of one method.
    fn calls<'l>(&self, log: &'l [Value], method: &str) -> Vec<&'l Value> {
        let path = format!("/vouchers/{}-{}", self.id, self.effect);
        log.iter().filter(|call| call["path"] == path && call["method"] == method).collect()
    }

    fn applied(&self, log: &[Value]) -> usize {
        self.calls(log, "POST").iter().filter(|call| call["applied"] == true).count()
    }
}

async fn post(system: &System, effect: &str) -> String {
    let unique = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
    let event = json!({"type": "voucher.asked", "data": {"event_id": format!("{effect}-{unique}"), "effect": effect}});
    system.post(&event).await.id()
}

/// One event for each effect of each sample, at once.
async fn ask_all(system: &System) -> Vec<Asked> {
    let mut asked = Vec::new();
    for language in LANGUAGES {
        for guarantee in GUARANTEES {
            asked.push(Asked::post(system, language, guarantee).await);
        }
    }
    asked
}

/// The system, with a process of each sample for each event that comes at once: a cold start on a busy machine may take
/// longer than the processor waits.
async fn warm() -> System {
    let system = System::take().await;
    system.tell("vouchers", json!({"mode": "slow", "ms": 1000})).await;
    let question = json!({"format": 1, "operation": "ask", "id": "warm", "type": "voucher.asked", "flow": "vouchers",
        "effect": "up", "received_at": "", "event": {}, "key": "warm/up", "attempt": 1, "epoch": 1,
        "deadline": (system.now() + 60) * 1000});
    let names = LANGUAGES.iter().flat_map(|language| vec![format!("ledgerline-team-voucher-{language}"); 4]);
    // All at once, so that each has a process of its own.
    let ask = || join_all(names.clone().map(|name| system.ask_function(name, &question)));
    let mut answers = ask().await;
    for _ in 1..TRIES {
        if answers.iter().all(Result::is_ok) {
            break;
        }
        answers = ask().await;
    }
    let absent = |answer: &Result<Value, Value>| answer.as_ref().is_ok_and(|answer| answer["outcome"] == "absent");
    assert!(answers.iter().all(absent), "{answers:?}");
    system.forget_partners().await;
    system
}

/// Events for all effects of all samples, while the partner does this with their first calls.
async fn ask_all_while(system: &System, behaviour: Value) -> Vec<Asked> {
    system.tell("vouchers", behaviour).await;
    let all = ask_all(system).await;
    eventually("each event's first call has come", async || {
        let log = system.calls_of("vouchers").await;
        if all.iter().all(|asked| !asked.calls(&log, "POST").is_empty()) { Ok(()) } else { Err(json!(log)) }
    })
    .await;
    all
}

/// The partner is well from now on, and answers what it held.
async fn heal(system: &System) {
    system.tell("vouchers", json!({"mode": "ok"})).await;
}

async fn kill_samples(system: &System) {
    for language in LANGUAGES {
        assert!(system.kill(&format!("team-voucher-{language}")).await > 0, "{language} runs");
    }
}

/// What the ledger promises, whatever became of the first calls: an effect happens once where the guarantee can tell, is
/// repeated only where it may be, and is parked for a human where nobody knows.
async fn holds(system: &System, all: &[Asked], acted: bool) {
    for asked in all.iter().filter(|asked| asked.guarantee != "none") {
        system.until(&asked.id, "succeeded").await;
    }
    let log = system.calls_of("vouchers").await;
    for asked in all.iter().filter(|asked| asked.guarantee != "none") {
        let (effect, posts) = (&asked.effect, asked.calls(&log, "POST"));
        assert!(posts.iter().all(|call| call["idempotency_key"] == format!("{}/{effect}", asked.id)), "{posts:?}");
        let applied = asked.applied(&log);
        match asked.guarantee {
            "lookup" => {
                assert!(!asked.calls(&log, "GET").is_empty(), "{effect} was asked whether it happened");
                assert_eq!((applied, posts.len() == 1), (1, acted), "{effect}: {posts:?}");
            }
            "native" => assert!(applied == 1 && posts.len() > 1, "{effect}: {posts:?}"),
            _ => assert!(applied >= 1 && posts.len() > 1, "{effect}: {posts:?}"),
        }
    }
    for asked in all.iter().filter(|asked| asked.guarantee == "none") {
        surfaces(system, asked, acted).await;
    }
}

/// The unknown is told, a human says what is so, and the event goes on: no effect twice, none lost.
async fn surfaces(system: &System, asked: &Asked, acted: bool) {
    let Asked { id, effect, .. } = asked;
    let line = system.until_parked(id).await;
    assert_eq!((&line["reason"], &line["effect"]), (&json!("unknown_outcome"), &json!(effect)), "{line}");
    let log = system.calls_of("vouchers").await;
    assert_eq!((asked.calls(&log, "POST").len(), asked.applied(&log)), (1, usize::from(acted)), "{effect}");

    let verdict = if acted { json!({"happened": {"code": "seen"}}) } else { json!("did_not_happen") };
    let page = system.show(id).await;
    let resolve = json!({"op": "resolve", "id": id, "effect": effect, "verdict": verdict, "by": "ada",
        "reason": "looked at the partner", "version": page["version"]});
    let resolved = system.operate(resolve).await;
    let is = if acted { "done" } else { "failed" };
    assert_eq!(resolved["effects"][effect]["state"], is, "{resolved}");
    let replay = json!({"op": "replay", "id": id, "by": "ada", "reason": "it is known now"});
    assert_eq!(system.operate(replay).await["state"], "queued");
    system.until(id, "succeeded").await;
    let log = system.calls_of("vouchers").await;
    assert_eq!(asked.applied(&log), 1, "{effect}: once in the end");
}

/// The function dies while the partner, which has acted, is about to answer.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_function_killed_after_it_acted_acts_once() {
    let system = warm().await;
    let all = ask_all_while(&system, json!({"mode": "hang", "apply": true, "seconds": 20})).await;
    for asked in &all {
        let entry = &system.show(&asked.id).await["effects"][&asked.effect];
        assert_ne!(*entry, Value::Null, "written down before the call");
    }
    heal(&system).await;
    kill_samples(&system).await;
    holds(&system, &all, true).await;
}

/// The function dies before the partner has acted: nobody but the partner can know.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_function_killed_before_it_acted_acts_once() {
    let system = warm().await;
    let all = ask_all_while(&system, json!({"mode": "hang", "apply": false, "seconds": 20})).await;
    heal(&system).await;
    kill_samples(&system).await;
    holds(&system, &all, false).await;
}

/// The partner acts at once, and answers when neither the function nor the processor waits for it any more.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_function_that_is_too_late_acts_once() {
    let system = warm().await;
    let all = ask_all_while(&system, json!({"mode": "slow", "ms": 9000})).await;
    heal(&system).await;
    holds(&system, &all, true).await;
}

/// The partner acts and answers with an error, which the function raises.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_function_that_raises_may_have_acted() {
    let system = warm().await;
    let all = ask_all_while(&system, json!({"mode": "status", "status": 502, "apply": true})).await;
    heal(&system).await;
    holds(&system, &all, true).await;
}

/// The processor dies in the call. The function runs on, and does what it was asked for: the partner answers it when nobody
/// waits for the function any more.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_function_whose_caller_is_killed_acts_once() {
    let system = warm().await;
    system.let_messages_return_soon().await;
    let all = ask_all_while(&system, json!({"mode": "hold"})).await;
    assert!(system.kill("processor").await > 0);
    heal(&system).await;
    holds(&system, &all, true).await;
}

/// What a function says for sure is believed: nothing happened, and the guarantee does not matter.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_function_that_surely_did_nothing_is_tried_again_or_not_at_all() {
    let system = warm().await;
    system.tell("vouchers", json!({"mode": "status", "status": 429, "retry_after": 1, "times": 8})).await;
    let throttled = ask_all(&system).await;
    for asked in &throttled {
        system.until(&asked.id, "succeeded").await;
    }
    let log = system.calls_of("vouchers").await;
    assert!(throttled.iter().all(|asked| asked.applied(&log) == 1), "{log:?}");

    system.tell("vouchers", json!({"mode": "status", "status": 422})).await;
    let refused = ask_all(&system).await;
    let lines = join_all(refused.iter().map(|asked| system.until_parked(&asked.id))).await;
    assert!(lines.iter().all(|line| line["reason"] == "terminal"), "{lines:?}");
    assert!(lines.iter().all(|line| line["error"].to_string().contains("answered failed")), "{lines:?}");
}

/// A function that is not there surely did nothing: the event is tried, and then parked to be replayed.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_function_that_is_not_deployed_leaves_no_doubt() {
    let system = System::take().await;
    let id = post(&system, "missing").await;
    let line = system.until_parked(&id).await;
    assert_eq!((&line["reason"], &line["attempts"]), (&json!("attempts_spent"), &json!(20)), "{line}");
    assert!(line["error"].to_string().contains("404 ResourceNotFoundException"), "{line}");
}
