//! `ledgerline drop`

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::look;
use crate::Verdict;
use crate::args::{signed, words};
use crate::cloud::{self, At, Cloud};
use crate::confirm::Yes;
use crate::dead::Line;
use crate::outcome::Outcomes;
use crate::output::{self, columns, count};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline drop 1b16f576… --sign-off 'Ada, shop lead' --reason 'a test order'

What is dropped is never acted on again. The history keeps who signed for it, and why.";

/// Give up for good on events that are dead or await approval, with a sign-off.
#[derive(Debug, Args)]
pub(crate) struct Drop {
    /// The events' ids.
    #[arg(required = true)]
    ids: Vec<String>,
    /// Who signs for it: it goes into the history.
    #[arg(long, value_name = "NAME", value_parser = words)]
    sign_off: String,
    /// Why it is not worth another try: it goes into the history.
    #[arg(long, value_name = "WHY", value_parser = words)]
    reason: String,
    #[command(flatten)]
    yes: Yes,
}

impl Drop {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        cloud::with(at, async |cloud| {
            let lines = look(cloud, &self.ids).await?;
            anstream::eprint!("{}", columns(Line::HEAD, &lines.iter().map(Line::row).collect::<Vec<_>>()));
            if !self.yes.or_ask(&format!("Drop {} for good?", count(lines.len(), "event")))? {
                return Ok(Verdict::Problems);
            }
            let outcomes = self.each(cloud, &lines).await?;
            output::show(json, &json!({"dropped": outcomes.as_json()}), || outcomes.as_text("dropped"))?;
            Ok(outcomes.verdict())
        })
    }

    /// Drops each as it was shown: one that has changed since is refused.
    async fn each(&self, cloud: &Cloud, lines: &[Line]) -> Result<Outcomes> {
        Outcomes::of_each(
            lines,
            |line| &line.id,
            async |Line { id, version, .. }| {
                let operation =
                    signed(json!({"op": "drop", "id": id, "version": version}), &self.sign_off, &self.reason);
                cloud.change(operation, &format!("ledgerline dead show {id}")).await
            },
        )
        .await
    }
}
