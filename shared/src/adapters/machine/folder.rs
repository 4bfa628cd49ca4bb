//! The flows folder on disk: the one adapter that needs nothing but a disk.

use std::io;
use std::path::{Path, PathBuf};

use crate::flows::catalog::{self, Shelf};
use crate::flows::{File, Flows, Problems};

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

/// The text of `sources.yaml`, `integrations.yaml` and `flows/*.yaml` below `folder`, and of what they use of its catalogue.
/// The rest of the catalogue is not read: a cold start would pay for it.
pub fn read_files(folder: &Path) -> Result<Vec<File>, FlowsError> {
    let mut paths = vec!["sources.yaml".to_owned(), "integrations.yaml".to_owned()];
    paths.extend(list(folder, "flows/")?);
    let mut files = paths.into_iter().map(|path| read(folder, path)).collect::<Result<Vec<_>, _>>()?;
    let used = |(shelf, file): (Shelf, &File)| {
        catalog::used(&file.text).into_iter().map(move |name| shelf.path(&name)).collect::<Vec<_>>()
    };
    let used: Vec<String> = [Shelf::Sources, Shelf::Partners].into_iter().zip(&files).flat_map(used).collect();
    for path in used.into_iter().filter(|path| folder.join(path).is_file()) {
        files.push(read(folder, path)?);
    }
    Ok(files)
}

/// The text of all partners and senders in the catalogue of `folder`, used or not.
pub fn read_catalog(folder: &Path) -> Result<Vec<File>, FlowsError> {
    let there = Shelf::ALL.into_iter().map(Shelf::folder).filter(|within| folder.join(within).is_dir());
    let paths: Vec<Vec<String>> = there.map(|within| list(folder, within)).collect::<Result<_, _>>()?;
    paths.concat().into_iter().map(|path| read(folder, path)).collect()
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
