//! Following a batch to its end.

use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::ledger::batch::{Batch, BatchProgress};
use tokio::time::sleep;

use crate::cloud::CloudClient;

/// How often a follower queries.
const EVERY: Duration = Duration::from_secs(1);

/// Waits for the end of a batch of up to `max` events. A terminal shows a bar meanwhile.
pub(super) async fn follow(cloud: &CloudClient, id: &str, max: u32) -> Result<Batch> {
    let bar = bar(max);
    let next = format!("batch {id} goes on by itself: look at `{}`", cloud.command("status"));
    loop {
        let status = cloud.query(json!({"op": "status"})).await.with_context(|| next.clone())?;
        let batch = find(&status, id).with_context(|| {
            format!("the end of batch {id} was missed: the status lists the newest batches, and no longer this one")
        })?;
        bar.set_position(batch.replayed.into());
        if batch.progress != BatchProgress::Running {
            bar.finish_and_clear();
            return Ok(batch);
        }
        sleep(EVERY).await;
    }
}

/// The batch of this id in a status.
fn find(status: &Value, id: &str) -> Option<Batch> {
    let batches = status["batches"].as_array()?;
    batches.iter().find(|batch| batch["id"] == id).and_then(|batch| Batch::deserialize(batch).ok())
}

/// The bar. It draws on standard error, and only if that is a terminal.
fn bar(max: u32) -> ProgressBar {
    let bar = ProgressBar::new(max.into());
    let style = ProgressStyle::with_template("{bar:30} {pos} of up to {len} events replayed, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_found_by_its_id() {
        let batch = |id: &str| {
            json!({"id": id, "filter": {}, "max": 5, "per_minute": 5, "by": "ada", "why": "w", "started_at": 1,
                   "replayed": 2, "progress": "done"})
        };
        let status = json!({"version": 0, "board": {}, "batches": [batch("b"), batch("a")]});
        assert_eq!(find(&status, "a").map(|batch| (batch.id, batch.replayed)), Some(("a".into(), 2)));
        assert_eq!(find(&status, "c"), None);
    }
}
