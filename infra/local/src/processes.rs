//! Signals to processes that we did not start ourselves: the emulator's, and the functions' that it starts.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// A signal to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGKILL: ends the process at once.
    Kill,
    /// SIGTERM: asks the process to end.
    Terminate,
    /// SIGSTOP: freezes the process.
    Stop,
    /// SIGCONT: lets a frozen process go on.
    Continue,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Signal::Kill => "-KILL",
            Signal::Terminate => "-TERM",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        }
    }
}

/// Sends a signal. A process that is gone already is an error.
pub async fn send(signal: Signal, pid: u32) -> Result<()> {
    let sent = Command::new("kill").args([signal.name(), &pid.to_string()]).output().await;
    let sent = sent.context("no signal was sent: cannot run kill, which is not on PATH")?;
    ensure!(
        sent.status.success(),
        "the signal {signal:?} did not reach the process {pid}: it is gone already, or another user's"
    );
    Ok(())
}

/// The ids of the processes whose environment has all of these, as `NAME=value`, in order.
pub fn with_environment(variables: &[&str]) -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc")
        .context("cannot find the functions' processes: there is no /proc, which only Linux has")?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut pids: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    pids.retain(|pid| has_all(Path::new(&format!("/proc/{pid}/environ")), variables));
    pids.sort_unstable();
    Ok(pids)
}

/// The ids of a function's processes that the emulator at this URL runs.
pub fn of_function(function: &str, endpoint: &str) -> Result<Vec<u32>> {
    with_environment(&[&format!("AWS_LAMBDA_FUNCTION_NAME={function}"), &format!("AWS_ENDPOINT_URL={endpoint}")])
}

fn has_all(environment: &Path, variables: &[&str]) -> bool {
    // The process may have ended meanwhile, or be another user's.
    let environment = std::fs::read(environment).unwrap_or_default();
    variables.iter().all(|wanted| environment.split(|byte| *byte == 0).any(|set| set == wanted.as_bytes()))
}
