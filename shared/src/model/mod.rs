//! The ports as models: in memory, on a clock of their own, for tests and the simulation.
//!
//! A model earns its trust in the contract suite, which runs it beside the real adapter. Handles are
//! cheap to clone, and all clones share one state.

mod budgets;
mod caps;
mod contacts;
mod documents;
mod functions;
mod latest;
mod ledger;
mod ledger_items;
mod limits;
mod metrics;
mod partners;
mod pressure;
mod queue;
mod queue_limits;
mod spans;
mod token_crypto;
mod tokens;
mod windows;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

pub use budgets::ModelBudgets;
pub use caps::ModelCaps;
pub use contacts::ModelContacts;
pub use documents::ModelDocument;
pub use functions::{FunctionScript, ModelFunctions};
pub use latest::ModelLatest;
pub use ledger::{ModelLedger, PlainAdmission, RowChange};
pub use ledger_items::LARGEST_ITEM;
pub use limits::ModelLimits;
pub use metrics::ModelMetrics;
pub use partners::{ModelPartners, Script};
pub use pressure::ModelPressure;
pub use queue::{Delivered, ModelQueue};
pub use queue_limits::{BadCharacters, QueueLimits};
pub use spans::ModelSpans;
pub use token_crypto::ModelCrypto;
pub use tokens::ModelTokens;
pub use windows::ModelWindows;

use crate::arrival::secrets::SecretStore;
use crate::arrival::signature::Secret;
use crate::base::errors::Unavailable;
use crate::base::machine::{Chance, Clock, Sleep};
use crate::base::time::Timestamp;
use crate::effects::enrichment::Places;

/// A clock that stands still until a test advances it.
#[derive(Clone, Debug)]
pub struct ModelClock(Arc<AtomicI64>);

impl ModelClock {
    /// A clock that shows this moment.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.millis())))
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.0.store((self.now() + by).millis(), Ordering::SeqCst);
    }
}

impl Clock for ModelClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl Sleep for ModelClock {
    async fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

/// Random numbers that are the same each time: a fixed sequence from a seed.
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

/// A store of secrets in memory, which can be down.
#[derive(Clone, Debug, Default)]
pub struct ModelSecrets(Arc<Mutex<Vault>>);

#[derive(Debug, Default)]
struct Vault {
    secrets: BTreeMap<String, Vec<Secret>>,
    reads: usize,
    down: bool,
}

impl ModelSecrets {
    /// Puts one more live secret at a path.
    pub fn put(&self, path: &str, secret: &str) {
        locked(&self.0).secrets.entry(path.to_owned()).or_default().push(Secret::new(secret));
    }

    /// Removes every secret at a path.
    pub fn remove(&self, path: &str) {
        locked(&self.0).secrets.remove(path);
    }

    /// Takes the store down, or brings it back.
    pub fn set_down(&self, down: bool) {
        locked(&self.0).down = down;
    }

    /// The number of reads so far.
    pub fn reads(&self) -> usize {
        locked(&self.0).reads
    }
}

#[async_trait]
impl SecretStore for ModelSecrets {
    async fn read(&self, path: &str) -> Result<Vec<Secret>, Unavailable> {
        let mut vault = locked(&self.0);
        vault.reads += 1;
        if vault.down {
            return Err(Unavailable { port: "the secret store", why: "it is down".into() });
        }
        Ok(vault.secrets.get(path).cloned().unwrap_or_default())
    }
}

/// A fixed database of places: every address of `192.0.2.0/24` is in Berlin, and no other is known.
#[derive(Clone, Copy, Debug)]
pub struct ModelPlaces;

impl Places for ModelPlaces {
    fn find(&self, ip: IpAddr) -> Option<Value> {
        let berlin = || json!({"country": "DE", "city": "Berlin", "time_zone": "Europe/Berlin"});
        ip.to_string().starts_with("192.0.2.").then(berlin)
    }
}

/// Locks a mutex. A test that panicked while it held the lock has failed already.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
