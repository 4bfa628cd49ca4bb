//! A partner that hangs on every call, beside one that does not.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;
use shared::flows::{File, Flows};
use sim::mutation::Mutation;
use sim::{EventRecipe, FieldValue, FlowsVersion, RunReport, Scenario, Simulation, SteadyLoad};

use super::mutants::mutation_named;
use crate::fixtures::NOW;

const INTEGRATIONS: &str = "
quick: {base_url: https://quick.example.com, timeout: 10s}
hanging:
  base_url: https://hanging.example.com
  timeout: 10s
  breaker: {window: 30s, min_calls: 1000, error_rate: 1.0, open_for: 15s, probes: 1}
";

fn flow(name: &str) -> File {
    let text = format!(
        "
name: {name}
version: 1
on: {{source: shop, type: {name}}}
schema:
  type: object
  required: [order, customer]
  properties: {{kind: {{type: string}}, order: {{type: string}}, customer: {{type: string}}}}
key: {{version: 1, fields: [order]}}
order_by: customer
ttl: 24h
max_age: 1h
effects:
  - id: tell
    integration: {name}
    guarantee: native
    request: {{method: POST, path: \"/{{{{ event.order }}}}\"}}
retry: {{strategy: exponential, base: 2s, multiplier: 2, max_delay: 60s, jitter: full, max_attempts: 4}}
"
    );
    File { path: format!("flows/{name}.yaml"), text }
}

static SIMULATION: LazyLock<Simulation> = LazyLock::new(|| {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let sources = "shop: {scheme: shopify, max_body: 64KiB, rate: 1000/s, type_at: kind}";
    let files =
        [file("sources.yaml", sources), file("integrations.yaml", INTEGRATIONS), flow("quick"), flow("hanging")];
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let recipe = |name: &str| {
        EventRecipe::of(json!({"kind": name, "order": "", "customer": ""}))
            .with("/order", FieldValue::text(format!("{name}-{{event}}")))
            .with("/customer", FieldValue::text(format!("{name}-{{entity}}")))
    };
    let events = BTreeMap::from(["quick", "hanging"].map(|name| (name.to_owned(), recipe(name))));
    let versions = vec![FlowsVersion::of(flows)];
    let scenario =
        Scenario { versions, events, listings: BTreeMap::new(), entities: 1000, contacts: Vec::new(), starts_at: NOW };
    Simulation::new(scenario).unwrap_or_else(|error| panic!("{error}"))
});

/// The template's ten batches at once, for a minute and a half of two flows.
fn run(hanging: bool, mutation: Mutation) -> RunReport {
    let load = |flow, millis| SteadyLoad { flow, events: 90_000 / millis, every: Duration::from_millis(millis) };
    let mut setup = SIMULATION.steady(&[load("quick", 400), load("hanging", 1000)], 10).expect("both have recipes");
    setup.mutation = mutation;
    setup.hanging.extend(hanging.then(|| "hanging".to_owned()));
    setup.run()
}

/// How long the quick partner's events took: the median, the slowest of a hundred, and the slowest.
fn times(report: &RunReport) -> [Duration; 3] {
    let mut times: Vec<Duration> = report.settled["quick"].iter().map(|(_, took)| *took).collect();
    times.sort();
    assert_eq!(times.len(), 225, "every event is settled");
    [times[times.len() / 2], times[times.len() * 99 / 100], times[times.len() - 1]]
}

#[test]
fn events_of_others_settle_as_fast_beside_a_partner_that_hangs() {
    let (calm, beside) = (run(false, Mutation::NONE), run(true, Mutation::NONE));
    for report in [&calm, &beside] {
        assert_eq!(report.violation, None, "{}", report.timeline);
    }
    println!("{:?} in {} batches without it", times(&calm), calm.batches);
    println!("{:?} in {} batches beside it", times(&beside), beside.batches);
    // Each of its 90 events is deferred, at once, and more and more seldom.
    let more = beside.batches.saturating_sub(calm.batches);
    assert!(more <= 90 * 12, "{} batches beside it, {} without it", beside.batches, calm.batches);
    let slack = Duration::from_millis(100);
    for (without, beside) in times(&calm).into_iter().zip(times(&beside)) {
        assert!(beside <= without + slack, "{beside:?} beside it, {without:?} without it");
    }
}

/// The same measurement sees what it is for: without the share, the partner that hangs holds every batch.
#[test]
fn without_its_share_a_partner_that_hangs_holds_every_batch() {
    let report = run(true, mutation_named("a slow partner takes every batch"));
    let broken = report.violation.expect("the share is not kept");
    assert_eq!(broken.invariant, "share", "{}", report.timeline);
}
