//! The same of each reason for which an event can die.

use std::collections::BTreeSet;
use std::time::Duration;

use replay::handle;
use serde_json::json;
use shared::flows::Flows;
use shared::ledger::Reason;
use shared::model::Script;

use super::{CanaryRun, DEATHS, EMAIL, cart, echo, lead, short_echo};
use crate::fixtures::{by_ada, flows};
use crate::memory::{flows_with, flows_without_breaker, scribble_row, take_no_payload};

/// What events die of in a run of these flows, out of which nothing of a person came.
async fn deaths(flows: Flows, act: impl AsyncFnOnce(&mut CanaryRun)) -> BTreeSet<String> {
    let mut run = CanaryRun::of(flows);
    act(&mut run).await;
    for _ in 0..2 {
        run.world.park().await;
    }
    run.assert_clean().await;
    let deaths = run.deaths();
    assert!(!deaths.is_empty(), "nothing died");
    deaths
}

async fn post(run: &CanaryRun) {
    run.world.post(&lead(1)).await.expect("a good lead");
}

/// The retries of each event, and those of its contact.
async fn spent() -> BTreeSet<String> {
    let budget =
        |yaml: String| yaml.replace("max_attempts: 3", "max_attempts: 3\n  budget_per_contact: {count: 3, window: 1h}");
    deaths(flows_without_breaker(budget), async |run| {
        for n in 0..3 {
            run.world.post(&lead(n)).await.expect("a good lead");
        }
        run.world.partners.script(vec![echo(429); 20]);
        run.world.drain().await;
    })
    .await
}

/// A request that cannot be made of the event.
async fn template() -> BTreeSet<String> {
    let flows = flows_with(|yaml| yaml.replace("event.data.company | default(none)", "event.data.company"));
    deaths(flows, async |run| {
        let mut lead = lead(1);
        lead["data"].as_object_mut().expect("an object").remove("company");
        run.world.post(&lead).await.expect("the company is optional");
        run.world.drain().await;
    })
    .await
}

async fn expired() -> BTreeSet<String> {
    deaths(flows(), async |run| {
        post(run).await;
        run.world.clock.advance(Duration::from_secs(25 * 3600));
        run.world.poll().await;
    })
    .await
}

async fn enrichment() -> BTreeSet<String> {
    let enrich = "enrich:\n  - {id: company, integration: crm, path: '/of/{{ event.data.email }}', result: {name: /id}, \
                  on_error: dead}";
    let flows = flows_without_breaker(|yaml| yaml.replacen("\neffects:", &format!("\n{enrich}\neffects:"), 1));
    deaths(flows, async |run| {
        run.world.partners.script(vec![echo(400); 10]);
        post(run).await;
        run.world.drain().await;
    })
    .await
}

/// A worker that goes down with its event until the queue gives up.
async fn crashed() -> BTreeSet<String> {
    deaths(flows_without_breaker(|yaml| yaml), async |run| {
        run.world.partners.script([Script::Panic]);
        post(run).await;
        run.world.poll().await;
        run.world.clock.advance(Duration::from_secs(300));
        run.world.give_up_on_first();
    })
    .await
}

/// Messages on which the queue gives up before any worker has them: one with a row, and one without.
async fn given_up() -> BTreeSet<String> {
    deaths(flows(), async |run| {
        post(run).await;
        let message = run.world.events.receive(1).remove(0);
        let mut stranger: serde_json::Value = serde_json::from_str(&message.body).expect("an event");
        stranger["id"] = json!("0".repeat(64));
        for (name, body) in [("known", message.body.clone()), ("stranger", stranger.to_string())] {
            run.world.dead_letters.put("g", name, &body, Default::default()).expect("SQS takes it");
        }
        run.world.events.delete(&message.receipt);
    })
    .await
}

async fn invalid() -> BTreeSet<String> {
    deaths(flows_with(|yaml| format!("{yaml}\non_invalid: park\n")), async |run| {
        let mut unfit = lead(1);
        unfit["data"]["campaign"] = json!({EMAIL: EMAIL});
        run.world.post(&unfit).await.expect("it is parked");
    })
    .await
}

/// A question whose payload the ledger does not take.
async fn not_kept() -> BTreeSet<String> {
    deaths(flows(), async |run| {
        let agreed = json!({"op": "set_contact", "tenant": "acme", "email": EMAIL, "fields": {"consent_email": true}});
        handle(&run.world.replay, by_ada(agreed)).await;
        take_no_payload(&mut run.world);
        run.world.send("storefront", Some("cart.abandoned"), &cart(1, 40), &[]).await.expect("a good cart");
        run.world.partners.script([short_echo(200)]);
        run.world.drain().await;
    })
    .await
}

/// A flow that is gone, one that does not fit its invocations, and a row that cannot be read.
async fn of_the_stack() -> BTreeSet<String> {
    let gone = deaths(flows(), async |run| {
        post(run).await;
        run.world.processor.flows = Flows::default();
        run.world.drain().await;
    });
    let misfit = async {
        deaths(flows_with(|yaml| yaml), async |run| {
            run.world.processor.timeout = Duration::from_secs(3);
            post(run).await;
            run.world.poll().await;
        })
        .await
    };
    let scribbled = async {
        deaths(flows_with(|yaml| yaml), async |run| {
            let id = run.world.post(&lead(1)).await.expect("a good lead").id;
            scribble_row(&mut run.world, id);
            run.world.drain().await;
        })
        .await
    };
    [gone.await, misfit.await, scribbled.await].into_iter().flatten().collect()
}

/// What a newer event has overtaken.
async fn stale() -> BTreeSet<String> {
    let flows = flows_without_breaker(|yaml| yaml.replace("\nttl:", "\nlatest_wins: true\nttl:"));
    deaths(flows, async |run| {
        run.world.partners.script([echo(422)]);
        let older = run.world.post(&lead(1)).await.expect("a good lead").id;
        run.world.drain().await;
        run.world.park().await;
        run.world.clock.advance(Duration::from_secs(1));
        run.world.post(&lead(2)).await.expect("a good lead");
        handle(&run.world.replay, by_ada(json!({"op": "replay", "id": older}))).await;
        run.world.drain().await;
    })
    .await
}

#[tokio::test]
async fn no_personal_data_comes_out_of_any_death() {
    let mut seen = BTreeSet::new();
    seen.extend(spent().await);
    seen.extend(template().await);
    seen.extend(expired().await);
    seen.extend(enrichment().await);
    seen.extend(crashed().await);
    seen.extend(given_up().await);
    seen.extend(invalid().await);
    seen.extend(not_kept().await);
    seen.extend(of_the_stack().await);
    seen.extend(stale().await);
    // The other runs hold that their events die of these.
    seen.extend(DEATHS.map(str::to_owned));
    seen.extend(super::functions::DEATHS.map(str::to_owned));
    let all: BTreeSet<String> = Reason::ALL.into_iter().map(|reason| reason.as_str().to_owned()).collect();
    assert_eq!(seen, all, "each reason has a run in which an event dies of it");
}
