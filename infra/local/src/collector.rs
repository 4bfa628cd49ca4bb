//! A collector of spans that nobody here wrote: Rotel. It takes them over OTLP as others do, and writes what it got into a
//! file, for the tests to read.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// How long it may take to listen.
const START: Duration = Duration::from_secs(30);

/// A collector that runs. Dropping it ends its process.
#[derive(Debug)]
pub struct Collector {
    /// The URL that takes spans.
    pub url: String,
    /// The file with what it got, in words.
    pub spans: PathBuf,
    _process: Child,
}

impl Collector {
    /// Starts the collector of a Python environment, which writes into this file.
    pub async fn start(python: &Path, spans: PathBuf) -> Result<Self> {
        let written = File::create(&spans).with_context(|| format!("cannot write {}", spans.display()))?;
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0"));
        let [http, grpc] = ports.map(|port| port.and_then(|port| port.local_addr()));
        let (http, grpc) = (http?.to_string(), grpc?.to_string());
        let process = Command::new(agent(python).await?)
            .args(["start", "--exporter", "blackhole", "--debug-log", "traces", "--debug-log-verbosity", "detailed"])
            .args(["--otlp-http-endpoint", &http, "--otlp-grpc-endpoint", &grpc])
            .args(["--pid-file", "/dev/null", "--log-file", "/dev/null"])
            .stdin(Stdio::null())
            .stdout(written)
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the collector")?;
        let listening = async {
            while TcpStream::connect(&http).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(START, listening).await.context("the collector does not listen")?;
        Ok(Collector { url: format!("http://{http}/v1/traces"), spans, _process: process })
    }
}

/// The program, which the package brings beside its Python.
async fn agent(python: &Path) -> Result<String> {
    let script = "import os, rotel; print(os.path.join(os.path.dirname(rotel.__file__), 'rotel-agent'))";
    let found = Command::new(python).args(["-c", script]).output().await.context("cannot run the tests' Python")?;
    let agent = String::from_utf8(found.stdout).context("the collector's path is no text")?.trim().to_owned();
    if agent.is_empty() {
        bail!("the collector is not installed: {}", String::from_utf8_lossy(&found.stderr));
    }
    Ok(agent)
}
