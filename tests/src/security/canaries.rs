//! Personal data that can be told from everything else, in every field, header and error path of a run in which everything
//! goes wrong once: none of it comes out in a log, a metric, a span, an answer to an error, a list, a plan or a page.
//!
//! Three readers are meant to see a part of it: a partner gets what its request says, a sender its own results, and an
//! operator the results of an event. Nobody else, and nowhere else.

mod command;
mod deaths;
mod deliveries;
mod functions;

use std::collections::BTreeSet;
use std::time::Duration;

use prost::Message as _;
use replay::{Access, Console, handle, serve};
use serde_json::{Value, json};
use shared::adapters::otlp::{SpansOf, request};
use shared::base::machine::Clock as _;
use shared::flows::Flows;
use shared::ledger::timeline::EventTimeline;
use shared::ledger::{Row, State};
use shared::model::{ModelSpans, Script};
use shared::operate::span::{TraceSpan, rebuilt};

use super::sources;
use crate::fixtures::{by_ada, flows, payload, shown};
use crate::memory::{Log, SECRET, World};

const EMAIL: &str = "Zq.Ada@canary.example";
const TOKEN: &str = "zq-t0ken-of-the-crm";
const RESULT: &str = "ZQRESULT-40";

/// What can be told from everything else, in small letters, and with no spaces between digits.
const CANARIES: [&str; 4] = ["zq", "79460977", "7946 0977", "192.0.2.177"];

/// Who sees results sees these, and no other.
const BUT_RESULTS: [&str; 4] = ["zq.", "zq-", "zqa", "79460977"];

fn assert_none(of: &[&str], place: &str, text: &str) {
    let folded = text.to_lowercase();
    for canary in of {
        if let Some(at) = folded.find(canary) {
            let around: String =
                folded[..].chars().skip(folded[..at].chars().count().saturating_sub(160)).take(320).collect();
            panic!("{place} has {canary}: …{around}…");
        }
    }
}

fn assert_clean(place: &str, text: &str) {
    assert_none(&CANARIES, place, text);
}

/// A lead in which every field that may name a person does, and some that its schema does not list.
fn lead(n: u32) -> Value {
    let mut lead = payload("lead-created.json");
    lead["data"]["event_id"] = json!(format!("evt_{n}"));
    for (name, value) in [
        ("email", EMAIL),
        ("first_name", "Zqada"),
        ("last_name", "Zqlovelace"),
        ("company", "Zq. Engines"),
        ("phone", "+44 20 7946 0977"),
        ("campaign", "zq-campaign"),
        ("ip", "192.0.2.177"),
        ("ssn", "zq-79460977"),
        (EMAIL, "zq-as-a-name"),
    ] {
        lead["data"][name] = json!(value);
    }
    lead
}

/// A cart of such a person.
fn cart(n: u32, percent: u32) -> Value {
    let mut cart = payload("cart-abandoned.json");
    cart["customer_id"] = json!(format!("cus_{n}"));
    (cart["email"], cart["first_name"], cart["discount_percent"]) = (json!(EMAIL), json!("Zqada"), json!(percent));
    cart
}

/// An answer that quotes the request, our token and a result.
fn echo(status: u16) -> Script {
    quoting(status, &format!("{EMAIL} Zqada Zqlovelace +44 20 7946 0977 zq-campaign 192.0.2.177 Bearer {TOKEN}"))
}

/// The same of what is in a cart, too.
fn short_echo(status: u16) -> Script {
    quoting(status, &format!("{EMAIL} Zqada Bearer {TOKEN}"))
}

fn quoting(status: u16, quote: &str) -> Script {
    let body = json!({"id": RESULT, "error": quote, "code": quote, "message": quote, EMAIL: {TOKEN: quote}});
    Script::Body(status, Some(body))
}

/// Leads whose calls end in each way that a call can.
async fn failures(world: &World) {
    let ends = [
        echo(200),
        echo(301),
        echo(400),
        echo(401),
        echo(409),
        echo(422),
        echo(429),
        echo(500),
        Script::Hang,
        Script::Panic,
        Script::Refused,
    ];
    for (n, end) in (10..).zip(ends) {
        world.partners.script([end.clone(), end]);
        world.post(&lead(n)).await.expect("a good lead");
        turns(world, 3).await;
    }
    world.events.put("g", "d", &format!("{{\"email\": \"{EMAIL}\""), Default::default()).expect("SQS takes it");
    world.events.put("g", "e", &json!({"payload": lead(0)}).to_string(), Default::default()).expect("SQS takes it");
    turns(world, 40).await;
}

