//! The commands of the runbook work when they are pasted: each block is run by a shell in which the programs that reach
//! something only say how they were called, and those that read text do so. Each call of `ledgerline` is read by the
//! command's own parser, and what others are asked about is in the template.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Parser as _;
use ledgerline::OperatorCli;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents that somebody pastes from at night.
fn documents() -> Vec<PathBuf> {
    let pages = std::fs::read_dir(root().join("infra/runbook")).expect("the runbook");
    let pages = pages.map(|page| page.expect("a page").path());
    pages.chain([root().join("infra/RUNBOOK.md")]).collect()
}

/// The blocks of commands of a document, each with its first line's number.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.trim(), blocks.last_mut()) {
            ("```sh", _) => {
                blocks.push((number + 1, String::new()));
                inside = true;
            }
            ("```", _) => inside = false,
            (_, Some((_, block))) if inside => block.push_str(&format!("{line}\n")),
            _ => (),
        }
    }
    blocks
}

/// The programs that the runbook may call. Each says on the third channel how it was called, and answers something.
const PROGRAMS: [&str; 7] = ["ledgerline", "aws", "git", "make", "cargo", "jq", "date"];

/// Those that only read text, and are called. That nothing is found is no mistake.
const FILTERS: [&str; 5] = ["grep", "sort", "uniq", "tail", "head"];

/// The calls that a block makes, as the shell hands them over.
fn calls(block: &str) -> Result<Vec<Vec<String>>, String> {
    let said = run(&format!("exec 3>&1 >/dev/null\n{block}"), "id")?;
    let words = |call: &str| call.split_terminator('\u{1f}').map(str::to_owned).collect();
    Ok(said.split_terminator('\u{1e}').map(words).collect())
}

/// What a block prints, if every program answers this. It is run in one shell, as if it was pasted.
fn run(block: &str, answer: &str) -> Result<String, String> {
    let stub = |name: &&str| {
        let said = format!("printf -v call '%s\\037' {name} \"$@\"; printf '%s\\036' \"$call\" >&3");
        format!("{name}() {{ {said}; printf '%s\\n' \"$ANSWER\"; }}\n")
    };
    let stubs: String = PROGRAMS.iter().map(stub).collect();
    let filter = |name: &&str| format!("{name}() {{ command -p {name} \"$@\" || [ $? = 1 ]; }}\n");
    let filters: String = FILTERS.iter().map(filter).collect();
    let script = format!("set -eu\nexec 3>/dev/null\n{stubs}{filters}{block}");
    let mut shell = Command::new("/bin/bash");
    shell.args(["--norc", "-c", &script]).env("PATH", "/nonexistent").env("ANSWER", answer);
    let mut child =
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|e| e.to_string())?;
    // A block that reads nothing may have ended by now.
    drop(child.stdin.take().expect("a pipe").write_all(b"{\"sid\": \"SM1\"}\n"));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_block_of_the_runbook_runs_and_every_command_is_one() {
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("a document");
        // What a block finds out, those after it use.
        let mut pasted = String::new();
        for (line, block) in blocks(&text) {
            let place = format!("{}:{line}", document.display());
            pasted.push_str(&block);
            match calls(&pasted) {
                Err(error) => {
                    wrong.push(format!("{place}: {error}{block}"));
                    pasted.truncate(pasted.len() - block.len());
                }
                Ok(calls) => {
                    for call in calls.iter().filter(|call| call[0] == "ledgerline") {
                        let parsed = OperatorCli::try_parse_from(call);
                        wrong.extend(parsed.err().map(|error| format!("{place}: {call:?}: {error}")));
                        seen.insert(call[1].clone());
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.len() >= 8, "only these verbs were found: {seen:?}");
}

/// The names that the template gives things of this kind, for the stack that the runbook names.
fn named_in_the_template(property: &str) -> BTreeSet<String> {
    let template = std::fs::read_to_string(root().join("infra/template.yaml")).expect("the template");
    let named = template.lines().filter_map(|line| line.trim().strip_prefix(property)?.strip_prefix(": !Sub "));
    named.map(|name| name.replace("${AWS::StackName}", "ledgerline")).collect()
}

/// What the AWS command is asked about is there.
#[test]
fn the_logs_and_functions_of_the_runbook_are_those_of_the_template() {
    let (groups, functions) = (named_in_the_template("LogGroupName"), named_in_the_template("FunctionName"));
    assert!(groups.len() == 5 && functions.len() == 4, "{groups:?} {functions:?}");
    let mut asked = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("a document");
        let pasted: String = blocks(&text).into_iter().map(|(_, block)| block).collect();
        for call in calls(&pasted).unwrap_or_default() {
            let after = |word: &str| call.iter().skip_while(|here| *here != word).nth(1);
            for (found, known) in
                [(after("tail").filter(|_| call[0] == "aws"), &groups), (after("--function-name"), &functions)]
            {
                // An alias may stand behind the name.
                let unknown = found.filter(|name| !known.contains(name.split(':').next().unwrap_or_default()));
                assert_eq!(unknown, None, "{}: {call:?}", document.display());
                asked += usize::from(found.is_some());
            }
            // Mappings and invocations are the alias's, and what runs is what it points to.
            let is_live =
                |name: &String| name.ends_with(":live") || after("--name").is_some_and(|alias| alias == "live");
            assert!(after("--function-name").is_none_or(is_live), "{}: {call:?}", document.display());
        }
    }
    assert!(asked >= 15, "only {asked} were found");
}

#[test]
fn the_outputs_of_the_runbook_are_those_of_the_template() {
    let template = std::fs::read_to_string(root().join("infra/template.yaml")).expect("the template");
    let (_, outputs) = template.split_once("\nOutputs:\n").expect("outputs");
    let outputs: BTreeSet<&str> =
        outputs.lines().filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':')).collect();
    let mut named = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("a document").replace('\n', " ");
        for before in ["OutputKey==`", "stack's output `", "the outputs `", "the table `"] {
            for name in text.split(before).skip(1).filter_map(|rest| rest.split('`').next()) {
                assert!(outputs.contains(name), "{}: there is no output {name}", document.display());
                named += 1;
            }
        }
    }
    assert!(named >= 8, "only {named} were found");
}

