//! `ledgerline drop`

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::read_events;
use crate::CommandExit;
use crate::args::{parse_note, with_author};
use crate::cloud::{self, CloudArgs, CloudClient};
use crate::confirm::ConfirmArgs;
use crate::dead::ParkedEvent;
use crate::event_outcomes::EventOutcomes;
use crate::output::{self, columns, count};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline drop 1b16f576… --sign-off 'Ada, shop lead' --reason 'a test order'

The effects of a dropped event are never called again. The history keeps who signed off, and why.";

/// Give up for good on events that are dead or await approval, with a sign-off.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// The ids of the events, as `dead list` prints them.
    #[arg(required = true)]
    ids: Vec<String>,
    /// Who signs off on it. The name is kept in the history.
    #[arg(long, value_name = "NAME", value_parser = parse_note)]
    sign_off: String,
    /// Why the event is given up. The reason is kept in the history.
    #[arg(long, value_name = "WHY", value_parser = parse_note)]
    reason: String,
    #[command(flatten)]
    yes: ConfirmArgs,
}

impl DropArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        cloud::with(at, async |cloud| {
            let lines = read_events(cloud, &self.ids).await?;
            let rows: Vec<_> = lines.iter().map(ParkedEvent::row).collect();
            output::print_notice(&columns(ParkedEvent::HEAD, &rows));
            if !self
                .yes
                .confirm(&format!("Drop {} for good? This cannot be taken back.", count(lines.len(), "event")))?
            {
                return Ok(CommandExit::Problems);
            }
            let outcomes = self.each(cloud, &lines).await?;
            output::print_answer(json, &json!({"dropped": outcomes.as_json()}), || outcomes.as_text("dropped"))?;
            Ok(outcomes.exit())
        })
    }

    /// Drops each event as it was shown. The function declines one that has changed since.
    async fn each(&self, cloud: &CloudClient, lines: &[ParkedEvent]) -> Result<EventOutcomes> {
        EventOutcomes::of_each(
            lines,
            |line| &line.id,
            async |ParkedEvent { id, version, .. }| {
                let operation =
                    with_author(json!({"op": "drop", "id": id, "version": version}), &self.sign_off, &self.reason);
                cloud.change(operation, &format!("dead show {id}")).await
            },
        )
        .await
    }
}
