//! The threat model names its tests, and each of them is there.

use crate::project::named_tests::{assert_all_exist, document, last_columns, tests_in};

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let text = document("infra/SECURITY.md");
    let named: Vec<&str> = last_columns(&text).flat_map(tests_in).collect();
    assert!(named.len() >= 20, "the table was not read: {named:?}");
    assert_all_exist(named);
}

#[test]
fn every_threat_names_a_test() {
    let text = document("infra/SECURITY.md");
    let table = text.split("\n\n").find(|part| part.starts_with("| who | wants |")).expect("the table of threats");
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert!(rows.len() >= 30, "the table was not read: {rows:?}");
    for row in rows {
        let named = last_columns(row).flat_map(tests_in).count();
        assert!(named > 0, "no test shows it: {row}");
    }
}
