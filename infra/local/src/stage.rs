//! The package to deploy: what `sam build` would make, from the binaries that cargo just built.
//!
//! The staged tree has the project's own layout, so the template's relative paths hold in it and
//! the template is copied byte for byte. Where the project has a function's folder, the stage has
//! a zip file of that name: `sam deploy` uploads it as it is, and the zipping, which is the slow
//! part, is done again only for binaries that changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use tokio::process::Command;

use crate::binaries::Binaries;
use crate::command::run_shown;
use crate::private_files;
use crate::project::Project;
use crate::template::TemplateFunction;
use crate::tools::Tools;

/// The script that packs a binary: quickly rather than tightly, as it goes no further than this machine.
const ZIP: &str = r"
import os, sys, zipfile
os.umask(0o077)
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
    binary = zipfile.ZipInfo('bootstrap', (1980, 1, 1, 0, 0, 0))
    binary.external_attr = 0o755 << 16
    archive.writestr(binary, open(sys.argv[2], 'rb').read(), zipfile.ZIP_DEFLATED, 1)
";

/// Stages the template, the flows and every function; returns the staged template's path.
pub async fn stage(
    project: &Project,
    flows: &Path,
    tools: &Tools,
    functions: &[TemplateFunction],
    binaries: &Binaries,
    stage: &Path,
) -> Result<PathBuf> {
    let infra = stage.join("infra");
    private_files::close_off(stage).context("the package was not made: cannot close its folder off")?;
    copy_tree(flows, &infra.join("flows")).context("the package was not made: cannot copy the flows")?;
    // Two functions may run one binary, each with an environment of its own: it is packed once.
    let packages: BTreeMap<&Path, &TemplateFunction> = functions.iter().map(|it| (it.code.as_path(), it)).collect();
    try_join_all(packages.values().map(|function| stage_function(tools, function, binaries, &infra))).await?;
    let template = infra.join("template.yaml");
    private_files::copy(&project.template(), &template)
        .context("the package was not made: cannot copy the template")?;
    Ok(template)
}

async fn stage_function(tools: &Tools, function: &TemplateFunction, binaries: &Binaries, infra: &Path) -> Result<()> {
    let (name, id) = (&function.binary, &function.logical_id);
    let binary = binaries.get(name).with_context(|| {
        format!("the package was not made: cargo built no binary {name}, which the function {id} runs")
    })?;
    let zip = infra.join(&function.code);
    let stamp = zip.with_extension("stamp");
    let version = version_of(binary)?;
    if zip.is_file() && fs::read_to_string(&stamp).is_ok_and(|staged| staged == version) {
        return Ok(());
    }
    private_files::create_folder(zip.parent().unwrap_or(infra))
        .context("the package was not made: cannot create its folder")?;
    pack(tools, binary, &zip).await?;
    private_files::write(&stamp, version).context("the package was not made: cannot record the version of a binary")
}

async fn pack(tools: &Tools, binary: &Path, zip: &Path) -> Result<()> {
    let stripped = zip.with_extension("bootstrap");
    private_files::copy(binary, &stripped)
        .with_context(|| format!("the package was not made: cannot copy {}", binary.display()))?;
    strip(&stripped).await;
    run_shown(tools.command("python3").args(["-c", ZIP]).args([zip, &stripped])).await?;
    fs::remove_file(stripped).context("the package was not made: cannot delete a temporary file")
}

/// Removes the symbols, which are most of a debug binary. Without a `strip` on the machine the deploy is slower, and
/// nothing else.
async fn strip(binary: &Path) {
    let quiet = Command::new("strip").arg(binary).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let _ = quiet.await;
}

fn version_of(binary: &Path) -> Result<String> {
    let metadata = fs::metadata(binary)
        .with_context(|| format!("the package was not made: the binary {} is gone", binary.display()))?;
    let modified =
        metadata.modified().context("the package was not made: this file system keeps no modification times")?;
    let nanos = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Ok(format!("{} {nanos}", metadata.len()))
}

/// Makes a fresh copy, so that a file that was deleted in the source does not live on.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    private_files::create_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            private_files::copy(&entry.path(), &target)?;
        }
    }
    Ok(())
}
