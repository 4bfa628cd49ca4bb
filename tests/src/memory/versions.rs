//! Deploys while events are on their way: effects renamed, added and removed, flows too, and roll-backs; and two versions
//! of the code at once.

use std::time::Duration;

use replay::handle;
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::document::DocumentStore as _;
use shared::base::format::FORMAT;
use shared::base::id::EventId;
use shared::base::machine::Clock as _;
use shared::effects::credentials::Credentials;
use shared::effects::request::PartnerRequest;
use shared::flows::contract::Contracts;
use shared::flows::{File, Flows};
use shared::ledger::{Reason, Records as _, Rows as _, State};
use shared::model::{ModelDocument, Script};
use shared::operate::switchboard::Board;

use super::world::World;
use crate::fixtures::{by_ada, lead};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A flow for leads with these effects, each `id`, or `id was old`. Every one of them returns what it made.
fn flows_of(effects: &[&str]) -> Flows {
    flows_written(&effects.iter().map(|effect| written(effect)).collect::<String>())
}

fn flows_written(effects: &str) -> Flows {
    flows_of_partners(effects, "crm: {base_url: https://crm.example.com, timeout: 3s, key_window: 24h}")
}

fn flows_of_partners(effects: &str, partners: &str) -> Flows {
    let flow = format!(
        r#"
name: lead-routing
version: 1
on: {{source: web-forms, type: lead.created}}
schema:
  type: object
  required: [type, data]
  properties:
    type: {{type: string}}
    data: {{type: object, properties: {{event_id: {{type: string}}, email: {{type: string}}}}, required: [event_id, email]}}
key: {{version: 1, fields: [data.event_id]}}
order_by: data.email
ttl: 1h
max_age: 24h
effects:
{effects}
retry: {{strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 3}}
"#
    );
    let sources = "web-forms: {scheme: standard-webhooks, max_body: 64KiB, rate: 10/s, type_at: type}";
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let files =
        [file("sources.yaml", sources), file("integrations.yaml", partners), file("flows/lead-routing.yaml", &flow)];
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

fn written(effect: &str) -> String {
    let (id, was) = effect.split_once(" was ").unwrap_or((effect, ""));
    let path = if was.is_empty() { id } else { was };
    format!(
        "  - {{id: {id}, was: [{was}], integration: crm, guarantee: native, result: {{id: /id}}, \
         request: {{method: POST, path: /{path}}}}}\n"
    )
}

/// An answer that says what was made.
fn done() -> Script {
    Script::Body(201, Some(json!({"id": "made-1"})))
}

/// Every container is of this version from here on.
fn deploy(world: &mut World, flows: &Flows) {
    world.intake.contracts = Contracts::of(flows);
    world.intake.flows = flows.clone();
    world.processor.flows = flows.clone();
    world.replay.flows = flows.clone();
}

/// The keys of the calls that reached the partner, without the event's id.
fn keys(world: &World) -> Vec<String> {
    let calls = world.partners.calls().into_iter();
    let key = |headers: Vec<(String, String)>| headers.into_iter().find(|(name, _)| name == "Idempotency-Key");
    let keys = calls.filter_map(|(_, request)| key(request.headers));
    keys.filter_map(|(_, key)| Some(key.split_once('/')?.1.to_owned())).collect()
}

/// What has become of an event when a deploy comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is on the queue, and nothing was tried.
    Queued,
    /// Its first effect is done, its second failed and is tried again.
    Retrying,
    /// Its first effect is done, and it has left the queue because its flow is paused.
    Waiting,
    /// Its first effect is done, and the event is parked.
    Parked,
    /// The same, and a batch has begun.
    InABatch,
}

const STAGES: [Stage; 5] = [Stage::Queued, Stage::Retrying, Stage::Waiting, Stage::Parked, Stage::InABatch];

impl Stage {
    fn is_parked(self) -> bool {
        matches!(self, Stage::Parked | Stage::InABatch)
    }
}

