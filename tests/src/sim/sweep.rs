//! Every fault at every call, one at a time.

use std::time::Duration;

use sim::{Conduct, Fault, FaultPlan, OpeningConduct, OperatorAct, OperatorShift, RunSetup, Simulation};

use super::seeds::{OURS, SHIPPED, drawn};

/// Goes through every call of an undisturbed run, with each fault in its turn.
fn every_fault(name: &str, setup: impl Fn(FaultPlan) -> RunSetup, of: usize, part: usize) -> usize {
    let calm = setup(FaultPlan::Once { call: usize::MAX, fault: Fault::Throttle }).run();
    assert_eq!(calm.violation, None, "{name}: {}", calm.timeline);
    let mut runs = 0;
    for call in (0..calm.calls).filter(|call| call % of == part) {
        for fault in Fault::ALL {
            let report = setup(FaultPlan::Once { call, fault }).run();
            if let Some(violation) = report.violation {
                panic!("\n{}\n{name}, call {call}, {fault}: violated {violation:?}", report.timeline);
            }
            runs += 1;
        }
    }
    runs
}

fn sweep(simulation: &Simulation, of: usize, part: usize) {
    let flows = simulation.scenario().versions[0].flows().all();
    let calm = |flow: &str, plan| simulation.calm(flow, plan).expect("every flow has a recipe");
    let runs: usize = flows.map(|flow| every_fault(&flow.name, |plan| calm(&flow.name, plan), of, part)).sum();
    println!("{runs} runs, each with one fault at one call");
}

#[test]
fn one_fault_at_every_call_of_the_shipped_flows() {
    sweep(&SHIPPED, 1, 0);
}

#[test]
fn one_fault_at_every_call_of_our_flows_0() {
    sweep(&OURS, 2, 0);
}

#[test]
fn one_fault_at_every_call_of_our_flows_1() {
    sweep(&OURS, 2, 1);
}

use OperatorAct::{ApplyPlan, DropOne, MakePlan, OpenBatch, RunSchedule, StopBatch, TakeOneOn};

const REFUSED: Conduct = Conduct::Refuse { status: 400, retry_after: None };
const FAILING: Conduct = Conduct::Refuse { status: 503, retry_after: None };
const SILENT: Conduct = Conduct::Hang { late: None };

/// What operators do about what partners have parked at first: the flow, how partners behave, what operators do.
const SCRIPTS: [(&str, Conduct, &[OperatorAct]); 5] = [
    ("sequence", REFUSED, &[OpenBatch, StopBatch, OpenBatch]),
    ("latest", REFUSED, &[OpenBatch, TakeOneOn, OpenBatch, StopBatch]),
    ("latest", FAILING, &[RunSchedule, StopBatch, RunSchedule]),
    ("none", SILENT, &[MakePlan, TakeOneOn, ApplyPlan, MakePlan, ApplyPlan, OpenBatch]),
    ("stage", REFUSED, &[MakePlan, MakePlan, ApplyPlan, TakeOneOn, DropOne]),
];

/// A calm run of events that died of how partners behaved at first, while an operator does this.
fn scripted(flow: &str, conduct: Conduct, acts: &[OperatorAct], plan: FaultPlan) -> RunSetup {
    let mut setup = OURS.calm(flow, plan).expect("a flow of ours");
    setup.opening = Some(OpeningConduct { conduct, lasts: Duration::from_secs(30) });
    setup.shift = OperatorShift::Script(acts.to_vec());
    setup
}

fn operate(of: usize, part: usize) {
    for (name, conduct, acts) in SCRIPTS {
        let runs = every_fault(name, |plan| scripted(name, conduct, acts, plan), of, part);
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

/// What was parked for its shape, while operators try again and again, and another version of the flow is deployed.
#[test]
fn one_fault_at_every_call_of_a_shape_that_is_taken_later() {
    let setup = |plan| {
        let mut setup = OURS.calm("shaped", plan).expect("a flow of ours");
        setup.versions = OURS.scenario().versions.clone();
        setup.shift = OperatorShift::Script(vec![TakeOneOn, OpenBatch, TakeOneOn, MakePlan, ApplyPlan, TakeOneOn]);
        setup
    };
    println!("{} runs, each with one fault at one call", every_fault("shaped", setup, 1, 0));
}

/// The same seed is the same run, line by line, batches included.
#[test]
fn a_seed_is_replayed_exactly() {
    let mut ticks = 0;
    for seed in 0..40 {
        let first = drawn(seed).run().timeline;
        assert!(first.len() > 10, "seed {seed} does something");
        assert_eq!(first.hash(), drawn(seed).run().timeline.hash(), "seed {seed}");
        ticks += first.to_string().matches("send tick").count();
    }
    assert!(ticks > 0, "the lane takes part");
}
