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

/// The tool that looks for what a reviewer of AWS templates would: checkov.
pub const CHECK: Requirements = Requirements { venv: "venv-check", file: "requirements-check.txt" };

/// The tools of the tests: the providers' own libraries to compare with, a fuzzer of OpenAPI documents, a collector.
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

    /// A command for a tool that is a Python script. Its first line has the absolute path of the environment in which it
    /// was installed, which a project that was moved or copied has no more: so its own interpreter is asked to run it.
    pub fn script(&self, tool: &str) -> Command {
        let mut command = self.command("python3");
        command.arg(self.path(tool));
        command
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
    if venv.join("bin/python3").is_file() && venv.join("bin/pip").is_file() {
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
    let mut pip = Command::new(venv.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_script_runs_in_a_project_that_was_moved() {
        let bin = std::env::temp_dir().join(format!("moved-{}", std::process::id()));
        std::fs::create_dir_all(&bin).expect("a folder");
        std::fs::write(bin.join("tool"), "#!/no/longer/here/bin/python3\nprint('ran')\n").expect("a script");
        let python = std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))
            .map(|folder| folder.join("python3"))
            .find(|python| python.is_file())
            .expect("a Python");
        std::os::unix::fs::symlink(python, bin.join("python3")).expect("a link");
        let ran = Tools { bin: bin.clone() }.script("tool").output().await.expect("it runs");
        std::fs::remove_dir_all(&bin).expect("it is there");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "ran\n", "{ran:?}");
    }
}
