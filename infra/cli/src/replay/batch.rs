//! Batches of replays: `ledgerline replay` with options that choose events, and `ledgerline stop`.

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::ledger::batch::{Batch, BatchProgress, Filter};

use super::follow;
use crate::args::{ByAndReasonArgs, FilterArgs, now, up_to};
use crate::cloud::{self, CloudArgs, CloudClient, CloudError};
use crate::confirm::ConfirmArgs;
use crate::dead::no_match;
use crate::output::{self, count};
use crate::{CommandExit, interrupt};

pub(crate) const STOP_EXAMPLES: &str = "\
Examples:
  ledgerline status                                               lists the batches and their ids
  ledgerline stop 19a8c7d2e10-04f2 --reason 'the CRM is down again'";

/// How many events a batch replays, and how fast.
#[derive(Debug, Args)]
pub(super) struct BatchArgs {
    #[arg(long, default_value_t = Batch::DEFAULT_MAX, value_parser = up_to(Batch::MAX_EVENTS))]
    #[arg(help = format!("How many events a batch replays at most, up to {}", Batch::MAX_EVENTS))]
    pub(super) max: u32,
    #[arg(long, default_value_t = Batch::DEFAULT_RATE, value_parser = up_to(Batch::MAX_RATE))]
    #[arg(help = format!("How many events a minute for each integration, up to {}", Batch::MAX_RATE))]
    rate: u32,
    /// Start the batch, and do not follow it.
    #[arg(long)]
    detach: bool,
}

/// Replays the chosen events as a batch, and follows it.
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
            output::print_answer(json, &list, || format!("{}No batch was started.\n", no_match(&list)))?;
            return Ok(CommandExit::Success);
        }
        if list["matching"] == 0 {
            output::print_notice(no_match(&list));
        }
        let each = format!("{} a minute for each integration", pace.rate);
        if !yes.confirm(&format!("Replay up to {}, {each}?", count(expected as usize, "event")))? {
            return Ok(CommandExit::Problems);
        }
        let started = start_batch(cloud, &filter, pace, why).await?;
        let batch = Batch::deserialize(&started).map_err(|error| {
            let told = "the batch may have been started: this version of the command cannot read the replay function's \
                        answer. Look at `ledgerline status --json`";
            CloudError::Unreached(format!("{told} ({error})"))
        })?;
        if pace.detach {
            output::print_answer(json, &started, || continues_text(&batch.id, at))?;
            return Ok(CommandExit::Success);
        }
        output::print_notice(&format!("Batch {} was started. Ctrl-c ends the following, not the batch.\n", batch.id));
        let ended = interrupt::until_ctrl_c(follow::follow(cloud, &batch.id, expected)).await.transpose()?;
        print_end(json, at, &batch, ended)
    })
}

/// Stop a batch of replays. The events that it has sent go on.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The id of the batch, as `status` lists it.
    batch: String,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl StopArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let answer = cloud::with(at, async |cloud| {
            let operation = self.why.add_to(cloud, json!({"op": "stop", "batch": self.batch})).await;
            cloud.change(operation, "status").await
        })?;
        output::print_answer(json, &answer, || {
            format!("Batch {} is stopped. The events that it has sent go on.\n", self.batch)
        })?;
        Ok(CommandExit::Success)
    }
}

/// How many events a batch may replay at most. The list looks at the newest only, a batch at the older ones, too.
fn expected_replays(list: &Value, max: u32) -> u32 {
    match list["matching"].as_u64().map(u32::try_from) {
        Some(Ok(matching)) if list["more"] != true => matching.min(max),
        _ => max,
    }
}

/// Starts a batch. The request is never repeated: a second one would start a second batch.
async fn start_batch(cloud: &CloudClient, filter: &Filter, pace: &BatchArgs, why: &ByAndReasonArgs) -> Result<Value> {
    let operation = json!({"op": "batch", "only": filter, "max": pace.max, "rate": pace.rate});
    cloud.change(why.add_to(cloud, operation).await, "status").await
}

/// Prints how a batch ended, or that it goes on.
fn print_end(json: bool, at: &CloudArgs, started: &Batch, ended: Option<Batch>) -> Result<CommandExit> {
    let Some(batch) = ended else {
        output::print_text(&continues_text(&started.id, at))?;
        return Ok(CommandExit::Success);
    };
    output::print_answer(json, &json!(batch), || summary(&batch))?;
    Ok(if batch.progress == BatchProgress::Stopped { CommandExit::Problems } else { CommandExit::Success })
}

fn continues_text(id: &str, at: &CloudArgs) -> String {
    let [status, stop] = ["status".to_owned(), format!("stop {id} --reason '…'")].map(|verb| at.command(&verb));
    format!("Batch {id} goes on by itself.\nTo see how far it is:\n  {status}\nTo stop it:\n  {stop}\n")
}

fn summary(batch: &Batch) -> String {
    let sent = count(batch.replayed as usize, "event");
    match batch.progress {
        BatchProgress::Stopped => {
            let by = output::printable(batch.stopped_by.as_deref().unwrap_or("the batch does not say by whom"));
            format!("Batch {} was stopped ({by}) after {sent} had been replayed.\n", batch.id)
        }
        _ => format!("Batch {} is done: {sent} replayed. An event that fails again is parked again.\n", batch.id),
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
