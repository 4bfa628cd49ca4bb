//! The threat model names its tests, and each of them is there.

use crate::project::named_tests::{assert_all_exist, document, last_columns, tests_in};

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let text = document("infra/SECURITY.md");
    let named: Vec<&str> = last_columns(&text).flat_map(tests_in).collect();
    assert!(named.len() >= 20, "the table was not read: {named:?}");
    assert_all_exist(named);
}
