//! The board that is in force, from a store that is asked seldom.

use std::sync::Arc;

use futures::lock::Mutex;

use super::cache::{BoardCache, BoardProblem, InForce};
use crate::base::time::Timestamp;
use crate::flows::Flows;
use crate::operate::switchboard::BoardStore;

/// The board that is in force: a store behind a [`BoardCache`].
pub struct Switchboard {
    store: Box<dyn BoardStore>,
    cache: Mutex<BoardCache>,
}

impl Switchboard {
    /// The board of this store.
    pub fn new(store: Box<dyn BoardStore>) -> Self {
        Self { store, cache: Mutex::default() }
    }

    /// The board for these flows, and what is wrong with the newest one, said once. It never fails:
    /// without an answer, the last good one stands.
    ///
    /// Whoever comes while somebody asks the store waits for that answer, so that a container's first
    /// events go by the board too, and one question does for all.
    pub async fn at(&self, flows: &Flows, now: Timestamp) -> (Arc<InForce>, Vec<BoardProblem>) {
        let mut cache = self.cache.lock().await;
        if let Some(believed) = cache.believed(now) {
            return (believed, Vec::new());
        }
        let answer = self.store.read().await;
        cache.learn(flows, answer, now)
    }
}
