//! The counters of frequency caps in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::{ModelLedger, locked};
use crate::base::errors::{Unavailable, WriteError};
use crate::effects::cap::{Caps, Count, CountError, Counter};
use crate::ledger::{Claims as _, Lease};

/// The counters of frequency caps in memory, beside a ledger.
#[derive(Clone, Debug)]
pub struct ModelCaps {
    ledger: ModelLedger,
    counters: Arc<Mutex<BTreeMap<String, Counter>>>,
    reads: Arc<AtomicUsize>,
}

impl ModelCaps {
    /// The counters beside this ledger, with nothing counted.
    pub fn beside(ledger: ModelLedger) -> Self {
        Self { ledger, counters: Arc::default(), reads: Arc::default() }
    }

    /// The same counters, beside the ledger of another version of the code: one that writes this format.
    #[must_use]
    pub fn in_format(&self, format: u32) -> Self {
        Self { ledger: self.ledger.in_format(format), ..self.clone() }
    }

    /// The number of reads. Its writes are the ledger's.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    /// The counters, by name.
    pub fn counters(&self) -> BTreeMap<String, Counter> {
        locked(&self.counters).clone()
    }
}

#[async_trait]
impl Caps for ModelCaps {
    async fn read(&self, key: &str) -> Result<Counter, Unavailable> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(locked(&self.counters).get(key).cloned().unwrap_or_default())
    }

    async fn record(&self, lease: &Lease, counts: &[Count]) -> Result<(), CountError> {
        // A transaction takes no item twice.
        let twice = |(n, count): (usize, &Count)| counts[..n].iter().any(|earlier| earlier.key == count.key);
        if counts.iter().enumerate().any(twice) {
            let why = "the transaction has an item twice".into();
            return Err(WriteError::Unavailable(Unavailable { port: "the caps", why }).into());
        }
        let seen = |count: &Count| locked(&self.counters).get(&count.key).map_or(0, |counter| counter.version);
        let moved = counts.iter().any(|count| seen(count) + 1 != count.counter.version);
        // A fenced row says more than a moved counter.
        if moved && self.ledger.holds(lease) {
            return Err(CountError::Moved);
        }
        self.ledger.record(lease).await.map_err(CountError::Write)?;
        let written = counts.iter().map(|count| (count.key.clone(), count.counter.clone()));
        locked(&self.counters).extend(written);
        Ok(())
    }
}
