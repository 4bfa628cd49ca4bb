//! Prism: a server that nobody here wrote, which checks requests by the partner's own API description.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::http::Method;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::description::{ApiDescription, ApiOperation};
use super::wire::WireRequest;
use crate::aws::Endpoint;
use crate::command::run_logged;
use crate::listen_ports;
use crate::project::Project;

/// The version of Prism that judges.
const VERSION: &str = "@stoplight/prism-cli@5.14.2";

/// The longest wait for a line of Prism's log. Its start takes some seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What Prism's log says of a good request.
const PASSED: &str = "The request passed the validation rules";

/// Installs Prism below `.local`, unless it is there.
pub(super) async fn install(project: &Project) -> Result<()> {
    let folder = project.state("prism");
    if folder.join("node_modules/.bin/prism").is_file() {
        return Ok(());
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).arg(VERSION);
    run_logged(&mut npm, &folder.join("npm.log"))
        .await
        .context("Prism was not installed: npm of Node.js 18 or newer, and a network, are needed")
}

/// What Prism said of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is as the description demands.
    Accepted,
    /// It is not, for this reason.
    Refused(String),
}

/// A Prism that serves one description.
#[derive(Debug)]
pub struct PrismServer {
    endpoint: Endpoint,
    log: Lines<BufReader<ChildStdout>>,
    // It ends with the server.
    _process: Child,
}

impl PrismServer {
    /// Starts Prism with a description, and waits until it listens.
    pub async fn start(project: &Project, description: &ApiDescription) -> Result<Self> {
        let port = free_port()?;
        let file = project.state("prism").join(description.name());
        std::fs::write(&file, description.for_prism().to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut prism = Command::new(project.state("prism").join("node_modules/.bin/prism"));
        prism.args(["mock", "--errors", "--host", "127.0.0.1", "--port", &port.to_string()]).arg(&file);
        prism.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = prism.spawn().context("Prism does not start")?;
        let stdout = process.stdout.take().context("Prism has no output")?;
        let mut server = Self { endpoint: Endpoint::new(port), log: BufReader::new(stdout).lines(), _process: process };
        server.line_with(&["Prism is listening"]).await?;
        Ok(server)
    }

    /// Sends a request, and says what Prism thinks of it. What it answers does not matter: where a description has no
    /// usable example, a good request is answered with an error.
    pub async fn judge(&mut self, request: &WireRequest, operation: &ApiOperation) -> Result<Verdict> {
        let method: Method = request.method.parse().context("a method")?;
        let headers: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.endpoint.send("", method, &operation.target, &headers, request.body.clone()).await?;
        // What is left of the request before stands before this line.
        self.line_with(&["Request received"]).await?;
        let line = self.line_with(&[PASSED, "did not pass the validation", "terminated with error"]).await?;
        if line.contains(PASSED) {
            return Ok(Verdict::Accepted);
        }
        let why = if line.contains("terminated") { line } else { self.line_with(&[" error "]).await? };
        let why = why.split_once(" error ").map_or(why.as_str(), |(_, why)| why.trim());
        Ok(Verdict::Refused(why.to_owned()))
    }

    /// The next line of Prism's log that has one of these texts.
    async fn line_with(&mut self, texts: &[&str]) -> Result<String> {
        loop {
            let line = timeout(PATIENCE, self.log.next_line()).await.context("Prism says nothing")??;
            let Some(line) = line else { bail!("Prism has ended") };
            if texts.iter().any(|text| line.contains(text)) {
                return Ok(line);
            }
        }
    }
}

fn free_port() -> Result<u16> {
    listen_ports::port_of(&listen_ports::listen(0, "Prism", "no option")?)
}

/// Whether a folder of descriptions was named.
pub(super) fn check_folder(folder: &Path) -> Result<()> {
    if folder.as_os_str().is_empty() || !folder.is_dir() {
        bail!(
            "nothing was checked: name the folder with the partners' API descriptions, as in `make partners PARTNERS=../descriptions`. \
             infra/docs/FLOWS.md says which they are"
        );
    }
    Ok(())
}
