//! Many seeds, in shards that run side by side.

use std::time::Instant;

use sim::RunReport;

use super::{mutants, seeds};

/// How many seeds `make test` runs.
const SEEDS: u64 = 1600;
const SHARDS: u64 = 8;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn shard(shard: u64) {
    if let Some(seed) = number("SEED") {
        if shard == 0 {
            replay(seed);
        }
        return;
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let (started, mut done, mut calls) = (Instant::now(), 0u64, 0);
    for seed in (0..seeds).filter(|seed| seed % SHARDS == shard) {
        let report = seeds::drawn(seed).run();
        (done, calls) = (done + 1, calls + report.calls);
        assert!(report.violation.is_none(), "{}", told(seed, &report));
        if done % 200 == 0 {
            println!("shard {shard}: {done} seeds, {:.0} a second", done as f64 / started.elapsed().as_secs_f64());
        }
    }
    let a_second = done as f64 / started.elapsed().as_secs_f64();
    println!("shard {shard}: {done} seeds and {calls} port calls held, {a_second:.0} seeds a second");
}

fn replay(seed: u64) {
    let name = std::env::var("MUTANT").unwrap_or_default();
    let mutant = mutants::ALL.iter().find(|mutant| mutant.name == name).unwrap_or(&mutants::NONE);
    let report = seeds::with(seed, mutant).run();
    println!("{}seed {seed}: timeline {:016x}", report.timeline, report.timeline.hash());
    assert!(report.violation.is_none(), "{}", told(seed, &report));
}

/// A failure, to be understood and to be seen again.
fn told(seed: u64, report: &RunReport) -> String {
    let violation = report.violation.as_ref().map(|v| format!("{}: {}", v.invariant, v.seen)).unwrap_or_default();
    format!("\n{}\nviolated {violation}\nreplay it with: make sim SEED={seed}", report.timeline)
}

macro_rules! shards {
    ($($name:ident = $number:literal),+) => { $(#[test] fn $name() { shard($number) })+ };
}
shards!(seeds_0 = 0, seeds_1 = 1, seeds_2 = 2, seeds_3 = 3, seeds_4 = 4, seeds_5 = 5, seeds_6 = 6, seeds_7 = 7);
