//! The switchboard in force: a store that is read seldom, behind a cache.

use std::sync::Arc;

use futures::lock::Mutex;

use super::Board;
use super::cache::{BoardCache, BoardProblem, InForce};
use crate::base::document::DocumentStore;
use crate::base::time::Timestamp;
use crate::flows::Flows;

/// The switchboard in force: a store behind a [`BoardCache`].
pub struct Switchboard {
    store: Box<dyn DocumentStore<Board>>,
    cache: Mutex<BoardCache>,
}

impl Switchboard {
    /// A switchboard over this store.
    pub fn new(store: Box<dyn DocumentStore<Board>>) -> Self {
        Self { store, cache: Mutex::default() }
    }

    /// The board for these flows, and the problems of the newest one, each reported once. It never fails:
    /// without an answer, the last good board stays in force.
    ///
    /// A worker that comes while another one reads the store waits for that answer, so that a container's first
    /// events use the board too, and one read serves all.
    pub async fn at(&self, flows: &Flows, now: Timestamp) -> (Arc<InForce>, Vec<BoardProblem>) {
        let mut cache = self.cache.lock().await;
        if let Some(believed) = cache.believed(now) {
            return (believed, Vec::new());
        }
        let answer = self.store.read().await;
        cache.learn(flows, answer, now)
    }

    /// The same, read anew unless another worker has done so since. An event that was woken because its pause has ended
    /// asks so, before it believes a board from before that.
    pub async fn read_anew(&self, flows: &Flows, now: Timestamp) -> (Arc<InForce>, Vec<BoardProblem>) {
        let mut cache = self.cache.lock().await;
        if let Some(believed) = cache.believed(now).filter(|_| cache.is_as_new_as(now)) {
            return (believed, Vec::new());
        }
        let answer = self.store.read().await;
        cache.learn(flows, answer, now)
    }
}
