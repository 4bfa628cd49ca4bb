//! What an event costs of a flow that uses nothing special: every call of every port, in order. Whoever adds one sees it
//! here, and says why.

use std::time::Duration;

use serde_json::json;
use sim::{EventRecipe, FieldValue, FlowsVersion, Scenario, Simulation, SteadyLoad};

use crate::fixtures::{NOW, lead, plain_flows};

/// The port calls of some events of the plain flow, one after the other, before one container of each function: by whom,
/// and what.
fn calls(events: u64) -> Vec<String> {
    let recipe = EventRecipe::of(lead())
        .with("/data/event_id", FieldValue::text("evt-{event}"))
        .with("/data/email", FieldValue::text("person{entity}@example.com"));
    let simulation = Simulation::new(Scenario {
        versions: vec![FlowsVersion::of(plain_flows())],
        events: [("lead-routing".to_owned(), recipe)].into(),
        listings: Default::default(),
        entities: 8,
        contacts: Vec::new(),
        starts_at: NOW,
    });
    let simulation = simulation.unwrap_or_else(|error| panic!("{error}"));
    let load = SteadyLoad { flow: "lead-routing", events, every: Duration::from_secs(600) };
    let report = simulation.steady(&[load], 1).expect("it has a recipe").run();
    assert_eq!(report.violation, None, "{}", report.timeline);
    assert_eq!(report.settled["lead-routing"].len() as u64, events, "{}", report.timeline);
    let timeline = report.timeline.to_string();
    let words = |line: &str| {
        let line: Vec<&str> = line.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect();
        format!("{}: {}", line[1].split('-').next().unwrap_or_default(), line[2])
    };
    let mut calls: Vec<String> = timeline.lines().map(words).collect();
    calls.retain(|call| call.starts_with("intake: ") || call.starts_with("processor: "));
    calls
}

#[test]
fn an_event_of_a_plain_flow_costs_what_it_did() {
    let first = calls(1);
    let expected = json!([
        "intake: read secret",
        "intake: draw",
        "intake: admit",
        "intake: send",
        "processor: read board",
        "processor: claim",
        "processor: read secret",
        "processor: call",
        "processor: close",
    ]);
    assert_eq!(json!(first), expected);
}
