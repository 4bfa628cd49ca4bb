//! The scripts of `make deploy`, in their own language: the tests below `tests/deploy`.

use std::collections::BTreeSet;

use local::project::Project;
use local::tools::{CHECK, RUN, Requirements, set_up};

use crate::cloud::binary;
use crate::fixtures::root;

/// The files of tests, each with the tools that it needs: checkov's bring AWS's tables of actions.
const FILES: [(&str, Requirements); 9] = [
    ("test_adopt", RUN),
    ("test_deploy", RUN),
    ("test_pin", RUN),
    ("test_policies", CHECK),
    ("test_refill", RUN),
    ("test_terminal", RUN),
    ("test_unasked", RUN),
    ("test_unused", RUN),
    ("test_verify", RUN),
];

async fn run(file: &str) {
    let (_, tools) = FILES.into_iter().find(|(name, _)| *name == file).expect("it is listed");
    let tools = set_up(&Project::at(&root()), tools).await.expect("the tools are installed");
    let modules = ["tests/deploy", "tests", "infra/deploy"].map(|folder| root().join(folder));
    let mut python = tools.command("python3");
    python.args(["-m", "unittest", file]).current_dir(root()).env("LEDGERLINE", binary());
    let output = python.env("PYTHONPATH", std::env::join_paths(modules).expect("paths")).output().await;
    let output = output.expect("Python runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("Ran 0 tests") && !told.contains("skipped="), "{told}");
}

#[tokio::test]
#[ignore = "needs the tools of the local cloud: make test"]
async fn what_an_earlier_stack_left_is_adopted() {
    run("test_adopt").await;
}

#[tokio::test]
#[ignore = "needs the tools of the local cloud: make test"]
async fn what_a_deploy_is_told_reaches_aws() {
    run("test_deploy").await;
}

#[tokio::test]
#[ignore = "needs the tools of the local cloud: make test"]
async fn versions_are_published_exactly_when_lambda_has_something_to_publish() {
    run("test_pin").await;
}

#[tokio::test]
#[ignore = "needs the tools of the local cloud: make test"]
async fn the_deployers_policies_allow_what_the_scripts_call() {
    run("test_policies").await;
}

#[tokio::test]
#[ignore = "needs the tools of the local cloud: make test"]
async fn the_deployers_policies_allow_nothing_that_nobody_calls() {
    run("test_unused").await;
}

#[tokio::test]
#[ignore = "needs the tools of the local cloud: make test"]
async fn a_person_at_a_terminal_is_asked_and_nobody_else() {
    run("test_terminal").await;
}

#[tokio::test]
#[ignore = "needs the tools of the local cloud: make test"]
async fn without_a_region_or_credentials_each_script_says_what_to_set() {
    run("test_unasked").await;
}

#[tokio::test]
#[ignore = "needs the tools of the local cloud: make test"]
async fn a_restored_ledger_gets_the_rows_that_it_forgot() {
    run("test_refill").await;
}

#[tokio::test]
#[ignore = "needs the tools of the local cloud: make test"]
async fn a_verification_judges_a_new_stack_and_no_other() {
    run("test_verify").await;
}

#[test]
fn every_test_of_the_scripts_is_run() {
    let files = std::fs::read_dir(root().join("tests/deploy")).expect("a folder").flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok()?.strip_suffix(".py").map(str::to_owned));
    let tests: BTreeSet<String> = names.filter(|name| name.starts_with("test_")).collect();
    assert_eq!(tests, FILES.map(|(name, _)| name.to_owned()).into());
}
