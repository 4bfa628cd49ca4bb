//! The ports as models: in memory, on a clock of their own, for tests.
//!
//! A model earns its trust in the contract suite, which runs it beside the real adapter. Handles are
//! cheap to clone, and all clones share one state.

mod ledger;
mod partners;
mod queue;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;

pub use ledger::ModelLedger;
pub use partners::{ModelPartners, Script};
pub use queue::{Delivered, ModelQueue};

use crate::ports::{Chance, Clock, Secrets, Unavailable};
use crate::signature::Secret;
use crate::time::Timestamp;

/// A clock that stands still until it is told to go on.
#[derive(Clone, Debug)]
pub struct ModelClock(Arc<AtomicI64>);

impl ModelClock {
    /// A clock that shows this moment.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.millis())))
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.0.store((self.now() + by).millis(), Ordering::SeqCst);
    }
}

impl Clock for ModelClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Chance that is the same each time: a fixed sequence from a seed.
#[derive(Clone, Debug)]
pub struct ModelChance(Arc<AtomicU64>);

impl ModelChance {
    /// The sequence of this seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }
}

impl Chance for ModelChance {
    /// SplitMix64.
    fn bits(&self) -> u64 {
        let seed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Secrets in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelSecrets(Arc<Mutex<BTreeMap<String, Vec<Secret>>>>);

impl ModelSecrets {
    /// Puts one live secret at a path.
    pub fn put(&self, path: &str, secret: &str) {
        locked(&self.0).entry(path.to_owned()).or_default().push(Secret::new(secret));
    }
}

#[async_trait]
impl Secrets for ModelSecrets {
    async fn live(&self, path: &str) -> Result<Vec<Secret>, Unavailable> {
        Ok(locked(&self.0).get(path).cloned().unwrap_or_default())
    }
}

/// A test that panicked while it held a lock has said enough.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
