//! The library over flows that are nobody's: what it refuses, and what it runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::time::Timestamp;
use shared::effects::contact::BadContact;
use shared::flows::{File, Flows};

use super::*;
use crate::recipe::HumanAnswer;

const SOURCES: &str = "
shop: {scheme: github, max_body: 64KiB, rate: 10/s, type_at: kind}
desk: {scheme: standard-webhooks, max_body: 64KiB, rate: 10/s, type_at: kind}
";

const INTEGRATIONS: &str = "crm: {base_url: https://crm.example.com, timeout: 3s}";

/// What every flow here says, with its effects and a line of its own.
fn flow(name: &str, source: &str, own: &str, effects: &str) -> File {
    let text = format!(
        "
name: {name}
version: 1
on: {{source: {source}, type: {name}}}
schema:
  type: object
  required: [order, customer]
  properties: {{kind: {{type: string}}, order: {{type: string}}, customer: {{type: string}}}}
key: {{version: 1, fields: [order]}}
order_by: customer
ttl: 24h
max_age: 1h
{own}
effects:
{effects}
retry: {{strategy: exponential, base: 1s, multiplier: 2, max_delay: 20s, jitter: full, max_attempts: 3}}
"
    );
    File { path: format!("flows/{name}.yaml"), text }
}

/// A flow that calls no partner at all.
fn known() -> File {
    let contact = "contact: {tenant: shop, email: \"{{ event.customer }}\"}";
    flow("known", "desk", contact, "  - {id: contact, upsert: {fields: {vip: true}}}")
}

