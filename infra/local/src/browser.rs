//! The browser that the tests open the console in.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Result, bail};
use tokio::process::Command;

use crate::command::run_logged;
use crate::project::Project;

/// The programs that must be on `PATH`: the browser and its driver.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];

/// The packages of Debian and Ubuntu, with a font to draw pages with.
const PACKAGES: [&str; 3] = ["chromium", "chromium-driver", "fonts-liberation"];

/// Installs the browser where it is missing, with the rights to do so.
pub async fn set_up(project: &Project) -> Result<()> {
    if PROGRAMS.into_iter().all(is_on_path) {
        return Ok(());
    }
    if !is_on_path("apt-get") || !is_root() {
        bail!(
            "{} are not both on PATH, and cannot be installed here: only root can, with apt-get. Run \
             `sudo apt-get install {}`",
            PROGRAMS.join(" and "),
            PACKAGES.join(" ")
        );
    }
    let log = project.state("apt.log");
    run_logged(apt_get().arg("update"), &log).await?;
    run_logged(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(PACKAGES), &log).await
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
    command
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|process| process.uid() == 0)
}
