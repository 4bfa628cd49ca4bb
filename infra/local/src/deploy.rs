//! The real `sam deploy` of the staged template, into the emulator.

use std::path::Path;

use anyhow::Result;

use crate::aws::{self, Endpoint};
use crate::command::run_logged;
use crate::team_functions;
use crate::tools::Tools;

/// The stack's name, which also starts the names of its functions and queues.
pub const STACK: &str = "ledgerline";

/// Seconds of the processor's time-out, its lease and the queue's visibility: shorter than in AWS, in
/// the same order, so that crashes and retries can be watched.
pub const TIMES: [u64; 3] = [5, 8, 30];

/// Whether the replay function's schedule runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The schedule runs, as in AWS.
    On,
    /// The schedule does not run: tests and chaos act as the operator, and nobody else should.
    Off,
}

/// What is deployed, and with which of the parameters that differ on one machine.
#[derive(Clone, Copy, Debug)]
pub struct Deployment<'d> {
    /// The stack's name.
    pub stack: &'d str,
    /// The staged template.
    pub template: &'d Path,
    /// The folder with the flows.
    pub flows: &'d Path,
    /// The URL below which partners are called.
    pub partners_url: &'d str,
    /// The URL that senders call.
    pub public_url: Option<&'d str>,
    /// Whether the schedules run.
    pub schedule: Schedule,
    /// The collector that spans are exported to, if they are.
    pub traces: Option<&'d str>,
}

/// Deploys the template.
pub async fn deploy(tools: &Tools, endpoint: &Endpoint, deployment: &Deployment<'_>, log: &Path) -> Result<()> {
    let Deployment { stack, template, .. } = deployment;
    let mut sam = tools.script("sam");
    aws::environment(&mut sam, endpoint);
    // Its default of 5 s is for AWS, whose stacks take minutes.
    sam.env("SAM_CLI_POLL_DELAY", "0.2");
    sam.arg("deploy").arg("--template-file").arg(template);
    sam.args(["--stack-name", stack, "--region", aws::REGION, "--resolve-s3"]);
    sam.args(["--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]);
    sam.args(["--no-confirm-changeset", "--no-fail-on-empty-changeset", "--no-progressbar"]);
    sam.arg("--parameter-overrides").args(parameters(deployment));
    run_logged(&mut sam, log).await
}

/// The parameters. The emulator does not unpack layers for custom runtimes, so the functions read the flows from
/// the source tree. It rejects alarms on an expression, and composites.
fn parameters(deployment: &Deployment<'_>) -> Vec<String> {
    let Deployment { flows, partners_url, public_url, schedule, traces, .. } = deployment;
    let [timeout, lease, visibility] = TIMES;
    let mut parameters = vec![
        format!("Architecture={}", architecture()),
        format!("FlowsDir={}", flows.display()),
        format!("PartnerEndpoint={partners_url}"),
        format!("ProcessorTimeout={timeout}"),
        format!("LeaseSeconds={lease}"),
        format!("VisibilityTimeout={visibility}"),
        format!("TeamFunctions={}", team_functions::PATTERN),
        "DeletionProtection=false".into(),
        "Alarms=plain".into(),
        // The emulator has no CodeDeploy.
        "Rollout=false".into(),
        format!("Schedule={}", if *schedule == Schedule::On { "ENABLED" } else { "DISABLED" }),
    ];
    // SAM takes no empty value.
    parameters.extend(public_url.map(|url| format!("PublicUrl={url}")));
    parameters.extend(traces.map(|url| format!("TracesEndpoint={url}")));
    parameters
}

fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" }
}
