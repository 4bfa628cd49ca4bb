//! Thousands of events that wait for long: for the morning, for an operator, for a partner that is down.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::time::Timestamp;
use shared::flows::{File, Flows};
use shared::model::QueueLimits;
use sim::{Conduct, EventRecipe, FaultProfile, FieldValue, FlowsVersion, PartnerOutage, RunReport, RunSetup};
use sim::{Scenario, Simulation, SteadyLoad, Stores};

use crate::fixtures::{NOW, by_ada};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// The most messages in flight, and the most among which the queue looks for free groups.
const IN_FLIGHT: usize = 500;

const INTEGRATIONS: &str = "
day: {base_url: https://day.example.com, timeout: 3s}
night: {base_url: https://night.example.com, timeout: 3s}
held: {base_url: https://held.example.com, timeout: 3s}
down: {base_url: https://down.example.com, timeout: 3s, rate: {limit: 2/s, burst: 10}}
";

/// A flow of one call to the integration of its name, with lines of its own.
fn flow(name: &str, own: &str) -> File {
    calling(name, name, own)
}

fn calling(integration: &str, name: &str, own: &str) -> File {
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
max_age: 24h
{own}
effects:
  - id: tell
    integration: {integration}
    guarantee: native
    request: {{method: POST, path: \"/{{{{ event.order }}}}\"}}
retry: {{strategy: exponential, base: 2s, multiplier: 2, max_delay: 60s, jitter: full, max_attempts: 4}}
"
    );
    File { path: format!("flows/{name}.yaml"), text }
}

const QUIET: &str = "contact: {tenant: shop, email: \"{{ event.customer }}@example.com\"}
guards:
  - quiet_hours: {from: \"21:00\", to: \"08:00\", zone: Europe/Berlin}";

static SIMULATION: LazyLock<Simulation> = LazyLock::new(|| {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let sources = "shop: {scheme: shopify, max_body: 64KiB, rate: 1000/s, type_at: kind}";
    let files = [
        file("sources.yaml", sources),
        file("integrations.yaml", INTEGRATIONS),
        flow("day", ""),
        flow("night", QUIET),
        flow("held", ""),
        flow("down", ""),
        calling("down", "fresh", ""),
    ];
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let recipe = |name: &str| {
        EventRecipe::of(json!({"kind": name, "order": "", "customer": ""}))
            .with("/order", FieldValue::text(format!("{name}-{{event}}")))
            .with("/customer", FieldValue::text(format!("{name}-{{entity}}")))
    };
    let mut events = BTreeMap::from(["day", "night", "held", "down"].map(|name| (name.to_owned(), recipe(name))));
    // Nobody sends two of them: none has to wait for an older one.
    events.insert("fresh".into(), recipe("fresh").with("/customer", FieldValue::text("fresh-{event}")));
    let scenario = Scenario {
        versions: vec![FlowsVersion::of(flows)],
        events,
        listings: BTreeMap::new(),
        entities: 500,
        contacts: Vec::new(),
        // 22:00 in UTC: it is night in Berlin, until 07:00.
        starts_at: NOW + 13 * HOUR,
    };
    Simulation::new(scenario).unwrap_or_else(|error| panic!("{error}"))
});

/// The morning, from the start of a run.
const MORNING: Duration = Duration::from_secs(9 * 3600);

/// So many events of a flow, one each so often.
fn load(flow: &'static str, events: u64, every: Duration) -> SteadyLoad {
    SteadyLoad { flow, events, every }
}

/// Steady loads before the template's ten batches at once, with the limits of the queue scaled down.
fn setup(loads: &[SteadyLoad], orders: Vec<(Duration, Value)>) -> RunSetup {
    let mut setup = SIMULATION.steady(loads, 10).expect("all have recipes");
    let queue = QueueLimits { in_flight: IN_FLIGHT, searched: IN_FLIGHT, ..QueueLimits::REAL };
    setup.stores = Stores { queue, ..Stores::REAL };
    setup.orders = orders;
    setup
}

/// The same, run to its end. No invariant is broken: nothing is lost or done twice, and each entity's events are in order.
fn run(setup: RunSetup) -> RunReport {
    let report = setup.run();
    assert_eq!(report.violation, None, "{}", report.timeline);
    report
}

/// The other flow: an event every half minute, from the evening to after the morning.
fn other() -> SteadyLoad {
    load("day", 1200, MINUTE / 2)
}

/// How long the events of the other flow took that were received then: the median, the slowest of a hundred, and the
/// slowest.
fn times(report: &RunReport, when: fn(Timestamp) -> bool) -> [Duration; 3] {
    let then = report.settled["day"].iter().filter(|(at, _)| when(*at));
    let mut times: Vec<Duration> = then.map(|(_, took)| *took).collect();
    times.sort();
    [times[times.len() / 2], times[times.len() * 99 / 100], times[times.len() - 1]]
}

/// When the events of a flow were settled, from the start of the run.
fn settled_at(report: &RunReport, flow: &str) -> Vec<Duration> {
    let start = SIMULATION.scenario().starts_at;
    let mut at: Vec<Duration> = report.settled[flow].iter().map(|(at, took)| (*at + *took).since(start)).collect();
    at.sort();
    at
}

/// Those of the other flow are what they are without so many beside them: all night through to the last one, and also
/// while all come at once, but for what waits a moment for a free container.
fn assert_not_held_up(alone: &RunReport, beside: &RunReport) {
    assert_eq!(alone.settled["day"].len(), beside.settled["day"].len());
    let slack = Duration::from_millis(100);
    let all = |_: Timestamp| true;
    let at_night = |at: Timestamp| NIGHT.contains(&at.since(SIMULATION.scenario().starts_at));
    let ([median, most, _], [median_beside, most_beside, slowest]) = (times(alone, all), times(beside, all));
    assert!(median_beside <= median + slack && most_beside <= most + slack, "{most_beside:?}, {most:?} without them");
    let [.., slowest_alone] = times(alone, all);
    assert!(slowest <= slowest_alone + Duration::from_secs(4), "{slowest:?}, {slowest_alone:?} without them");
    for (alone, beside) in times(alone, at_night).into_iter().zip(times(beside, at_night)) {
        assert!(beside <= alone + slack, "{beside:?} beside them at night, {alone:?} without them");
    }
}

/// The time in which all wait: they have come, and it is not morning yet.
const NIGHT: Range<Duration> = Duration::from_secs(600)..MORNING;

const AT_NIGHT: u64 = 5000;

#[test]
fn five_thousand_wait_for_the_morning_and_hold_nobody_up() {
    let alone = run(setup(&[other()], Vec::new()));
    let beside = run(setup(&[other(), load("night", AT_NIGHT, Duration::from_millis(80))], Vec::new()));
    println!("{:?} without them, {:?} beside them", times(&alone, |_| true), times(&beside, |_| true));
    assert_not_held_up(&alone, &beside);
    let at = settled_at(&beside, "night");
    assert_eq!(at.len() as u64, AT_NIGHT, "the morning comes, and all are done");
    assert!(at[0] >= MORNING, "{:?} is still night", at[0]);
    let last = at[at.len() - 1];
    assert!(last <= MORNING + 10 * MINUTE, "{last:?} is long after the morning");
}

#[test]
fn a_resume_in_the_night_wakes_them_at_once() {
    const PAUSED: u64 = 5000;
    let order = |op: &str, at: Duration| (at, by_ada(json!({"op": op, "flow": "held"})));
    let resumed = 3 * HOUR;
    let loads = [load("held", PAUSED, Duration::from_millis(80))];
    let setup = setup(&loads, vec![order("pause", Duration::ZERO), order("resume", resumed)]);
    let report = run(setup);
    let at = settled_at(&report, "held");
    assert_eq!(at.len() as u64, PAUSED);
    // What came before anybody had read the new board was not held back.
    let early = at.iter().take_while(|at| **at < Duration::from_secs(10)).count();
    assert!(at[early] >= resumed && early < 150, "{early} before, and then {:?}", at[early]);
    let last = at[at.len() - 1];
    // One tick wakes 3,000 at most, and the next one comes a minute later.
    assert!(last <= resumed + 3 * MINUTE, "the last one at {last:?}, resumed at {resumed:?}");
}

/// When the partner is down, from the start of a run.
const DOWN_FROM: Duration = Duration::from_secs(7 * 60);
const DOWN_FOR: Duration = Duration::from_secs(6 * 3600);

/// A partner that answers nothing but errors for six hours, under a load of an event each so often. Nothing dies of it,
/// an hour after its return its backlog is gone, and whoever has nothing in it does not wait for it.
fn an_outage(events: u64, every: Duration) -> RunReport {
    let conduct = Conduct::Fail { status: 503, applied: false, saved: false };
    let minutes = (every * u32::try_from(events).expect("few")).as_secs() / 60;
    let mut setup = setup(&[load("down", events, every), load("fresh", minutes, MINUTE)], Vec::new());
    setup.outages.push(PartnerOutage { integration: "down".into(), from: DOWN_FROM, lasts: DOWN_FOR, conduct });
    let report = run(setup);
    let settled = |flow: &str| report.settled[flow].len() as u64;
    assert_eq!((settled("down"), settled("fresh")), (events, minutes), "nothing dies of it");
    let back = SIMULATION.scenario().starts_at + DOWN_FROM + DOWN_FOR;
    let waited = |(at, took): &&(Timestamp, Duration)| *at < back && *at + *took > back + HOUR;
    let late = report.settled["down"].iter().filter(waited).count();
    assert_eq!(late, 0, "those that waited are not done an hour after its return");
    let came = report.settled["fresh"].iter().filter(|(at, _)| *at >= back);
    let slowest = came.map(|(_, took)| *took).max().expect("events come during the drain");
    println!("{events} events, the slowest of others that came after its return took {slowest:?}");
    assert!(slowest <= 5 * MINUTE, "an event that came during the drain took {slowest:?}");
    report
}

/// How often the partner was called while it was down.
fn calls_in_vain(report: &RunReport) -> usize {
    let timeline = report.timeline.to_string();
    timeline.lines().filter(|line| line.contains(" call ") && line.contains("503, and did not do it")).count()
}

#[test]
fn a_partner_is_down_for_six_hours_and_its_backlog_is_gone_an_hour_after() {
    let report = an_outage(2700, Duration::from_secs(10));
    let calls = calls_in_vain(&report);
    println!("{calls} calls in vain");
    // A probe each half minute is 720. The rest are calls of containers that have not met the outage yet: each begins with a
    // closed breaker, and learns by its first failure that it is open.
    assert!(calls <= 1500, "{calls} calls of a partner that is down");
}

/// 4,800 wait and 800 come, besides 435 of others, and an hour has room for 7,200 at the partner's rate.
#[test]
fn a_backlog_that_nearly_fills_an_hour_is_gone_an_hour_after() {
    an_outage(5800, Duration::from_millis(4500));
}

/// The night, with whatever else goes wrong until two hours after the morning.
#[test]
fn what_waits_for_the_morning_outlives_whatever_goes_wrong_in_the_night() {
    for seed in 0..3 {
        let mut setup = setup(&[load("night", 150, 2 * MINUTE)], Vec::new());
        setup.seed = seed;
        setup.profile = FaultProfile {
            rates: [0.01; 6],
            stall: 0.005,
            partner: 0.1,
            heals_after: MORNING + 2 * HOUR,
            ..FaultProfile::calm()
        };
        setup.schedules = 4;
        let report = run(setup);
        let early = settled_at(&report, "night").into_iter().filter(|at| *at < MORNING).count();
        assert_eq!(early, 0, "{early} were done at night");
    }
}
