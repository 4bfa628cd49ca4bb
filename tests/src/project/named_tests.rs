//! Tests that a document names: each of them is there.

use std::path::{Path, PathBuf};

use crate::fixtures::{root, sources};

/// A document of the project.
pub(crate) fn document(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The last column of each row of the tables in a text, without their heads.
pub(crate) fn last_columns(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit('|').next())
}

/// What stands in backticks there, as `module::test`.
pub(crate) fn tests_in(column: &str) -> impl Iterator<Item = &str> {
    column.split('`').skip(1).step_by(2).filter(|quoted| quoted.contains("::"))
}

/// Fails for the first name that is not that of a test.
pub(crate) fn assert_all_exist<'n>(names: impl IntoIterator<Item = &'n str>) {
    let code: Vec<(PathBuf, String)> = FOLDERS.into_iter().flat_map(sources).collect();
    for name in names {
        let (module, test) = name.rsplit_once("::").expect("a module and a test");
        let folder = module.replace("::", "/");
        assert!(code.iter().any(|(path, text)| is_module(path, &folder) && has_test(text, test)), "{name} is no test");
    }
}

const FOLDERS: [&str; 6] =
    ["tests/src", "shared/src", "functions", "infra/cli/src", "infra/cli/tests", "infra/local/src"];

fn is_module(path: &Path, folder: &str) -> bool {
    let path = path.with_extension("");
    path.ends_with(folder) || path.ends_with(format!("{folder}/mod"))
}

/// Whether a file declares this test, or lists it among those of the contract suite.
fn has_test(text: &str, test: &str) -> bool {
    let declared = text.find(&format!("fn {test}(")).is_some_and(|at| {
        let above = text[..at].rsplit("\n\n").next().unwrap_or_default();
        above.contains("#[test]") || above.contains("#[tokio::test")
    });
    let suite = text.split_once("on_model_and_emulator!(\n").and_then(|(_, rest)| rest.split(");\n").next());
    declared || suite.is_some_and(|listed| listed.lines().any(|line| line.trim().trim_end_matches(',') == test))
}

#[test]
fn a_name_that_is_no_test_would_be_seen() {
    assert_eq!(last_columns("| a | `b::c` |\n|---|---|\nx").collect::<Vec<_>>(), [" `b::c`"]);
    assert_eq!(tests_in("`a::b`, `make sim`, `c::d::e`").collect::<Vec<_>>(), ["a::b", "c::d::e"]);
    let text = "#[test]\nfn one() {}\n\nfn two() {}\n\n#[tokio::test]\nasync fn three() {}";
    assert!(has_test(text, "one") && has_test(text, "three") && !has_test(text, "two") && !has_test(text, "four"));
    let suite = "on_model_and_emulator!(\n    one,\n    two,\n);\n\nasync fn three() {}";
    assert!(has_test(suite, "two") && !has_test(suite, "three"));
    assert!(is_module(Path::new("a/memory/answers.rs"), "memory/answers"));
    assert!(is_module(Path::new("a/memory/mod.rs"), "memory") && !is_module(Path::new("a/memory.rs"), "answers"));
}
