//! The threat model names its tests, and each of them is there.

use super::sources;
use crate::fixtures::root;

/// What stands in backticks in the last column of the table, as `module::test`.
fn named() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("infra/SECURITY.md")).expect("the threat model");
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.contains("::"));
    let last = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit('|').next());
    last.flat_map(|column| column.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let named = named();
    assert!(named.len() >= 20, "the table was not read: {named:?}");
    let code: Vec<_> = ["tests/src", "shared/src", "functions", "infra/cli/src", "infra/local/src"]
        .into_iter()
        .flat_map(sources)
        .collect();
    for name in named {
        let (module, test) = name.rsplit_once("::").expect("a module and a test");
        let folder = module.replace("::", "/");
        let here = |path: &std::path::Path| {
            let path = path.with_extension("");
            path.ends_with(&folder) || path.ends_with(format!("{folder}/mod"))
        };
        let declared = format!("fn {test}(");
        let is_test = |text: &str| {
            text.find(&declared).is_some_and(|at| {
                text[..at]
                    .rsplit("\n\n")
                    .next()
                    .is_some_and(|above| above.contains("#[test]") || above.contains("#[tokio::test"))
            })
        };
        assert!(code.iter().any(|(path, text)| here(path) && is_test(text)), "{name} is no test");
    }
}
