//! The commands of the runbook work when they are pasted: each block is run by a shell in which every program only says how
//! it was called, and each call of `ledgerline` is read by the command's own parser.

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

/// The programs that the runbook may call.
const PROGRAMS: [&str; 12] =
    ["ledgerline", "aws", "git", "make", "cargo", "jq", "grep", "sort", "uniq", "tail", "head", "date"];

/// The calls that a block makes, as the shell hands them over. Each program says on the third channel how it was called,
/// and answers something: `id`.
fn calls(block: &str) -> Result<Vec<Vec<String>>, String> {
    let stub = |name: &&str| {
        format!("{name}() {{ printf -v call '%s\\037' {name} \"$@\"; printf '%s\\036' \"$call\" >&3; echo id; }}\n")
    };
    let stubs: String = PROGRAMS.iter().map(stub).collect();
    let script = format!("set -eu\nexec 3>&1 >/dev/null\n{stubs}{block}");
    let mut shell = Command::new("/bin/bash");
    shell.args(["--norc", "-c", &script]).env("PATH", "/nonexistent");
    let mut child =
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|e| e.to_string())?;
    // A block that reads nothing may have ended by now.
    drop(child.stdin.take().expect("a pipe").write_all(b"{\"sid\": \"SM1\"}\n"));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = |call: &str| call.split_terminator('\u{1f}').map(str::to_owned).collect();
    Ok(text.split_terminator('\u{1e}').map(words).collect())
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
        }
    }
    assert!(asked >= 15, "only {asked} were found");
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
