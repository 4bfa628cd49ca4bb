//! Answers that leave it open what has happened, to effects of every guarantee: no effect twice, none lost, and for every
//! event that is parked an operator's act that ends it. The partner's own log says what really happened.

use futures::future::join_all;
use local::aws::Endpoint;
use local::lambda::{InvocationOutcome, Lambda};
use serde_json::{Value, json};

use super::system::{System, eventually, variable};

const GUARANTEES: [&str; 4] = ["none", "native", "idempotent", "lookup"];

/// One event, which one effect is for.
pub(super) struct DoubtfulEvent {
    pub(super) id: String,
    effect: String,
    guarantee: &'static str,
    path: String,
}

impl DoubtfulEvent {
    pub(super) async fn post(system: &System, kind: &str, guarantee: &'static str) -> Self {
        let effect = format!("{kind}-{guarantee}");
        let unique = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
        let number = format!("{effect}-{unique}");
        let path = format!("/doubt-{guarantee}/things/{number}");
        let event = json!({"type": "doubt.raised", "data": {"event_id": number, "effect": effect}});
        DoubtfulEvent { id: system.post(&event).await.id(), effect, guarantee, path }
    }

    /// What the partner was asked for this event: the calls of one method.
    async fn calls(&self, system: &System, method: &str) -> Vec<Value> {
        let mut log = system.calls_of(&format!("doubt-{}", self.guarantee)).await;
        log.retain(|call| call["path"] == self.path && call["method"] == method);
        log
    }

    /// How often the partner did it, and how often it was called.
    async fn applied_of_calls(&self, system: &System) -> (usize, usize) {
        let calls = self.calls(system, "PUT").await;
        let key = format!("{}/{}", self.id, self.effect);
        assert!(calls.iter().all(|call| call["idempotency_key"] == key), "one key: {calls:?}");
        assert!(calls.windows(2).all(|two| two[0]["body"] == two[1]["body"]), "one payload: {calls:?}");
        (calls.iter().filter(|call| call["applied"] == true).count(), calls.len())
    }

    /// The event is parked for this reason, and names its effect.
    async fn parked(&self, system: &System, reason: &str) {
        let line = system.until_parked(&self.id).await;
        assert_eq!((&line["reason"], &line["effect"]), (&json!(reason), &json!(self.effect)), "{line}");
        if self.guarantee == "idempotent" {
            self.planned_by_a_viewer().await;
        }
    }

    /// Who may only look sees the plan of a replay, too: for that, the viewers' function reads what was applied last.
    async fn planned_by_a_viewer(&self) {
        let viewers = variable("LEDGERLINE_REPLAY_FUNCTION").replace("-replay", "-console");
        let endpoint = Endpoint::of_environment().expect("make test names the emulator");
        let plan = json!({"page": "plan", "id": self.id, "widgetContext": {"dashboardName": "view"}});
        let shown = Lambda::new(endpoint, std::env::temp_dir()).invoke(&viewers, &plan).await.expect("it is invoked");
        let InvocationOutcome::Answered(page) = shown else { panic!("not answered: {shown:?}") };
        assert!(page.as_str().is_some_and(|page| page.contains(&self.effect)), "{page}");
    }

    /// An operator says what became of the effect, replays the event, and it succeeds.
    async fn resolve(&self, system: &System, verdict: Value) {
        let page = system.show(&self.id).await;
        let resolve = json!({"op": "resolve", "id": self.id, "effect": self.effect, "verdict": verdict, "by": "ada",
            "reason": "looked at the partner", "version": page["version"]});
        system.operate(resolve).await;
        self.replay(system).await;
    }

    /// An operator replays the event, and it succeeds.
    async fn replay(&self, system: &System) {
        let replay = json!({"op": "replay", "id": self.id, "by": "ada", "reason": "it is known now"});
        assert_eq!(system.operate(replay).await["state"], "queued");
        system.until(&self.id, "succeeded").await;
    }
}

/// Tells the partner of every guarantee how to behave. A partner that takes no key honours none.
async fn tell_all(system: &System, behaviour: Value) {
    for guarantee in GUARANTEES {
        let mut told = behaviour.clone();
        told["idempotent"] = json!(guarantee == "native");
        system.tell(&format!("doubt-{guarantee}"), told).await;
    }
}

/// One event for each guarantee, at once.
async fn raise_all(system: &System, kind: &str) -> Vec<DoubtfulEvent> {
    join_all(GUARANTEES.map(|guarantee| DoubtfulEvent::post(system, kind, guarantee))).await
}

/// The partner acted once, and its answer did not say so: what each guarantee makes of that.
async fn assert_done_once(system: &System, doubts: &[DoubtfulEvent], unknown: &str) {
    for doubt in doubts {
        match doubt.guarantee {
            "none" => {
                doubt.parked(system, unknown).await;
                doubt.resolve(system, json!({"happened": {"thing": "seen"}})).await;
                assert_eq!(doubt.applied_of_calls(system).await, (1, 1), "{}", doubt.effect);
            }
            "native" => {
                system.until(&doubt.id, "succeeded").await;
                assert_eq!(doubt.applied_of_calls(system).await, (1, 2), "{}", doubt.effect);
            }
            // The same request again, which such a partner may get twice.
            "idempotent" => {
                system.until(&doubt.id, "succeeded").await;
                assert_eq!(doubt.applied_of_calls(system).await, (2, 2), "{}", doubt.effect);
            }
            _ => {
                system.until(&doubt.id, "succeeded").await;
                assert_eq!(doubt.applied_of_calls(system).await, (1, 1), "{}", doubt.effect);
                assert!(!doubt.calls(system, "GET").await.is_empty(), "{} was looked up", doubt.effect);
            }
        }
    }
}