/// A world of the flow `a`, `b`, with one event that has come so far.
async fn world_at(stage: Stage) -> (World, EventId) {
    let world = World::with(flows_of(&["a", "b"]));
    let id = world.post(&lead()).await.expect("a good lead").id;
    match stage {
        Stage::Queued => (),
        Stage::Retrying => {
            world.partners.script(vec![done(), Script::Status(429)]);
            world.poll().await;
        }
        Stage::Waiting => {
            world.partners.script(vec![done(), Script::Status(429)]);
            world.poll().await;
            let paused = by_ada(json!({"op": "pause", "flow": "lead-routing", "for": "10m"}));
            handle(&world.replay, paused).await;
            for _ in 0..3 {
                world.clock.advance(Duration::from_secs(70));
                world.poll().await;
            }
            assert_eq!(world.row(&id).await.state, State::Waiting, "{:?}", world.story(&id).await);
        }
        Stage::Parked | Stage::InABatch => {
            world.partners.script(vec![done(), Script::Status(400)]);
            world.drain().await;
            world.park().await;
        }
    }
    if stage == Stage::InABatch {
        let opened = handle(&world.replay, by_ada(json!({"op": "batch"}))).await;
        assert_eq!(opened["progress"], "running", "{opened}");
    }
    (world, id)
}

/// Sets the event going: an operator replays what is parked, the lane works on what is in a batch, and what waits is woken
/// when its pause is over.
async fn set_going(world: &World, id: &EventId, stage: Stage) {
    match stage {
        Stage::Queued | Stage::Retrying => world.clock.advance(Duration::from_secs(10)),
        Stage::Waiting => {
            world.clock.advance(10 * MINUTE);
            assert_eq!(world.wake().await, 1);
        }
        Stage::Parked => {
            let replayed = handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
            assert_eq!(replayed["state"], "queued", "{replayed}");
        }
        Stage::InABatch => {
            for _ in 0..3 {
                world.park().await;
                world.clock.advance(Duration::from_secs(200));
            }
        }
    }
}

/// Brings the event to its end.
async fn go_on(world: &World, id: &EventId, stage: Stage) {
    set_going(world, id, stage).await;
    world.drain().await;
}

/// What a plan says of the event: the fate of each effect, and why it would not be replayed.
async fn plan_of(world: &World, id: &EventId, with_new: bool) -> (Value, String) {
    let plan = handle(&world.replay, json!({"op": "plan", "ids": [id], "with_new": with_new})).await;
    let steps = plan["events"][0]["steps"].as_array().cloned().unwrap_or_default();
    let fates = steps.iter().map(|step| json!([step["effect"], step["fate"]])).collect();
    (fates, plan["events"][0]["blocked"].as_str().unwrap_or_default().to_owned())
}

async fn fates(world: &World, id: &EventId, with_new: bool) -> Value {
    plan_of(world, id, with_new).await.0
}

/// A plan says what becomes of each effect of an event whose payload is kept, and replays only what is parked.
async fn assert_planned(world: &World, id: &EventId, stage: Stage, expected: Value) {
    let (fates, blocked) = plan_of(world, id, false).await;
    let on_queue = matches!(stage, Stage::Queued | Stage::Retrying);
    assert_eq!(fates, if on_queue { json!([]) } else { expected }, "{stage:?}");
    let state = world.row(id).await.state.as_str();
    let says_why = blocked.contains(&format!("is {state}, not dead"));
    assert!(if stage.is_parked() { blocked.is_empty() } else { says_why }, "{stage:?}: {blocked}");
}

#[tokio::test]
async fn a_renamed_effect_keeps_its_past_and_its_key_in_every_stage() {
    for stage in STAGES {
        let (mut world, id) = world_at(stage).await;
        let before = keys(&world);
        deploy(&mut world, &flows_of(&["contact was a", "b"]));
        assert_planned(&world, &id, stage, json!([["contact", "skip"], ["b", "run"]])).await;
        go_on(&world, &id, stage).await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{stage:?}: {:?}", world.story(&id).await);
        let new: Vec<String> = keys(&world).split_off(before.len());
        let expected: &[&str] = if stage == Stage::Queued { &["a", "b"] } else { &["b"] };
        assert_eq!(new, expected, "{stage:?}: the partner knows the effect by its first name");
    }
}

