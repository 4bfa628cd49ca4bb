//! Shared tokens in memory.
//!
//! What it cannot do that the world can: forget an item at the end of its time, or answer late.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::effects::token::{TokenState, TokenStore, TokenSwap};

/// Shared tokens in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelTokens(Arc<Mutex<Items>>);

#[derive(Debug, Default)]
struct Items {
    states: BTreeMap<String, TokenState>,
    asked: usize,
    down: bool,
}

impl ModelTokens {
    /// The items, by their keys.
    pub fn items(&self) -> BTreeMap<String, TokenState> {
        locked(&self.0).states.clone()
    }

    /// The number of reads and writes that were tried.
    pub fn asked(&self) -> usize {
        locked(&self.0).asked
    }

    /// Takes the store down, or brings it back.
    pub fn down(&self, down: bool) {
        locked(&self.0).down = down;
    }

    fn answer<T>(&self, act: impl FnOnce(&mut BTreeMap<String, TokenState>) -> T) -> Result<T, Unavailable> {
        let mut items = locked(&self.0);
        items.asked += 1;
        if items.down {
            return Err(Unavailable { port: "the shared tokens", why: "down".into() });
        }
        Ok(act(&mut items.states))
    }
}

#[async_trait]
impl TokenStore for ModelTokens {
    async fn read(&self, key: &str) -> Result<Option<TokenState>, Unavailable> {
        self.answer(|states| states.get(key).cloned())
    }

    async fn swap(&self, key: &str, seen: u64, next: &TokenState, _: Timestamp) -> Result<TokenSwap, Unavailable> {
        self.answer(|states| match states.get(key).map_or(0, |state| state.version) {
            version if version == next.version => TokenSwap::Written,
            version if version == seen => {
                states.insert(key.to_owned(), next.clone());
                TokenSwap::Written
            }
            _ => TokenSwap::Moved(states.get(key).cloned()),
        })
    }
}