/// A proxy may answer so after the partner has acted.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_partner_that_acts_and_says_otherwise_acts_once_under_every_guarantee() {
    let system = System::take().await;
    for status in [503, 408, 409, 303] {
        tell_all(&system, json!({"mode": "status", "status": status, "apply": true, "times": 1})).await;
        let doubts = raise_all(&system, "plain").await;
        assert_done_once(&system, &doubts, "unknown_outcome").await;
    }
}

/// A partner may save an error and answer it for ever: the attempts end, the doubt does not.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn attempts_that_are_spent_in_doubt_are_parked_as_unknown_and_replayed_under_one_key() {
    let system = System::take().await;
    system.tell("doubt-native", json!({"mode": "status", "status": 500, "apply": true})).await;
    let doubt = DoubtfulEvent::post(&system, "plain", "native").await;
    doubt.parked(&system, "unknown_outcome").await;
    assert_eq!(doubt.applied_of_calls(&system).await, (1, 5), "as many calls as the policy allows");
    system.tell("doubt-native", json!({"mode": "ok"})).await;
    doubt.replay(&system).await;
    assert_eq!(doubt.applied_of_calls(&system).await, (1, 6), "the partner knows the key still");
}

/// It did happen, and what the flow needs of the answer is not there.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_success_without_its_result_is_asked_for_or_stated_by_an_operator() {
    let system = System::take().await;
    tell_all(&system, json!({"mode": "status", "status": 200, "body": null, "times": 1})).await;
    let doubts = raise_all(&system, "plain").await;
    assert_done_once(&system, &doubts, "result_missing").await;

    // Where the body has to say that it is done, one that says nothing leaves it open.
    tell_all(&system, json!({"mode": "status", "status": 200, "body": null, "times": 1})).await;
    let doubts = raise_all(&system, "wordy").await;
    assert_done_once(&system, &doubts, "unknown_outcome").await;
}

/// The partner says no in the body of a success: surely nothing happened, whatever the guarantee.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_success_that_says_no_is_none_and_can_be_replayed() {
    let system = System::take().await;
    tell_all(&system, json!({"mode": "status", "status": 200, "body": {"ok": false}, "apply": false, "times": 1}))
        .await;
    let doubts = raise_all(&system, "wordy").await;
    for doubt in &doubts {
        doubt.parked(&system, "terminal").await;
        assert_eq!(doubt.applied_of_calls(&system).await, (0, 1), "{}", doubt.effect);
        doubt.replay(&system).await;
        assert_eq!(doubt.applied_of_calls(&system).await, (1, 2), "{}", doubt.effect);
    }
}

/// Our key was rotated, and the partner is the first to know: every event waits until it takes us again.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn rejected_credentials_make_events_of_every_guarantee_wait() {
    let system = System::take().await;
    tell_all(&system, json!({"mode": "status", "status": 401})).await;
    let doubts = raise_all(&system, "plain").await;
    for doubt in &doubts {
        eventually("its credentials were rejected", async || {
            let page = system.show(&doubt.id).await;
            if page["history"].to_string().contains("credentials rejected") { Ok(()) } else { Err(page) }
        })
        .await;
        assert_ne!(system.show(&doubt.id).await["state"], "dead", "{}", doubt.effect);
    }
    tell_all(&system, json!({"mode": "ok"})).await;
    for doubt in &doubts {
        let page = system.until(&doubt.id, "succeeded").await;
        assert_eq!(page["effects"][&doubt.effect]["attempts"], 1, "rejected credentials are no attempt: {page}");
        assert_eq!(doubt.applied_of_calls(&system).await.0, 1, "{}", doubt.effect);
    }
}

/// The same where the request itself may be repeated: it is, and what came of it is still not known.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn attempts_that_are_spent_in_doubt_of_a_repeatable_request_are_parked_as_unknown_and_replayed() {
    let system = System::take().await;
    system.tell("doubt-idempotent", json!({"mode": "status", "status": 500, "apply": true})).await;
    let doubt = DoubtfulEvent::post(&system, "plain", "idempotent").await;
    doubt.parked(&system, "unknown_outcome").await;
    assert_eq!(doubt.applied_of_calls(&system).await.1, 5, "as many calls as the policy allows");
    system.tell("doubt-idempotent", json!({"mode": "ok"})).await;
    doubt.replay(&system).await;
    assert_eq!(doubt.applied_of_calls(&system).await.1, 6, "the same request once more");
}

/// A question that fails, or whose credentials are not taken, says nothing: it is asked again until it is answered, and the
/// call is not made again.
#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_lookup_that_cannot_answer_is_asked_again_and_calls_nothing_again() {
    let system = System::take().await;
    system.tell("doubt-lookup", json!({"mode": "status", "status": 503, "apply": true})).await;
    let doubt = DoubtfulEvent::post(&system, "plain", "lookup").await;
    eventually("it was asked about twice", async || {
        let asked = doubt.calls(&system, "GET").await;
        if asked.len() >= 2 { Ok(()) } else { Err(json!(asked)) }
    })
    .await;
    system.tell("doubt-lookup", json!({"mode": "status", "status": 401})).await;
    eventually("its credentials were rejected", async || {
        let page = system.show(&doubt.id).await;
        if page["history"].to_string().contains("credentials rejected") { Ok(()) } else { Err(page) }
    })
    .await;
    assert_eq!(doubt.applied_of_calls(&system).await, (1, 1), "a question is no call");
    system.tell("doubt-lookup", json!({"mode": "ok"})).await;
    let page = system.until(&doubt.id, "succeeded").await;
    assert_eq!(page["effects"][&doubt.effect]["attempts"], 1, "{page}");
    assert_eq!(doubt.applied_of_calls(&system).await, (1, 1), "it was found");
}