/// The new version tries what is next, and is rolled back: the old one finds what was done, and goes on.
#[tokio::test]
async fn an_event_goes_on_over_a_roll_back_in_every_stage() {
    for stage in STAGES {
        let (mut world, id) = world_at(stage).await;
        let before = keys(&world).len();
        deploy(&mut world, &flows_of(&["contact was a", "b", "c"]));
        let first = stage == Stage::Queued;
        world.partners.script(first.then(done).into_iter().chain([Script::Status(429)]));
        set_going(&world, &id, stage).await;
        world.poll().await;
        assert_eq!(world.row(&id).await.state, State::Retrying, "{stage:?}: {:?}", world.story(&id).await);
        deploy(&mut world, &flows_of(&["a", "b"]));
        assert_planned(&world, &id, Stage::Retrying, json!([])).await;
        world.drain().await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{stage:?}: {:?}", world.story(&id).await);
        let new = keys(&world).split_off(before).concat();
        assert_eq!(new, if first { "abb" } else { "bb" }, "{stage:?}: nothing is done twice");
    }
}

/// A first try does what is deployed; a replay does what the flow had when it accepted the event.
#[tokio::test]
async fn an_effect_that_is_added_is_done_in_every_stage_but_by_a_replay() {
    for stage in STAGES {
        let (mut world, id) = world_at(stage).await;
        deploy(&mut world, &flows_of(&["a", "b", "c"]));
        let planned = if stage.is_parked() { "new" } else { "run" };
        assert_planned(&world, &id, stage, json!([["a", "skip"], ["b", "run"], ["c", planned]])).await;
        go_on(&world, &id, stage).await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{stage:?}: {:?}", world.story(&id).await);
        let expected = match stage {
            Stage::Queued => "abc",
            Stage::Retrying | Stage::Waiting => "abbc",
            Stage::Parked | Stage::InABatch => "abb",
        };
        assert_eq!(keys(&world).concat(), expected, "{stage:?}");
    }
}

/// Containers that do not have the flow yet take its messages for a while.
#[tokio::test]
async fn a_flow_that_is_added_finds_its_events_in_every_stage() {
    for stage in STAGES {
        let (mut world, id) = world_at(stage).await;
        let before = keys(&world).len();
        set_going(&world, &id, stage).await;
        for _ in 0..4 {
            deploy(&mut world, &without_flows());
            world.poll().await;
            let (_, blocked) = plan_of(&world, &id, false).await;
            let state = world.row(&id).await.state.as_str();
            assert!(blocked.contains(&format!("{state}, not dead")), "{stage:?}: {blocked}");
            world.clock.advance(10 * MINUTE);
            world.wake().await;
        }
        deploy(&mut world, &flows_of(&["a", "b"]));
        world.drain().await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{stage:?}: {:?}", world.story(&id).await);
        let new = keys(&world).split_off(before).concat();
        assert_eq!(new, if stage == Stage::Queued { "ab" } else { "b" }, "{stage:?}");
    }
}

#[tokio::test]
async fn a_template_reads_a_renamed_effect_by_its_name_of_today() {
    let (mut world, id) = world_at(Stage::Retrying).await;
    let before = world.row(&id).await.results()["a"]["id"].clone();
    let written = ["contact was a", "b"].map(written).concat();
    let renamed = flows_written(&written.replace("path: /b", "path: \"/b/{{ effects.contact.id }}\""));
    deploy(&mut world, &renamed);
    world.drain().await;
    let last = world.partners.calls().pop().expect("a call").1.path;
    assert_eq!(last, format!("/b/{}", before.as_str().expect("a result")));
}

#[tokio::test]
async fn without_was_a_renamed_effect_is_a_new_one_and_a_replay_does_not_do_it_unless_told() {
    for stage in [Stage::Parked, Stage::InABatch] {
        let (mut world, id) = world_at(stage).await;
        deploy(&mut world, &flows_of(&["contact", "b"]));
        assert_eq!(fates(&world, &id, false).await, json!([["contact", "new"], ["b", "run"]]));
        assert_eq!(fates(&world, &id, true).await, json!([["contact", "run"], ["b", "run"]]));
        go_on(&world, &id, stage).await;
        assert_eq!((world.row(&id).await.state, keys(&world).concat()), (State::Succeeded, "abb".into()), "{stage:?}");
    }
    let (mut world, id) = world_at(Stage::Parked).await;
    deploy(&mut world, &flows_of(&["contact", "b"]));
    let told = by_ada(json!({"op": "replay", "id": id, "with_new": true}));
    assert_eq!(handle(&world.replay, told).await["state"], "queued");
    world.drain().await;
    assert_eq!(keys(&world).concat(), "abcontactb");
}