/// Lines as `aws logs tail` prints them. The slowest is neither the last one nor the longest to bill, and starts first.
const REPORTS: &str = "\
2026-11-19T06:00:59+00:00 a1 REPORT RequestId: one\tDuration: 40.50 ms\tBilled Duration: 41 ms\tInit Duration: 90 ms
2026-11-19T06:01:02+00:00 a1 REPORT RequestId: two\tDuration: 4310.07 ms\tBilled Duration: 4311 ms
2026-11-19T06:02:31+00:00 a1 REPORT RequestId: three\tDuration: 9.20 ms\tBilled Duration: 10 ms
2026-11-19T06:03:05+00:00 a1 REPORT RequestId: four\tDuration: 812.00 ms\tBilled Duration: 812 ms";

#[test]
fn the_slowest_invocations_are_told_last() {
    let page = std::fs::read_to_string(root().join("infra/runbook/intake.md")).expect("a page");
    let (_, block) = blocks(&page).into_iter().find(|(_, block)| block.contains("REPORT")).expect("a block");
    let told = run(&block, REPORTS).expect("it runs");
    let requests: Vec<&str> = told.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(requests, ["three", "one", "four", "two"], "{told}");
}

#[test]
fn a_block_that_cannot_be_pasted_is_seen() {
    for bad in ["ledgerline dead show <id>", "aws logs tail 'x", "ledgerlne status", "ledgerline replay $ID"] {
        assert!(calls(bad).is_err(), "{bad}");
    }
    let good = calls("ID=$(ledgerline dead list)    # the newest\nledgerline dead show \"$ID\" --reason 'a b'")
        .expect("it runs");
    assert_eq!(good[1], ["ledgerline", "dead", "show", "id", "--reason", "a b"]);
    assert!(OperatorCli::try_parse_from(&good[1]).is_err(), "and its own parser knows that this is no option");
}
