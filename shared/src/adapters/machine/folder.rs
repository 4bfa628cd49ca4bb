//! The flows folder on disk: the one adapter that needs nothing but a disk.

use std::io;
use std::path::{Path, PathBuf};

use crate::flows::{File, Flows, Problems, catalog};

/// The reason why the flows folder is not usable.
#[derive(Debug, thiserror::Error)]
pub enum FlowsError {
    /// A file or folder could not be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The files were read, and have mistakes.
    #[error(transparent)]
    Wrong(#[from] Problems),
}

/// The flows below `folder`: `sources.yaml`, `integrations.yaml`, `flows/*.yaml`, and what they use of the catalogue.
pub fn read_flows(folder: &Path) -> Result<Flows, FlowsError> {
    Ok(Flows::parse(&read_files(folder)?)?)
}

/// The text of `sources.yaml`, `integrations.yaml` and `flows/*.yaml` below `folder`, and of the partners in its
/// catalogue that `integrations.yaml` uses. The other partners are not read: a cold start would pay for them.
pub fn read_files(folder: &Path) -> Result<Vec<File>, FlowsError> {
    let mut paths = vec!["sources.yaml".to_owned(), "integrations.yaml".to_owned()];
    paths.extend(list(folder, "flows/")?);
    let mut files = paths.into_iter().map(|path| read(folder, path)).collect::<Result<Vec<_>, _>>()?;
    let used = catalog::used(&files[1].text).into_iter().map(|name| catalog::path(&name));
    for path in used.filter(|path| folder.join(path).is_file()) {
        files.push(read(folder, path)?);
    }
    Ok(files)
}

/// The text of all partners in the catalogue of `folder`, used or not.
pub fn read_catalog(folder: &Path) -> Result<Vec<File>, FlowsError> {
    if !folder.join(catalog::PARTNERS).is_dir() {
        return Ok(Vec::new());
    }
    list(folder, catalog::PARTNERS)?.into_iter().map(|path| read(folder, path)).collect()
}

/// The paths of the YAML files in a folder of `folder`, in order.
fn list(folder: &Path, within: &str) -> Result<Vec<String>, FlowsError> {
    let inner = folder.join(within);
    let unreadable = |error| FlowsError::Unreadable { path: inner.clone(), error };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&inner).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        // A file with the other ending is rejected by its name, not passed over in silence.
        if name.ends_with(".yaml") || name.ends_with(".yml") {
            paths.push(format!("{within}{name}"));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn read(folder: &Path, path: String) -> Result<File, FlowsError> {
    let full = folder.join(&path);
    let text = std::fs::read_to_string(&full).map_err(|error| FlowsError::Unreadable { path: full, error })?;
    Ok(File { path, text })
}
