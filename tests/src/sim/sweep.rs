//! Every fault at every call, one at a time.

use super::faults::{Fault, Plan};
use super::flows::{SHIPPED, VERSIONS, Version};
use super::seeds::single;
use super::world::run;

/// Goes through every call of an undisturbed run of each flow, with each fault in its turn.
fn sweep(version: &Version, of: usize, part: usize) {
    let mut runs = 0;
    for flow in version.flows.all() {
        let calm = run(single(version, flow, Plan::Once(usize::MAX, Fault::Throttle, 0)));
        assert_eq!(calm.violation, None, "{}: {}", flow.name, calm.timeline);
        for at in (0..calm.calls).filter(|at| at % of == part) {
            for fault in Fault::ALL {
                let report = run(single(version, flow, Plan::Once(at, fault, 0)));
                let Some(violation) = report.violation else {
                    runs += 1;
                    continue;
                };
                panic!("\n{}\n{}, call {at}, {fault}: violated {violation:?}", report.timeline, flow.name);
            }
        }
    }
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

/// The same seed is the same run, line by line.
#[test]
fn a_seed_is_replayed_exactly() {
    for seed in [1, 2, 5, 8, 13] {
        let first = run(super::seeds::drawn(seed)).timeline;
        assert!(first.len() > 10, "seed {seed} does something");
        assert_eq!(first.hash(), run(super::seeds::drawn(seed)).timeline.hash(), "seed {seed}");
    }
}
