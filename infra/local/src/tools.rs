//! The project's own Python environments, with every tool at a fixed version.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use tokio::process::Command;

use crate::command::run_logged;
use crate::project::Project;

/// The tools that run the local cloud: the emulator, the SAM CLI, cfn-lint.
pub const RUN: Requirements = Requirements { venv: "venv", file: "requirements.txt" };

/// The tools that build for AWS: cargo-lambda, which brings a C compiler of half a gigabyte.
pub const BUILD: Requirements = Requirements { venv: "venv", file: "requirements-deploy.txt" };

/// The tools of the tests: the providers' own libraries to compare with, and a fuzzer of OpenAPI documents.
pub const TEST: Requirements = Requirements { venv: "venv-test", file: "requirements-test.txt" };

/// A list of exact versions, every transitive one included.
#[derive(Clone, Copy, Debug)]
pub struct Requirements {
    venv: &'static str,
    file: &'static str,
}

/// A Python environment after it was set up.
#[derive(Clone, Debug)]
pub struct Tools {
    bin: PathBuf,
}

impl Tools {
    /// The path of one tool.
    pub fn path(&self, tool: &str) -> PathBuf {
        self.bin.join(tool)
    }

    /// A command for one tool, with the environment's other tools on its `PATH`.
    pub fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(self.path(tool));
        command.env("PATH", self.search_path()).env("SAM_CLI_TELEMETRY", "0");
        command
    }

    fn search_path(&self) -> std::ffi::OsString {
        let mut path = self.bin.clone().into_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        path
    }
}

/// Installs the requirements, or nothing where the last set-up had the same list.
pub async fn set_up(project: &Project, requirements: Requirements) -> Result<Tools> {
    let venv = project.venv(requirements.venv);
    let list = project.requirements().join(requirements.file);
    let stamp = venv.join(format!("{}.installed", requirements.file));
    let wanted = fingerprint(&list)?;

    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(Tools { bin: venv.join("bin") });
    }
    create(&venv).await?;
    install(&venv, &list).await?;
    // Written last: a set-up that was cut short starts over.
    std::fs::write(&stamp, wanted)
        .with_context(|| format!("the tools are installed, and cannot be recorded as such in {}", stamp.display()))?;
    Ok(Tools { bin: venv.join("bin") })
}

/// The hash of a list of tools.
pub(crate) fn fingerprint(list: &Path) -> Result<String> {
    let text = std::fs::read(list).with_context(|| format!("cannot read the list of tools in {}", list.display()))?;
    Ok(Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn create(venv: &Path) -> Result<()> {
    if venv.join("bin/pip").is_file() {
        return Ok(());
    }
    check_python().await?;
    let log = log_beside(venv, "venv.log")?;
    run_logged(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv), &log)
        .await
        .context("the tools were not installed: python3 cannot make a virtual environment. On Debian and Ubuntu, install python3-venv")
}

async fn check_python() -> Result<()> {
    let check = "import sys; sys.exit(sys.version_info < (3, 10))";
    let status = Command::new("python3").args(["-c", check]).stdin(Stdio::null()).status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => bail!(
            "the tools were not installed: python3 is older than 3.10. Install a newer Python, and put it first on PATH"
        ),
        Err(_) => bail!(
            "the tools were not installed: there is no python3 on PATH, which the emulator and the SAM CLI need. Install \
             Python 3.10 or newer"
        ),
    }
}

/// Installs the listed packages. Every version is fixed, so pip need not resolve anything, and every file is known by
/// its hash.
async fn install(venv: &Path, list: &Path) -> Result<()> {
    let log = log_beside(venv, "pip.log")?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--no-input", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
    // Python compiles what is used; all of it ahead of time takes longer than the first start.
    pip.args(["--no-compile", "--requirement"]);
    run_logged(pip.arg(list), &log).await.context(
        "the tools were not installed: pip cannot download them. The first start needs a network, and pypi.org or the \
         index that pip is configured with: check the network and the proxy, then run the same command again",
    )
}

fn log_beside(venv: &Path, name: &str) -> Result<PathBuf> {
    let folder = venv.parent().context("the folder of the tools has no parent")?;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("the tools were not installed: cannot create {}", folder.display()))?;
    Ok(folder.join(name))
}
