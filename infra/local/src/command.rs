//! Running other programs: their output goes to a log, and its tail is shown when they fail.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

const TAIL_LINES: usize = 25;

/// Run to the end with all output in `log`. A failure shows the log's tail.
pub async fn run_logged(command: &mut Command, log: &Path) -> Result<()> {
    let (out, err) = log_to(log)?;
    let name = name_of(command);
    let status = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name} failed ({status}). The end of {}:\n{}", log.display(), tail(log));
    }
    Ok(())
}

/// Run to the end with the output where ours goes.
pub async fn run_shown(command: &mut Command) -> Result<()> {
    let name = name_of(command);
    let status = command.kill_on_drop(true).status().await.with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// A log file, emptied, as both outputs of a child.
pub fn log_to(log: &Path) -> Result<(Stdio, Stdio)> {
    outputs(File::create(log), log)
}

/// A log file, after what it holds already, as both outputs of a child.
pub fn log_more(log: &Path) -> Result<(Stdio, Stdio)> {
    outputs(File::options().create(true).append(true).open(log), log)
}

fn outputs(opened: std::io::Result<File>, log: &Path) -> Result<(Stdio, Stdio)> {
    let file = opened.with_context(|| format!("cannot write {}", log.display()))?;
    let again = file.try_clone().context("cannot share the log file")?;
    Ok((file.into(), again.into()))
}

/// The last lines of a log, indented.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    last.iter().map(|line| format!("    {line}\n")).collect()
}

fn name_of(command: &Command) -> String {
    let program = Path::new(command.as_std().get_program());
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
