//! What operators do, through the local cloud: many dead letters, two operators, and a function that is
//! killed in the middle of its work.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::iter;
use serde_json::{Value, json};
use shared::adapters::aws::DynamoLedger;
use shared::base::time::Timestamp;
use shared::ledger::{Death, Reason, Records, Row, State};

use super::system::{System, TRIES, eventually, variable};
use crate::fixtures::{ADA, aws, by_ada, event};

/// How often each event was replayed, by its own history.
async fn replays(system: &System, ids: &[String]) -> Vec<usize> {
    let mut replays = Vec::new();
    for id in ids {
        let page = system.until(id, "succeeded").await;
        let history = page["history"].as_array().expect("a history");
        let replay = |moment: &&Value| moment.as_str().is_some_and(|moment| moment.contains("  replay "));
        replays.push(history.iter().filter(replay).count());
    }
    replays
}

/// The batch as `status` tells it.
async fn batch(system: &System, id: &Value) -> Value {
    let status = eventually("a status", async || system.ask(&json!({"op": "status"})).await).await;
    status["batches"].as_array().and_then(|all| all.iter().find(|one| one["id"] == *id)).expect("the batch").clone()
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_replay_function_killed_in_the_middle_of_a_batch_repeats_nothing_and_loses_nothing() {
    let system = System::take().await;
    system.let_messages_return_soon().await;
    let (opened, ids) = killed_in_a_batch(&system).await;
    eventually("the batch is done", async || {
        let batch = batch(&system, &opened["id"]).await;
        if batch["progress"] == "done" { Ok(()) } else { Err(batch) }
    })
    .await;
    assert_eq!(replays(&system, &ids).await, vec![1; 12]);
    let calls = system.calls().await;
    for id in &ids {
        let of_event = calls.iter().filter(|call| call["idempotency_key"] == format!("{id}/crm"));
        assert_eq!(of_event.count(), 2, "the first call, which was refused, and the replay's");
    }
}

/// A batch whose function was killed before it had replayed all, and its events. Where the function was quicker, there is
/// another one.
async fn killed_in_a_batch(system: &System) -> (Value, Vec<String>) {
    for _ in 0..TRIES {
        let ids = system.dead_leads(410, 12).await;
        let before = system.calls().await.len();
        let opened =
            system.operate(by_ada(json!({"op": "batch", "only": {"error": "410"}, "max": 100, "rate": 600}))).await;
        assert_eq!(opened["progress"], "running", "{opened}");
        system.until_calls(before + 3).await;
        assert!(system.kill("replay").await > 0, "it was at work");
        if batch(system, &opened["id"]).await["replayed"].as_u64().expect("a count") < 12 {
            return (opened, ids);
        }
        replays(system, &ids).await;
    }
    panic!("no batch of {TRIES} was killed in the middle");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn two_operators_press_the_same_button_and_the_second_sees_why_not() {
    let system = System::take().await;
    let ids = system.dead_leads(405, 1).await;
    let version = system.show(&ids[0]).await["version"].clone();
    let press = |by: &str| {
        let reason = "the CRM is back";
        system.operate(json!({"op": "replay", "id": ids[0], "version": version, "by": by, "reason": reason}))
    };
    let (one, other) = futures::join!(press("ada"), press("bob"));
    let (done, refused): (Vec<_>, Vec<_>) = [one, other].into_iter().partition(|answer| answer["state"] == "queued");
    assert_eq!(done.len(), 1, "{done:?} {refused:?}");
    let why = refused[0]["error"].as_str().expect("a refusal");
    assert!(["look again before you decide", "it is on its way"].iter().any(|said| why.contains(said)), "{why}");
    assert_eq!(replays(&system, &ids).await, [1]);
}

/// How many are parked.
const MANY: usize = 1000;

/// A dead letter, as the replay function would have parked it.
fn letter(run: i64, n: usize) -> (Row, shared::arrival::event::Event) {
    let mut event = event(&format!("evt_{run}_{n}"));
    event.group = event.id.to_string();
    let at = Timestamp::from_secs(run) + Duration::from_millis(n as u64);
    let reason = if n.is_multiple_of(10) { Reason::AttemptsSpent } else { Reason::Terminal };
    let error = format!("many {run}: answered 500");
    let death = Death { reason, effect: Some("crm".into()), error, attempts: 3, at };
    let row = Row { state: State::Dead, death: Some(death), ..Row::admitted(&event, at).park(at) };
    (row, event)
}

/// The shortest of a few tries: the others say how busy the machine is.
async fn quickest(system: &System, ask: impl Fn(usize) -> Value) -> (Duration, Value) {
    let mut best: Option<(Duration, Value)> = None;
    for n in 0..5 {
        let began = Instant::now();
        let answer = system.operate(ask(n)).await;
        let took = began.elapsed();
        if best.as_ref().is_none_or(|(least, _)| took < *least) {
            best = Some((took, answer));
        }
    }
    best.expect("a try")
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn among_a_thousand_dead_letters_list_filter_and_replay_answer() {
    let system = System::take().await;
    let ledger = &DynamoLedger::new(&aws().await, variable("LEDGERLINE_LEDGER_TABLE"));
    let run = system.now();
    iter((0..MANY).map(|n| letter(run, n)))
        .for_each_concurrent(16, async |(row, event)| {
            ledger.keep(&event, row.expires_at).await.expect("it is kept");
            ledger.replace(None, &row).await.expect("it is new");
        })
        .await;

    let all = format!("many {run}");
    let (list, answer) = quickest(&system, |_| json!({"op": "list", "limit": 100, "only": {"error": all}})).await;
    assert_eq!((&answer["matching"], answer["parked"].as_array().map(Vec::len)), (&json!(MANY), Some(100)));
    let filter = json!({"error": all, "reason": "attempts_spent"});
    let (filtered, answer) = quickest(&system, |_| json!({"op": "list", "only": filter})).await;
    assert_eq!(answer["matching"], MANY / 10);
    let replay = |n| by_ada(json!({"op": "replay", "id": letter(run, n).0.id}));
    let (replayed, answer) = quickest(&system, replay).await;
    assert_eq!(answer["state"], "queued", "{answer}");
    println!("list {list:?}, filter {filtered:?}, replay {replayed:?}");
    // Beside other tests on a busy machine, a time says nothing.
    if std::env::var_os("MEASURED").is_some() {
        for (what, took) in [("list", list), ("filter", filtered), ("replay", replayed)] {
            assert!(took < Duration::from_secs(1), "{what}: {took:?}");
        }
    }

    for n in 0..5 {
        system.until(letter(run, n).0.id.as_str(), "succeeded").await;
    }
    // The other tests have lists of their own to look through.
    iter((5..MANY).map(|n| letter(run, n).0))
        .for_each_concurrent(16, async |row| {
            let gone = row.clone().dropped(ADA, Duration::ZERO, row.received_at).expect("it is dead");
            ledger.replace(Some(&row), &gone).await.expect("nobody else touched it");
        })
        .await;
}
