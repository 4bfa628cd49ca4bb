//! The samples of functions that `invoke` names, each tested in its own language.

use std::path::{Path, PathBuf};
use std::process::Command;

use local::node::NodeTools;
use local::project::Project;
use shared::adapters::machine::read_flows;

use crate::fixtures::root;

fn samples() -> PathBuf {
    root().join("infra/samples")
}

/// Runs a command to its end. Its words are shown if it fails.
fn run(command: &mut Command, folder: &Path) {
    let done = command.current_dir(folder).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [done.stdout, done.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(done.status.success(), "{said}");
}

#[test]
fn the_sample_in_python_passes_its_tests() {
    let mut python = Command::new("python3");
    run(python.args(["-B", "-m", "unittest", "discover"]), &samples().join("invoke-python"));
}

#[tokio::test]
#[ignore = "needs Node 20 or newer, and a network the first time: make test"]
async fn the_sample_in_typescript_is_sound_and_passes_its_tests() {
    let built = root().join("target").join("invoke-typescript");
    let tools = NodeTools::set_up(&Project::at(&root())).await.unwrap_or_else(|error| panic!("{error:#}"));
    let compiled = tools.compile(&samples().join("invoke-typescript"), &built).await;
    compiled.unwrap_or_else(|error| panic!("{error:#}"));
    run(Command::new("node").args(["--test", "test/ledgerline.test.mjs"]), &built);
}

#[test]
fn the_samples_flow_is_good() {
    let flows = read_flows(&samples().join("flows")).unwrap_or_else(|error| panic!("{error}"));
    let invoked: Vec<&str> = flows.functions().map(|(_, function)| function.name()).collect();
    assert_eq!(invoked, ["ledgerline-team-voucher-typescript", "ledgerline-team-voucher-python"]);
}