/// Whether it is the same effect, only a human knows: what is surely to be done is done, and then the event is parked.
#[tokio::test]
async fn an_effect_renamed_without_was_is_neither_done_twice_nor_forgotten_in_any_stage() {
    for stage in STAGES {
        for says_it_late in [false, true] {
            let (mut world, id) = world_at(stage).await;
            deploy(&mut world, &flows_of(&["contact", "b"]));
            assert_planned(&world, &id, stage, json!([["contact", "new"], ["b", "run"]])).await;
            go_on(&world, &id, stage).await;
            if matches!(stage, Stage::Retrying | Stage::Waiting) {
                let death = world.row(&id).await.death.expect("it is dead");
                assert_eq!(death.reason, Reason::Misconfigured, "{stage:?}: {}", death.error);
                assert!(
                    death.error.contains("`a` happened") && death.error.contains("`contact` may be"),
                    "{}",
                    death.error
                );
                world.park().await;
                let planned = if says_it_late {
                    deploy(&mut world, &flows_of(&["contact was a", "b"]));
                    json!([["contact", "skip"], ["b", "skip"]])
                } else {
                    json!([["contact", "new"], ["b", "skip"]])
                };
                assert_eq!(plan_of(&world, &id, false).await, (planned, String::new()), "{stage:?}");
                let replayed = handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
                assert_eq!(replayed["state"], "queued", "{replayed}");
                world.drain().await;
            }
            assert_eq!(world.row(&id).await.state, State::Succeeded, "{stage:?}: {:?}", world.story(&id).await);
            let expected = if stage == Stage::Queued { "contactb" } else { "abb" };
            assert_eq!(keys(&world).concat(), expected, "{stage:?}: nothing is done twice");
        }
    }
}

/// The new name is done, and the old one comes back.
#[tokio::test]
async fn a_rename_without_was_that_is_rolled_back_does_nothing_twice() {
    let (mut world, id) = world_at(Stage::Queued).await;
    deploy(&mut world, &flows_of(&["contact", "b"]));
    world.partners.script(vec![done(), Script::Status(429)]);
    world.poll().await;
    deploy(&mut world, &flows_of(&["a", "b"]));
    world.drain().await;
    assert_eq!(keys(&world).concat(), "contactbb");
    let death = world.row(&id).await.death.expect("it is dead");
    assert!(death.reason == Reason::Misconfigured && death.error.contains("`a` may be the same"), "{}", death.error);
}

#[tokio::test]
async fn an_effect_that_is_removed_leaves_the_others_to_be_done() {
    for stage in STAGES {
        let (mut world, id) = world_at(stage).await;
        deploy(&mut world, &flows_of(&["b"]));
        assert_planned(&world, &id, stage, json!([["b", "run"]])).await;
        go_on(&world, &id, stage).await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{stage:?}: {:?}", world.story(&id).await);
        assert_eq!(keys(&world).concat(), if stage == Stage::Queued { "b" } else { "abb" }, "{stage:?}");
    }
}

#[tokio::test]
async fn the_hash_of_a_plan_covers_what_is_new() {
    let (mut world, id) = world_at(Stage::Parked).await;
    deploy(&mut world, &flows_of(&["a", "b", "c"]));
    let plan = handle(&world.replay, json!({"op": "plan", "ids": [id]})).await;
    let seen = json!([{"id": id, "hash": plan["events"][0]["hash"]}]);
    let with_new = by_ada(json!({"op": "apply", "events": seen, "with_new": true}));
    assert!(handle(&world.replay, with_new).await["changed"].is_array(), "it is another plan");
    let applied = handle(&world.replay, by_ada(json!({"op": "apply", "events": seen}))).await;
    assert_eq!(applied["applied"][0]["state"], "queued", "{applied}");
    world.drain().await;
    assert_eq!((world.row(&id).await.state, keys(&world).concat()), (State::Succeeded, "abb".into()));
}

