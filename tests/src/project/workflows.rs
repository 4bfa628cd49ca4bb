//! The workflows run the verbs that people run, with actions that nobody can change behind our back.

use std::collections::BTreeSet;

use super::named_tests::document;
use crate::fixtures::root;

fn workflows() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(root().join(".github/workflows")).expect("the workflows");
    let names = folder.map(|entry| entry.expect("a file").file_name().into_string().expect("a plain name"));
    names.map(|name| (document(&format!(".github/workflows/{name}")), name)).map(|(text, name)| (name, text)).collect()
}

#[test]
fn every_action_is_pinned_to_a_commit() {
    let workflows = workflows();
    assert_eq!(workflows.len(), 2);
    for (name, text) in workflows {
        let uses: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("- uses: ")).collect();
        assert!(!uses.is_empty(), "{name}");
        for action in uses {
            let commit = action.split_once('@').and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default();
            assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}: {action}");
        }
        assert!(text.contains("\npermissions: {contents: read}\n"), "{name}: only a job that publishes may write");
    }
}

#[test]
fn a_workflow_runs_the_verbs_of_the_makefile() {
    let makefile = document("Makefile");
    let mut verbs = BTreeSet::new();
    for (_, text) in workflows() {
        let made = text.split("make ").skip(1).filter_map(|rest| rest.split([' ', '\n']).next());
        verbs.extend(made.filter(|verb| makefile.contains(&format!("\n{verb}:"))).map(str::to_owned));
    }
    assert_eq!(verbs, ["deny", "release"].map(str::to_owned).into());
    let makefile = makefile.split("\ncheck:").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("make check");
    assert!(makefile.contains("$(MAKE) --no-print-directory deny"), "where cargo-deny is installed, make test runs it");
    let ci = document(".github/workflows/ci.yml");
    assert!(
        ci.contains("- run: .ci/run\n") && document(".ci/run").contains("\nmake test\n"),
        "and .ci/run is make test"
    );
}

/// Two builds of one commit have the same bytes only by one compiler.
#[test]
fn a_release_is_built_by_one_compiler() {
    let release = document(".github/workflows/release.yml");
    let pinned = release.lines().find_map(|line| line.strip_prefix("env: {RUSTUP_TOOLCHAIN: ")?.strip_suffix('}'));
    let numbers = pinned.map(|version| version.split('.').filter(|number| number.parse::<u32>().is_ok()).count());
    assert_eq!(numbers, Some(3), "a whole version: {pinned:?}");
    assert!(release.contains("rustup toolchain install \"$RUSTUP_TOOLCHAIN\"") && !release.contains("install stable"));
    assert!(document("infra/release/release.py").contains("rustc=output(\"rustc\", \"-V\")"), "the package says which");
}
