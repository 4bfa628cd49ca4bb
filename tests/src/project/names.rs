//! No public type name stands for two things.

use std::collections::BTreeMap;

use crate::fixtures::{shown, sources};

/// The folders of the workspace's members.
const MEMBERS: [&str; 5] = ["shared", "functions", "infra/cli", "infra/local", "tests"];

/// The public type that a line declares, if it declares one, whatever it is public to.
fn declared(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(to) => to.split_once(')')?.1,
        None => rest,
    };
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(' ')?.strip_prefix(kind))?;
    Some(name.chars().take_while(|c| c.is_alphanumeric()).collect())
}

/// Every public type of the workspace, and where it is declared.
fn types() -> BTreeMap<String, Vec<String>> {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in MEMBERS.into_iter().flat_map(sources) {
        let file = shown(&path);
        for (number, line) in text.lines().enumerate() {
            if let Some(name) = declared(line) {
                types.entry(name).or_default().push(format!("{file}:{}", number + 1));
            }
        }
    }
    types
}

#[test]
fn no_public_type_name_stands_for_two_things() {
    let types = types();
    assert!(types.len() > 200, "the workspace was not read: {} types", types.len());
    let twice: Vec<String> = types
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(twice.is_empty(), "each of these names stands for more than one type:\n{}", twice.join("\n"));
}

#[test]
fn a_repetition_would_be_seen() {
    assert_eq!(declared("pub struct Answer {"), Some("Answer".into()));
    assert_eq!(declared("    pub(super) enum Verdict<'v> {"), Some("Verdict".into()));
    assert_eq!(declared("pub(in crate::flows) type Plan = ();"), Some("Plan".into()));
    assert_eq!(declared("struct Private;"), None);
    assert_eq!(declared("pub fn answer() {}"), None);
}