#[tokio::test]
async fn an_event_whose_flow_is_not_there_waits_an_hour_for_it_and_is_parked_then() {
    for stage in STAGES {
        let (mut world, id) = world_at(stage).await;
        let known = flows_of(&["a", "b"]);
        deploy(&mut world, &without_flows());
        if stage.is_parked() {
            let (_, blocked) = plan_of(&world, &id, false).await;
            assert!(blocked.contains("there is no flow `lead-routing`"), "{blocked}");
        }
        if stage == Stage::Waiting {
            set_going(&world, &id, stage).await;
        }
        if stage == Stage::InABatch {
            // The lane does not know its partners' rates, and leaves it where it is.
            world.park().await;
            assert_eq!((world.row(&id).await.state, world.events.depth()), (State::Dead, 0));
        }
        if stage.is_parked() {
            handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
        }
        let since = world.clock.now();
        while world.clock.now().since(since) < HOUR - Duration::from_secs(60) {
            world.poll().await;
            world.wake().await;
            world.clock.advance(Duration::from_secs(30));
        }
        let state = world.row(&id).await.state;
        assert!(matches!(state, State::Queued | State::Retrying | State::Waiting), "{stage:?}: {state:?}");
        deploy(&mut world, &known);
        world.drain().await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{stage:?}: {:?}", world.story(&id).await);
    }
}

#[tokio::test]
async fn an_event_whose_flow_is_gone_for_good_is_parked_for_that_in_every_stage() {
    for stage in STAGES {
        let (mut world, id) = world_at(stage).await;
        let before = keys(&world).len();
        if stage.is_parked() {
            handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
        }
        if stage == Stage::Waiting {
            set_going(&world, &id, stage).await;
        }
        deploy(&mut world, &without_flows());
        let since = world.clock.now();
        world.drain().await;
        world.park().await;
        let row = world.row(&id).await;
        assert!(row.is_parked() && world.ledger.payload(&id).is_some(), "{stage:?}: {:?}", row.history);
        assert_eq!(row.death.map(|death| death.reason), Some(Reason::UnknownFlow), "{stage:?}");
        assert!(world.clock.now().since(since) >= HOUR && keys(&world).len() == before, "{stage:?}");
    }
}

/// Messages in flight are few: what waits for its flow is on the queue for a quarter of an hour.
#[tokio::test]
async fn an_event_whose_flow_is_not_there_leaves_the_queue_and_keeps_its_place() {
    let (mut world, id) = world_at(Stage::Queued).await;
    deploy(&mut world, &without_flows());
    while world.row(&id).await.state != State::Waiting {
        assert!(world.clock.now().since(world.row(&id).await.queued_at) < 20 * MINUTE, "{:?}", world.story(&id).await);
        world.poll().await;
        world.clock.advance(Duration::from_secs(5));
    }
    assert_eq!(world.events.depth(), 0);
    deploy(&mut world, &flows_of(&["a", "b"]));
    let mut second = lead();
    second["data"]["event_id"] = "evt_second".into();
    let second = world.post(&second).await.expect("a good lead").id;
    world.poll().await;
    assert_eq!(
        world.row(&second).await.state,
        State::Waiting,
        "it does not overtake: {:?}",
        world.story(&second).await
    );
    world.drain().await;
    for id in [&id, &second] {
        assert_eq!(world.row(id).await.state, State::Succeeded, "{:?}", world.story(id).await);
    }
    assert_eq!(keys(&world).concat(), "abab");
}

