//! The browser that the tests open the console in.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Result, bail};
use tokio::process::Command;

use crate::command::run_logged;
use crate::project::Project;

/// What must be on `PATH`: the browser, and what drives it.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];

/// As Debian and Ubuntu name them, with a font to draw pages with.
const PACKAGES: [&str; 3] = ["chromium", "chromium-driver", "fonts-liberation"];

/// Install the browser where it is missing and this machine lets us.
pub async fn set_up(project: &Project) -> Result<()> {
    if PROGRAMS.into_iter().all(is_there) {
        return Ok(());
    }
    if !is_there("apt-get") || !is_root() {
        bail!(
            "{} are not all on PATH, and only root can install them: apt-get install {}",
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

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|process| process.uid() == 0)
}