async fn turns(world: &World, times: u32) {
    for _ in 0..times {
        world.poll().await;
        world.park().await;
        world.clock.advance(Duration::from_secs(60));
    }
}

/// Everything that an operator may do, with results in their words; the answers but those that show results.
async fn operations(world: &World) -> String {
    let mut answers = String::new();
    let rows = world.ledger.rows();
    let of = |state: State| rows.iter().filter(move |row| row.state == state);
    let ids: Vec<_> = of(State::Dead).map(|row| row.id.clone()).collect();
    let question = |row: &Row| json!({"id": row.id, "hash": row.ask.as_ref().map(|ask| ask.hash.clone())});
    let asked: Vec<Value> = of(State::AwaitingApproval).map(question).collect();
    assert!(ids.len() >= 4 && asked.len() == 2, "{} dead and {} asked", ids.len(), asked.len());
    let resolve = |id, happened| json!({"op": "resolve", "id": id, "effect": "crm", "verdict": happened, "result": {"crm_id": RESULT}});
    let mut operations = vec![
        json!({"op": "list"}),
        json!({"op": "reasons"}),
        json!({"op": "plan", "ids": ids}),
        json!({"op": "status"}),
        json!({"op": "pause", "flow": "lead-routing"}),
        json!({"op": "resume", "flow": "lead-routing"}),
        json!({"op": "approve", "questions": [asked[0]]}),
        json!({"op": "reject", "questions": [asked[1]]}),
        json!({"op": "set_contact", "tenant": "acme", "email": EMAIL, "fields": {"first_name": "Zqada", "consent_email": true}}),
        json!({"op": "import_contacts", "rows": [{"line": 2, "tenant": "acme", "email": EMAIL, "at": "zq", "fields": {"phone": "+44 20 7946 0977"}}]}),
        json!({"op": "batch", "max": 5, "rate": 5}),
        json!({"op": "schedule"}),
        json!({"op": "wake"}),
    ];
    operations
        .extend(ids.iter().flat_map(|id| {
            [resolve(id, "happened"), resolve(id, "did_not_happen"), json!({"op": "replay", "id": id})]
        }));
    for operation in operations {
        let quotes = ["list", "reasons", "plan", "status", "schedule", "wake", "replay", "approve", "reject"];
        let answer = handle(&world.replay, by_ada(operation.clone())).await;
        if quotes.contains(&operation["op"].as_str().unwrap_or_default()) {
            answers += &format!("{}: {answer}\n", operation["op"]);
        }
        world.partners.script([short_echo(500), short_echo(400)]);
        turns(world, 2).await;
    }
    for id in ids.iter().take(2) {
        handle(&world.replay, by_ada(json!({"op": "drop", "id": id}))).await;
    }
    answers
}

async fn page(world: &World, access: Access, params: Value) -> String {
    let console =
        Console { replay: &world.replay, access, endpoint: "arn:aws:lambda:eu-central-1:0:function:x", caller: None };
    let mut call = params;
    call["widgetContext"] = json!({"forms": {"all": {}}});
    serve(&console, call).await.expect("a page").as_str().expect("HTML").to_owned()
}

async fn pages(world: &World) {
    let of_events = |row: Row| [json!({"page": "event", "id": row.id}), json!({"page": "plan", "id": row.id})];
    let all = [json!({"page": "overview"}), json!({"page": "list"}), json!({"page": "plan"})];
    for params in all.into_iter().chain(world.ledger.rows().into_iter().flat_map(of_events)) {
        assert_clean(&format!("the viewers' page {params}"), &page(world, Access::Read, params.clone()).await);
        assert_none(
            &BUT_RESULTS,
            &format!("the operators' page {params}"),
            &page(world, Access::Operate, params).await,
        );
    }
}

/// A run in which everything goes wrong once.
struct CanaryRun {
    world: World,
    spans: ModelSpans,
    log: Log,
}

impl CanaryRun {
    /// A world of these flows, with its log and its spans kept.
    fn of(flows: Flows) -> Self {
        let (log, mut world, spans) = (Log::capture(), World::with(flows), ModelSpans::default());
        world.intake.spans = Box::new(spans.clone());
        world.processor.spans = Box::new(spans.clone());
        world.replay.spans = Box::new(spans.clone());
        for (name, _) in world.intake.flows.integrations() {
            world.secrets.remove(&format!("integrations/{name}"));
            world.secrets.put(&format!("integrations/{name}"), TOKEN);
        }
        for source in ["meta", "typeform"] {
            world.secrets.put(&format!("sources/{source}"), SECRET);
            world.secrets.put(&format!("handshakes/{source}"), TOKEN);
        }
        CanaryRun { world, spans, log }
    }

