//! The flows folder: on disk, and at a git revision.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use shared::adapters::machine::{read_catalog, read_files};
use shared::flows::catalog::{Shelf, used};
use shared::flows::{File, Flows};

use crate::{catalog, output};

/// The folder that the command line names, or else that of the project around the working directory.
pub(crate) fn find(named: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(folder) = named {
        return Ok(folder);
    }
    let here =
        std::env::current_dir().context("cannot read the working directory: change into the project's folder")?;
    let places = here.ancestors().flat_map(|above| [above.to_owned(), above.join("infra/flows")]);
    let found = places.into_iter().find(|folder| folder.join("sources.yaml").is_file());
    found.context(
        "no folder here or above has a sources.yaml, so that there are no flows to read: change into the project's \
         folder, or name the flows folder, as in `ledgerline flows check infra/flows`",
    )
}

/// The files of the folder, from disk, with what they use of the catalogue: the folder's own, else what comes with this
/// command.
pub(crate) fn read(folder: &Path) -> Result<Vec<File>> {
    let files = read_files(folder)
        .with_context(|| format!("there are no flows to read in {}: check the folder's name", folder.display()))?;
    Ok(catalog::complete(files))
}

/// The files of the folder, and its whole own catalogue, used or not.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<File>> {
    let mut files = read(folder)?;
    let own = read_catalog(folder).with_context(|| format!("the catalogue in {} cannot be read", folder.display()))?;
    files.retain(|file| own.iter().all(|partner| partner.path != file.path));
    files.extend(own);
    Ok(files)
}

/// The flows of the files; nothing, and their problems on standard error, where they have any.
pub(crate) fn parse(files: &[File]) -> Option<Flows> {
    Flows::parse(files).inspect_err(|problems| output::print_problems(problems, files)).ok()
}

/// The files of the folder at a git revision, with its whole catalogue.
pub(crate) fn read_at(folder: &Path, revision: &str) -> Result<Vec<File>> {
    let listed = git(folder, &["ls-tree", "-r", "--name-only", revision, "--", "."]).with_context(|| {
        format!("there is nothing to compare with: git cannot read the revision {revision}. Check its name")
    })?;
    let ours = |path: &&str| {
        let of_folder = path.starts_with("flows/") || Shelf::of(path).is_some();
        ["sources.yaml", "integrations.yaml"].contains(path) || (of_folder && path.ends_with(".yaml"))
    };
    let paths: Vec<&str> = listed.lines().filter(ours).collect();
    if paths.is_empty() {
        bail!("there is nothing to compare with: {} has no flow files at the revision {revision}", folder.display());
    }
    let show = |path: &str| git(folder, &["show", &format!("{revision}:./{path}")]);
    let files: Result<Vec<File>> =
        paths.into_iter().map(|path| Ok(File { path: path.to_owned(), text: show(path)? })).collect();
    Ok(catalog::complete(files?))
}

/// The files without what they do not use of the catalogue.
pub(crate) fn only_used(files: Vec<File>) -> Vec<File> {
    let users = files.iter().filter_map(|file| {
        let shelf = Shelf::ALL.into_iter().find(|shelf| shelf.user() == file.path)?;
        Some(used(&file.text).into_iter().map(move |name| shelf.path(&name)))
    });
    let used: BTreeSet<String> = users.flatten().collect();
    files.into_iter().filter(|file| Shelf::of(&file.path).is_none() || used.contains(&file.path)).collect()
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let ran = Command::new("git").current_dir(folder).args(arguments).output();
    let ran = ran.with_context(|| {
        format!("cannot run git in {}: is git installed, and does the folder exist?", folder.display())
    })?;
    if !ran.status.success() {
        bail!("`git {}` failed: {}", arguments.join(" "), String::from_utf8_lossy(&ran.stderr).trim());
    }
    String::from_utf8(ran.stdout).context("git printed something that is not text")
}
