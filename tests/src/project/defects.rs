//! The proof names what catches each defect that was: each test is there, and each mutant. What puts a defect back fits the
//! code as it is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::named_tests::{assert_all_exist, document, last_columns, tests_in};
use crate::fixtures::{files_below, shown};

const BEGIN: &str = "## Defects that were, and what catches them\n";

/// The section of the proof that lists the defects.
fn section(text: &str) -> &str {
    let (_, section) = text.split_once(BEGIN).expect("the section is there");
    section.split("\n## ").next().unwrap_or_default()
}

/// What stands in italics, which is the name of a mutant.
fn mutants_in(column: &str) -> impl Iterator<Item = &str> {
    column.split('*').skip(1).step_by(2)
}

#[test]
fn whatever_catches_a_defect_exists() {
    let (text, mutants) = (document("infra/docs/PROOF.md"), document("tests/src/sim/mutants/mod.rs"));
    let heads = |column: &&str| column.trim() != "caught by";
    let columns: Vec<&str> = last_columns(section(&text)).filter(heads).collect();
    assert!(columns.len() >= 60, "only {} defects were found", columns.len());
    for column in &columns {
        let names = tests_in(column).chain(mutants_in(column)).count();
        assert!(names > 0, "nothing is named that catches it: {column}");
        for mutant in mutants_in(column) {
            assert!(mutants.contains(&format!("\"{mutant}\"")), "there is no mutant {mutant}");
        }
    }
    assert_all_exist(columns.into_iter().flat_map(tests_in));
}

#[test]
fn a_mutant_is_read_as_it_is_written() {
    let column = "`a::b`, *the intent is not written*, *no tick is sent*";
    assert_eq!(mutants_in(column).collect::<Vec<_>>(), ["the intent is not written", "no tick is sent"]);
}

/// How `make defects` puts a row's defect back, or why it does not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    defect: String,
    #[serde(default)]
    put_back: Vec<Change>,
    #[serde(default)]
    not_put_back: Option<String>,
}

/// A text in a file, and what takes its place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    r#in: String,
    this: String,
    by: String,
}

/// The entries of each file, by the file's name without its ending.
fn entries() -> BTreeMap<String, Vec<Entry>> {
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a text");
        let entries = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", shown(&path)));
        (path.file_stem().expect("a name").to_string_lossy().into_owned(), entries)
    };
    files_below("tests/defects", "yaml").into_iter().map(read).collect()
}

/// The rows of each table, by the table's heading as a file's name: each defect, with what catches it.
fn tables(section: &str) -> BTreeMap<String, Vec<(&str, &str)>> {
    section.split("\n### ").skip(1).map(table).collect()
}

fn table(text: &str) -> (String, Vec<(&str, &str)>) {
    let (heading, rows) = text.split_once('\n').expect("a heading");
    let words = heading.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.map(str::to_lowercase).collect::<Vec<_>>().join("-");
    (name, rows.lines().filter_map(row).filter(|(defect, _)| *defect != "defect").collect())
}

fn row(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")
}

#[test]
fn every_row_is_put_back_or_says_why_not() {
    let text = document("infra/docs/PROOF.md");
    let (tables, entries) = (tables(section(&text)), entries());
    assert!(entries.len() >= 10, "only {:?}", entries.keys());
    for (name, entries) in &entries {
        let rows = tables.get(name).unwrap_or_else(|| panic!("{name}.yaml: the proof has no such table"));
        for (row, column) in rows {
            let has_entry = entries.iter().any(|entry| entry.defect == *row);
            assert!(has_entry || mutants_in(column).count() > 0, "{name}.yaml: nothing puts this back: {row}");
        }
        for Entry { defect, put_back, not_put_back } in entries {
            let row = rows.iter().find(|(row, _)| row == defect);
            let (_, column) = row.unwrap_or_else(|| panic!("{name}.yaml: the table has no such row: {defect}"));
            assert_ne!(put_back.is_empty(), not_put_back.is_none(), "one of both: {defect}");
            let can_be_caught = tests_in(column).any(|test| !test.starts_with("cloud::"));
            assert!(put_back.is_empty() || can_be_caught, "all of its tests are on the local cloud: {defect}");
        }
    }
}

#[test]
fn what_puts_a_defect_back_fits_the_code() {
    let mut replaced: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
    for Change { r#in, this, by } in entries().into_values().flatten().flat_map(|entry| entry.put_back) {
        let text = document(&r#in);
        assert_eq!(text.matches(&this).count(), 1, "{} has it once: {this}", r#in);
        let has_switch = by.contains("PUT_BACK");
        assert_eq!(has_switch, r#in.ends_with(".rs"), "what is built says when it is on trial: {by}");
        let at = text.find(&this).unwrap_or_default();
        replaced.entry(r#in).or_default().push((at, at + this.len()));
    }
    for (file, mut places) in replaced {
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{file}: one defect replaces another's text");
    }
}

#[test]
fn a_table_is_read_as_it_is_written() {
    let text = "\n### Waiting, and more\n\n| defect | caught by |\n|---|---|\n| a `b` | `c::d` |\n";
    let tables = tables(text);
    assert_eq!(tables.get("waiting-and-more").map(Vec::as_slice), Some(&[("a `b`", "`c::d`")][..]));
}