/// An event that is an hour old, or has waited longer than that, is met by an older container for the first time.
#[tokio::test]
async fn an_event_of_any_age_waits_for_its_flow_when_an_older_container_meets_it() {
    for stage in STAGES {
        let (mut world, id) = world_at(stage).await;
        if stage.is_parked() {
            handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
        }
        if stage == Stage::Waiting {
            set_going(&world, &id, stage).await;
        }
        for _ in 0..2 {
            world.clock.advance(2 * HOUR);
            deploy(&mut world, &without_flows());
            world.poll().await;
            assert_eq!(world.row(&id).await.state, State::Retrying, "{stage:?}: {:?}", world.story(&id).await);
            // A newer container has it in between, and its partner wants to be asked later.
            deploy(&mut world, &flows_of(&["a", "b"]));
            world.partners.script(vec![Script::RetryAfter(429, "600")]);
            world.clock.advance(MINUTE);
            world.poll().await;
            assert_eq!(world.row(&id).await.flow_unknown_since, None, "{stage:?}");
        }
        world.drain().await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{stage:?}: {:?}", world.story(&id).await);
    }
}

/// A version that has no flow for leads.
fn without_flows() -> Flows {
    let sources = "web-forms: {scheme: standard-webhooks, max_body: 64KiB, rate: 10/s, type_at: type}";
    Flows::parse(&[File { path: "sources.yaml".into(), text: sources.into() }]).expect("no flow at all")
}

#[tokio::test]
async fn while_its_flow_is_not_there_a_lost_call_stays_dated_by_its_lease() {
    let (mut world, id) = world_at(Stage::Queued).await;
    let lease = Duration::from_secs(60);
    world.partners.script(vec![Script::Hang]);
    let message = world.events.receive(1).remove(0);
    // The worker is lost in the middle of its call.
    let event: Event = serde_json::from_str(&message.body).expect("an event");
    let claim = crate::fixtures::claim_of(&event, world.clock.now(), &["a"]);
    shared::ledger::Claims::claim(&world.ledger, &id, &claim).await.expect("an answer").expect("a won claim");
    let until = world.clock.now() + lease;
    world.clock.advance(Duration::from_secs(200));
    deploy(&mut world, &without_flows());
    world.poll().await;
    let entry = world.row(&id).await.effects["a"].clone();
    assert!(entry.in_doubt() && entry.at == until, "{entry:?}");
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_left_to_it() {
    let (mut world, id) = world_at(Stage::Queued).await;
    let newer = world.ledger.in_format(FORMAT + 1);
    newer.overwrite(&world.row(&id).await);
    let writes = world.ledger.writes();
    for _ in 0..3 {
        assert_eq!(world.poll().await.len(), 1, "the message is left on the queue");
        world.clock.advance(Duration::from_secs(900));
    }
    assert_eq!((world.row(&id).await.state, keys(&world).len()), (State::Queued, 0));
    assert_eq!(world.ledger.writes(), writes + 3, "no read and no write beside the claim");
    assert_eq!(world.metrics.sum("NewerFormat{}"), 3);
    world.processor.ledger = Box::new(newer);
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded, "the newer version goes on");
}

#[tokio::test]
async fn an_operator_is_told_that_a_newer_version_wrote_a_row_or_a_document() {
    let (mut world, id) = world_at(Stage::Parked).await;
    let row = world.row(&id).await;
    world.ledger.in_format(FORMAT + 1).overwrite(&row);
    for op in ["replay", "drop"] {
        let declined = handle(&world.replay, by_ada(json!({"op": op, "id": id}))).await;
        assert!(declined["error"].as_str().is_some_and(|why| why.contains("a newer version")), "{declined}");
    }
    assert_eq!(world.row(&id).await, row, "nothing was changed");

    let boards: ModelDocument<Board> = ModelDocument::default();
    boards.in_format(FORMAT + 1).scribble(1, "{}");
    world.replay.boards = Box::new(boards.clone());
    let declined = handle(&world.replay, by_ada(json!({"op": "pause"}))).await;
    assert!(declined["error"].as_str().is_some_and(|why| why.contains("newer version")), "{declined}");
    assert_eq!(boards.read().await.expect("an answer").expect("a board").version, 1);

    let batches = ModelDocument::default();
    batches.in_format(FORMAT + 1).scribble(4, "[]");
    world.replay.batches = Box::new(batches.clone());
    let declined = handle(&world.replay, by_ada(json!({"op": "batch"}))).await;
    assert!(declined["error"].as_str().is_some_and(|why| why.contains("newer version")), "{declined}");
    batches.scribble(4, "{\"batches\": []}");
    let declined = handle(&world.replay, by_ada(json!({"op": "batch"}))).await;
    assert!(declined["error"].is_string(), "a document that is not readable is not overwritten: {declined}");
}

