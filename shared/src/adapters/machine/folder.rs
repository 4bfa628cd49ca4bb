//! The flows folder on disk: the one adapter that needs nothing but a disk.

use std::io;
use std::path::{Path, PathBuf};

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

/// The flows below `folder`: `sources.yaml`, `integrations.yaml` and `flows/*.yaml`.
pub fn read_flows(folder: &Path) -> Result<Flows, FlowsError> {
    Ok(Flows::parse(&read_files(folder)?)?)
}

/// The text of `sources.yaml`, `integrations.yaml` and `flows/*.yaml` below `folder`.
pub fn read_files(folder: &Path) -> Result<Vec<File>, FlowsError> {
    let mut paths = vec!["sources.yaml".to_owned(), "integrations.yaml".to_owned()];
    let flows = folder.join("flows");
    for entry in std::fs::read_dir(&flows).map_err(|error| FlowsError::Unreadable { path: flows.clone(), error })? {
        let entry = entry.map_err(|error| FlowsError::Unreadable { path: flows.clone(), error })?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A file with the other ending is rejected by its name, not passed over in silence.
        if name.ends_with(".yaml") || name.ends_with(".yml") {
            paths.push(format!("flows/{name}"));
        }
    }
    paths[2..].sort_unstable();
    paths.into_iter().map(|path| read(folder, path)).collect()
}

fn read(folder: &Path, path: String) -> Result<File, FlowsError> {
    let full = folder.join(&path);
    let text = std::fs::read_to_string(&full).map_err(|error| FlowsError::Unreadable { path: full, error })?;
    Ok(File { path, text })
}