/// A flow with two effects side by side at one partner, which has to be asked what came of each.
fn paid() -> File {
    let effect = |id: &str| {
        format!(
            "  - id: {id}
    integration: crm
    guarantee: lookup
    needs: []
    request: {{method: POST, path: \"/{id}/{{{{ event.order }}}}\"}}
    result: {{id: /id}}
    lookup: {{after: 8s, request: {{path: \"/find/{id}/{{{{ event.order }}}}\"}}, found: /id}}
"
        )
    };
    flow("paid", "shop", "", &(effect("bill") + &effect("ship")))
}

fn scenario(flows: &[File], integrations: &str) -> Scenario {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let files = [&[file("sources.yaml", SOURCES), file("integrations.yaml", integrations)], flows].concat();
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let recipe = |name: &str| {
        EventRecipe::of(json!({"kind": name, "order": "", "customer": ""}))
            .with("/order", FieldValue::text("order-{event}"))
            .with("/customer", FieldValue::text("customer{entity}@example.com"))
    };
    let events = flows.all().map(|flow| (flow.name.clone(), recipe(&flow.name))).collect();
    let starts_at = Timestamp::from_secs(1_000_000_000);
    Scenario {
        versions: vec![FlowsVersion::of(flows)],
        events,
        listings: BTreeMap::new(),
        entities: 2,
        contacts: Vec::new(),
        starts_at,
    }
}

fn holds(scenario: Scenario, seeds: u64) {
    let simulation = Simulation::new(scenario).expect("it can be run");
    for seed in 0..seeds {
        let report = simulation.run_seed(seed);
        assert_eq!(report.violation, None, "seed {seed}\n{}", report.timeline);
        assert!(report.calls > 0 && !report.timeline.is_empty(), "seed {seed} does something");
    }
}

#[test]
fn flows_without_partners_are_run() {
    holds(scenario(&[known()], "{}"), 40);
}

#[test]
fn two_lookups_at_one_partner_are_told_apart() {
    holds(scenario(&[paid()], INTEGRATIONS), 80);
}

#[test]
fn a_flow_without_a_recipe_has_no_events() {
    let mut scenario = scenario(&[paid(), known()], INTEGRATIONS);
    scenario.events.remove("paid");
    let simulation = Simulation::new(scenario).expect("it can be run");
    assert!(simulation.calm("paid", FaultPlan::Random).is_none());
    for seed in 0..10 {
        let timeline = simulation.run_seed(seed).timeline.to_string();
        assert!(!timeline.contains(" crm "), "seed {seed}: {timeline}");
    }
}

#[test]
fn an_event_that_its_flow_refuses_is_told() {
    let mut scenario = scenario(&[known()], "{}");
    let recipe = EventRecipe::of(json!({"kind": "known", "order": 7, "customer": "ada@example.com"}));
    scenario.events.insert("known".into(), recipe);
    let mut setup = Simulation::new(scenario).expect("it can be run").draw(1);
    setup.profile = FaultProfile::calm();
    let violation = setup.run().violation.expect("the intake refuses it");
    assert_eq!(violation.invariant, "good-events-taken");
    assert!(violation.seen.starts_with("sender-"), "{}", violation.seen);
}

#[test]
fn what_cannot_be_run_is_refused() {
    let refused = |change: fn(&mut Scenario)| {
        let mut scenario = scenario(&[known()], "{}");
        change(&mut scenario);
        Simulation::new(scenario).err()
    };
    assert_eq!(refused(|_| ()), None);
    assert_eq!(refused(|scenario| scenario.versions.clear()), Some(ScenarioError::NoVersion));
    assert_eq!(refused(|scenario| scenario.events.clear()), Some(ScenarioError::NoEvents));
    assert_eq!(refused(|scenario| scenario.entities = 0), Some(ScenarioError::NoEntities));
    let keyless = format!("{}, idempotency_header: ''}}", INTEGRATIONS.trim_end_matches('}'));
    let keyless = Simulation::new(scenario(&[paid()], &keyless)).err();
    assert_eq!(keyless, Some(ScenarioError::NoKeyHeader("crm".into())));
    let other = |scenario: &mut Scenario| {
        scenario.events.insert("other".into(), EventRecipe::of(Value::Null));
    };
    assert_eq!(refused(other), Some(ScenarioError::UnknownFlow("other".into())));
    let filled = |pointer: &str, value| BTreeMap::from([(pointer.to_owned(), value)]);
    let (flow, pointer) = ("known".to_owned(), "/size".to_owned());
    let mut scenario = scenario(&[known()], "{}");
    scenario.events.get_mut("known").expect("its recipe").fields = filled("/size", FieldValue::text("large"));
    assert_eq!(Simulation::new(scenario.clone()).err(), Some(ScenarioError::NoField { flow, pointer }));
    scenario.events.get_mut("known").expect("its recipe").fields = filled("/order", FieldValue::Cycle(Vec::new()));
    let (flow, pointer) = ("known".to_owned(), "/order".to_owned());
    assert_eq!(Simulation::new(scenario).err(), Some(ScenarioError::NoValues { flow, pointer }));
    let nobody = |scenario: &mut Scenario| {
        let (tenant, email) = ("shop".to_owned(), "nobody".to_owned());
        scenario.contacts = vec![KnownContact { tenant, email, fields: serde_json::Map::new() }];
    };
    assert_eq!(refused(nobody), Some(ScenarioError::Contact(0, BadContact::Email)));
}

#[test]
fn a_recipe_fills_what_differs() {
    let mut scenario = scenario(&[paid()], INTEGRATIONS);
    let payload = json!({"order": "", "at": "", "size": 0, "ask": "kept", "said": "kept", "mark": "", "who": ""});
    let recipe = EventRecipe::of(payload)
        .with("/order", FieldValue::text("{entity}/{event}"))
        .with("/at", FieldValue::Moment { apart: Duration::from_secs(60) })
        .with("/size", FieldValue::Cycle(vec![json!(1), json!(2)]))
        .with("/mark", FieldValue::Variant)
        .with("/who", FieldValue::Spelled("ada{entity}".into()))
        .with("/ask", FieldValue::Question)
        .with("/said", FieldValue::Decision { yes: json!(true), no: json!(false) });
    scenario.events.insert("paid".into(), recipe);
    let flow = scenario.versions[0].flows().flow("paid").expect("it is there");
    let post = scenario.post(flow, 3, 1, None);
    let at = "2001-09-09T01:49:40.000Z";
    let body =
        json!({"order": "1/3", "at": at, "size": 2, "ask": "kept", "said": "kept", "mark": "variant-0", "who": "ada1"});
    assert_eq!(post.body, body);
    let edited = scenario.edited_posts(flow, 3, 1);
    let marks: Vec<&Value> = edited.iter().map(|post| &post.body["mark"]).collect();
    assert_eq!(marks, ["variant-0", "variant-1", "variant-2", "variant-3"]);
    let spelled: Vec<&Value> = edited.iter().map(|post| &post.body["who"]).collect();
    assert_eq!(spelled, ["ada1", "ADA1", "ada1", "ADA1"]);
    assert_eq!((post.delivery_id.as_str(), post.idempotency_key), ("msg-3", None));
    assert_eq!(post.event_type.as_deref(), Some("paid"), "the body does not say its type");
    let answer = HumanAnswer { question: "well?".into(), yes: false };
    let post = scenario.post(flow, 0, 0, Some(&answer));
    assert_eq!((&post.body["ask"], &post.body["said"]), (&json!("well?"), &json!(false)));
}

#[test]
fn every_module_has_a_sentence_in_the_layout() {
    let lib = include_str!("lib.rs");
    let layout = lib.split("# Layout").nth(1).and_then(|rest| rest.split("# To add").next()).expect("a layout");
    let told = layout.lines().filter_map(|line| line.strip_prefix("//! - ")?.split('`').nth(1));
    let declared =
        lib.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    let declared: Vec<&str> = declared.filter(|module| *module != "tests").collect();
    assert_eq!(told.collect::<Vec<_>>(), declared);
}
