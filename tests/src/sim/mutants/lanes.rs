//! Mutants of the replay lane and of what operators decide.

use async_trait::async_trait;
use shared::base::document::{Document as _, DocumentStore, Stored};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::time::Timestamp;
use shared::ledger::batch::{Batch, BatchProgress, Batches};
use shared::ledger::queue::{Tick, Ticks};
use shared::ledger::{Progress as Effect, Row};
use shared::operate::stale_guard::Latest;
use sim::STATED_RESULT;

/// Writes the batches whatever others have written since.
pub(super) struct Heedless(pub(super) Box<dyn DocumentStore<Batches>>);

#[async_trait]
impl DocumentStore<Batches> for Heedless {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.0.read().await
    }

    async fn put(&self, batches: &Batches, _: u64) -> Result<u64, WriteError> {
        let seen = self.0.read().await?.map_or(0, |stored| stored.version);
        self.0.put(batches, seen).await
    }
}

/// Counts nothing that a batch replays.
pub(super) struct UncountedReplays(pub(super) Box<dyn DocumentStore<Batches>>);

#[async_trait]
impl DocumentStore<Batches> for UncountedReplays {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.0.read().await
    }

    async fn put(&self, batches: &Batches, seen: u64) -> Result<u64, WriteError> {
        self.0.put(&each(batches.clone(), |batch| batch.replayed = 0), seen).await
    }
}

/// Does not see that a batch is stopped.
pub(super) struct Unstoppable(pub(super) Box<dyn DocumentStore<Batches>>);

#[async_trait]
impl DocumentStore<Batches> for Unstoppable {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let on = |batch: &mut Batch| {
            if batch.progress == BatchProgress::Stopped {
                batch.progress = BatchProgress::Running;
            }
        };
        let stored = self.0.read().await?;
        Ok(stored
            .map(|stored| Stored { text: each(Batches::read(&stored.text).expect("batches"), on).text(), ..stored }))
    }

    async fn put(&self, batches: &Batches, seen: u64) -> Result<u64, WriteError> {
        self.0.put(batches, seen).await
    }
}

fn each(batches: Batches, change: impl Fn(&mut Batch)) -> Batches {
    let ids: Vec<String> = batches.all().iter().map(|batch| batch.id.clone()).collect();
    ids.iter().fold(batches, |batches, id| {
        let changed = batches.changed(id, |batch| {
            change(batch);
            Ok(())
        });
        changed.expect("it is there")
    })
}

/// Leaves every batch to itself.
pub(super) struct NoTicks;

#[async_trait]
impl Ticks for NoTicks {
    async fn send(&self, _: &Tick) -> Result<(), Unavailable> {
        Ok(())
    }
}

/// Knows of nothing that was applied.
pub(super) struct NothingApplied(pub(super) Box<dyn Latest>);

#[async_trait]
impl Latest for NothingApplied {
    async fn applied(&self, _: &str) -> Result<Option<Timestamp>, Unavailable> {
        Ok(None)
    }

    async fn apply(&self, key: &str, at: Timestamp, expires_at: i64) -> Result<Option<Timestamp>, Unavailable> {
        self.0.apply(key, at, expires_at).await
    }
}

/// Knows of nothing that a request which may be repeated has set.
pub(super) struct NothingSet(pub(super) Box<dyn Latest>);

#[async_trait]
impl Latest for NothingSet {
    async fn applied(&self, key: &str) -> Result<Option<Timestamp>, Unavailable> {
        if key.starts_with("latest/repeatable/") { Ok(None) } else { self.0.applied(key).await }
    }

    async fn apply(&self, key: &str, at: Timestamp, expires_at: i64) -> Result<Option<Timestamp>, Unavailable> {
        let newer = self.0.apply(key, at, expires_at).await?;
        Ok(newer.filter(|_| !key.starts_with("latest/repeatable/")))
    }
}

/// Takes what an operator has seen for something that failed.
pub(super) fn unsaid(row: &mut Row) {
    for entry in row.effects.values_mut() {
        if matches!(&entry.progress, Effect::Done { result } if result.to_string().contains(STATED_RESULT)) {
            entry.progress = Effect::Failed { error: "who knows".into() };
        }
    }
}
