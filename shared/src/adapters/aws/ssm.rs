//! The secrets in SSM Parameter Store.

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_ssm::Client;

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
        Self { client: Client::new(aws), prefix: prefix.into() }
    }
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
