//! What can happen to a system in a run: what senders send, what partners do, what breaks, what operators do. A deed's name
//! stands in the cases; what is counted for it is what the functions print.

use std::time::Duration;

use async_trait::async_trait;
use processor::{tell_misfits, tell_wrong_times};
use replay::{handle, operate};
use serde_json::{Value, json};
use shared::base::errors::Unavailable;
use shared::base::format::FORMAT;
use shared::ledger::State;
use shared::ledger::queue::{Depth, Depths};
use shared::model::Script;
use shared::operate::switchboard::Switchboard;

use super::AlarmMetric;
use super::runs::AlarmRun;
use crate::fixtures::by_ada;
use crate::memory::{EVENT, HttpRequest, OutOfService, scribble_row, take_no_payload};
use crate::traces::exporter_to_collector;

/// Does a deed.
pub(super) async fn perform(run: &mut AlarmRun, deed: &str) {
    let done = of_senders(run, deed).await
        || of_partners(run, deed).await
        || of_operators(run, deed).await
        || of_containers(run, deed).await;
    assert!(done, "there is no deed `{deed}`");
}

async fn of_senders(run: &mut AlarmRun, deed: &str) -> bool {
    match deed {
        "a lead" => drop(run.post("lead", 10).await),
        "a late lead" => {
            run.post("lead", 10).await;
            run.world.clock.advance(Duration::from_millis(2001));
        }
        "a lead that is worth nothing" => drop(run.post("lead", -1).await),
        "the last lead again" => {
            if run.last_event("lead").is_none() {
                run.post("lead", 10).await;
            }
            let again = run.last_event("lead").expect("one was posted");
            run.send(run.request(&again), 202).await;
        }
        "a wrong signature" => drop(run.send(spoiled(run, "web-forms"), 401).await),
        "a wrong signature of another sender" => drop(run.send(spoiled(run, "partner-forms"), 401).await),
        "a delivery for no source" => drop(run.send(spoiled(run, "stranger"), 404).await),
        "a delivery that is too large" => {
            let large = json!({"type": "lead", "who": "x".repeat(64 * 1024)});
            run.send(run.request(&large).with("webhook-signature", "v1,bm8="), 413).await;
        }
        "a delivery of another media type" => {
            run.send(spoiled(run, "web-forms").with("content-type", "image/png"), 415).await;
        }
        "a lead over its rate" => {
            let event = run.event("lead", 10);
            let request = run.request(&event).to(EVENT, "source", "partner-forms");
            request.send(&run.world).await;
        }
        "an invalid lead" => {
            let invalid = json!({"type": "lead", "id": "evt"});
            run.send(run.request(&invalid), 422).await;
        }
        "an invalid cart" => {
            let mut invalid = run.event("cart", 10);
            invalid["worth"] = json!("much");
            run.send(run.request(&invalid), 202).await;
        }
        "a lead of no known type" => {
            let unknown = run.event("lede", 10);
            run.send(run.request(&unknown), 422).await;
        }
        "a lead while the queue is away" => {
            let queue = std::mem::replace(&mut run.world.intake.queue, Box::new(OutOfService));
            let event = run.event("lead", 10);
            run.send(run.request(&event), 503).await;
            run.world.intake.queue = queue;
        }
        "a message of a newer version" => {
            let body = json!({"format": FORMAT + 1, "of": "tomorrow"}).to_string();
            run.world.events.put("tomorrow", &body, &body, Default::default()).expect("SQS takes it");
        }
        "the newer version takes its messages" => {
            run.world.clock.advance(Duration::from_secs(900));
            let taken = run.world.events.receive(10);
            taken.iter().for_each(|message| run.world.events.delete(&message.receipt));
        }
        "a letter that the queue gives up on" => {
            run.post("letter", 10).await;
            run.world.give_up_on_first();
        }
        _ => return false,
    }
    run.work().await;
    true
}

fn spoiled(run: &AlarmRun, source: &str) -> HttpRequest {
    run.request(&json!({"type": "lead"})).to(EVENT, "source", source).with("webhook-signature", "v1,bm8=")
}

async fn of_partners(run: &mut AlarmRun, deed: &str) -> bool {
    let status = |status| vec![Script::Status(status)];
    let (script, of, worth) = match deed {
        "a lead that the CRM declines" => (status(400), "lead", 10),
        "a lead that is tried again" => (status(503), "lead", 10),
        "a lead whose answer is lost" => (vec![Script::Hang], "lead", 10),
        "a lead whose credentials the CRM rejects" => (status(401), "lead", 10),
        "a lead whose worker panics" => (vec![Script::Panic], "lead", 10),
        "a letter whose answer is lost" => (vec![Script::Hang], "letter", 10),
        "a letter that fails once" => (vec![Script::Refused], "letter", 10),
        "a cart whose contact has no retries left" => (vec![Script::Refused; 2], "cart", 10),
        "a cart that waits for an approval" => (Vec::new(), "cart", 101),
        "a night" => (Vec::new(), "night", 10),
        "a night before a partner that takes one a minute" => (Vec::new(), "fax", 10),
        "a letter" => (Vec::new(), "letter", 10),
        "the partners are down" => {
            run.world.partners.fail_with(Some(Script::Refused));
            return true;
        }
        "the CRM declines everything" => {
            run.world.partners.fail_with(Some(Script::Status(400)));
            return true;
        }
        "the partners are back" | "the CRM is well again" => {
            run.world.partners.fail_with(None);
            return true;
        }
        _ => return false,
    };
    run.world.partners.script(script);
    run.post(of, worth).await;
    run.work().await;
    true
}

