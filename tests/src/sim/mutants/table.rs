//! Which seed catches which mutant, by which invariant; and the table of it in `infra/docs/PROOF.md`.
//!
//! `make mutants` writes the table. Every other run compares it with what it finds.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::super::seeds;
use super::{ALL, Mutant};
use crate::fixtures::root;

/// Every mutant is caught by one of so many seeds.
const SEEDS: u64 = 2000;

/// Into how many tests the mutants are split.
const SHARDS: usize = 4;

/// What stands around the table.
const BEGIN: &str = "<!-- mutants: written by make mutants -->\n";
const END: &str = "<!-- /mutants -->";
const HEAD: &str = "| broken so that | caught by | seeds needed |\n|---|---|---|\n";

/// The first seed that catches a mutant, and the invariant that it violates. The product passes it.
fn caught(mutant: &'static Mutant) -> Option<(u64, &'static str)> {
    let caught = (0..SEEDS).find_map(|seed| Some((seed, seeds::with(seed, mutant).run().violation?.invariant)));
    if let Some((seed, _)) = caught {
        assert_eq!(seeds::drawn(seed).run().violation, None, "seed {seed} fails without a mutant, too");
    }
    caught
}

fn shard(shard: usize) {
    let mine = ALL.iter().enumerate().filter(|(index, _)| index % SHARDS == shard);
    let found: Vec<_> = mine.map(|(index, mutant)| (index, mutant.name, caught(mutant))).collect();
    let missed: Vec<_> = found.iter().filter(|(_, _, caught)| caught.is_none()).map(|(_, name, _)| name).collect();
    assert!(missed.is_empty(), "the simulation does not see that {missed:?}");
    let lines = found.into_iter().filter_map(|(index, name, caught)| {
        let (seed, invariant) = caught?;
        Some((index, format!("| {name} | `{invariant}` | {} |\n", seed + 1)))
    });
    if std::env::var_os("WRITE_MUTANTS").is_some() { collect(lines) } else { compare(lines) }
}

/// The table in the document holds each of these lines.
fn compare(lines: impl Iterator<Item = (usize, String)>) {
    let text = std::fs::read_to_string(proof()).expect("the proof");
    let table = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).expect("the table's marks").0;
    let rows: Vec<&str> = table.strip_prefix(HEAD).expect("the table's head").lines().collect();
    assert_eq!(rows.len(), ALL.len(), "infra/docs/PROOF.md has another number of mutants: run `make mutants`");
    for (index, line) in lines {
        assert_eq!(rows[index], line.trim_end(), "infra/docs/PROOF.md is out of date: run `make mutants`");
    }
}

/// Keeps the lines of all shards, which run in one process, and writes the table with the last of them.
fn collect(lines: impl Iterator<Item = (usize, String)>) {
    static TABLE: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.extend(lines.inspect(|(_, line)| print!("{line}")));
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
