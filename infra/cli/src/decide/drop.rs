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

What is dropped is never acted on again. The history keeps who signed for it, and why.";

/// Give up for good on events that are dead or await approval, with a sign-off.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// The events' ids.
    #[arg(required = true)]
    ids: Vec<String>,
    /// Who signs for it: it goes into the history.
    #[arg(long, value_name = "NAME", value_parser = parse_note)]
    sign_off: String,
    /// Why it is not worth another try: it goes into the history.
    #[arg(long, value_name = "WHY", value_parser = parse_note)]
    reason: String,
    #[command(flatten)]
    yes: ConfirmArgs,
}

impl DropArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        cloud::with(at, async |cloud| {
            let lines = read_events(cloud, &self.ids).await?;
            anstream::eprint!(
                "{}",
                columns(ParkedEvent::HEAD, &lines.iter().map(ParkedEvent::row).collect::<Vec<_>>())
            );
            if !self.yes.confirm(&format!("Drop {} for good?", count(lines.len(), "event")))? {
                return Ok(CommandExit::Problems);
            }
            let outcomes = self.each(cloud, &lines).await?;
            output::print_answer(json, &json!({"dropped": outcomes.as_json()}), || outcomes.as_text("dropped"))?;
            Ok(outcomes.verdict())
        })
    }

    /// Drops each as it was shown: one that has changed since is refused.
    async fn each(&self, cloud: &CloudClient, lines: &[ParkedEvent]) -> Result<EventOutcomes> {
        EventOutcomes::of_each(
            lines,
            |line| &line.id,
            async |ParkedEvent { id, version, .. }| {
                let operation =
                    with_author(json!({"op": "drop", "id": id, "version": version}), &self.sign_off, &self.reason);
                cloud.change(operation, &format!("ledgerline dead show {id}")).await
            },
        )
        .await
    }
}
