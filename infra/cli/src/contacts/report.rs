//! The report of an import: how many rows came to what, and which lines were rejected.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::CommandExit;
use crate::output::{BAD, BOLD, columns, count, styled};

/// The outcomes of rows, and what each means, in the order of the report.
const OUTCOMES: [(&str, &str); 5] = [
    ("created", "the contact was not known"),
    ("changed", "at least one field was set or removed"),
    ("unchanged", "this import has set the fields before"),
    ("newer", "unchanged, because a newer change has set or removed the fields"),
    ("rejected", "see below"),
];

/// How many rejected lines are printed. `--json` has all.
const MAX_PRINTED: usize = 50;

/// The report of an import.
#[derive(Debug, Default)]
pub(super) struct ImportReport {
    counts: BTreeMap<String, usize>,
    rejected: BTreeMap<u64, String>,
}

impl ImportReport {
    /// The report of rows that were never sent.
    pub(super) fn of_rejected(rejected: &[(u64, String)]) -> Self {
        let mut report = ImportReport::default();
        rejected.iter().for_each(|(line, why)| report.reject(*line, why));
        report
    }

    fn reject(&mut self, line: u64, why: &str) {
        *self.counts.entry("rejected".into()).or_default() += 1;
        self.rejected.insert(line, why.to_owned());
    }

    /// Adds the replay function's answer to a request.
    pub(super) fn add(&mut self, answer: &Value) {
        for row in answer["rows"].as_array().into_iter().flatten() {
            match row["outcome"].as_str().unwrap_or_default() {
                "rejected" => {
                    self.reject(row["line"].as_u64().unwrap_or_default(), row["why"].as_str().unwrap_or_default())
                }
                outcome => *self.counts.entry(outcome.to_owned()).or_default() += 1,
            }
        }
    }

    /// The number of rows in the report.
    pub(super) fn rows(&self) -> usize {
        self.counts.values().sum()
    }

    pub(super) fn as_json(&self, dry_run: bool, whole: bool) -> Value {
        let rejected: Vec<Value> = self.rejected.iter().map(|(line, why)| json!({"line": line, "why": why})).collect();
        let count = |(name, _): &(&str, &str)| ((*name).to_owned(), json!(self.count(name)));
        let counts: Value = OUTCOMES.iter().map(count).collect();
        json!({"dry_run": dry_run, "whole": whole, "rows": self.rows(), "counts": counts, "rejected": rejected})
    }

    pub(super) fn as_text(&self, dry_run: bool) -> String {
        let title = if dry_run { "An import would do this, and nothing was written" } else { "The import is done" };
        let rows: Vec<_> = OUTCOMES
            .iter()
            .map(|(name, means)| [(*name).to_owned(), self.count(name).to_string(), (*means).to_owned()])
            .collect();
        let mut text =
            format!("{title}: {}\n\n{}", count(self.rows(), "row"), columns(["OUTCOME", "ROWS", "MEANING"], &rows));
        if !self.rejected.is_empty() {
            let lines = self.rejected.iter().take(MAX_PRINTED).map(|(line, why)| [line.to_string(), why.clone()]);
            text += &format!("\n{}\n", styled(BAD, count(self.rejected.len(), "rejected line")));
            text += &columns(["LINE", "WHY"], &lines.collect::<Vec<_>>());
        }
        if self.rejected.len() > MAX_PRINTED {
            text += &format!("{}\n", styled(BOLD, "… --json has the others"));
        }
        text
    }

    /// How the command ends: with all rows, with some, or with none.
    pub(super) fn exit(&self) -> CommandExit {
        match (self.rejected.len(), self.rows()) {
            (0, _) => CommandExit::Success,
            (rejected, rows) if rejected == rows => CommandExit::Declined,
            _ => CommandExit::PartlyDone,
        }
    }

    fn count(&self, outcome: &str) -> usize {
        self.counts.get(outcome).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_adds_up_and_names_the_lines_that_were_rejected() {
        let mut report = ImportReport::of_rejected(&[(9, "the line is no JSON object".into())]);
        assert_eq!(report.exit(), CommandExit::Declined);
        report.add(&json!({"rows": [{"line": 2, "outcome": "created"}, {"line": 3, "outcome": "newer"},
                                    {"line": 4, "outcome": "rejected", "why": "a tenant must have 1 to 128 bytes"}]}));
        assert_eq!(report.exit(), CommandExit::PartlyDone);
        let json = report.as_json(false, true);
        assert_eq!(
            (&json["rows"], &json["counts"]["newer"], &json["rejected"][0]["line"]),
            (&json!(4), &json!(1), &json!(4))
        );
        let text = report.as_text(true);
        assert!(text.contains("nothing was written") && text.contains("2 rejected lines"), "{text}");
    }
}
