//! `make deploy` and `make destroy` without a terminal, as in CI: the change set in words, and what is not done unless it is
//! said.

use std::path::Path;
use std::process::Output;

use local::aws::{self, Endpoint};
use local::private_files;
use local::project::Project;
use local::tools::{RUN, Tools, set_up};

use super::cli::binary;
use super::other_stack::hollow;
use super::system::System;
use crate::fixtures::root;

const STACK: &str = "people";

struct Deployer {
    endpoint: Endpoint,
    tools: Tools,
}

impl Deployer {
    async fn new() -> Self {
        let endpoint = Endpoint::of_environment().expect("make test names the emulator");
        Deployer { endpoint, tools: set_up(&Project::at(&root()), RUN).await.expect("the tools are installed") }
    }

    async fn script(&self, arguments: &[&str]) -> Output {
        let mut script = self.tools.command("python3");
        aws::environment(&mut script, &self.endpoint);
        script.env("AWS_DEFAULT_REGION", aws::REGION).env("SAM_CLI_POLL_DELAY", "0.2").env("CI", "true");
        script.arg(root().join("infra/deploy/deploy.py")).arg(arguments[0]).args(["--stack", STACK]);
        script.args(&arguments[1..]).output().await.expect("the script runs")
    }

    /// Deploys a template without asking, with these parameters beside those of this machine.
    async fn run(&self, template: &Path, more: &[&str]) -> Output {
        let (template, ledgerline) = (template.display().to_string(), binary().display().to_string());
        let (flows, architecture) =
            (format!("FlowsDir={}", template.replace("/template.yaml", "/flows")), architecture());
        let fixed = ["run", "--template", &template, "--ledgerline", &ledgerline];
        // The emulator takes no alarm on an expression, and no CodeDeploy.
        let here = ["Alarms=plain", "Rollout=false", "Schedule=DISABLED", "PartnerEndpoint=http://127.0.0.1:9"];
        let chosen = [architecture.as_str(), flows.as_str()];
        self.script(&[&fixed[..], more, &here[..], &chosen[..]].concat()).await
    }
}

fn architecture() -> String {
    format!("Architecture={}", if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" })
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[track_caller]
fn told(output: &Output, succeeds: bool, expected: &[&str]) {
    let words = words(output);
    assert_eq!(output.status.success(), succeeds, "{words}");
    for sentence in expected {
        assert!(words.contains(sentence), "{sentence}: {words}");
    }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_deploy_says_what_it_changes_and_takes_nothing_away_unless_told() {
    let _system = System::take().await;
    let deployer = Deployer::new().await;
    let template = hollow(STACK);

    let ledgerline = binary().display().to_string();
    let before = deployer.script(&["before", "--ledgerline", &ledgerline, &architecture()]).await;
    told(
        &before,
        true,
        &["The first deploy of the stack people", "account 000000000000", "no secret of sources/web-forms yet"],
    );
    let made = deployer.run(&template, &[]).await;
    told(&made, true, &["are made:", "LedgerTable (DynamoDB::Table)", "Senders post to", "no secret of a source"]);
    told(&deployer.run(&template, &[]).await, true, &["Nothing is to be changed in people."]);

    let other = template.with_file_name("other-limits.yaml");
    let text = std::fs::read_to_string(&template).expect("the staged template");
    private_files::write(&other, renamed(&text)).expect("it is written");
    let declined = deployer.run(&other, &[]).await;
    told(&declined, false, &["delete LimitsTable (DynamoDB::Table)", "If that is meant: make deploy REPLACE=1"]);
    told(&deployer.run(&template, &[]).await, true, &["Nothing is to be changed in people."]);
    told(&deployer.run(&template, &["LogRetentionDays=14"]).await, true, &["changed:", "IntakeLogs (Logs::LogGroup)"]);

    told(&deployer.script(&["destroy"]).await, false, &["make destroy YES=1"]);
    let gone = deployer.script(&["destroy", "--yes"]).await;
    told(
        &gone,
        true,
        &["This stays", "aws dynamodb delete-table --table-name people-LedgerTable-", "aws sqs delete-queue"],
    );
    let again = deployer.script(&["before", "--ledgerline", &ledgerline, &architecture()]).await;
    told(&again, false, &["an earlier one left this behind", "make adopt STACK=people"]);
}

/// The table of limits under another id: the old one would be deleted from the stack.
fn renamed(template: &str) -> String {
    template.replace("LimitsTable", "OtherLimitsTable").replace("OtherLimitsTableName", "LimitsTableName")
}