async fn of_operators(run: &mut AlarmRun, deed: &str) -> bool {
    let replay = &run.world.replay;
    let operation = match deed {
        "the schedule runs" => return operate(replay, operation(json!({"op": "schedule"}))).await.is_ok(),
        "the wake runs" => return operate(replay, operation(json!({"op": "wake"}))).await.is_ok(),
        "make deploy begins" => {
            // `ledgerline deploying` sends this, as its own test says.
            run.count(AlarmMetric::parse("Deploying"));
            return true;
        }
        "the leads are paused" => json!({"op": "pause", "flow": "leads"}),
        "the leads are resumed" => json!({"op": "resume", "flow": "leads"}),
        "what waits is dropped" => {
            for row in run.world.ledger.rows().into_iter().filter(|row| row.state == State::Waiting) {
                handle(replay, by_ada(json!({"op": "drop", "id": row.id}))).await;
            }
            return true;
        }
        "a batch of replays" => json!({"op": "batch", "max": 10, "rate": 5}),
        "a replay of each" => {
            for row in run.world.ledger.rows().into_iter().filter(|row| row.is_parked()) {
                handle(&run.world.replay, by_ada(json!({"op": "replay", "id": row.id}))).await;
            }
            return true;
        }
        "a replay of each while the queue is away" => {
            let queue = std::mem::replace(&mut run.world.replay.queue, Box::new(OutOfService));
            for row in run.world.ledger.rows().into_iter().filter(|row| row.is_parked()) {
                handle(&run.world.replay, by_ada(json!({"op": "replay", "id": row.id}))).await;
            }
            run.world.replay.queue = queue;
            return true;
        }
        _ => return false,
    };
    let answer = handle(replay, by_ada(operation)).await;
    assert!(answer["error"].is_null(), "{deed}: {answer}");
    true
}

fn operation(json: Value) -> replay::Operation {
    serde_json::from_value(json).expect("an operation")
}

async fn of_containers(run: &mut AlarmRun, deed: &str) -> bool {
    let world = &mut run.world;
    match deed {
        "a container starts" => tell_misfits(&world.processor),
        "a container finds a time-out that does not fit" => {
            let timeout = std::mem::replace(&mut world.processor.timeout, Duration::from_secs(3));
            tell_misfits(&world.processor);
            world.processor.timeout = timeout;
        }
        "a container finds times that do not fit one another" => {
            tell_wrong_times(&world.processor, Duration::from_secs(30));
        }
        "a new container does not reach the switchboard" => {
            world.processor.switchboard = Switchboard::new(Box::new(world.board.clone()));
            world.board.down(true);
            run.post("lead", 10).await;
            run.work().await;
            run.world.board.down(false);
        }
        "somebody scribbles on the switchboard" => world.board.scribble(3, "paused: true"),
        "a lead whose row cannot be read" => {
            let id = run.post("lead", 10).await;
            scribble_row(&mut run.world, id);
        }
        "the ledger takes no payload" => take_no_payload(world),
        "a lead while the collector is away" => lose_spans(run).await,
        "the dead letter queue loses its consumer" => run.takes_letters = false,
        "the dead letter queue has its consumer again" => run.takes_letters = true,
        "the queue is crowded" => world.replay.depths = Box::new(Crowded),
        _ => return false,
    }
    true
}

/// Works on a lead whose spans nobody takes. They are counted as a container counts them: by a later invocation.
async fn lose_spans(run: &mut AlarmRun) {
    let spans = exporter_to_collector();
    let ports = [&mut run.world.intake.spans, &mut run.world.processor.spans];
    let before = ports.map(|port| std::mem::replace(port, Box::new(spans.clone())));
    run.post("lead", 10).await;
    run.work().await;
    let [intake, processor] = before;
    (run.world.intake.spans, run.world.processor.spans) = (intake, processor);
    let printed = run.printed();
    while run.printed() == printed {
        spans.send_gathered(&*run.world.processor.metrics);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A queue with more events than the wake adds to.
struct Crowded;

#[async_trait]
impl Depths for Crowded {
    async fn depth(&self) -> Result<Depth, Unavailable> {
        Ok(Depth { queued: 60_001, in_flight: 0 })
    }
}
