//! MiniStack, which answers for AWS, as a child process.
//!
//! A guardian shell leads the emulator's process group and holds the other end of a pipe from us.
//! When that end closes, the guardian kills the whole group, the function processes included. It
//! closes however we end: stopped, dropped, or killed with SIGKILL, so no start finds a leftover.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

use crate::aws::{self, Endpoint};
use crate::command::{log_to, tail};
use crate::tools::Tools;

const HEALTHY_WITHIN: Duration = Duration::from_secs(60);

/// The pipe is standard input, kept as 3 because a background job has none.
const GUARDIAN: &str = r#"
exec 3<&0
{ cat <&3 >/dev/null; kill -KILL 0; } &
"$@" </dev/null 3<&- &
wait $!
"#;

/// A running emulator. Dropping it ends it, and every function process with it.
#[derive(Debug)]
pub struct Emulator {
    guardian: Child,
    endpoint: Endpoint,
    log: PathBuf,
}

impl Emulator {
    /// Start on a port of the loopback interface and wait until it answers.
    pub async fn start(tools: &Tools, port: u16, state: &Path, log: PathBuf) -> Result<Self> {
        let endpoint = Endpoint::new(port);
        let guardian = spawn(tools, port, &endpoint, state, &log)?;
        let mut emulator = Self { guardian, endpoint, log };
        emulator.wait_until_healthy().await?;
        Ok(emulator)
    }

    /// Where it answers.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// End it and wait until it is gone.
    pub async fn stop(mut self) {
        drop(self.guardian.stdin.take());
        let _ = self.guardian.wait().await;
    }

    async fn wait_until_healthy(&mut self) -> Result<()> {
        let began = Instant::now();
        while !self.endpoint.healthy().await {
            let ended = self.guardian.try_wait().context("cannot watch the emulator")?;
            if let Some(status) = ended {
                bail!("the emulator ended ({status}). Its last words:\n{}", tail(&self.log));
            }
            if began.elapsed() > HEALTHY_WITHIN {
                bail!("the emulator does not answer. The end of its log:\n{}", tail(&self.log));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

fn spawn(tools: &Tools, port: u16, endpoint: &Endpoint, state: &Path, log: &Path) -> Result<Child> {
    let (out, err) = log_to(log)?;
    let temporary = state.join("tmp");
    std::fs::create_dir_all(&temporary).context("cannot create the emulator's folder")?;

    let mut guardian = Command::new("sh");
    guardian.args(["-c", GUARDIAN, "guardian"]).arg(tools.path("ministack"));
    // The functions inherit this environment, and find AWS through it as they would anywhere.
    aws::environment(&mut guardian, endpoint);
    guardian
        .env("GATEWAY_PORT", port.to_string())
        .env("EDGE_PORT", port.to_string())
        .env("BIND_HOST", "127.0.0.1")
        .env("TMPDIR", temporary)
        // Ctrl-C on the terminal must reach us alone, or the emulator is gone before the poller.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(out)
        .stderr(err)
        .spawn()
        .context("cannot start the emulator")
}
