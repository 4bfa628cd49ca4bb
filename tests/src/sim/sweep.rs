//! Every fault at every call, one at a time.

use super::faults::{Fault, Plan};
use super::flows::{SHIPPED, VERSIONS, Version};
use super::operators::Act;
use super::partner::Conduct;
use super::seeds::{scripted, single};
use super::world::{Setup, World, run};

/// Goes through every call of an undisturbed run, with each fault in its turn.
fn every_fault(name: &str, setup: impl Fn(Plan) -> Setup, of: usize, part: usize) -> usize {
    let calm = run(setup(Plan::Once(usize::MAX, Fault::Throttle, 0)));
    assert_eq!(calm.violation, None, "{name}: {}", calm.timeline);
    let mut runs = 0;
    for at in (0..calm.calls).filter(|at| at % of == part) {
        for fault in Fault::ALL {
            let report = run(setup(Plan::Once(at, fault, 0)));
            if let Some(violation) = report.violation {
                panic!("\n{}\n{name}, call {at}, {fault}: violated {violation:?}", report.timeline);
            }
            runs += 1;
        }
    }
    runs
}

fn sweep(version: &Version, of: usize, part: usize) {
    let flows = version.flows.all();
    let runs: usize = flows.map(|flow| every_fault(&flow.name, |plan| single(version, flow, plan), of, part)).sum();
    println!("{runs} runs, each with one fault at one call");
}

#[test]
fn one_fault_at_every_call_of_the_shipped_flows() {
    sweep(&SHIPPED, 1, 0);
}

#[test]
fn one_fault_at_every_call_of_our_flows_0() {
    sweep(&VERSIONS[0], 2, 0);
}

#[test]
fn one_fault_at_every_call_of_our_flows_1() {
    sweep(&VERSIONS[0], 2, 1);
}

const REFUSED: Conduct = Conduct::Refuse { status: 400, retry_after: None };
const FAILING: Conduct = Conduct::Refuse { status: 503, retry_after: None };
const SILENT: Conduct = Conduct::Hang { late: None };

/// What operators do about what a partner's illness has parked: the flow, the illness, what they do.
const SCRIPTS: [(&str, Conduct, &[Act]); 5] = [
    ("sequence", REFUSED, &[World::open_for_all, World::stop_a_batch, World::open_for_all]),
    ("latest", REFUSED, &[World::open_for_all, World::take_one_on, World::open_for_all, World::stop_a_batch]),
    ("latest", FAILING, &[World::schedule, World::stop_a_batch, World::schedule]),
    ("none", SILENT, &[World::plan, World::take_one_on, World::apply, World::plan, World::apply, World::open_for_all]),
    ("stage", REFUSED, &[World::plan, World::plan, World::apply, World::take_one_on, World::drop_one]),
];

fn operate(of: usize, part: usize) {
    for (name, conduct, acts) in SCRIPTS {
        let version = &VERSIONS[0];
        let flow = version.flows.flow(name).expect("a flow of ours");
        let runs = every_fault(name, |plan| scripted(version, flow, conduct, acts, plan), of, part);
        println!("{runs} runs of {name}, each with one fault at one call");
    }
}

#[test]
fn one_fault_at_every_call_of_what_operators_do_0() {
    operate(2, 0);
}

#[test]
fn one_fault_at_every_call_of_what_operators_do_1() {
    operate(2, 1);
}

/// The same seed is the same run, line by line, batches included.
#[test]
fn a_seed_is_replayed_exactly() {
    let mut ticks = 0;
    for seed in [1, 2, 5, 8, 10, 13, 33] {
        let first = run(super::seeds::drawn(seed)).timeline;
        assert!(first.len() > 10, "seed {seed} does something");
        assert_eq!(first.hash(), run(super::seeds::drawn(seed)).timeline.hash(), "seed {seed}");
        ticks += first.to_string().matches("send tick").count();
    }
    assert!(ticks > 0, "the lane takes part");
}
