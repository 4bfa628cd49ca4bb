//! The switchboard and the batches in memory.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::base::document::Stored;
use crate::base::errors::{Unavailable, WriteError};
use crate::ledger::batch::{BatchStore, Batches};
use crate::operate::switchboard::{Board, BoardStore, Boards};

/// The switchboard in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelBoard(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    stored: Option<Stored>,
    reads: usize,
    down: bool,
}

impl ModelBoard {
    /// The number of reads so far.
    pub fn reads(&self) -> usize {
        locked(&self.0).reads
    }

    /// Takes the table down, or brings it back.
    pub fn down(&self, down: bool) {
        locked(&self.0).down = down;
    }

    /// Writes any text, as an operator with the AWS console could.
    pub fn scribble(&self, version: u64, text: &str) {
        locked(&self.0).stored = Some(Stored { version, text: text.to_owned() });
    }
}

#[async_trait]
impl BoardStore for ModelBoard {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let mut table = locked(&self.0);
        table.reads += 1;
        table.answers()?;
        Ok(table.stored.clone())
    }
}

#[async_trait]
impl Boards for ModelBoard {
    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        self.write(board.text(), seen)
    }
}

/// The batches in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelBatches(ModelBoard);

#[async_trait]
impl BatchStore for ModelBatches {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        BoardStore::read(&self.0).await
    }

    async fn put(&self, batches: &Batches, seen: u64) -> Result<u64, WriteError> {
        self.0.write(batches.text(), seen)
    }
}

impl ModelBoard {
    fn write(&self, text: String, seen: u64) -> Result<u64, WriteError> {
        let mut table = locked(&self.0);
        table.answers()?;
        let next = Stored { version: seen + 1, text };
        let found = table.stored.as_ref();
        if found.map_or(0, |found| found.version) != seen && found != Some(&next) {
            return Err(WriteError::Fenced);
        }
        table.stored = Some(next);
        Ok(seen + 1)
    }
}

impl Table {
    fn answers(&self) -> Result<(), Unavailable> {
        if self.down { Err(Unavailable { port: "the switchboard", why: "down".into() }) } else { Ok(()) }
    }
}
