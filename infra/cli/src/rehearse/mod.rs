//! `ledgerline rehearse`: a historical export through the flows, on the export's own clock.
//!
//! Without `--against` nothing is called and nothing stored: the real functions work on the simulation's stage, before
//! partners that answer by a script. Memory stays flat, because whatever the product would have forgotten is forgotten.
//!
//! # Layout
//!
//! - `export`: the lines, and when they say that they happened.
//! - `route`: where a line goes, and how its sender posts it.
//! - `world`: partners by a scenario, and contacts by a file.
//! - `early`, `rehearsal`: an export on the stage.
//! - `fate`: what an answer says of each event of a delivery.
//! - `order`: events of one entity.
//! - `progress`, `against`: an export sent to a running cloud.
//! - `report`: what became of it.

mod against;
mod early;
mod export;
mod fate;
mod order;
mod progress;
mod rehearsal;
mod report;
mod route;
mod world;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use shared::base::time::Timestamp;
use shared::flows::{Field, File, Flows};
use shared::limits::rates::Rate;

use self::report::SentReport;
use crate::{CommandExit, flows_folder, output};

pub use export::{Export, ExportLine};
pub use rehearsal::{RehearsalSetup, RehearsalWorld, rehearse};
pub use report::RehearsalReport;
pub use route::ChosenRoute;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline rehearse export.jsonl                          a week of history in seconds: calls nobody
  ledgerline rehearse export.jsonl --at created_at          the field that says when an event happened
  ledgerline rehearse export.jsonl --contacts crm.csv --tenant acme    guards know whom they ask for consent
  ledgerline rehearse export.jsonl --scenario tests/orders.yaml --only 'is down'   partners as in that scenario
  ledgerline rehearse export.jsonl --against http://127.0.0.1:8787 --secret-file secret --rate 20/s

The export has one event a line, as senders send it, or {\"headers\": {…}, \"body\": {…}}. The clock is the export's own:
today's would falsify quiet hours, caps and windows. Partners do what they are asked for, unless --answers has other
lines: a mapping from an integration to answers, as `partners` of a scenario.

In-process, nothing is kept, and the same export gives the same report, line for line.

With --against, each line is signed and sent to a running cloud, which acts on it with its own clock. Each answer is kept
beside the export (.rehearsed): the same command goes on with the line after the last that was answered.";

/// Send a historical export through your flows, in-process and at machine speed, and report what would become of it.
#[derive(Debug, Args)]
pub struct RehearseArgs {
    /// The export: one event a line.
    export: PathBuf,
    /// The flows folder. Without it, that of the project that you are in.
    #[arg(long = "in", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The source that sent the events, where flows have several and a line does not tell by its type.
    #[arg(long)]
    source: Option<String>,
    /// The flow that takes the events. Without it, each event's type names its flow.
    #[arg(long, conflicts_with = "source")]
    flow: Option<String>,
    /// The field that says when an event happened: RFC 3339, seconds or milliseconds.
    #[arg(long, default_value = "timestamp")]
    at: String,
    /// When the export begins, where its lines do not say when they happened.
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment)]
    starts_at: Option<Timestamp>,
    #[command(flatten)]
    world: world::WorldArgs,
    /// Send to a running cloud instead: the URL of its intake.
    #[arg(long, value_name = "URL", requires = "secret_file")]
    against: Option<String>,
    /// With --against: the file with the secret that the events are signed with.
    #[arg(long, value_name = "FILE", requires = "against")]
    secret_file: Option<PathBuf>,
    /// With --against: how fast, as 20/s.
    #[arg(long, value_name = "RATE", default_value = "10/s", value_parser = parse_rate)]
    rate: Rate,
}

fn parse_rate(text: &str) -> Result<Rate, String> {
    serde_json::from_value(serde_json::json!(text)).map_err(|error| error.to_string())
}

fn parse_moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "write a moment, for example 2026-11-16T10:00:00Z".into())
}

impl RehearseArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let files = flows_folder::read(&flows_folder::find(self.folder.clone())?)?;
        let Some(flows) = flows_folder::parse(&files) else { return Ok(CommandExit::Problems) };
        if let Some(name) = self.flow.as_ref().filter(|name| flows.flow(name).is_none()) {
            bail!("the flows folder has no flow `{name}`: check the name after --flow");
        }
        let export = Export::open(&self.export)?;
        let bar = progress_bar(export.bytes());
        let told = |bytes| bar.set_position(bytes);
        let report = match (&self.against, &self.secret_file) {
            (Some(url), Some(secret)) => self.send(export, (&flows, &files), (url, secret), told)?,
            _ => {
                let at: Field = self.at.parse().map_err(anyhow::Error::msg)?;
                let (route, world) = (self.route(), self.world.read(&flows)?);
                let setup = RehearsalSetup { flows: &flows, route, at: &at, starts_at: self.starts_at, world: &world };
                rehearse(export, &setup, told)?
            }
        };
        bar.finish_and_clear();
        let sent = SentReport(&report);
        match self.against {
            Some(_) => output::print_answer(json, &sent.as_json(), || sent.to_string())?,
            None => output::print_answer(json, &serde_json::json!(report), || report.to_string())?,
        }
        Ok(CommandExit::Success)
    }

    fn route(&self) -> ChosenRoute<'_> {
        ChosenRoute { source: self.source.as_deref(), flow: self.flow.as_deref() }
    }

    fn send(
        &self,
        export: Export,
        flows: (&Flows, &[File]),
        (url, secret): (&str, &PathBuf),
        told: impl FnMut(u64),
    ) -> Result<RehearsalReport> {
        let secret = std::fs::read_to_string(secret).with_context(|| format!("cannot read {}", secret.display()))?;
        let (secret, route) = (secret.trim(), self.route());
        let target = against::Target { url, secret, rate: self.rate, export: &self.export, route };
        against::send(export, flows, &target, told)
    }
}

fn progress_bar(bytes: u64) -> ProgressBar {
    let style = "{bar:30} {bytes}/{total_bytes}, {eta} left";
    let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}
