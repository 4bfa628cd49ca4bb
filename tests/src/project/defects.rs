//! The proof names what catches each defect that was: each test is there, and each mutant.

use super::named_tests::{assert_all_exist, document, last_columns, tests_in};

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
