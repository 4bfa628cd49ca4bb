//! The overrides in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::overrides::{Accepted, Stored};
use crate::ports::{OverrideStore, Overrides, Unavailable, WriteError};

/// The overrides in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelOverrides(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    overrides: BTreeMap<String, Stored>,
    reads: usize,
    down: bool,
}

impl ModelOverrides {
    /// How often the store was asked so far.
    pub fn reads(&self) -> usize {
        locked(&self.0).reads
    }

    /// Takes the table down, or brings it back.
    pub fn down(&self, down: bool) {
        locked(&self.0).down = down;
    }

    /// Writes whatever it is, as somebody with the AWS console could.
    pub fn scribble(&self, flow: &str, version: u64, text: &str) {
        locked(&self.0).overrides.insert(flow.to_owned(), Stored { version, text: text.to_owned() });
    }
}

#[async_trait]
impl OverrideStore for ModelOverrides {
    async fn read(&self, flow: &str) -> Result<Option<Stored>, Unavailable> {
        let mut table = locked(&self.0);
        table.reads += 1;
        table.answers()?;
        Ok(table.overrides.get(flow).cloned())
    }
}

#[async_trait]
impl Overrides for ModelOverrides {
    async fn put(&self, accepted: &Accepted, seen: u64) -> Result<u64, WriteError> {
        let mut table = locked(&self.0);
        table.answers()?;
        let next = Stored { version: seen + 1, text: accepted.text().to_owned() };
        let found = table.overrides.get(accepted.flow());
        if found.map_or(0, |found| found.version) != seen && found != Some(&next) {
            return Err(WriteError::Fenced);
        }
        table.overrides.insert(accepted.flow().to_owned(), next);
        Ok(seen + 1)
    }
}

impl Table {
    fn answers(&self) -> Result<(), Unavailable> {
        if self.down { Err(Unavailable { port: "the overrides", why: "down".into() }) } else { Ok(()) }
    }
}
