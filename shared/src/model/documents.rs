//! Small documents in memory: the switchboard and the batches.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::base::document::{Document, DocumentStore, Stored};
use crate::base::errors::{Unavailable, WriteError};

/// A document in memory.
#[derive(Debug)]
pub struct ModelDocument<D>(Arc<Mutex<Table>>, PhantomData<fn() -> D>);

#[derive(Debug, Default)]
struct Table {
    stored: Option<Stored>,
    reads: usize,
    down: bool,
}

impl<D> ModelDocument<D> {
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

impl<D> Default for ModelDocument<D> {
    fn default() -> Self {
        Self(Arc::default(), PhantomData)
    }
}

impl<D> Clone for ModelDocument<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), PhantomData)
    }
}

#[async_trait]
impl<D: Document> DocumentStore<D> for ModelDocument<D> {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let mut table = locked(&self.0);
        table.reads += 1;
        table.answers(D::NAME)?;
        Ok(table.stored.clone())
    }

    async fn put(&self, document: &D, seen: u64) -> Result<u64, WriteError> {
        let mut table = locked(&self.0);
        table.answers(D::NAME)?;
        let next = Stored { version: seen + 1, text: document.text() };
        let found = table.stored.as_ref();
        if found.map_or(0, |found| found.version) != seen && found != Some(&next) {
            return Err(WriteError::Fenced);
        }
        table.stored = Some(next);
        Ok(seen + 1)
    }
}

impl Table {
    fn answers(&self, port: &'static str) -> Result<(), Unavailable> {
        if self.down { Err(Unavailable { port, why: "down".into() }) } else { Ok(()) }
    }
}
