//! The policies that are in force, from a store that is asked seldom.

use futures::lock::Mutex;

use super::{Cache, InForce};
use crate::flow::Flow;
use crate::ports::OverrideStore;
use crate::time::Timestamp;

/// The policies that are in force: a store of overrides behind a [`Cache`].
pub struct Policies {
    store: Box<dyn OverrideStore>,
    cache: Mutex<Cache>,
}

impl Policies {
    /// The policies under the overrides of this store.
    pub fn new(store: Box<dyn OverrideStore>) -> Self {
        Self { store, cache: Mutex::default() }
    }

    /// The policy of a flow. It never fails: without an answer, the last good one stands.
    ///
    /// Whoever comes while somebody asks the store waits for that answer, so that a container's first
    /// failures go by the override too, and one question does for all.
    pub async fn in_force(&self, flow: &Flow, now: Timestamp) -> InForce {
        let mut cache = self.cache.lock().await;
        if let Some(believed) = cache.believed(flow, now) {
            return believed;
        }
        let answer = self.store.read(&flow.name).await;
        cache.learn(flow, answer, now)
    }
}
