//! What the `local` command does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::aws::{Endpoint, REGION};
use crate::cloud::{CloudAddress, CloudOptions, LocalCloud};
use crate::command::run_shown;
use crate::lambda::{InvocationOutcome, Lambda};
use crate::listen_ports::ListenPorts;
use crate::project::Project;
use crate::step_progress::StepProgress;
use crate::{browser, chaos, reload, screen, tools};

/// Bring a cloud up and keep it until Ctrl-C or SIGTERM.
pub async fn up(ports: ListenPorts, flows: Option<PathBuf>) -> Result<ExitCode> {
    let options = CloudOptions { ports, flows, ..CloudOptions::run() };
    if let Some(cloud) = unless_interrupted(LocalCloud::start(options, &StepProgress::default())).await? {
        let cloud = cloud?;
        screen::show(&cloud);
        let watched = unless_interrupted(reload::watch(cloud.flows(), cloud.address())).await;
        cloud.stop().await;
        watched?.transpose()?;
    }
    eprintln!("\nEverything is stopped.");
    Ok(ExitCode::SUCCESS)
}

/// Bring a cloud up, run a command against it, and take it down. Its status is ours.
pub async fn exec(command: &[String], flows: Option<PathBuf>) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("exec needs a command")?;
    let progress = StepProgress::default();
    let project = Project::find()?;
    let peers = progress.step("test tools", tools::set_up(&project, tools::TEST)).await?;
    // Where it cannot be had, the tests that open it fail, and no others.
    if let Err(error) = progress.step("browser", browser::set_up(&project)).await {
        eprintln!("{error:#}");
    }
    let options = CloudOptions { flows, ..CloudOptions::test() };
    let started = unless_interrupted(LocalCloud::start(options, &progress)).await?;
    let cloud = started.context("interrupted")??;

    let mut child = Command::new(program);
    child.args(arguments).envs(cloud.environment()?).env("LEDGERLINE_PYTHON", peers.path("python")).kill_on_drop(true);
    let finished = unless_interrupted(child.status()).await;
    cloud.stop().await;

    let status = finished?.context("interrupted")?.with_context(|| format!("cannot start {program}"))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Bring a cloud up, break it under load, heal it, and see whether the books balance.
pub async fn chaos(flags: &chaos::ChaosArgs) -> Result<ExitCode> {
    let project = Project::find()?;
    let started = unless_interrupted(LocalCloud::start(chaos::options(&project), &StepProgress::default())).await?;
    let mut cloud = started.context("interrupted")??;
    let ran = unless_interrupted(chaos::run(&mut cloud, &project, flags)).await;
    cloud.stop().await;
    ran?.context("interrupted")?
}

/// Invoke a function of the cloud that is up, and print its answer.
pub async fn invoke(function: &str, event: &str) -> Result<ExitCode> {
    let event: Value = serde_json::from_str(event).context("the event is not JSON")?;
    let address = CloudAddress::of_running()?;
    let name = address.function(function)?;
    let lambda = Lambda::new(Endpoint::at(address.endpoint.clone()), address.state.join("logs"));
    let outcome = lambda.invoke(name, &event).await;
    match outcome.context("the local cloud does not answer: is `make run` still up?")? {
        InvocationOutcome::Answered(answer) => println!("{answer:#}"),
        InvocationOutcome::Failed(error) => bail!("{function} failed: {error:#}"),
        InvocationOutcome::Throttled => bail!("{function} has no free instance: try again"),
    }
    Ok(ExitCode::SUCCESS)
}

/// End the cloud that is up, and wait until it is gone.
pub async fn stop() -> Result<ExitCode> {
    let pid = CloudAddress::of_running()?.pid.to_string();
    if !runs(&pid).await? {
        bail!("the local cloud is not running any more");
    }
    run_shown(Command::new("kill").args(["-TERM", &pid])).await?;
    while runs(&pid).await? {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eprintln!("The local cloud is stopped.");
    Ok(ExitCode::SUCCESS)
}

/// Whether it is ours: the number may be another program's by now.
async fn runs(pid: &str) -> Result<bool> {
    let shown = Command::new("ps").args(["-o", "stat=,command=", "-p", pid]).output().await;
    let shown = shown.context("cannot run ps")?.stdout;
    let shown = String::from_utf8_lossy(&shown);
    Ok(shown.contains("local") && !shown.starts_with('Z'))
}

/// Check the template that would be deployed. `ledgerline flows check` does so for the flows.
pub async fn lint() -> Result<ExitCode> {
    let project = Project::find()?;
    let tools = StepProgress::default().step("tools", tools::set_up(&project, tools::RUN)).await?;
    let template = project.template();
    let (mut cfn_lint, mut sam) = (tools.command("cfn-lint"), tools.command("sam"));
    // It asks for a region, and looks nothing up in it.
    sam.args(["validate", "--lint", "--region", REGION, "--template"]);
    tokio::try_join!(run_shown(cfn_lint.arg(&template)), run_shown(sam.arg(&template)))?;
    Ok(ExitCode::SUCCESS)
}

/// Install the tools, and do nothing else.
pub async fn install(deploy: bool) -> Result<ExitCode> {
    let project = Project::find()?;
    let progress = StepProgress::default();
    progress.step("tools", tools::set_up(&project, tools::RUN)).await?;
    if deploy {
        progress.step("tools for deploying", tools::set_up(&project, tools::BUILD)).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Nothing, where Ctrl-C or SIGTERM came first. What the work had started ends as it is dropped.
async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Result<Option<T>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::select! {
        done = work => Ok(Some(done)),
        _ = interrupt.recv() => Ok(None),
        _ = terminate.recv() => Ok(None),
    }
}
