//! `ledgerline trace`: what was done for an event and when it waited, rebuilt from its row.

pub(crate) mod drawn;

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;
use serde_json::json;
use shared::adapters::otlp::{self, SpansOf};
use shared::ledger::timeline::EventTimeline;
use shared::operate::span::rebuilt;

use crate::CommandExit;
use crate::args::now;
use crate::cloud::{self, CloudArgs};
use crate::output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline trace 1b16f576…            draws a bar for each span: worked or waited, retries, crashes, replays by whom
  ledgerline trace 1b16f576… --otlp > trace.json      the same as OTLP JSON, for any tool that reads that
  ledgerline trace 1b16f576… --json | jq -r '.spans[] | select(.kind == \"called\") | .effect'

The trace is rebuilt from the event's row, for as long as the row is kept: no collector needs to know it any more.
A span has the id under which the function that did it exported it.";

/// Show what was done for an event, and when it waited.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The event's id, as `dead list` prints it.
    id: String,
    /// Print OTLP JSON, without the names and the words of operators.
    #[arg(long)]
    otlp: bool,
}

impl TraceArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let answer = cloud::with(at, async |cloud| cloud.query(json!({"op": "trace", "id": self.id})).await)?;
        let timeline = EventTimeline::deserialize(&answer);
        let timeline =
            timeline.context("the function's answer is no timeline: this command may be older than it is")?;
        if self.otlp {
            let of = SpansOf::new("ledgerline");
            let spans = serde_json::to_value(otlp::request(&of, &rebuilt(&timeline, now())))?;
            output::print_answer(true, &spans, String::new)?;
            return Ok(CommandExit::Success);
        }
        output::print_answer(json, &answer, || drawn::text(&timeline, now()))?;
        Ok(CommandExit::Success)
    }
}
