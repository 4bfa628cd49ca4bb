//! A store of secrets that is read seldom, behind a cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use futures::lock::Mutex as AsyncMutex;

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
    /// Who reads a path of the store: the others wait for what it learns.
    readers: Mutex<HashMap<String, Arc<AsyncMutex<()>>>>,
}

impl<S: SecretStore, C: Clock> CachedSecrets<S, C> {
    /// Cached secrets of this store, on this clock.
    pub fn new(store: S, clock: C) -> Self {
        Self { store, clock, cache: Mutex::default(), readers: Mutex::default() }
    }

    /// The same, which reads the store anew a little earlier: by a part of half a minute, from 0 to 1. Containers that
    /// started together, each with a part of its own, do not come back to the store together.
    #[must_use]
    pub fn reading_early(self, part: f64) -> Self {
        self.cache().read_early(part);
        self
    }

    fn cache(&self) -> MutexGuard<'_, SecretCache> {
        self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The one reader of a path at a time. A batch that needs one secret ten times asks the store once.
    fn reader(&self, path: &str) -> Arc<AsyncMutex<()>> {
        let mut readers = self.readers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        readers.entry(path.to_owned()).or_default().clone()
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
        let believed = |now| self.cache().believed(path, now);
        if let Some(secrets) = believed(self.clock.now()) {
            return Ok(secrets);
        }
        let reader = self.reader(path);
        let _reads = reader.lock().await;
        let now = self.clock.now();
        if let Some(secrets) = believed(now) {
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
