//! The secrets in SSM Parameter Store.

use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_sdk_ssm::Client;
use aws_sdk_ssm::config::Builder;

use crate::arrival::secrets::SecretStore;
use crate::arrival::signature::Secret;
use crate::base::errors::Unavailable;

use super::unavailable;

const PORT: &str = "the secret store";

/// The SecureStrings below a prefix.
#[derive(Clone, Debug)]
pub struct SsmSecrets {
    client: Client,
    prefix: String,
}

impl SsmSecrets {
    /// The secrets below this prefix.
    pub fn new(aws: &SdkConfig, prefix: impl Into<String>) -> Self {
        Self { client: client(aws), prefix: prefix.into() }
    }
}

/// The client for secrets. SSM answers 40 requests a second, and a burst of new containers asks at one moment. So one that
/// is throttled asks again after a wait, drawn at random up to 0.2 s, then up to twice as long each time. The time limit of
/// an operation bounds all of it: a sender waits.
fn client(aws: &SdkConfig) -> Client {
    let retries = RetryConfig::standard().with_max_attempts(6).with_initial_backoff(Duration::from_millis(200));
    Client::from_conf(Builder::from(aws).retry_config(retries).build())
}

#[async_trait]
impl SecretStore for SsmSecrets {
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

#[cfg(test)]
mod tests {
    use aws_config::BehaviorVersion;

    use super::*;

    /// Eighty containers at 40 requests a second need two seconds.
    #[test]
    fn a_burst_of_containers_is_spread_over_seconds() {
        let aws = SdkConfig::builder().behavior_version(BehaviorVersion::v2026_01_12()).build();
        let client = client(&aws);
        let retries = client.config().retry_config().expect("retries");
        let waits = (0..retries.max_attempts() - 1).map(|wait| retries.initial_backoff() * 2u32.pow(wait));
        assert!(waits.sum::<Duration>() >= Duration::from_secs(4), "twice as long, as each wait is half of its bound");
        assert!(!retries.use_static_exponential_base(), "each wait is drawn at random");
    }
}
