//! Batches: `ledgerline replay` with options that choose, and `ledgerline stop`.

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::ledger::batch::{Batch, BatchProgress, Filter};

use super::follow;
use crate::args::{ByAndReasonArgs, FilterArgs, now, up_to};
use crate::cloud::{self, CloudArgs, CloudClient};
use crate::confirm::ConfirmArgs;
use crate::dead::no_match;
use crate::output::{self, count, print};
use crate::{CommandExit, interrupt};

pub(crate) const STOP_EXAMPLES: &str = "\
Examples:
  ledgerline status                                               lists the batches
  ledgerline stop 19a8c7d2e10-04f2 --reason 'the CRM is down again'";

/// How fast a batch goes, and how far.
#[derive(Debug, Args)]
pub(super) struct BatchArgs {
    #[arg(long, default_value_t = Batch::DEFAULT_MAX, value_parser = up_to(Batch::MAX_EVENTS))]
    #[arg(help = format!("How many at most, up to {}", Batch::MAX_EVENTS))]
    pub(super) max: u32,
    #[arg(long, default_value_t = Batch::DEFAULT_RATE, value_parser = up_to(Batch::MAX_RATE))]
    #[arg(help = format!("How many a minute for each integration, up to {}", Batch::MAX_RATE))]
    rate: u32,
    /// Begin the batch, and do not follow it.
    #[arg(long)]
    detach: bool,
}

/// Replays what is chosen as a batch, and follows it.
pub(super) fn run(
    at: &CloudArgs,
    json: bool,
    only: &FilterArgs,
    pace: &BatchArgs,
    why: &ByAndReasonArgs,
    yes: ConfirmArgs,
) -> Result<CommandExit> {
    let filter = only.filter(now());
    cloud::with(at, async |cloud| {
        let list = cloud.query(json!({"op": "list", "limit": 1, "only": filter})).await?;
        let expected = expected_replays(&list, pace.max);
        if expected == 0 {
            output::print_answer(json, &list, || format!("{}Nothing was begun.\n", no_match(&list)))?;
            return Ok(CommandExit::Success);
        }
        if list["matching"] == 0 {
            anstream::eprint!("{}", no_match(&list));
        }
        let each = format!("{} a minute for each integration", pace.rate);
        if !yes.confirm(&format!("Replay up to {}, {each}?", count(expected as usize, "event")))? {
            return Ok(CommandExit::Problems);
        }
        let begun = start_batch(cloud, &filter, pace, why).await?;
        let batch = Batch::deserialize(&begun).context("the function's answer is not a batch")?;
        if pace.detach {
            output::print_answer(json, &begun, || continues_text(&batch.id))?;
            return Ok(CommandExit::Success);
        }
        anstream::eprintln!("Batch {} has begun. Ctrl-c ends the following, not the batch.", batch.id);
        print_end(json, &batch, interrupt::until_ctrl_c(follow::follow(cloud, &batch.id, expected)).await.transpose()?)
    })
}

/// How many a batch may find at most. The list knows the newest alone, and a batch looks at the older ones, too.
fn expected_replays(list: &Value, max: u32) -> u32 {
    match list["matching"].as_u64().map(u32::try_from) {
        Some(Ok(matching)) if list["more"] != true => matching.min(max),
        _ => max,
    }
}

/// Not asked twice: a second request would be a second batch.
async fn start_batch(cloud: &CloudClient, filter: &Filter, pace: &BatchArgs, why: &ByAndReasonArgs) -> Result<Value> {
    let operation = json!({"op": "batch", "only": filter, "max": pace.max, "rate": pace.rate});
    cloud.change(why.add_to(cloud, operation).await, "ledgerline status").await
}

/// Tells what became of a batch.
fn print_end(json: bool, begun: &Batch, ended: Option<Batch>) -> Result<CommandExit> {
    let Some(batch) = ended else {
        print(&continues_text(&begun.id))?;
        return Ok(CommandExit::Success);
    };
    output::print_answer(json, &json!(batch), || summary(&batch))?;
    Ok(if batch.progress == BatchProgress::Stopped { CommandExit::Problems } else { CommandExit::Success })
}

fn continues_text(id: &str) -> String {
    format!(
        "Batch {id} goes on by itself.\n  ledgerline status                       how far it is\n  \
         ledgerline stop {id} --reason '…'   ends it\n"
    )
}

fn summary(batch: &Batch) -> String {
    let sent = count(batch.replayed as usize, "event");
    match batch.progress {
        BatchProgress::Stopped => {
            let by = output::printable(batch.stopped_by.as_deref().unwrap_or("nobody said who"));
            format!("Batch {} was stopped ({by}): {sent} had been replayed.\n", batch.id)
        }
        _ => format!("Batch {} is done: {sent} replayed. What fails again is parked again.\n", batch.id),
    }
}

/// Stop a batch of replays. What is on its way goes on.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The batch's id, as `status` lists it.
    batch: String,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl StopArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let answer = cloud::with(at, async |cloud| {
            let operation = self.why.add_to(cloud, json!({"op": "stop", "batch": self.batch})).await;
            cloud.change(operation, "ledgerline status").await
        })?;
        output::print_answer(json, &answer, || {
            format!("Batch {} is stopped. What is on its way goes on.\n", self.batch)
        })?;
        Ok(CommandExit::Success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_finds_what_the_list_did_not_look_at() {
        for (matching, more, expected) in [(0, false, 0), (3, false, 3), (30, false, 20), (0, true, 20), (3, true, 20)]
        {
            assert_eq!(
                expected_replays(&json!({"matching": matching, "more": more}), 20),
                expected,
                "{matching}, {more}"
            );
        }
    }
}
