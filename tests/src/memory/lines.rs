//! One line of the log for each unit of work.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use shared::adapters::machine::json_log;
use shared::base::sample_rate::SampleRate;
use shared::model::Script;
use shared::operate::log::{LogLevel, LogSampling};
use tracing::subscriber::{DefaultGuard, set_default};

use super::http::{BATCH, HttpRequest};
use super::log::{Log, WrittenLog};
use super::world::{World, flows_with};
use crate::fixtures::{by_ada, flows, lead, lead_of, payload};

/// The lines that a message leaves at INFO.
fn lines(log: &Log) -> Vec<Value> {
    let lines = log.text();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    lines.filter(|line| line["level"] == "INFO").map(|line| line["fields"].clone()).collect()
}

fn with_ids(yaml: String) -> String {
    let log = "log: {event_id: data.event_id, who: {field: data.email, normalize: [trim, lower, sha256]}}";
    yaml.replace("\neffects:", &format!("\n{log}\neffects:"))
}

#[tokio::test]
async fn a_message_leaves_one_line_that_says_what_became_of_it() {
    let world = World::with(flows_with(with_ids));
    let id = world.post(&lead_of("evt_9", "Ada@example.com")).await.expect("a good lead").id;
    let log = Log::capture();
    world.poll().await;
    let [line] = &lines(&log)[..] else { panic!("{}", log.text()) };
    let told = ["event", "flow", "outcome", "attempt", "trace_id"].map(|name| line[name].clone());
    let trace = world.row(&id).await.trace.id();
    assert_eq!(told, [json!(id), json!("lead-routing"), json!("succeeded"), json!(1), json!(trace)]);
    let ids: Value = serde_json::from_str(line["ids"].as_str().expect("ids")).expect("JSON");
    assert_eq!(ids["event_id"], "evt_9");
    assert_eq!(ids["who"].as_str().map(str::len), Some(64), "it is hashed");
    assert!(!log.text().to_lowercase().contains("ada@"), "{}", log.text());
}

#[tokio::test]
async fn a_delivery_leaves_one_line_that_names_its_flow_and_its_business_ids() {
    let world = World::with(flows_with(with_ids));
    let lead = |n: u32| lead_of(&format!("evt_{n}"), "Ada@example.com");
    for again in 0..2 {
        let log = Log::capture();
        HttpRequest::of(&world, lead(9).to_string().as_bytes()).send(&world).await;
        let [line] = &lines(&log)[..] else { panic!("{}", log.text()) };
        assert_eq!(line["flow"], "lead-routing", "delivery {again}: {line}");
        let ids: Value = serde_json::from_str(line["ids"].as_str().expect("ids")).expect("JSON");
        assert_eq!((&ids["event_id"], ids["who"].as_str().map(str::len)), (&json!("evt_9"), Some(64)));
        assert!(!log.text().to_lowercase().contains("ada@"), "{}", log.text());
    }
    let log = Log::capture();
    let batch = json!([lead(1), lead(2)]).to_string();
    HttpRequest::of(&world, batch.as_bytes()).to(BATCH, "source", "web-forms").send(&world).await;
    let [line] = &lines(&log)[..] else { panic!("{}", log.text()) };
    assert_eq!(
        (&line["event"], &line["flow"], &line["ids"]),
        (&json!("2 events"), &json!("lead-routing"), &Value::Null)
    );
}

#[tokio::test]
async fn every_try_of_a_failing_event_has_its_line() {
    let world = World::without_breaker();
    world.partners.script(vec![Script::Status(429); 3]);
    world.post(&lead()).await.expect("a good lead");
    let log = Log::capture();
    world.drain().await;
    let told: Vec<_> = lines(&log)
        .into_iter()
        .map(|line| (line["outcome"].clone(), line["attempt"].clone(), line["reason"].clone()))
        .collect();
    let retry = |attempt: u32| (json!("retry"), json!(attempt), Value::Null);
    assert_eq!(told, [retry(1), retry(2), (json!("dead"), json!(3), json!("attempts_spent"))]);
}

