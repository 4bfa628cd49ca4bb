//! Which seed catches which mutant, by which invariant.

use super::super::seeds;
use super::{ALL, Mutant};

/// Every mutant is caught by one of so many seeds.
const SEEDS: u64 = 600;

/// The first seed that catches a mutant, and the invariant that it violates. The product passes it.
fn caught(mutant: &'static Mutant) -> Option<(u64, &'static str)> {
    let caught = (0..SEEDS).find_map(|seed| Some((seed, seeds::with(seed, mutant).run().violation?.invariant)));
    if let Some((seed, _)) = caught {
        assert_eq!(seeds::drawn(seed).run().violation, None, "seed {seed} fails without a mutant, too");
    }
    caught
}

fn shard(shard: usize) {
    let mine = ALL.iter().enumerate().filter(|(index, _)| index % 4 == shard).map(|(_, mutant)| mutant);
    let table: Vec<_> = mine.map(|mutant| (mutant.name, caught(mutant))).collect();
    for (name, caught) in &table {
        let (invariant, seeds) = caught.map_or(("nothing", SEEDS), |(seed, invariant)| (invariant, seed + 1));
        println!("| {name} | `{invariant}` | {seeds} |");
    }
    let missed: Vec<_> = table.iter().filter(|(_, caught)| caught.is_none()).map(|(name, _)| name).collect();
    assert!(missed.is_empty(), "the simulation does not see that {missed:?}");
}

#[test]
fn mutants_0() {
    shard(0);
}

#[test]
fn mutants_1() {
    shard(1);
}

#[test]
fn mutants_2() {
    shard(2);
}

#[test]
fn mutants_3() {
    shard(3);
}
