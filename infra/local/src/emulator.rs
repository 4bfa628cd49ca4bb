//! The AWS emulator, MiniStack, as a child process.
//!
//! It listens on a socket in the file system that only its owner opens: [`crate::emulator_proxy`] stands before it.
//!
//! A guardian shell leads the emulator's process group and holds the other end of a pipe from us.
//! When that end closes, the guardian kills the whole group, the function processes included. It
//! closes however we end: stopped, dropped, or killed with SIGKILL, so no start finds a leftover.
//!
//! It keeps its state in memory and writes it down only when it is asked to end. So it can be stopped
//! and started with everything that it held, messages in flight included ([`EmulatorProcess::restart`]), and
//! it can be out of reach ([`EmulatorProcess::freeze`]); but a SIGKILL would lose what a cloud never loses.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

use crate::aws::{self, Endpoint};
use crate::command::{log_more, tail};
use crate::private_files;
use crate::processes::{self, Signal};
use crate::run_credentials;
use crate::tools::Tools;

const HEALTHY_WITHIN: Duration = Duration::from_secs(60);

/// The script that starts the emulator.
const LAUNCH: &str = include_str!("emulator/launch.py");

/// The longest path that every system takes for a socket.
const MAX_SOCKET_PATH: usize = 100;

/// The shell script of the guardian. The pipe is standard input, kept as 3 because a background job has none.
const GUARDIAN: &str = r#"
exec 3<&0
{ cat <&3 >/dev/null; kill -KILL 0; } &
"$@" </dev/null 3<&- &
wait $!
"#;

/// A running emulator. Dropping it ends it, and every function process with it.
#[derive(Debug)]
pub struct EmulatorProcess {
    guardian: Child,
    endpoint: Endpoint,
    setup: EmulatorSetup,
}

/// The emulator's tools, the port that it is known by, and its files.
#[derive(Debug)]
struct EmulatorSetup {
    tools: Tools,
    port: u16,
    socket: PathBuf,
    temporary: PathBuf,
    log: PathBuf,
}

impl EmulatorProcess {
    /// Starts the emulator on a socket, and waits until it answers through the proxy on this port.
    pub async fn start(
        tools: &Tools,
        socket: PathBuf,
        (port, endpoint): (u16, Endpoint),
        state: &Path,
        log: PathBuf,
    ) -> Result<Self> {
        let setup = EmulatorSetup { tools: tools.clone(), port, socket, temporary: state.join("tmp"), log };
        let guardian = spawn(&setup, &endpoint)?;
        let mut emulator = Self { guardian, endpoint, setup };
        emulator.wait_until_healthy().await?;
        Ok(emulator)
    }

    /// The emulator's endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Freezes the emulator: it takes connections, and answers nothing. The functions go on.
    pub async fn freeze(&self) -> Result<()> {
        processes::send(Signal::Stop, self.setup.pid()?).await
    }

    /// Lets the frozen emulator go on.
    pub async fn thaw(&self) -> Result<()> {
        processes::send(Signal::Continue, self.setup.pid()?).await
    }

    /// Ends the emulator, waits for `pause`, and starts it again with the state that it wrote down. The functions
    /// that it had running are killed wherever they are.
    pub async fn restart(&mut self, pause: Duration) -> Result<()> {
        // Held until the emulator is gone: waiting for a child closes its standard input.
        let guardian_input = self.guardian.stdin.take();
        processes::send(Signal::Terminate, self.setup.pid()?).await?;
        self.guardian.wait().await.context("cannot see whether the emulator runs")?;
        drop(guardian_input);
        tokio::time::sleep(pause).await;
        self.guardian = spawn(&self.setup, &self.endpoint)?;
        self.wait_until_healthy().await
    }

    /// Stops the emulator, and waits until it is gone.
    pub async fn stop(mut self) {
        drop(self.guardian.stdin.take());
        let _ = self.guardian.wait().await;
    }

    async fn wait_until_healthy(&mut self) -> Result<()> {
        let began = Instant::now();
        while !self.endpoint.is_healthy().await {
            let ended = self.guardian.try_wait().context("cannot see whether the emulator runs")?;
            if let Some(status) = ended {
                bail!(
                    "the emulator ended before it answered ({status}), so that nothing can be deployed. The end of {}:\n{}",
                    self.setup.log.display(),
                    tail(&self.setup.log)
                );
            }
            if began.elapsed() > HEALTHY_WITHIN {
                bail!(
                    "the emulator did not answer within {} seconds: this machine may be too busy. Try again. The end of \
                     {}:\n{}",
                    HEALTHY_WITHIN.as_secs(),
                    self.setup.log.display(),
                    tail(&self.setup.log)
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// The place of the emulator's socket: in the state folder, or in a folder of its own where that path is too long.
pub(crate) fn socket_path(state: &Path) -> Result<PathBuf> {
    let socket = state.join("tmp/emulator.sock");
    if socket.as_os_str().len() <= MAX_SOCKET_PATH {
        return Ok(socket);
    }
    let folder = std::env::temp_dir().join(format!("ledgerline-{}", run_credentials::random::<8>()?));
    private_files::create_folder(&folder)
        .context("the emulator cannot start: cannot create a folder for its socket")?;
    Ok(folder.join("emulator.sock"))
}

impl EmulatorSetup {
    fn pid_file(&self) -> PathBuf {
        self.temporary.join("emulator.pid")
    }

    /// The id of the emulator's own process, which the guardian only waits for.
    fn pid(&self) -> Result<u32> {
        let file = self.pid_file();
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read the emulator's process id in {}", file.display()))?;
        text.trim().parse().with_context(|| format!("{} does not hold the emulator's process id", file.display()))
    }
}

fn spawn(setup: &EmulatorSetup, endpoint: &Endpoint) -> Result<Child> {
    let (out, err) = log_more(&setup.log)?;
    private_files::create_folder(&setup.temporary).context("the emulator cannot start: cannot create its folder")?;

    let mut guardian = Command::new("sh");
    guardian.args(["-c", GUARDIAN, "guardian"]).arg(setup.tools.path("python3"));
    guardian.args(["-c", LAUNCH]).args([&setup.socket, &setup.pid_file()]);
    // The functions inherit this environment, and find AWS through it as they would anywhere.
    aws::environment(&mut guardian, endpoint);
    guardian
        .env("GATEWAY_PORT", setup.port.to_string())
        .env("EDGE_PORT", setup.port.to_string())
        .env("RUNTIME_TOKEN", run_credentials::random::<16>()?)
        // Listeners of services that the template does not use.
        .env("IOT_MTLS_ENABLED", "0")
        .env("SFTP_ENABLED", "0")
        .env("TMPDIR", &setup.temporary)
        // Functions that are idle stay, and as many run at once as AWS lets run by default: a test that looks at their
        // ports or sends a burst is not to meet a limit of this machine.
        .env("LAMBDA_WARM_TTL_SECONDS", "86400")
        .env("LAMBDA_ACCOUNT_CONCURRENCY", "1000")
        // In the folder that each cloud begins with empty: a state never outlives its cloud.
        .env("PERSIST_STATE", "1")
        .env("STATE_DIR", setup.temporary.join("state"))
        // Ctrl-C on the terminal must reach us alone, or the emulator is gone before the poller.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(out)
        .stderr(err)
        .spawn()
        .context("the emulator cannot start: cannot run sh")
}
