//! Small documents in memory: the switchboard and the batches.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::base::document::{Document, DocumentStore, Stored};
use crate::base::errors::{Unavailable, WriteError};
use crate::base::format::FORMAT;

/// A document in memory.
#[derive(Debug)]
pub struct ModelDocument<D> {
    table: Arc<Mutex<Table>>,
    /// The format that the version of the code writes which sees the document so.
    format: u32,
    kind: PhantomData<fn() -> D>,
}

#[derive(Debug, Default)]
struct Table {
    stored: Option<Stored>,
    reads: usize,
    down: bool,
}

impl<D> ModelDocument<D> {
    /// The number of reads so far.
    pub fn reads(&self) -> usize {
        locked(&self.table).reads
    }

    /// Takes the table down, or brings it back.
    pub fn down(&self, down: bool) {
        locked(&self.table).down = down;
    }

    /// Writes any text, as an operator with the AWS console could.
    pub fn scribble(&self, version: u64, text: &str) {
        locked(&self.table).stored = Some(Stored { version, format: self.format, text: text.to_owned() });
    }

    /// The same document, as another version of the code sees it: one that writes this format.
    #[must_use]
    pub fn in_format(&self, format: u32) -> Self {
        Self { format, ..self.clone() }
    }
}

impl<D> Default for ModelDocument<D> {
    fn default() -> Self {
        Self { table: Arc::default(), format: FORMAT, kind: PhantomData }
    }
}

impl<D> Clone for ModelDocument<D> {
    fn clone(&self) -> Self {
        Self { table: Arc::clone(&self.table), format: self.format, kind: PhantomData }
    }
}

#[async_trait]
impl<D: Document> DocumentStore<D> for ModelDocument<D> {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let mut table = locked(&self.table);
        table.reads += 1;
        table.answers(D::NAME)?;
        Ok(table.stored.clone())
    }

    async fn put(&self, document: &D, seen: u64) -> Result<u64, WriteError> {
        let mut table = locked(&self.table);
        table.answers(D::NAME)?;
        let next = Stored { version: seen + 1, format: self.format, text: document.text() };
        let found = table.stored.as_ref();
        if found.is_some_and(|found| found.format > self.format) {
            return Err(WriteError::NewerFormat);
        }
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
