//! Which seed catches which mutant, by which invariant; and the table of it in `infra/docs/PROOF.md`.
//!
//! `make mutants` looks for them and writes the table. Every other run tries the seeds of the table: there each mutant is
//! caught by the same invariant, and the product passes.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::super::seeds;
use super::declared::may_catch;
use super::{ALL, Mutant};
use crate::fixtures::root;

/// Every mutant is caught by one of so many seeds.
const SEEDS: u64 = 4000;

/// Into how many tests the mutants are split.
const SHARDS: usize = 8;

/// What stands around the table.
const BEGIN: &str = "<!-- mutants: written by make mutants -->\n";
const END: &str = "<!-- /mutants -->";
const HEAD: &str = "| broken so that | caught by | seeds needed |\n|---|---|---|\n";

/// The invariant that a mutant violates with this seed, if that may catch it. The product passes the seed.
fn caught_by(mutant: &'static Mutant, seed: u64) -> Option<&'static str> {
    let violation = seeds::with(seed, mutant).run().violation?;
    if !may_catch(violation.invariant, mutant.name) {
        return None;
    }
    assert_eq!(seeds::drawn(seed).run().violation, None, "seed {seed} fails without a mutant, too");
    Some(violation.invariant)
}

fn shard(shard: usize) {
    let mine = ALL.iter().enumerate().filter(|(index, _)| index % SHARDS == shard);
    if std::env::var_os("WRITE_MUTANTS").is_some() { write(mine) } else { compare(mine) }
}

/// Looks for the first seed that catches each of these mutants.
fn write(mutants: impl Iterator<Item = (usize, &'static Mutant)>) {
    let line = |(index, mutant): (usize, &'static Mutant)| {
        let caught = (0..SEEDS).find_map(|seed| Some((seed, caught_by(mutant, seed)?)));
        let (seed, invariant) = caught.unwrap_or_else(|| panic!("the simulation does not see that {}", mutant.name));
        (index, row(mutant, invariant, seed))
    };
    collect(mutants.map(line));
}

fn row(mutant: &Mutant, invariant: &str, seed: u64) -> String {
    format!("| {} | `{invariant}` | {} |\n", mutant.name, seed + 1)
}

/// Each of these mutants is caught as the table in the document says.
fn compare(mutants: impl Iterator<Item = (usize, &'static Mutant)>) {
    let text = std::fs::read_to_string(proof()).expect("the proof");
    let table = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).expect("the table's marks").0;
    let rows: Vec<&str> = table.strip_prefix(HEAD).expect("the table's head").lines().collect();
    assert_eq!(rows.len(), ALL.len(), "infra/docs/PROOF.md has another number of mutants: run `make mutants`");
    for (index, mutant) in mutants {
        let needed = rows[index].rsplit('|').nth(1).and_then(|number| number.trim().parse::<u64>().ok());
        let seed = needed.and_then(|needed| needed.checked_sub(1)).expect("a row has its number of seeds");
        let invariant = caught_by(mutant, seed);
        let invariant =
            invariant.unwrap_or_else(|| panic!("{}: seed {seed} does not see it: run `make mutants`", mutant.name));
        let row = row(mutant, invariant, seed);
        assert_eq!(rows[index], row.trim_end(), "infra/docs/PROOF.md is out of date: run `make mutants`");
    }
}

/// Keeps the lines of all shards, which run in one process, and writes the table with the last of them.
fn collect(lines: impl Iterator<Item = (usize, String)>) {
    static TABLE: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());
    // Found before the lock: the shards look side by side.
    let lines: Vec<(usize, String)> = lines.inspect(|(_, line)| print!("{line}")).collect();
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.extend(lines);
    if table.len() < ALL.len() {
        return;
    }
    table.sort();
    let rows: String = table.iter().map(|(_, line)| line.as_str()).collect();
    let text = std::fs::read_to_string(proof()).expect("the proof");
    let (before, rest) = text.split_once(BEGIN).expect("the table's first mark");
    let (_, after) = rest.split_once(END).expect("the table's last mark");
    std::fs::write(proof(), format!("{before}{BEGIN}{HEAD}{rows}{END}{after}")).expect("the proof is written");
}

fn proof() -> PathBuf {
    root().join("infra/docs/PROOF.md")
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

#[test]
fn mutants_4() {
    shard(4);
}

#[test]
fn mutants_5() {
    shard(5);
}

#[test]
fn mutants_6() {
    shard(6);
}

#[test]
fn mutants_7() {
    shard(7);
}