    /// What senders, partners and operators bring about; the operators' answers.
    async fn everything(&self) -> String {
        let world = &self.world;
        let agreed = json!({"op": "set_contact", "tenant": "acme", "email": EMAIL, "fields": {"consent_email": true}});
        handle(&world.replay, by_ada(agreed)).await;
        assert_clean("an answer to a sender", &deliveries::send_all(world).await);
        turns(world, 3).await;
        for n in 0..2 {
            world.send("storefront", Some("cart.abandoned"), &cart(n, 40), &[]).await.expect("a good cart");
        }
        turns(world, 3).await;
        failures(world).await;
        assert_eq!(self.deaths(), DEATHS.map(str::to_owned).into());
        let answers = operations(world).await;
        assert_eq!(self.states(), STATES.map(str::to_owned).into());
        answers
    }

    /// What events died of.
    fn deaths(&self) -> BTreeSet<String> {
        let rows = self.world.ledger.rows();
        rows.iter().filter_map(|row| Some(row.death.as_ref()?.reason.as_str().to_owned())).collect()
    }

    /// Where events are.
    fn states(&self) -> BTreeSet<String> {
        self.world.ledger.rows().iter().map(|row| row.state.as_str().to_owned()).collect()
    }

    /// Nothing of it is in what is written, shown or sent.
    async fn assert_clean(&self) {
        let (world, now) = (&self.world, self.world.clock.now());
        pages(world).await;
        assert_clean("the log", &self.log.text());
        assert_clean("a metric", &world.metrics.names().join("\n"));
        assert_clean("a span", &format!("{:?}", self.spans.all()));
        assert_clean("the bytes of spans", &as_sent(self.spans.all()));
        for row in world.ledger.rows() {
            assert_clean("the debug form of a row", &format!("{row:?}"));
            let rebuilt = rebuilt(&EventTimeline::of(&row, now), now);
            assert_clean("a span that was rebuilt from a row", &format!("{rebuilt:?}"));
            assert_clean("the bytes of spans that were rebuilt", &as_sent(rebuilt));
            let trace = handle(&world.replay, json!({"op": "trace", "id": row.id})).await;
            assert_clean("the answer to `trace`", &trace.to_string());
            let page = handle(&world.replay, json!({"op": "show", "id": row.id})).await;
            assert_none(&BUT_RESULTS, "the answer to `show`", &page.to_string());
        }
    }
}

/// What a collector gets.
fn as_sent(spans: Vec<TraceSpan>) -> String {
    let of = SpansOf::new("tests");
    String::from_utf8_lossy(&request(&of, &spans).encode_to_vec()).into_owned()
}

/// What the events of the run die of.
const DEATHS: [&str; 3] = ["malformed", "result_missing", "terminal"];

/// Where they are in the end.
const STATES: [&str; 4] = ["dead", "dropped", "noop", "succeeded"];

#[tokio::test]
async fn no_personal_data_comes_out_of_a_run_in_which_everything_goes_wrong() {
    let run = CanaryRun::of(flows());
    assert_clean("an answer to an operator", &run.everything().await);
    run.assert_clean().await;
    assert!(run.spans.all().len() > 50, "only {} spans", run.spans.all().len());
    // The run was one: all of these were there to be quoted.
    let rows = run.world.ledger.rows();
    let kept: String = rows.iter().map(|row| serde_json::to_string(row).expect("JSON")).collect();
    assert!(kept.contains(RESULT), "results are kept");
    for told in ["the delivery was rejected", "the message was processed", "the worker panicked"] {
        assert!(run.log.text().contains(told), "nothing logs: {told}");
    }
}

/// Whoever writes a log line may not reach for what a payload or an answer says.
#[test]
fn no_log_line_takes_a_payload_or_a_body() {
    let mut seen = 0;
    for (path, text) in ["shared/src", "functions"].into_iter().flat_map(sources) {
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        for name in ["debug!(", "info!(", "warn!(", "error!("] {
            for rest in code.split(name).skip(1) {
                let mut depth = 1;
                let end = rest.find(|c| {
                    depth += i32::from(c == '(') - i32::from(c == ')');
                    depth == 0
                });
                let call = &rest[..end.expect("a call ends")];
                let said = ["payload", ".body", "headers", "results()", "result)", "email"];
                // What it says in words may name anything.
                let code: String = call.split('"').step_by(2).collect();
                let found = said.iter().find(|word| code.contains(*word));
                assert!(found.is_none(), "{}: {found:?} in {call}", shown(&path));
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "only {seen} log calls were found");
}
