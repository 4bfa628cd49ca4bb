//! Mutants of the replay lane and of what operators decide.

use async_trait::async_trait;
use shared::batch::{Batch, Batches, Progress};
use shared::event::Event;
use shared::key::EventId;
use shared::ledger::{Progress as Effect, Row};
use shared::ports::{BatchStore, Latest, Records, Rows, Tick, Ticks, Unavailable, WriteError};
use shared::switchboard::Stored;
use shared::time::Timestamp;

/// Writes the batches whatever others have written since.
pub(super) struct Heedless(pub(super) Box<dyn BatchStore>);

#[async_trait]
impl BatchStore for Heedless {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.0.read().await
    }

    async fn put(&self, batches: &Batches, _: u64) -> Result<u64, WriteError> {
        let seen = self.0.read().await?.map_or(0, |stored| stored.version);
        self.0.put(batches, seen).await
    }
}

/// Counts nothing that a batch replays.
pub(super) struct Uncounted(pub(super) Box<dyn BatchStore>);

#[async_trait]
impl BatchStore for Uncounted {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.0.read().await
    }

    async fn put(&self, batches: &Batches, seen: u64) -> Result<u64, WriteError> {
        self.0.put(&each(batches.clone(), |batch| batch.replayed = 0), seen).await
    }
}

/// Does not see that a batch is stopped.
pub(super) struct Unstoppable(pub(super) Box<dyn BatchStore>);

#[async_trait]
impl BatchStore for Unstoppable {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let on = |batch: &mut Batch| {
            if batch.progress == Progress::Stopped {
                batch.progress = Progress::Running;
            }
        };
        let stored = self.0.read().await?;
        Ok(stored.map(|stored| Stored { text: each(Batches::read(&stored.text), on).text(), ..stored }))
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

/// Takes everything to have been parked when it came.
pub(super) struct Timeless(pub(super) Box<dyn Records>);

fn timeless(row: Row) -> Row {
    let parked_at = row.parked_at.map(|_| row.received_at);
    Row { parked_at, queued_at: row.received_at, ..row }
}

#[async_trait]
impl Rows for Timeless {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        Ok(self.0.row(id).await?.map(timeless))
    }
}

#[async_trait]
impl Records for Timeless {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.0.parked(limit).await
    }

    async fn waiting(&self, _: Timestamp, _: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        Ok(self.0.parked(limit).await?.into_iter().map(timeless).collect())
    }

    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable> {
        self.0.keep(event, expires_at).await
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        self.0.kept(id).await
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        self.0.forget(event).await
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        self.0.replace(seen, next).await
    }
}

/// Knows of nothing that was applied.
pub(super) struct NothingApplied(pub(super) Box<dyn Latest>);

#[async_trait]
impl Latest for NothingApplied {
    async fn applied(&self, _: &str) -> Result<Option<Timestamp>, Unavailable> {
        Ok(None)
    }

    async fn apply(&self, key: &str, received_at: Timestamp, expires_at: i64) -> Result<(), Unavailable> {
        self.0.apply(key, received_at, expires_at).await
    }
}

/// Takes what an operator has seen for something that failed.
pub(super) fn unsaid(row: &mut Row) {
    for entry in row.effects.values_mut() {
        if matches!(&entry.progress, Effect::Done { result } if result.to_string().contains(super::SEEN)) {
            entry.progress = Effect::Failed { error: "who knows".into() };
        }
    }
}
