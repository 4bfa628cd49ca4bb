//! The local clouds of a test run. Tests that tell the partners how to behave take turns on a cloud: where there are
//! several, nextest lets as many of them run side by side, and each finds the cloud of its place in their group.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use tokio::process::Command;

use crate::cloud::{CloudOptions, LocalCloud};
use crate::private_files;
use crate::signed_request::quoted;
use crate::step_progress::StepProgress;

/// What cargo runs every test by.
const RUNNER: &str = "on-its-cloud";

/// As many local clouds as tests take turns on.
#[derive(Debug)]
pub(crate) struct TestClouds {
    first: LocalCloud,
    others: Vec<LocalCloud>,
}

impl TestClouds {
    /// Starts them: the first builds what all of them run.
    pub(crate) async fn start(count: usize, options: CloudOptions, progress: &StepProgress) -> Result<Self> {
        let first = LocalCloud::start(options.clone(), progress).await?;
        let named = |number| CloudOptions { name: format!("{}-{number}", options.name), ..options.clone() };
        let others = (2..=count).map(|number| LocalCloud::start(named(number), &StepProgress::SILENT));
        let others = match count {
            ..2 => Vec::new(),
            _ => progress.step("start clouds beside it", try_join_all(others)).await?,
        };
        Ok(Self { first, others })
    }

    /// The cloud of every test that shares none.
    pub(crate) fn first(&self) -> &LocalCloud {
        &self.first
    }

    /// Lets a command, and every test that it runs, find its cloud.
    pub(crate) async fn show_to(&self, command: &mut Command) -> Result<()> {
        command.envs(self.first.environment()?);
        let folder = self.first.address().state.join("bin");
        self.write_runner(&folder).context("no test would find its cloud: cannot write its runner")?;
        let mut path = vec![folder];
        path.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        command.env("PATH", std::env::join_paths(path).context("the project's folder has a colon in its name")?);
        // A test of a cloud mostly waits: those that compute go on beside it.
        let computing = std::thread::available_parallelism().map_or(1, NonZero::get);
        command.env("NEXTEST_TEST_THREADS", (computing + self.others.len() + 1).to_string());
        command.env(format!("CARGO_TARGET_{}_RUNNER", host().await?.to_uppercase().replace('-', "_")), RUNNER);
        Ok(())
    }

    fn write_runner(&self, folder: &Path) -> Result<()> {
        private_files::create_folder(folder)?;
        let file: PathBuf = folder.join(RUNNER);
        private_files::write(&file, self.runner()?)?;
        fs::set_permissions(&file, Permissions::from_mode(0o700))?;
        Ok(())
    }

    fn runner(&self) -> Result<String> {
        let mut script = "#!/bin/sh\ncase \"${NEXTEST_TEST_GROUP_SLOT:-none}\" in\nnone | 0) ;;\n".to_owned();
        for (number, cloud) in (1..).zip(&self.others) {
            write!(script, "{number}) export")?;
            for (name, value) in cloud.environment()? {
                write!(script, " {name}={}", quoted(value))?;
            }
            script.push_str(" ;;\n");
        }
        let many = self.others.len() + 1;
        writeln!(script, "*) echo 'more tests run side by side than the {many} local clouds' >&2; exit 1 ;;")?;
        script.push_str("esac\nexec \"$@\"\n");
        Ok(script)
    }

    /// Stops all of them.
    pub(crate) async fn stop(self) {
        for cloud in std::iter::once(self.first).chain(self.others) {
            cloud.stop().await;
        }
    }
}

/// What cargo calls this machine.
async fn host() -> Result<String> {
    let told = Command::new("rustc").arg("-vV").output().await.context("cannot run rustc: is it on PATH?")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say which machine this is")?.to_owned())
}
