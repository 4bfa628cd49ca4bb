//! The latest events in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::operate::stale_guard::Latest;

/// The latest events in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelLatest(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    latest: BTreeMap<String, Timestamp>,
    asked: usize,
}

impl ModelLatest {
    /// The number of reads and writes.
    pub fn asked(&self) -> usize {
        locked(&self.0).asked
    }
}

#[async_trait]
impl Latest for ModelLatest {
    async fn applied(&self, key: &str) -> Result<Option<Timestamp>, Unavailable> {
        let mut table = locked(&self.0);
        table.asked += 1;
        Ok(table.latest.get(key).copied())
    }

    async fn apply(&self, key: &str, received_at: Timestamp, _: i64) -> Result<Option<Timestamp>, Unavailable> {
        let mut table = locked(&self.0);
        table.asked += 1;
        let at = table.latest.entry(key.to_owned()).or_insert(received_at);
        *at = received_at.max(*at);
        Ok(Some(*at).filter(|at| *at > received_at))
    }
}
