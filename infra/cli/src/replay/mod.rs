//! Replaying what is parked: what it would do, exactly that, one by one, or many in a batch.

mod apply;
mod many;
mod plan;
mod progress;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use crate::args::{Only, Why};
use crate::cloud::{self, At, Cloud};
use crate::confirm::Yes;
use crate::dead::version;
use crate::outcome::Outcomes;
use crate::{Verdict, output};

pub(crate) use apply::{Apply, EXAMPLES as APPLY_EXAMPLES};
pub(crate) use many::{STOP_EXAMPLES, Stop};
pub(crate) use plan::{EXAMPLES as PLAN_EXAMPLES, Plan, steps};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline replay 1b16f576… --reason 'the CRM is back'
  ledgerline replay --flow lead-routing --since 2h --reason-was attempts_spent --dry-run
  ledgerline replay --flow lead-routing --since 2h --max 200 --rate 10 --reason 'the CRM is back'

--reason is why you replay; --reason-was is what the events died of.
Events that are named go at once. Those that are chosen go as a batch, slowly and one after the other, and this
command follows it to its end. Ctrl-c ends the following, not the batch: `ledgerline stop` does that.";

/// Send parked events through the queue again. What is done stays done.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The events' ids. Without any, those that the options choose are replayed as a batch.
    ids: Vec<String>,
    /// The version of the row that you saw: refused if it has changed since. With one id.
    #[arg(long, value_name = "VERSION", requires = "ids")]
    seen: Option<String>,
    #[command(flatten)]
    only: Only,
    /// All that is parked, where nothing else chooses.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pace: many::Pace,
    /// Why you replay: it goes into the history. A dry run needs none.
    #[arg(long, value_name = "WHY", value_parser = crate::args::words, required_unless_present = "dry_run")]
    reason: Option<String>,
    /// Who you are. Without it, the one that AWS knows you as.
    #[arg(long, value_name = "NAME", value_parser = crate::args::words)]
    by: Option<String>,
    /// Tell what would be done, for the first 100 at most, and do nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    yes: Yes,
}

impl Replay {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        self.check()?;
        if self.dry_run {
            return Plan::of_batch(self.ids, self.only, self.pace.max).run(at, json);
        }
        let why = Why { reason: self.reason.unwrap_or_default(), by: self.by };
        match self.ids.as_slice() {
            [] => many::run(at, json, &self.only, &self.pace, &why, self.yes),
            ids => cloud::with(at, async |cloud| each(cloud, json, ids, self.seen.as_deref(), &why).await),
        }
    }

    /// What clap cannot say: either some are named, or some are chosen.
    fn check(&self) -> Result<()> {
        let chosen = self.all || !self.only.is_empty();
        match (self.ids.len(), chosen) {
            (0, false) => bail!("name events, or choose them by --flow, --since, --reason-was …; --all is all of them"),
            (1.., true) => bail!("name events or choose them by options, not both"),
            (2.., _) if self.seen.is_some() => bail!("--seen is the version of one event: name one"),
            _ => Ok(()),
        }
    }
}

/// Replays each by itself.
async fn each(cloud: &Cloud, json: bool, ids: &[String], seen: Option<&str>, why: &Why) -> Result<Verdict> {
    let signed = why.sign(cloud, json!({"op": "replay"})).await;
    let outcomes = Outcomes::of_each(ids, String::as_str, async |id| {
        let mut operation = signed.clone();
        operation["id"] = json!(id);
        operation["version"] = version(cloud, id, seen).await?;
        cloud.change(operation, &format!("ledgerline dead show {id}")).await
    })
    .await?;
    output::show(json, &json!({"replayed": outcomes.as_json()}), || outcomes.as_text("replayed"))?;
    Ok(outcomes.verdict())
}
