//! Batches: `ledgerline replay` with options that choose, and `ledgerline stop`.

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::ledger::batch::{Batch, BatchProgress, Filter};

use super::progress;
use crate::args::{Only, Why, now, up_to};
use crate::cloud::{self, At, Cloud};
use crate::confirm::Yes;
use crate::dead::none;
use crate::output::{self, count, say};
use crate::{Verdict, interrupt};

pub(crate) const STOP_EXAMPLES: &str = "\
Examples:
  ledgerline status                                               lists the batches
  ledgerline stop 19a8c7d2e10-04f2 --reason 'the CRM is down again'";

/// How fast a batch goes, and how far.
#[derive(Debug, Args)]
pub(super) struct Pace {
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
pub(super) fn run(at: &At, json: bool, only: &Only, pace: &Pace, why: &Why, yes: Yes) -> Result<Verdict> {
    let filter = only.filter(now());
    cloud::with(at, async |cloud| {
        let list = cloud.look(json!({"op": "list", "limit": 1, "only": filter})).await?;
        let most = most(&list, pace.max);
        if most == 0 {
            output::show(json, &list, || format!("{}Nothing was begun.\n", none(&list)))?;
            return Ok(Verdict::Fine);
        }
        if list["matching"] == 0 {
            anstream::eprint!("{}", none(&list));
        }
        let each = format!("{} a minute for each integration", pace.rate);
        if !yes.or_ask(&format!("Replay up to {}, {each}?", count(most as usize, "event")))? {
            return Ok(Verdict::Problems);
        }
        let begun = begin(cloud, &filter, pace, why).await?;
        let batch = Batch::deserialize(&begun).context("the function's answer is not a batch")?;
        if pace.detach {
            output::show(json, &begun, || goes_on(&batch.id))?;
            return Ok(Verdict::Fine);
        }
        anstream::eprintln!("Batch {} has begun. Ctrl-c ends the following, not the batch.", batch.id);
        end(json, &batch, interrupt::or(progress::follow(cloud, &batch.id, most)).await.transpose()?)
    })
}

/// How many a batch may find at most. The list knows the newest alone, and a batch looks at the older ones, too.
fn most(list: &Value, max: u32) -> u32 {
    match list["matching"].as_u64().map(u32::try_from) {
        Some(Ok(matching)) if list["more"] != true => matching.min(max),
        _ => max,
    }
}

/// Not asked twice: a second request would be a second batch.
async fn begin(cloud: &Cloud, filter: &Filter, pace: &Pace, why: &Why) -> Result<Value> {
    let operation = json!({"op": "batch", "only": filter, "max": pace.max, "rate": pace.rate});
    cloud.change(why.sign(cloud, operation).await, "ledgerline status").await
}

/// Tells what became of a batch.
fn end(json: bool, begun: &Batch, ended: Option<Batch>) -> Result<Verdict> {
    let Some(batch) = ended else {
        say(&goes_on(&begun.id))?;
        return Ok(Verdict::Fine);
    };
    output::show(json, &json!(batch), || told(&batch))?;
    Ok(if batch.progress == BatchProgress::Stopped { Verdict::Problems } else { Verdict::Fine })
}

fn goes_on(id: &str) -> String {
    format!(
        "Batch {id} goes on by itself.\n  ledgerline status                       how far it is\n  \
         ledgerline stop {id} --reason '…'   ends it\n"
    )
}

fn told(batch: &Batch) -> String {
    let sent = count(batch.replayed as usize, "event");
    match batch.progress {
        BatchProgress::Stopped => {
            let by = output::plain(batch.stopped_by.as_deref().unwrap_or("nobody said who"));
            format!("Batch {} was stopped ({by}): {sent} had been replayed.\n", batch.id)
        }
        _ => format!("Batch {} is done: {sent} replayed. What fails again is parked again.\n", batch.id),
    }
}

/// Stop a batch of replays. What is on its way goes on.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// The batch's id, as `status` lists it.
    batch: String,
    #[command(flatten)]
    why: Why,
}

impl Stop {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        let answer = cloud::with(at, async |cloud| {
            let operation = self.why.sign(cloud, json!({"op": "stop", "batch": self.batch})).await;
            cloud.change(operation, "ledgerline status").await
        })?;
        output::show(json, &answer, || format!("Batch {} is stopped. What is on its way goes on.\n", self.batch))?;
        Ok(Verdict::Fine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_finds_what_the_list_did_not_look_at() {
        for (matching, more, expected) in [(0, false, 0), (3, false, 3), (30, false, 20), (0, true, 20), (3, true, 20)]
        {
            assert_eq!(most(&json!({"matching": matching, "more": more}), 20), expected, "{matching}, {more}");
        }
    }
}