#[tokio::test]
async fn messages_and_letters_of_a_newer_version_stay_on_their_queues() {
    let (world, id) = world_at(Stage::Queued).await;
    let message = world.events.receive(1).remove(0);
    for (number, body) in [
        json!({"format": FORMAT + 1, "of": "tomorrow"}).to_string(),
        message.body.replace(&format!("\"format\":{FORMAT}"), &format!("\"format\":{}", FORMAT + 1)),
    ]
    .into_iter()
    .enumerate()
    {
        for queue in [&world.events, &world.dead_letters] {
            let sent = queue.put("tomorrow", &format!("of-tomorrow-{number}"), &body, Default::default());
            sent.expect("SQS takes it");
        }
        world.poll().await;
        assert!(!world.park().await.is_empty(), "the letter stays");
        world.clock.advance(Duration::from_secs(1000));
    }
    assert!(world.metrics.sum("NewerFormat{}") >= 2);
    assert_eq!(world.row(&id).await.state, State::Succeeded, "the message of this version was done");
    assert_eq!((world.events.depth(), world.dead_letters.depth()), (2, 2));
    assert_eq!(world.ledger.parked(10).await, Ok(vec![]), "nothing is parked as something else");
}

/// Polls every quarter of an hour for so many days.
async fn live(world: &World, days: u32) {
    for _ in 0..days * 96 {
        world.poll().await;
        world.park().await;
        world.clock.advance(15 * MINUTE);
    }
}

/// SQS deletes a message after four days, a dead letter after fourteen, and says nothing.
#[tokio::test]
async fn a_message_of_a_newer_version_is_never_deleted_without_a_word() {
    let (world, id) = world_at(Stage::Queued).await;
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
    let body = json!({"format": FORMAT + 1, "of": "tomorrow"}).to_string();
    world.events.put("tomorrow", "of-tomorrow", &body, Default::default()).expect("SQS takes it");
    live(&world, 4).await;
    assert_eq!((world.events.depth(), world.dead_letters.depth()), (0, 1), "it is a dead letter in time");
    assert!(world.ledger.parked(10).await.expect("an answer").is_empty(), "the newer version may come back for it");
    live(&world, 14).await;
    assert_eq!((world.dead_letters.depth(), world.events.take_expired().len()), (0, 0));
    assert_eq!(world.dead_letters.take_expired().len(), 0);
    let [row] = &world.ledger.parked(10).await.expect("an answer")[..] else { panic!("one is parked") };
    assert_eq!(row.death.as_ref().map(|death| death.reason), Some(Reason::Unreadable));
    assert_eq!(world.ledger.payload(&row.id).map(|kept| kept.payload), Some(json!(body)));
}

#[tokio::test]
async fn an_event_whose_row_is_of_a_newer_version_is_never_lost_without_a_word() {
    for comes_back in [true, false] {
        let (mut world, id) = world_at(Stage::Queued).await;
        let newer = world.ledger.in_format(FORMAT + 1);
        newer.overwrite(&world.row(&id).await);
        let row = world.row(&id).await;
        live(&world, 5).await;
        assert_eq!((world.events.depth(), world.dead_letters.depth()), (0, 1), "it is a dead letter in time");
        assert_eq!(world.row(&id).await, row, "nothing is written over it");
        if comes_back {
            world.replay.records = Box::new(newer);
        }
        live(&world, 14).await;
        assert_eq!(world.dead_letters.take_expired().len(), 0);
        let [parked] = &world.ledger.parked(10).await.expect("an answer")[..] else { panic!("one is parked") };
        assert!(world.ledger.payload(&parked.id).is_some());
        assert_eq!(parked.id == id, comes_back, "its own row, or one beside it");
        assert_eq!(world.row(&id).await == row, !comes_back);
    }
}

