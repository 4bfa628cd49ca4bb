//! Batches: `ledgerline replay` with options that choose, and `ledgerline stop`.

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::batch::{Batch, Filter, Progress};

use super::progress;
use crate::args::{Only, Why, now};
use crate::cloud::{self, At, Cloud};
use crate::confirm::Yes;
use crate::output::{count, say};
use crate::{Verdict, interrupt, output};

pub(crate) const STOP_EXAMPLES: &str = "\
Examples:
  ledgerline status                                               lists the batches
  ledgerline stop 19a8c7d2e10-04f2 --reason 'the CRM is down again'";

/// How fast a batch goes, and how far.
#[derive(Debug, Args)]
pub(super) struct Pace {
    /// How many at most.
    #[arg(long, default_value_t = Batch::DEFAULT_MAX, value_parser = clap::value_parser!(u32).range(1..=i64::from(Batch::MOST)))]
    pub(super) max: u32,
    /// How many a minute for each integration.
    #[arg(long, default_value_t = Batch::DEFAULT_RATE, value_parser = clap::value_parser!(u32).range(1..=i64::from(Batch::FASTEST)))]
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
        let most = u32::try_from(list["matching"].as_u64().unwrap_or_default()).unwrap_or(u32::MAX).min(pace.max);
        if most == 0 {
            output::show(json, &list, || "Nothing is parked that matches: nothing was begun.\n".into())?;
            return Ok(Verdict::Fine);
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
    Ok(if batch.progress == Progress::Stopped { Verdict::Problems } else { Verdict::Fine })
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
        Progress::Stopped => {
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
