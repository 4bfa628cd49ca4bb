//! A partner that hangs on every call, beside one that does not.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;
use shared::base::time::Timestamp;
use shared::flows::{File, Flows};
use sim::mutation::Mutation;
use sim::{EventRecipe, FieldValue, FlowsVersion, PartnerOutage, RunReport, Scenario, Simulation, SteadyLoad};

use super::mutants::mutation_named;
use crate::fixtures::NOW;

const INTEGRATIONS: &str = "
quick: {base_url: https://quick.example.com, timeout: 10s}
hanging:
  base_url: https://hanging.example.com
  timeout: 10s
  breaker: {window: 30s, min_calls: 1000, error_rate: 1.0, open_for: 15s, probes: 1}
";

fn flow(name: &str, guarantee: &str) -> File {
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
    guarantee: {guarantee}
    request: {{method: POST, path: \"/{{{{ event.order }}}}\"}}
retry: {{strategy: exponential, base: 2s, multiplier: 2, max_delay: 60s, jitter: full, max_attempts: 4}}
"
    );
    File { path: format!("flows/{name}.yaml"), text }
}

/// The partner that hangs knows a call again by our key.
static SIMULATION: LazyLock<Simulation> = LazyLock::new(|| simulation("native"));

/// The partner that hangs cannot be called twice.
static UNREPEATED: LazyLock<Simulation> = LazyLock::new(|| simulation("none"));

fn simulation(hanging: &str) -> Simulation {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let sources = "shop: {scheme: shopify, max_body: 64KiB, rate: 1000/s, type_at: kind}";
    let files = [
        file("sources.yaml", sources),
        file("integrations.yaml", INTEGRATIONS),
        flow("quick", "native"),
        flow("hanging", hanging),
    ];
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
}

/// The template's ten batches at once, for a minute and a half of two flows.
fn run(hanging: bool, mutation: Mutation) -> RunReport {
    let load = SteadyLoad { flow: "hanging", events: 90, every: Duration::from_secs(1) };
    beside(&SIMULATION, load, hanging.then_some(Duration::MAX), mutation)
}

/// The same, with this load of events to the partner that hangs, if it does, for so long.
fn beside(simulation: &Simulation, load: SteadyLoad, hangs_for: Option<Duration>, mutation: Mutation) -> RunReport {
    let quick = SteadyLoad { flow: "quick", events: 225, every: Duration::from_millis(400) };
    let mut setup = simulation.steady(&[quick, load], 10).expect("both have recipes");
    setup.mutation = mutation;
    let hangs = |lasts| PartnerOutage { lasts, ..PartnerOutage::hangs_for_good("hanging") };
    setup.outages.extend(hangs_for.map(hangs));
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
    assert!(more <= 90 * 9, "{} batches beside it, {} without it", beside.batches, calm.batches);
    let slack = Duration::from_millis(100);
    for (without, beside) in times(&calm).into_iter().zip(times(&beside)) {
        assert!(beside <= without + slack, "{beside:?} beside it, {without:?} without it");
    }
}

/// How long events of others take, at worst, when a partner begins to hang under thirty calls a second: nobody knows of it
/// yet, and it is in every batch. What may be repeated is let go as soon as it is slow; what may not is waited for.
fn at_the_onset(simulation: &Simulation) -> (usize, [Duration; 3]) {
    let load = SteadyLoad { flow: "hanging", events: 450, every: Duration::from_millis(33) };
    let calm = beside(simulation, load.clone(), None, Mutation::NONE);
    let hanging = beside(simulation, load, Some(Duration::from_secs(40)), Mutation::NONE);
    for report in [&calm, &hanging] {
        assert_eq!(report.violation, None, "{}", report.timeline);
    }
    println!("{:?} in {} batches without it", times(&calm), calm.batches);
    println!("{:?} in {} batches beside it", times(&hanging), hanging.batches);
    let more = hanging.batches.saturating_sub(calm.batches);
    assert!(more <= 450 * 4, "{} batches beside it, {} without it", hanging.batches, calm.batches);
    let late = |(_, took): &&(Timestamp, Duration)| *took > Duration::from_secs(1);
    (hanging.settled["quick"].iter().filter(late).count(), times(&hanging))
}

#[test]
fn a_partner_that_begins_to_hang_under_load_is_let_go() {
    let (late, [median, _, slowest]) = at_the_onset(&SIMULATION);
    println!("{late} of 225 took longer than a second");
    assert!(median <= Duration::from_millis(700), "{median:?}");
    assert!(slowest <= Duration::from_millis(3500), "{slowest:?}: no longer than a call is not known to be slow");
    assert!(late <= 10, "{late} events are late");
}

#[test]
fn a_partner_that_begins_to_hang_and_cannot_be_let_go_holds_others_for_its_time_out() {
    let (late, [median, _, slowest]) = at_the_onset(&UNREPEATED);
    println!("{late} of 225 took longer than a second");
    assert!(median <= Duration::from_millis(700), "{median:?}");
    assert!(slowest <= Duration::from_secs(12), "{slowest:?}: the time-out is ten seconds");
    assert!(late <= 30, "{late} events are late");
}

/// The same measurement sees what it is for: without the share, the partner that hangs holds every batch.
#[test]
fn without_its_share_a_partner_that_hangs_holds_every_batch() {
    let report = run(true, mutation_named("a slow partner takes every batch"));
    let broken = report.violation.expect("the share is not kept");
    assert_eq!(broken.invariant, "share", "{}", report.timeline);
}
