//! A store of secrets that is read seldom, behind a cache.

use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;

use super::{Renewal, SecretCache};
use crate::arrival::secrets::{SecretStore, Secrets};
use crate::arrival::signature::Secret;
use crate::base::errors::Unavailable;
use crate::base::machine::Clock;
use crate::base::time::Timestamp;

/// A store of secrets behind a [`SecretCache`].
#[derive(Debug)]
pub struct CachedSecrets<S, C> {
    store: S,
    clock: C,
    cache: Mutex<SecretCache>,
}

impl<S: SecretStore, C: Clock> CachedSecrets<S, C> {
    /// Cached secrets of this store, on this clock.
    pub fn new(store: S, clock: C) -> Self {
        Self { store, clock, cache: Mutex::default() }
    }

    fn cache(&self) -> MutexGuard<'_, SecretCache> {
        self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn ask(&self, path: &str, now: Timestamp) -> Result<Vec<Secret>, Unavailable> {
        let secrets = self.store.read(path).await?;
        self.cache().learn(path, &secrets, now);
        Ok(secrets)
    }
}

#[async_trait]
impl<S: SecretStore, C: Clock> Secrets for CachedSecrets<S, C> {
    async fn live(&self, path: &str) -> Result<Vec<Secret>, Unavailable> {
        let now = self.clock.now();
        let believed = self.cache().believed(path, now);
        if let Some(secrets) = believed {
            return Ok(secrets);
        }
        match self.ask(path, now).await {
            Ok(secrets) => Ok(secrets),
            Err(unavailable) => self.cache().miss(path, now).ok_or(unavailable),
        }
    }

    async fn renewed(&self, path: &str) -> Result<Option<Vec<Secret>>, Unavailable> {
        let now = self.clock.now();
        let renewal = self.cache().renewal(path, now);
        match renewal {
            Renewal::TooSoon => return Ok(None),
            Renewal::Down => {
                return Err(Unavailable {
                    port: "the secret store",
                    why: "the last try failed less than a minute ago".into(),
                });
            }
            Renewal::Ask => (),
        }
        self.ask(path, now).await.map(Some).inspect_err(|_| drop(self.cache().miss(path, now)))
    }
}
