//! Replays of parked events: a plan of what one would do, exactly that plan, one by one, or many in a batch.

mod apply;
mod batch;
mod plan;
mod follow;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::args::{ByAndReasonArgs, FilterArgs};
use crate::cloud::{self, CloudArgs, CloudClient};
use crate::confirm::ConfirmArgs;
use crate::dead::row_version;
use crate::event_outcomes::EventOutcomes;
use crate::{CommandExit, output};

pub(crate) use apply::{ApplyArgs, EXAMPLES as APPLY_EXAMPLES};
pub(crate) use batch::{STOP_EXAMPLES, StopArgs};
pub(crate) use plan::{EXAMPLES as PLAN_EXAMPLES, PlanArgs, steps};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline replay 1b16f576… --reason 'the CRM is back'
  ledgerline replay --flow lead-routing --since 2h --reason-was attempts_spent --dry-run
  ledgerline replay --flow lead-routing --since 2h --max 200 --rate 10 --reason 'the CRM is back'

--reason is why you replay; --reason-was is why the events died.
Events that you name by id are replayed at once. Events that options choose are replayed as a batch, slowly and one
after the other, and this command follows the batch to its end. Ctrl-c ends the following and not the batch;
`ledgerline stop` ends the batch.";

/// Send parked events through the queue again. An effect that is done is not called again.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The ids of the events. Without ids, the events that the options choose are replayed as a batch.
    ids: Vec<String>,
    /// The version of the row that you saw, as `dead show` prints it: declined if the row has changed since. With one id.
    #[arg(long, value_name = "VERSION", requires = "ids")]
    seen: Option<String>,
    #[command(flatten)]
    only: FilterArgs,
    /// Choose all parked events, where no other option chooses.
    #[arg(long)]
    all: bool,
    /// Also do the effects that the flow did not have when it accepted the events: a plan shows them as `new`. With ids.
    #[arg(long, requires = "ids")]
    with_new: bool,
    #[command(flatten)]
    pace: batch::BatchArgs,
    /// Why you replay. The reason is kept in the history. A dry run needs none.
    #[arg(long, value_name = "WHY", value_parser = crate::args::parse_note, required_unless_present = "dry_run")]
    reason: Option<String>,
    /// Your name, which is kept in the history. Without it, the name that AWS knows you by.
    #[arg(long, value_name = "NAME", value_parser = crate::args::parse_note)]
    by: Option<String>,
    /// Show what a replay would do, for the first 100 events at most, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    yes: ConfirmArgs,
}

impl ReplayArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        self.check()?;
        if self.dry_run {
            return PlanArgs::of_batch(self.ids, self.only, self.pace.max, self.with_new).run(at, json);
        }
        let why = ByAndReasonArgs { reason: self.reason.unwrap_or_default(), by: self.by };
        match self.ids.as_slice() {
            [] => batch::run(at, json, &self.only, &self.pace, &why, self.yes),
            ids => {
                let operation = with_new(json!({"op": "replay"}), self.with_new);
                cloud::with(at, async |cloud| {
                    replay_each(cloud, json, operation, ids, self.seen.as_deref(), &why).await
                })
            }
        }
    }

    /// The rule that clap cannot express: events are either named by id or chosen by options.
    fn check(&self) -> Result<()> {
        let chosen = self.all || !self.only.is_empty();
        match (self.ids.len(), chosen) {
            (0, false) => bail!(
                "nothing was replayed: name the events by id, or choose them with --flow, --since, --reason-was, --error \
                 or --state; --all chooses all of them"
            ),
            (1.., true) => bail!("nothing was replayed: name the events by id or choose them by options, not both"),
            (2.., _) if self.seen.is_some() => {
                bail!("nothing was replayed: --seen is the version of one event, so name one id")
            }
            _ => Ok(()),
        }
    }
}

/// The operation, and that it also does what is new, where that is asked for.
fn with_new(mut operation: Value, asked: bool) -> Value {
    if asked {
        operation["with_new"] = json!(true);
    }
    operation
}

/// Replays each event by itself.
async fn replay_each(
    cloud: &CloudClient,
    json: bool,
    operation: Value,
    ids: &[String],
    seen: Option<&str>,
    why: &ByAndReasonArgs,
) -> Result<CommandExit> {
    let signed = why.add_to(cloud, operation).await;
    let outcomes = EventOutcomes::of_each(ids, String::as_str, async |id| {
        let mut operation = signed.clone();
        operation["id"] = json!(id);
        operation["version"] = row_version(cloud, id, seen).await?;
        cloud.change(operation, &format!("dead show {id}")).await
    })
    .await?;
    output::print_answer(json, &json!({"replayed": outcomes.as_json()}), || outcomes.as_text("replayed"))?;
    Ok(outcomes.exit())
}
