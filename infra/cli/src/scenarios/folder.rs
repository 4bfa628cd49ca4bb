//! The scenario files of a flows folder: `tests/*.yaml`, and the events that they name.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use shared::flows::{File, Problem, read_yaml};

use super::written::ScenarioFile;

/// The folder of the scenario files, within that of the flows.
pub const FOLDER: &str = "tests";

/// A scenario file that was read.
#[derive(Clone, Debug)]
pub struct ReadScenarios {
    /// The file's path within the flows folder, and its text.
    pub file: File,
    /// Where it is on disk.
    pub path: PathBuf,
    /// What it says.
    pub written: ScenarioFile,
}

/// A file that cannot be read, and the mistake in it.
pub type Unread = (File, Problem);

/// The scenario files of a flows folder, in order, and those that cannot be read, each with the first mistake in it.
pub fn read(flows: &Path) -> Result<(Vec<ReadScenarios>, Vec<Unread>)> {
    let folder = flows.join(FOLDER);
    let (mut read, mut problems) = (Vec::new(), Vec::new());
    let mut paths = Vec::new();
    if folder.is_dir() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            paths.push(entry.with_context(|| format!("cannot read {}", folder.display()))?.path());
        }
    }
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml"));
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match of_text(&format!("{FOLDER}/{name}"), text, &path) {
            Ok(scenarios) => read.push(scenarios),
            Err(problem) => problems.push(*problem),
        }
    }
    Ok((read, problems))
}

/// The scenarios in a text, or the first mistake in it.
pub fn of_text(name: &str, text: String, path: &Path) -> Result<ReadScenarios, Box<Unread>> {
    let file = File { path: name.to_owned(), text };
    match read_yaml::<ScenarioFile>(&file) {
        Ok(written) => Ok(ReadScenarios { file, path: path.to_owned(), written }),
        Err(problem) => Err(Box::new((file, problem))),
    }
}

impl ReadScenarios {
    /// An event as it is written here: itself, or what the file has that it names.
    pub fn event(&self, written: &Value) -> Result<Value> {
        let Some(name) = written.as_str() else { return Ok(written.clone()) };
        let path = self.path.parent().unwrap_or(Path::new(".")).join(name);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{} names an event that cannot be read: {}", self.file.path, path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("the event in {} is not JSON", path.display()))
    }
}
