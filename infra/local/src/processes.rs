//! Processes that we did not start ourselves: the emulator's, and the functions' that it starts.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// What is done to a process from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ends it, with no chance to say goodbye.
    Kill,
    /// Asks it to end.
    Terminate,
    /// Holds it where it is.
    Stop,
    /// Lets it go on.
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

/// Send a signal. A process that is gone already is an error.
pub async fn send(signal: Signal, pid: u32) -> Result<()> {
    let sent = Command::new("kill").args([signal.name(), &pid.to_string()]).output().await;
    let sent = sent.context("there is no kill on PATH")?;
    ensure!(sent.status.success(), "{signal:?} did not reach process {pid}");
    Ok(())
}

/// The processes whose environment has all of these, as `NAME=value`, in order.
pub fn with_environment(variables: &[&str]) -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc").context("there is no /proc: killing functions needs Linux")?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut pids: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    pids.retain(|pid| has_all(Path::new(&format!("/proc/{pid}/environ")), variables));
    pids.sort_unstable();
    Ok(pids)
}

/// The instances of a function that the emulator at this URL runs.
pub fn of_function(function: &str, endpoint: &str) -> Result<Vec<u32>> {
    with_environment(&[&format!("AWS_LAMBDA_FUNCTION_NAME={function}"), &format!("AWS_ENDPOINT_URL={endpoint}")])
}

fn has_all(environment: &Path, variables: &[&str]) -> bool {
    // It may have ended meanwhile, or be another user's.
    let environment = std::fs::read(environment).unwrap_or_default();
    variables.iter().all(|wanted| environment.split(|byte| *byte == 0).any(|set| set == wanted.as_bytes()))
}
