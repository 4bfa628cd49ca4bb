//! The documents: their links lead somewhere, their verbs exist, and the architecture's steps are in the code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::fixtures::{files_below, root, shown};

/// Every document of the project.
fn documents() -> Vec<(PathBuf, String)> {
    let top = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    let below =
        ["infra", "functions", "tests", "shared", "events"].into_iter().flat_map(|folder| files_below(folder, "md"));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, text)
    };
    top.into_iter().chain(below).map(read).collect()
}

/// A document's lines, each with whether it stands in a code block.
fn lines(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut code = false;
    text.lines().map(move |line| {
        code ^= line.trim_start().starts_with("```");
        (code, line)
    })
}

/// A document without its code blocks.
fn prose(text: &str) -> String {
    lines(text).filter(|(code, _)| !code).map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

/// Where the links of a document lead: `[text](target)`, pictures included.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(|target| target.split_whitespace().next().unwrap_or_default().to_owned()).collect()
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text);
    let headings =
        headings.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .collect::<String>();
        kept.replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn every_relative_link_leads_somewhere() {
    let documents = documents();
    assert!(documents.len() >= 12, "the documents were not found");
    let mut followed = 0;
    for (path, text) in &documents {
        for link in links(&prose(text)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().expect("a folder").join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", shown(path));
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&target).expect("a document");
                assert!(anchors(&text).contains(anchor), "{}: {link} names no heading", shown(path));
            }
            followed += 1;
        }
    }
    assert!(followed > 30, "only {followed} links were found");
}

/// The verbs that the Makefile has.
fn verbs() -> BTreeSet<String> {
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("the Makefile");
    let rules = makefile.lines().filter(|line| line.contains(": ") || line.ends_with(':'));
    rules
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.to_owned())
        .filter(|name| is_verb(name))
        .collect()
}

