//! Runs of other programs: their output goes to a log, and the error shows its end when they fail.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::private_files;

const TAIL_LINES: usize = 25;

/// Runs a program to its end, with all output in `log`. The error shows the end of the log.
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
        .with_context(|| format!("cannot run {name}: is it installed, and on PATH?"))?;
    if !status.success() {
        bail!("{name} failed ({status}). The end of {}:\n{}", log.display(), tail(log));
    }
    Ok(())
}

/// Runs a program to its end, with the output where ours goes.
pub async fn run_shown(command: &mut Command) -> Result<()> {
    let name = name_of(command);
    let status = command
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| format!("cannot run {name}: is it installed, and on PATH?"))?;
    if !status.success() {
        bail!("{name} failed ({status}). Its messages are above");
    }
    Ok(())
}

/// An empty log file, as both outputs of a child.
pub fn log_to(log: &Path) -> Result<(Stdio, Stdio)> {
    outputs(private_files::create(log), log)
}

/// A log file that is added to, as both outputs of a child.
pub fn log_more(log: &Path) -> Result<(Stdio, Stdio)> {
    outputs(private_files::append(log), log)
}

/// The last lines of a log, indented.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    last.iter().map(|line| format!("    {line}\n")).collect()
}

fn outputs(opened: std::io::Result<File>, log: &Path) -> Result<(Stdio, Stdio)> {
    let file = opened.with_context(|| format!("cannot write the log {}", log.display()))?;
    let again = file.try_clone().context("cannot open the log file twice")?;
    Ok((file.into(), again.into()))
}

/// The name of a program; that of the script, where an interpreter runs one.
fn name_of(command: &Command) -> String {
    let name = |path: &OsStr| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let program = name(command.as_std().get_program());
    let script = command.as_std().get_args().next().filter(|first| Path::new(first).is_absolute());
    script.filter(|_| program.starts_with("python")).map_or(program, name)
}
