//! The work of each verb of the `local` command.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use shared::base::visible::in_json;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::aws::{self, REGION};
use crate::cloud::{CloudAddress, CloudOptions, LocalCloud};
use crate::collector::Collector;
use crate::command::run_shown;
use crate::lambda::{InvocationOutcome, Lambda};
use crate::listen_ports::ListenPorts;
use crate::output::{error_text, print};
use crate::private_files;
use crate::project::Project;
use crate::step_progress::StepProgress;
use crate::test_clouds::TestClouds;
use crate::{
    browser, built, chaos, checkov, flows_copy, new_event, night, prism, reload, screen, signed_request, template,
    tools,
};

const INTERRUPTED: &str = "Ctrl-C or SIGTERM came before the end; the local cloud is stopped";

pub(crate) const NO_CLOUD_ANSWER: &str =
    "the local cloud does not answer: start it with `make run`, if it is not running";

/// Starts a local cloud, and keeps it running until Ctrl-C or SIGTERM.
pub async fn up(ports: ListenPorts, flows: Option<PathBuf>) -> Result<ExitCode> {
    let options = CloudOptions { ports, flows, ..CloudOptions::run() };
    if let Some(cloud) = unless_interrupted(LocalCloud::start(options, &StepProgress::default())).await? {
        let cloud = cloud?;
        screen::show(&cloud);
        let watched = unless_interrupted(reload::watch(cloud.flows(), cloud.address())).await;
        cloud.stop().await;
        watched?.transpose()?;
    }
    eprintln!("\nThe local cloud is stopped.");
    Ok(ExitCode::SUCCESS)
}

