//! The buckets in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::base::errors::Unavailable;
use crate::limits::rates::{Draw, Drawn, Limits, Tat};

/// The buckets in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelLimits(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    buckets: BTreeMap<String, Tat>,
    writes: usize,
    down: bool,
}

impl ModelLimits {
    /// The number of writes that were tried, failed ones included: each is charged.
    pub fn writes(&self) -> usize {
        locked(&self.0).writes
    }

    /// Takes the table down, or brings it back.
    pub fn down(&self, down: bool) {
        locked(&self.0).down = down;
    }
}

#[async_trait]
impl Limits for ModelLimits {
    async fn draw(&self, bucket: &str, draw: &Draw) -> Result<Drawn, Unavailable> {
        let mut table = locked(&self.0);
        table.writes += 1;
        if table.down {
            return Err(Unavailable { port: "the limits", why: "down".into() });
        }
        let found = table.buckets.get(bucket).copied();
        let Some(tat) = draw.applied_to(found) else { return Ok(Drawn::Moved(found)) };
        table.buckets.insert(bucket.to_owned(), tat);
        Ok(Drawn::Taken(tat))
    }
}
