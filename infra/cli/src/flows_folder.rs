//! The flows folder: on disk, and as it was at a revision.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use shared::adapters::machine::read_files;
use shared::flows::{File, Flows};

use crate::output;

/// The folder that was named, or else the one that this project has.
pub(crate) fn find(named: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(folder) = named {
        return Ok(folder);
    }
    let here = std::env::current_dir().context("cannot tell where we are")?;
    let places = here.ancestors().flat_map(|above| [above.to_owned(), above.join("infra/flows")]);
    let found = places.into_iter().find(|folder| folder.join("sources.yaml").is_file());
    found.context("there is no folder with a sources.yaml here or above: name the flows folder")
}

/// The files of the folder as they are.
pub(crate) fn read(folder: &Path) -> Result<Vec<File>> {
    Ok(read_files(folder)?)
}

/// The flows of the folder, if nothing is wrong with them. What is wrong is shown.
pub(crate) fn parse(files: &[File]) -> Option<Flows> {
    Flows::parse(files).inspect_err(|problems| output::problems(problems, files)).ok()
}

/// The files of the folder as they were at a revision.
pub(crate) fn read_at(folder: &Path, revision: &str) -> Result<Vec<File>> {
    let listed = git(folder, &["ls-tree", "-r", "--name-only", revision, "--", "."])?;
    let ours = |path: &&str| {
        ["sources.yaml", "integrations.yaml"].contains(path) || (path.starts_with("flows/") && path.ends_with(".yaml"))
    };
    let paths: Vec<&str> = listed.lines().filter(ours).collect();
    if paths.is_empty() {
        bail!("{} has no flow files at {revision}", folder.display());
    }
    let show = |path: &str| git(folder, &["show", &format!("{revision}:./{path}")]);
    paths.into_iter().map(|path| Ok(File { path: path.to_owned(), text: show(path)? })).collect()
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let ran = Command::new("git").current_dir(folder).args(arguments).output();
    let ran = ran.with_context(|| format!("cannot run git in {}", folder.display()))?;
    if !ran.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&ran.stderr).trim());
    }
    String::from_utf8(ran.stdout).context("git answered with what is no text")
}