#[tokio::test]
async fn a_sample_leaves_out_successes_and_nothing_else() {
    let mut world = World::new();
    world.processor.sampling = LogSampling::new(SampleRate::new(0.0).expect("a share"));
    world.intake.sampling = LogSampling::new(SampleRate::new(0.0).expect("a share"));
    let log = Log::capture();
    let body = lead_of("evt_1", "ada@example.com").to_string();
    let answer = HttpRequest::of(&world, body.as_bytes()).send(&world).await;
    assert_eq!(answer.status, 202);
    world.poll().await;
    assert_eq!(lines(&log), Vec::<Value>::new(), "a success");
    world.partners.script([Script::Status(429)]);
    world.post(&lead_of("evt_2", "grace@example.com")).await.expect("a good lead");
    world.drain().await;
    let outcomes: Vec<_> = lines(&log).into_iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes, ["retry", "succeeded"], "what was not done at the first try");
    HttpRequest::of(&world, b"{}").with("webhook-signature", "v1,bm8=").send(&world).await;
    assert!(log.text().contains("the delivery was rejected"), "{}", log.text());
}

/// The intake and the processor keep the lines of the same events.
#[tokio::test]
async fn the_same_events_are_sampled_at_both_ends() {
    let mut world = World::new();
    let third = LogSampling::new(SampleRate::new(0.3).expect("a share"));
    (world.processor.sampling, world.intake.sampling) = (third, third);
    let log = Log::capture();
    for n in 0..40 {
        let body = lead_of(&format!("evt_{n}"), &format!("{n}@example.com")).to_string();
        HttpRequest::of(&world, body.as_bytes()).send(&world).await;
    }
    world.drain().await;
    let of = |message: &str| -> Vec<String> {
        let mut events: Vec<String> = lines(&log)
            .iter()
            .filter(|line| line["message"] == message)
            .map(|line| line["event"].to_string())
            .collect();
        events.sort();
        events
    };
    let (taken, worked) = (of("the delivery was answered"), of("the message was processed"));
    assert_eq!(taken, worked);
    assert!((1..40).contains(&taken.len()), "{}", taken.len());
}

#[tokio::test]
async fn the_switchboard_lets_one_flow_be_looked_at() {
    let mut world = World::new();
    world.processor.sampling = LogSampling::new(SampleRate::new(0.0).expect("a share"));
    let on = by_ada(json!({"op": "log_level", "flow": "lead-routing", "level": "debug", "for": "30m"}));
    let answer = replay::handle(&world.replay, on).await;
    assert_eq!(answer["board"]["turned"][0]["what"], "log level debug", "{answer}");
    let log = Log::capture();
    world.post(&lead_of("evt_1", "ada@example.com")).await.expect("a good lead");
    world.drain().await;
    assert_eq!(lines(&log).len(), 1, "the sample leaves out none of it");
    let off = by_ada(json!({"op": "log_level", "flow": "lead-routing", "for": "0s"}));
    replay::handle(&world.replay, off).await;
    world.clock.advance(std::time::Duration::from_secs(6));
    let log = Log::capture();
    world.post(&lead_of("evt_2", "grace@example.com")).await.expect("a good lead");
    world.drain().await;
    assert_eq!(lines(&log), Vec::<Value>::new(), "as usual");
}

/// What the functions write on their standard output at INFO, until the guard is dropped.
fn as_deployed() -> (WrittenLog, DefaultGuard) {
    let written = WrittenLog::default();
    let to = written.clone();
    (written, set_default(json_log(LogLevel::Info, move || to.clone())))
}

#[tokio::test]
async fn a_flow_that_is_looked_at_tells_its_steps_and_no_other_flow_does() {
    let world = World::with(flows());
    let on = by_ada(json!({"op": "log_level", "flow": "lead-routing", "level": "debug", "for": "30m"}));
    replay::handle(&world.replay, on).await;
    let (written, _guard) = as_deployed();
    world.post(&lead()).await.expect("a good lead");
    world.send("storefront", Some("cart.abandoned"), &payload("cart-abandoned.json"), &[]).await.expect("a good cart");
    world.drain().await;
    let of = |level: &str| -> Vec<(String, String)> {
        let lines = written.lines().into_iter().filter(|line| line["level"] == level);
        let told = |line: Value| ["flow", "message"].map(|name| line[name].as_str().unwrap_or_default().to_owned());
        lines.map(told).map(|[flow, message]| (flow, message)).collect()
    };
    let steps = of("DEBUG");
    for message in ["the claim was won", "the call has ended"] {
        assert!(steps.contains(&("lead-routing".into(), message.into())), "{message}: {steps:?}");
    }
    assert!(steps.iter().all(|(flow, _)| flow == "lead-routing"), "{steps:?}");
    let units: BTreeSet<String> =
        of("INFO").into_iter().map(|(flow, _)| flow).filter(|flow| !flow.is_empty()).collect();
    assert_eq!(units, ["cart-recovery", "lead-routing"].map(String::from).into(), "both were worked on");
}
