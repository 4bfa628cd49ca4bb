//! A log of one JSON object a line.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::private_files;

/// An append-only file of JSON lines.
#[derive(Debug)]
pub struct Journal {
    file: Mutex<File>,
}

impl Journal {
    /// Creates an empty journal.
    pub fn create(path: &Path) -> Result<Self> {
        let file = private_files::create(path)
            .with_context(|| format!("the local cloud cannot start: cannot write the log {}", path.display()))?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Adds a line. A full disk is no reason to fail the work that is logged.
    pub fn add(&self, entry: &impl Serialize) {
        let Ok(mut line) = serde_json::to_vec(entry) else { return };
        line.push(b'\n');
        if let Ok(mut file) = self.file.lock() {
            let _ = file.write_all(&line);
        }
    }
}

/// This moment, as RFC 3339 with milliseconds.
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