/// Starts as many local clouds, runs a command against them, and stops them. The command's exit code is ours.
pub async fn exec(command: &[String], clouds: usize, flows: Option<PathBuf>, permissions: bool) -> Result<ExitCode> {
    let (program, arguments) =
        command.split_first().context("nothing was run: name a command, as in `local exec -- cargo test`")?;
    let progress = StepProgress::default();
    let project = Project::find()?;
    let peers = progress.step("install test tools", tools::set_up(&project, tools::TEST)).await?;
    // Without a browser, the tests that open one fail, and no others.
    if let Err(error) = progress.step("install browser", browser::set_up(&project)).await {
        eprintln!("The tests that open the console in a browser will fail: {}", error_text(&error));
    }
    let flows = match flows {
        Some(flows) => flows,
        None => flows_of_tests(&project)?,
    };
    let (python, spans) = (peers.path("python"), project.state("test-spans.log"));
    let collector = progress.step("start collector", Collector::start(&python, spans)).await?;
    let options = CloudOptions { flows: Some(flows), traces: Some(collector.url.clone()), ..CloudOptions::test() };
    let started = unless_interrupted(TestClouds::start(clouds, options, &progress)).await?;
    let clouds = started.context(INTERRUPTED)??;

    let mut child = Command::new(program);
    child.args(arguments).env("LEDGERLINE_PYTHON", python).kill_on_drop(true);
    clouds.show_to(&mut child).await?;
    child.env("LEDGERLINE_SPANS", &collector.spans);
    let finished = unless_interrupted(child.status()).await;
    let succeeded = matches!(&finished, Ok(Some(Ok(status))) if status.success());
    let checked = if permissions && succeeded { Some(clouds.first().check_permissions().await) } else { None };
    clouds.stop().await;

    let status = finished?.context(INTERRUPTED)?;
    let status = status.with_context(|| format!("cannot run {program}: is it installed, and on PATH?"))?;
    if let Some(used) = checked.transpose()? {
        eprintln!("The functions' roles allow the calls that were made, by {used} permissions, and nothing else.");
    }
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Starts a local cloud, asks of it what a verification asks of AWS, and stops the cloud.
pub async fn verify() -> Result<ExitCode> {
    let project = Project::find()?;
    let options = CloudOptions { name: "verify".into(), ..CloudOptions::test() };
    let started = unless_interrupted(LocalCloud::start(options, &StepProgress::default())).await?;
    let cloud = started.context(INTERRUPTED)??;
    let tools = tools::set_up(&project, tools::RUN).await?;
    let mut script = tools.command("python3");
    aws::environment(&mut script, &cloud.address().emulator());
    script.envs(cloud.environment()?).arg(project.verify_script()).arg("--local").kill_on_drop(true);
    let finished = unless_interrupted(script.status()).await;
    cloud.stop().await;
    let status = finished?.context(INTERRUPTED)?.context("cannot run the verification")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The shipped flows, and those that the tests have beside them.
fn flows_of_tests(project: &Project) -> Result<PathBuf> {
    let merged = project.state("test-flows");
    flows_copy::merge(&project.flows(), &project.test_flows(), &merged)
        .and_then(|()| hurry(&merged))
        .context("the local cloud cannot start: cannot copy the flows of the tests")?;
    Ok(merged)
}

/// Lets Twilio be asked soon: in the flows that are shipped, a message has a minute to show up.
fn hurry(flows: &Path) -> Result<()> {
    let twilio = flows.join("catalog/partners/twilio.yaml");
    let text = std::fs::read_to_string(&twilio)?;
    anyhow::ensure!(text.contains("after: 60s"), "Twilio is not asked after a minute");
    Ok(private_files::write(&twilio, text.replace("after: 60s", "after: 5s"))?)
}

/// Starts a local cloud, breaks it under load, heals it, and checks that no effect is missing or done twice.
pub async fn chaos(flags: &chaos::ChaosArgs) -> Result<ExitCode> {
    let project = Project::find()?;
    let started = unless_interrupted(LocalCloud::start(chaos::options(&project), &StepProgress::default())).await?;
    let mut cloud = started.context(INTERRUPTED)??;
    let ran = unless_interrupted(chaos::run(&mut cloud, &project, flags)).await;
    cloud.stop().await;
    ran?.context(INTERRUPTED)?
}

/// Starts a local cloud, lets many events of one flow wait, and checks that another flow does not notice.
pub async fn night(flags: &night::NightArgs) -> Result<ExitCode> {
    let project = Project::find()?;
    let options = night::options(&project, flags)?;
    let started = unless_interrupted(LocalCloud::start(options, &StepProgress::default())).await?;
    let cloud = started.context(INTERRUPTED)??;
    let ran = unless_interrupted(night::run(&cloud, &project, flags)).await;
    cloud.stop().await;
    ran?.context(INTERRUPTED)?
}

/// Invokes a function of the running local cloud, and prints its answer.
pub async fn invoke(function: &str, event: &str) -> Result<ExitCode> {
    let event: Value = serde_json::from_str(event).context("nothing was invoked: the event is not JSON")?;
    let address = CloudAddress::of_running()?;
    let name = address.function(function)?;
    let lambda = Lambda::new(address.emulator(), address.state.join("logs"));
    let outcome = lambda.invoke(&template::live(name), &event).await;
    match outcome.context(NO_CLOUD_ANSWER)? {
        InvocationOutcome::Answered(answer) => print(&format!("{}\n", in_json(&format!("{answer:#}")))),
        InvocationOutcome::Failed(error) => bail!(
            "the function {function} failed, and may have done part of its work: {error:#}. Its log is {}",
            address.state.join("logs").join(format!("{name}.log")).display()
        ),
        InvocationOutcome::Throttled => {
            bail!("the emulator throttles {function}: the event was not received. Try again")
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Posts a signed event to the running local cloud, and prints the answer.
pub async fn send(event: &new_event::EventArgs) -> Result<ExitCode> {
    let address = CloudAddress::of_running()?;
    let posted = new_event::post(&Project::find()?, &address, event).await?;
    print(&posted.to_string());
    Ok(if posted.is_accepted() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a signed request for the running local cloud.
pub fn sign(args: &signed_request::SignArgs) -> Result<ExitCode> {
    let address = CloudAddress::of_running()?;
    print(&format!("{}\n", signed_request::sign(&address, args)?));
    Ok(ExitCode::SUCCESS)
}

/// Stops the running local cloud, and waits until its process is gone.
pub async fn stop() -> Result<ExitCode> {
    let pid = CloudAddress::of_running()?.pid.to_string();
    if !runs(&pid).await? {
        bail!("nothing was stopped: the local cloud's process {pid} is gone already. Start a new one with `make run`");
    }
    run_shown(Command::new("kill").args(["-TERM", &pid])).await?;
    while runs(&pid).await? {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eprintln!("The local cloud is stopped.");
    Ok(ExitCode::SUCCESS)
}

/// Takes the requests of the catalogue through Prism, and writes their snapshots.
pub async fn partners(descriptions: &Path) -> Result<ExitCode> {
    prism::check(&Project::find()?, descriptions).await?;
    Ok(ExitCode::SUCCESS)
}

/// Checks the templates that would be deployed. `ledgerline flows check` does so for the flows.
pub async fn lint() -> Result<ExitCode> {
    let project = Project::find()?;
    let progress = StepProgress::default();
    let tools = progress.step("install tools", tools::set_up(&project, tools::RUN)).await?;
    let checkov = progress.step("install checkov", tools::set_up(&project, tools::CHECK)).await?;
    let template = project.template();
    let (mut cfn_lint, mut sam) = (tools.script("cfn-lint"), tools.script("sam"));
    // It demands a region, and looks nothing up in it.
    sam.args(["validate", "--lint", "--region", REGION, "--template"]);
    let cfn_lint = cfn_lint.arg(&template).arg(project.team_functions());
    let checkov = checkov::check(&project, &checkov);
    let (.., explained) = tokio::try_join!(run_shown(cfn_lint), run_shown(sam.arg(&template)), checkov)?;
    eprintln!("checkov found nothing but {explained} things that infra/checkov.yaml explains.");
    Ok(ExitCode::SUCCESS)
}

/// Checks that what was built is for the machine that is deployed.
pub fn built(architecture: &str) -> Result<ExitCode> {
    let checked = built::check(&Project::find()?.build(), architecture)?;
    eprintln!("{checked} functions are built for {architecture}.");
    Ok(ExitCode::SUCCESS)
}

/// Installs the tools, and does nothing else.
pub async fn install(deploy: bool) -> Result<ExitCode> {
    let project = Project::find()?;
    let progress = StepProgress::default();
    progress.step("install tools", tools::set_up(&project, tools::RUN)).await?;
    if deploy {
        progress.step("install deploy tools", tools::set_up(&project, tools::BUILD)).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether this process is a local cloud: the number may be another program's by now.
async fn runs(pid: &str) -> Result<bool> {
    let shown = Command::new("ps").args(["-o", "stat=,command=", "-p", pid]).output().await;
    let shown = shown.context("cannot run ps, which shows whether the local cloud runs: install procps")?.stdout;
    let shown = String::from_utf8_lossy(&shown);
    Ok(shown.contains("local") && !shown.starts_with('Z'))
}

/// The result of the work; nothing, where Ctrl-C or SIGTERM came first. What the work had started ends as it is
/// dropped.
async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Result<Option<T>> {
    let mut interrupt = signal(SignalKind::interrupt())
        .context("cannot listen for Ctrl-C, so that the local cloud could not be stopped")?;
    let mut terminate = signal(SignalKind::terminate())
        .context("cannot listen for SIGTERM, so that the local cloud could not be stopped")?;
    tokio::select! {
        done = work => Ok(Some(done)),
        _ = interrupt.recv() => Ok(None),
        _ = terminate.recv() => Ok(None),
    }
}
