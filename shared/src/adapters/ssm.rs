//! Secrets in SSM Parameter Store.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_ssm::Client;

use crate::ports::{Secrets, Unavailable};
use crate::signature::Secret;

use super::unavailable;

const PORT: &str = "the secret store";

/// How long a secret is believed before it is read again.
const CACHED_FOR: Duration = Duration::from_secs(300);

/// SecureStrings below a prefix, cached for minutes.
#[derive(Debug)]
pub struct SsmSecrets {
    client: Client,
    prefix: String,
    cache: Mutex<HashMap<String, (Instant, Vec<Secret>)>>,
}

impl SsmSecrets {
    /// The secrets below this prefix.
    pub fn new(aws: &SdkConfig, prefix: impl Into<String>) -> Self {
        Self { client: Client::new(aws), prefix: prefix.into(), cache: Mutex::default() }
    }

    fn cached(&self, path: &str) -> Option<Vec<Secret>> {
        let cache = self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        cache.get(path).filter(|(read, _)| read.elapsed() < CACHED_FOR).map(|(_, secrets)| secrets.clone())
    }

    async fn read(&self, path: &str) -> Result<Vec<Secret>, Unavailable> {
        let get = self.client.get_parameters_by_path().path(format!("{}/{path}", self.prefix)).with_decryption(true);
        let mut pages = get.into_paginator().send();
        let mut secrets = Vec::new();
        while let Some(page) = pages.next().await {
            let parameters = page.map_err(unavailable(PORT))?.parameters.unwrap_or_default();
            secrets.extend(parameters.into_iter().filter_map(|parameter| parameter.value).map(Secret::new));
        }
        Ok(secrets)
    }
}

#[async_trait]
impl Secrets for SsmSecrets {
    async fn live(&self, path: &str) -> Result<Vec<Secret>, Unavailable> {
        if let Some(secrets) = self.cached(path) {
            return Ok(secrets);
        }
        let secrets = self.read(path).await?;
        // Nothing found is not remembered: whoever puts the first secret there should not wait.
        if !secrets.is_empty() {
            let mut cache = self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            cache.insert(path.to_owned(), (Instant::now(), secrets.clone()));
        }
        Ok(secrets)
    }
}
