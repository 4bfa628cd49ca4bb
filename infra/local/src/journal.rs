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
    rfc3339(jiff::Timestamp::now())
}

/// A moment, as RFC 3339 with milliseconds.
pub fn rfc3339(at: jiff::Timestamp) -> String {
    format!("{at:.3}")
}

/// This moment, in seconds since the Unix epoch.
pub fn now_seconds() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// A moment, as RFC 2822 writes it: `Wed, 18 Nov 2026 13:27:00 +0000`.
pub fn rfc2822(at: jiff::Timestamp) -> String {
    jiff::fmt::rfc2822::to_string(&at.to_zoned(jiff::tz::TimeZone::UTC)).unwrap_or_default()
}
