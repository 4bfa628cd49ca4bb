//! `ledgerline contacts import`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use shared::base::time::Timestamp;

use super::report::ImportReport;
use super::rows::{ImportFile, RowDefaults};
use crate::CommandExit;
use crate::args::{ByAndReasonArgs, now};
use crate::cloud::{self, CloudArgs, CloudClient};
use crate::confirm::ConfirmArgs;
use crate::output::{self, count};

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline contacts import crm.csv --tenant acme --at 2026-11-01T00:00:00Z --dry-run --reason 'the old CRM'
  ledgerline contacts import crm.csv --tenant acme --at 2026-11-01T00:00:00Z --reason 'the old CRM'

A .csv file names its columns in the first line: email, and if you like tenant and at. Every other column is a field.
true and false are taken as such, null removes the field, an empty cell leaves it alone, and the rest are texts. A
.jsonl file has one object a line with the same names: {\"email\": \"ada@example.com\", \"consent_email\": true}.

Each row has the moment when its fields were so: the column `at`, or --at for rows without one, for example when the
file was exported. An import never overwrites what a newer event, set or import has said. It has no default: with the
moment of now, an old file would bring back consent that was withdrawn since.

The same import again changes nothing, so repeat one that was interrupted. A bad row is reported with its line, and the
others are imported: exit code 6, or 4 if all were rejected.";

/// How many requests are under way at once.
const AT_ONCE: usize = 4;

/// The largest file.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// Import contacts from a file. The same import again changes nothing.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file: .csv or .jsonl.
    file: PathBuf,
    /// The tenant of rows that name none.
    #[arg(long)]
    tenant: Option<String>,
    /// The moment of rows that state none, for example when the file was exported (RFC 3339).
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    at: Option<String>,
    /// Say what an import would do, and write nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    why: ByAndReasonArgs,
    #[command(flatten)]
    yes: ConfirmArgs,
}

impl ImportArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let defaults = RowDefaults { tenant: self.tenant.clone(), at: self.at.clone() };
        let file = ImportFile::parse(&self.file, &self.read()?, &defaults)?;
        let rows = file.rows.len() + file.rejected.len();
        if !self.dry_run && !self.yes.confirm(&format!("Import {}?", count(rows, "row")))? {
            return Ok(CommandExit::Problems);
        }
        let mut report = ImportReport::of_rejected(&file.rejected);
        let sent = cloud::with(at, async |cloud| self.send(cloud, &file, &mut report).await);
        let whole = sent.is_ok();
        if whole || report.rows() > 0 {
            output::print_answer(json, &report.as_json(self.dry_run, whole), || report.as_text(self.dry_run))?;
        }
        sent.map(|()| report.exit())
    }

    fn read(&self) -> Result<String> {
        let path = self.file.display();
        let size = std::fs::metadata(&self.file).with_context(|| format!("cannot read the contacts in {path}"))?.len();
        if size > MAX_FILE {
            bail!("nothing was sent: {path} has more than {} MiB; split it", MAX_FILE / 1024 / 1024);
        }
        std::fs::read_to_string(&self.file).with_context(|| format!("cannot read the contacts in {path}"))
    }

    /// Sends the rows, a few requests at a time, and adds each answer to the report. The first that fails ends it.
    async fn send(&self, cloud: &CloudClient, file: &ImportFile, report: &mut ImportReport) -> Result<()> {
        let packs = file.packs();
        let operation = json!({"op": "import_contacts", "dry_run": self.dry_run, "rows": []});
        let operation = if packs.is_empty() { operation } else { self.why.add_to(cloud, operation).await };
        let bar = bar(file.rows.len());
        let request = |rows: Vec<Value>| {
            let mut operation = operation.clone();
            operation["rows"] = Value::Array(rows);
            async { cloud.repeatable_change(operation, "run the same import again, which does nothing twice").await }
        };
        let mut answers = stream::iter(packs.into_iter().map(request)).buffered(AT_ONCE);
        while let Some(answer) = answers.next().await {
            let answer = answer?;
            bar.inc(answer["rows"].as_array().map_or(0, Vec::len) as u64);
            report.add(&answer);
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// The bar. It draws on standard error, and only if that is a terminal.
fn bar(rows: usize) -> ProgressBar {
    let bar = ProgressBar::new(rows as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} rows, {elapsed}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Reads a moment of the past, and sends it as it was written.
fn parse_moment(text: &str) -> Result<String, String> {
    match Timestamp::parse(text).filter(|_| text.contains('T')) {
        Some(at) if at <= now() => Ok(text.to_owned()),
        Some(_) => Err("write a moment of the past: a later one would hold back events until then".into()),
        None => Err("write a moment, for example 2026-11-16T10:00:00Z".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_of_the_past() {
        assert!(parse_moment("2026-11-01T00:00:00Z").is_ok());
        for bad in ["now", "2026-11-01", "1794830400", "2999-01-01T00:00:00Z"] {
            assert!(parse_moment(bad).is_err(), "{bad}");
        }
    }
}
