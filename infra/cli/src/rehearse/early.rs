//! The lines before the first that says when it happened: they wait for the clock, and not for long.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use shared::flows::Field;

use super::export::{ExportLine, moments_in};

/// How many lines, and how many bytes, may stand before the first that says when it happened.
const MOST: (usize, usize) = (200, 4 * 1024 * 1024);

/// How many fields are suggested.
const SUGGESTED: usize = 5;

/// The lines that wait.
#[derive(Default)]
pub(super) struct EarlyLines {
    lines: Vec<ExportLine>,
    bytes: usize,
    /// The fields that look like moments, with how many lines have them.
    fields: BTreeMap<String, usize>,
}

impl EarlyLines {
    /// Keeps a line until there is a clock.
    pub(super) fn keep(&mut self, line: ExportLine, at: &Field) -> Result<()> {
        for field in line.json.iter().flat_map(moments_in) {
            *self.fields.entry(field).or_default() += 1;
        }
        self.bytes += line.body.len();
        self.lines.push(line);
        if self.lines.len() >= MOST.0 || self.bytes >= MOST.1 {
            return self.fail(at);
        }
        Ok(())
    }

    /// The lines, once there is a clock.
    pub(super) fn take(&mut self) -> Vec<ExportLine> {
        std::mem::take(&mut self.lines)
    }

    /// Says that there is no clock, if there are lines.
    pub(super) fn end(&self, at: &Field) -> Result<()> {
        if self.lines.is_empty() { Ok(()) } else { self.fail(at) }
    }

    fn fail(&self, at: &Field) -> Result<()> {
        let mut fields: Vec<(&String, &usize)> = self.fields.iter().collect();
        fields.sort_by_key(|(_, lines)| std::cmp::Reverse(**lines));
        let fields: Vec<&str> = fields.into_iter().take(SUGGESTED).map(|(field, _)| field.as_str()).collect();
        let next = match fields.is_empty() {
            true => "No field looks like a moment: say with --starts-at when the export begins".to_owned(),
            false => format!("These fields look like moments, for --at: {}", fields.join(", ")),
        };
        bail!(
            "nothing was rehearsed: none of the first {} lines says in `{at}` when it happened, and the clock is the \
             export's own. {next}",
            self.lines.len()
        )
    }
}