fn is_verb(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// The verbs that a document names as commands: in backticks, or at the start of a line of a code block.
fn named_verbs(text: &str) -> BTreeSet<String> {
    let quoted = text.split("`make ").skip(1);
    // In prose at the start of a line, `make` is a word of English.
    let code = lines(text).filter(|(code, _)| *code);
    let lines = code.filter_map(|(_, line)| line.trim_start().trim_start_matches("$ ").strip_prefix("make "));
    let verb = |rest: &str| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect::<String>();
    quoted.chain(lines).map(verb).filter(|verb| is_verb(verb)).collect()
}

#[test]
fn every_make_verb_that_is_named_exists() {
    let verbs = verbs();
    assert!(verbs.contains("run") && verbs.contains("test"), "{verbs:?}");
    for (path, text) in documents() {
        for verb in named_verbs(&text) {
            assert!(verbs.contains(&verb), "{}: there is no `make {verb}`", shown(&path));
        }
    }
}

/// What stands in backticks as `path/file.rs:function`.
fn steps(text: &str) -> Vec<(String, String)> {
    let quoted = text.split('`').skip(1).step_by(2);
    let step = |quoted: &str| {
        let (file, function) = quoted.split_once(".rs:")?;
        let named = function.starts_with(|c: char| c.is_ascii_lowercase())
            && function.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        named.then(|| (format!("{file}.rs"), function.to_owned()))
    };
    quoted.filter_map(step).collect()
}

#[test]
fn every_step_of_the_architecture_is_in_the_code() {
    let text = std::fs::read_to_string(root().join("infra/docs/ARCHITECTURE.md")).expect("the architecture");
    let steps = steps(&text);
    assert!(steps.len() >= 40, "only {} steps were found", steps.len());
    for (file, function) in steps {
        let code = std::fs::read_to_string(root().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let declared = [format!("fn {function}("), format!("fn {function}<")];
        assert!(declared.iter().any(|declared| code.contains(declared)), "{file} has no fn {function}");
    }
}

/// The life of an event goes forward: within one numbered list, no step comes twice.
#[test]
fn the_life_of_an_event_goes_forward() {
    let text = std::fs::read_to_string(root().join("infra/docs/ARCHITECTURE.md")).expect("the architecture");
    let numbered = |line: &str| line.split_once(". ").is_some_and(|(number, _)| number.trim().parse::<u32>().is_ok());
    let mut path = Vec::new();
    let mut longest = 0;
    for line in text.lines() {
        if line.starts_with('#') {
            path.clear();
        } else if numbered(line)
            && let Some(step) = steps(line).into_iter().next()
        {
            assert!(!path.contains(&step), "{}:{} comes twice on one path", step.0, step.1);
            path.push(step);
            longest = longest.max(path.len());
        }
    }
    assert!(longest >= 8, "the life of an event was not found");
}

#[test]
fn the_readme_is_short_and_begins_with_the_two_commands() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(readme.lines().count() <= 180, "{} lines", readme.lines().count());
    for command in ["make run", "make test"] {
        let at = readme.lines().position(|line| line.trim_start().starts_with(command));
        assert!(at.is_some_and(|line| line < 60), "`{command}` stands at line {at:?}");
    }
}

#[test]
fn what_is_missing_would_be_seen() {
    assert_eq!(links("[a](b.md#c) ![p](q.png)\n[x](https://y)"), ["b.md#c", "q.png", "https://y"]);
    assert_eq!(
        named_verbs("run `make chaos ARGS=1`\n```sh\nmake run\n```"),
        ["chaos", "run"].map(str::to_owned).into()
    );
    assert_eq!(steps("`a/b.rs:c` `a.rs` `x.rs:12`"), [("a/b.rs".to_owned(), "c".to_owned())]);
    assert_eq!(anchors("# The local cloud, and AWS\n```\n# no\n```"), ["the-local-cloud-and-aws".to_owned()].into());
    assert_eq!(named_verbs("```sh\nmake runaway\n```\nmake sense"), ["runaway".to_owned()].into());
}

/// Files and folders of the project that stand in backticks, from its root.
fn named_files(text: &str) -> Vec<String> {
    let roots = ["shared/", "functions/", "infra/", "tests/", "events/"];
    let quoted = text.split('`').skip(1).step_by(2).filter(|quoted| roots.iter().any(|root| quoted.starts_with(root)));
    let file = |quoted: &str| match quoted.split_once(".rs:") {
        Some((file, _)) => format!("{file}.rs"),
        None => quoted.to_owned(),
    };
    let is_plain = |file: &String| file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    quoted.map(file).filter(is_plain).collect()
}

/// What a reader is told to make is not there yet.
const TO_BE_MADE: [&str; 1] = ["infra/flows/flows/order-paid.yaml"];

#[test]
fn every_file_that_is_named_exists() {
    let mut named = 0;
    for (path, text) in documents() {
        for file in named_files(&text).into_iter().filter(|file| !TO_BE_MADE.contains(&file.as_str())) {
            assert!(root().join(&file).exists(), "{}: there is no {file}", shown(&path));
            named += 1;
        }
    }
    assert!(named > 100, "only {named} files were found");
}

/// The runbook tells what to do about every reason for which an event is parked.
#[test]
fn the_runbook_knows_every_reason() {
    let runbook = std::fs::read_to_string(root().join("infra/RUNBOOK.md")).expect("the runbook");
    let code = std::fs::read_to_string(root().join("shared/src/ledger/dead_reason.rs")).expect("the reasons");
    let names: Vec<&str> = code.lines().filter_map(|line| line.split("=> \"").nth(1)?.split('"').next()).collect();
    assert!(names.len() >= 12, "{names:?}");
    for name in names {
        assert!(runbook.contains(&format!("| `{name}` |")), "the runbook does not say what to do about `{name}`");
    }
}

/// The blocks of YAML of a document.
fn yaml_blocks(text: &str) -> impl Iterator<Item = serde_json::Value> {
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(|block| serde_saphyr::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}")))
}

#[test]
fn the_flow_in_the_readme_is_the_shipped_one_without_its_schema() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let shipped = read("infra/flows/flows/shopify-order-paid.yaml");
    let mut shipped: serde_json::Value = serde_saphyr::from_str(&shipped).expect("the flow");
    assert!(shipped.as_object_mut().and_then(|flow| flow.remove("schema")).is_some(), "it has a schema");
    let shown: Vec<serde_json::Value> = yaml_blocks(&read("README.md")).collect();
    assert_eq!(shown, [shipped]);
}
