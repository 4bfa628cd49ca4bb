//! The anchors in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::arrival::window::{Anchors, Sighting, Windows};
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

/// The anchors in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelWindows(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    keys: BTreeMap<String, Anchors>,
    writes: usize,
}

impl ModelWindows {
    /// The number of writes that were tried, failed ones included: each is charged.
    pub fn writes(&self) -> usize {
        locked(&self.0).writes
    }

    /// Forgets the keys of which every moment lies before this one.
    pub fn forget_before(&self, moment: Timestamp) {
        locked(&self.0).keys.retain(|_, anchors| anchors.moments.iter().any(|at| *at >= moment));
    }

    /// The anchors of a key.
    pub fn get(&self, key: &str) -> Anchors {
        locked(&self.0).keys.get(key).cloned().unwrap_or_default()
    }

    /// Writes the anchors of a key under no condition, as no adapter does.
    pub fn overwrite(&self, key: &str, anchors: Anchors) {
        locked(&self.0).keys.insert(key.to_owned(), anchors);
    }
}

#[async_trait]
impl Windows for ModelWindows {
    async fn append(&self, sighting: &Sighting) -> Result<Result<(), Anchors>, Unavailable> {
        let mut table = locked(&self.0);
        table.writes += 1;
        let anchors = table.keys.entry(sighting.key.clone()).or_default();
        if !anchors.end_before(sighting) {
            return Ok(Err(anchors.clone()));
        }
        anchors.moments.push(sighting.moment);
        anchors.version += 1;
        Ok(Ok(()))
    }

    async fn replace(&self, sighting: &Sighting, next: &Anchors) -> Result<Result<(), Anchors>, Unavailable> {
        let mut table = locked(&self.0);
        table.writes += 1;
        let anchors = table.keys.entry(sighting.key.clone()).or_default();
        if anchors.version + 1 != next.version {
            return Ok(Err(anchors.clone()));
        }
        *anchors = next.clone();
        Ok(Ok(()))
    }
}
