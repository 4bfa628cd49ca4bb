//! The table of filters in `FLOWS.md`: each example is what the page says.

use serde_json::json;
use shared::flows::template::{Body, Scope};

use crate::fixtures::root;

/// The examples of the table, each with what it makes.
fn examples() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(root().join("infra/docs/FLOWS.md")).expect("the page");
    let (_, rest) = page.split_once("| filter | what it makes | example | is |").expect("the table of filters");
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    let example = |row: &str| {
        // A pipe within a cell is written `\|`.
        let cells: Vec<String> =
            row.replace("\\|", "\u{0}").split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect();
        let code = |cell: &str| cell.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).map(str::to_owned);
        (code(&cells[3]).unwrap_or_else(|| panic!("{row}")), code(&cells[4]).unwrap_or_else(|| panic!("{row}")))
    };
    rows.map(example).collect()
}

#[test]
fn every_example_of_a_filter_is_what_the_page_says() {
    let examples = examples();
    assert!(examples.len() >= 14, "the table was not read: {examples:?}");
    for (expression, expected) in examples {
        let body: Body = serde_json::from_value(json!(format!("{{{{ {expression} }}}}"))).expect("a template");
        let made = body.render(&Scope::of(&json!({}))).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let made = made.as_str().map_or_else(|| made.to_string(), str::to_owned);
        assert_eq!(made, expected, "{expression}");
    }
}
