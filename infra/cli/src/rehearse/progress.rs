//! How far an export was sent, kept beside it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use shared::base::id::hex;
use shared::flows::File;

use super::report::RehearsalReport;

/// What is sent where. Only the same goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentThing {
    /// The export's length, and a hash of its beginning.
    pub(super) export: String,
    /// A hash of the flow files, which say how a line is posted.
    pub(super) flows: String,
    /// The URL of the intake.
    pub(super) url: String,
    /// The source and the flow that the command names.
    pub(super) route: (Option<String>, Option<String>),
}

/// How far an export was sent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SentSoFar {
    of: SentThing,
    /// The last line that was answered.
    pub(super) line: usize,
    /// The line that was sent, and whose answer is not written here yet.
    pub(super) under_way: Option<usize>,
    /// What was answered.
    pub(super) report: RehearsalReport,
}

/// The progress, and the file that keeps it.
#[derive(Debug)]
pub(super) struct KeptProgress {
    file: PathBuf,
    pub(super) progress: SentSoFar,
}

/// A hash of flow files.
pub(super) fn hash_of(files: &[File]) -> String {
    let mut hash = Sha256::new();
    for File { path, text } in files {
        hash.update(format!("{path}\n{}\n{text}", text.len()));
    }
    hex(&hash.finalize())
}

impl KeptProgress {
    /// What was kept of the same, or else its beginning.
    pub(super) fn read(export: &Path, of: SentThing) -> Result<Self> {
        let file = PathBuf::from(format!("{}.rehearsed", export.display()));
        let Ok(text) = std::fs::read_to_string(&file) else {
            let progress = SentSoFar { of, line: 0, under_way: None, report: RehearsalReport::default() };
            return Ok(KeptProgress { file, progress });
        };
        let progress: SentSoFar =
            serde_json::from_str(&text).with_context(|| format!("{} is not ours: move it away", file.display()))?;
        let differs = [
            (progress.of.export != of.export, "the export is another one"),
            (progress.of.flows != of.flows, "the flows have changed"),
            (progress.of.url != of.url, "it went to another URL"),
            (progress.of.route != of.route, "--source or --flow was another"),
        ];
        match differs.into_iter().find(|(differs, _)| *differs) {
            Some((_, why)) => bail!(
                "{} says that {} lines were sent, and {why}: nothing was sent. Move that file away to send the export from \
                 its beginning",
                file.display(),
                progress.line
            ),
            None => Ok(KeptProgress { file, progress }),
        }
    }

    /// Keeps that a line is about to be sent. Should the command end before its answer is kept, the next one knows that the
    /// line may have arrived.
    pub(super) fn begin(&mut self, line: usize) -> Result<()> {
        self.progress.under_way = Some(line);
        self.write()
    }

    /// Keeps that a line was answered.
    pub(super) fn end(&mut self, line: usize) -> Result<()> {
        (self.progress.line, self.progress.under_way) = (line, None);
        self.write()
    }

    /// Keeps that the line under way was not taken, and did nothing.
    pub(super) fn take_back(&mut self) -> Result<()> {
        self.progress.under_way = None;
        self.write()
    }

    /// Says that the export was sent before.
    pub(super) fn nothing_left(&self) -> String {
        let SentSoFar { line, of, .. } = &self.progress;
        format!(
            "Nothing was left to send: {} says that all lines up to line {line} were sent to {}. Move that file away to send \
             the export from its beginning.\n",
            self.file.display(),
            of.url
        )
    }

    /// Written beside and renamed: whoever reads it finds the old one or the new one, whole.
    fn write(&self) -> Result<()> {
        let beside = self.file.with_extension("rehearsed-new");
        let unwritten = || format!("cannot write {}", self.file.display());
        std::fs::write(&beside, serde_json::to_string(&self.progress)?).with_context(unwritten)?;
        std::fs::rename(&beside, &self.file).with_context(unwritten)
    }
}