#[tokio::test]
async fn what_is_done_is_kept_for_people_and_for_whoever_asks_when_the_key_is_used_again() {
    let flows = flows_of(&["a"]);
    let world = World::with(flows);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    let first = world.row(&id).await;
    let later = world.clock.now() + HOUR + Duration::from_secs(1);
    assert!(first.forgotten(later) && first.is_put_aside(later));
    world.clock.advance(HOUR + Duration::from_secs(1));
    assert_eq!(world.post(&lead()).await.expect("the key is free").id, id);
    world.drain().await;
    assert_eq!(keys(&world).concat(), "aa", "it is a new event");
    assert_eq!(world.ledger.older(&id).await, Ok(vec![first.clone()]));
    let shown = handle(&world.replay, json!({"op": "show", "id": id})).await;
    assert_eq!(shown["older"][0]["received_at"], first.received_at.to_string(), "{shown}");
}

/// Receivers that know a signed message by its id, functions that know an event by its id and its epoch, and partners that
/// know a call by our key: to each, an event after the `ttl` is another one.
#[tokio::test]
async fn who_remembers_an_event_for_longer_than_its_ttl_takes_the_next_one_for_another() {
    let effects =
        "  - {id: hook, integration: own, guarantee: native, request: {method: POST, path: /hook, body: {a: 1}}}
  - {id: score, invoke: team-score, timeout: 3s, guarantee: native}
  - {id: ask, integration: own, guarantee: lookup, request: {method: POST, path: /ask, body: {a: 1}},
     lookup: {after: 5s, request: {path: /asked}, found: /id}}
";
    let world = World::with(flows_of_partners(
        effects,
        "own: {base_url: https://own.example.com, timeout: 3s, key_window: 24h, auth: signed}",
    ));
    world.secrets.put("integrations/own", "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
    let mut known = Vec::new();
    for generation in 0..2 {
        // The first is replayed, so that its epoch is higher than any of the second.
        if generation == 0 {
            world.partners.script([Script::Status(201), Script::Status(400)]);
        } else {
            world.partners.script([Script::Status(201), Script::Hang]);
        }
        let id = world.post(&lead()).await.expect("the key is free").id;
        world.drain().await;
        if generation == 0 {
            world.park().await;
            handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
            world.drain().await;
        }
        let row = world.row(&id).await;
        assert_eq!((row.state, row.generation), (State::Succeeded, generation), "{:?}", row.history);
        known.push(row.known_as().to_string());
        world.clock.advance(HOUR + Duration::from_secs(1));
    }
    let calls = world.partners.calls().into_iter().map(|(_, request)| request);
    let signed = |request: PartnerRequest| match request.credentials {
        Credentials::Signed { id, .. } => (request.path, id),
        other => panic!("{other:?}"),
    };
    let signed: Vec<_> = calls.map(signed).collect();
    let [first, second] = &known[..] else { panic!("two events") };
    assert_ne!(first, second);
    let expected = [
        ("/hook", format!("{first}/hook")),
        ("/ask", format!("{first}/ask")),
        ("/ask", format!("{first}/ask")),
        ("/hook", format!("{second}/hook")),
        ("/ask", format!("{second}/ask")),
        ("/asked", format!("{second}/ask/lookup")),
    ];
    assert_eq!(signed, expected.map(|(path, id)| (path.to_owned(), id)), "no id is told for two events");
    let told = |document: Value| (document["id"].clone(), document["key"].clone());
    let told: Vec<_> = world.functions.documents().into_iter().map(told).collect();
    assert_eq!(told, [first, second].map(|id| (json!(id), json!(format!("{id}/score")))));
}

#[tokio::test]
async fn the_happy_path_costs_what_it_did() {
    let world = World::with(flows_of(&["a"]));
    let id = world.post(&lead()).await.expect("a good lead").id;
    assert_eq!((world.ledger.writes(), world.limits.writes()), (1, 1), "the admission, and the sender's rate");
    world.drain().await;
    assert_eq!((world.row(&id).await.state, world.ledger.writes()), (State::Succeeded, 3), "a claim and a close more");
    let limits = (world.limits.writes(), world.pressure.writes(), world.pressure.reads());
    assert_eq!(limits, (1, 0, 0), "a healthy partner without a rate costs nothing");
}
