//! Which cloud is meant: the options, and the files of the local one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sts::config::{Credentials, SharedCredentialsProvider};
use clap::Args;
use serde::Deserialize;

use super::CloudError;

const CLOUD: &str = "Which cloud (for all but flows)";

/// Which cloud. For the verbs that operate one.
#[derive(Clone, Debug, Args)]
pub(crate) struct CloudArgs {
    /// The local cloud that `make run` has up, in this folder's project.
    #[arg(long, global = true, help_heading = CLOUD, conflicts_with_all = ["profile", "region"])]
    local: bool,
    /// The profile of your AWS configuration, whatever the environment says.
    #[arg(long, global = true, help_heading = CLOUD, value_name = "NAME")]
    profile: Option<String>,
    /// The AWS region.
    #[arg(long, global = true, help_heading = CLOUD, value_name = "REGION")]
    region: Option<String>,
    /// The stack that was deployed.
    #[arg(long, global = true, help_heading = CLOUD, value_name = "NAME", value_parser = stack,
          env = "LEDGERLINE_STACK", default_value = "ledgerline")]
    stack: String,
}

/// A cloud that was found, and may be reachable.
#[derive(Debug)]
pub(super) struct CloudTarget {
    pub(super) aws: SdkConfig,
    /// The replay function's name.
    pub(super) function: String,
    /// What to look at when it does not answer.
    pub(super) hint: &'static str,
}

impl CloudArgs {
    pub(super) async fn place(&self) -> Result<CloudTarget> {
        if self.local { self.on_this_machine().await } else { Ok(self.in_aws().await) }
    }

    async fn in_aws(&self) -> CloudTarget {
        let mut aws = aws_config::defaults(BehaviorVersion::latest());
        if let Some(region) = &self.region {
            aws = aws.region(Region::new(region.clone()));
        }
        let aws = match &self.profile {
            None => aws.load().await,
            Some(profile) => with_credentials_of(profile, aws.profile_name(profile).load().await),
        };
        let hint = "are the region, the network and AWS_ENDPOINT_URL, if it is set, what you think?";
        CloudTarget { aws, function: format!("{}-replay", self.stack), hint }
    }

    async fn on_this_machine(&self) -> Result<CloudTarget> {
        let here = std::env::current_dir().context("cannot tell where we are")?;
        let Address { endpoint, functions } = Address::find(&here)?;
        // The emulator takes any credentials, and these open nothing elsewhere.
        let aws = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "local"))
            .endpoint_url(endpoint);
        let function = functions.get("replay").context("the local cloud has no replay function")?.clone();
        Ok(CloudTarget { aws: aws.load().await, function, hint: "is `make run` still up?" })
    }
}

/// The SDK would take the environment's credentials before the profile's: of another account, perhaps.
fn with_credentials_of(profile: &str, aws: SdkConfig) -> SdkConfig {
    // The profile may assume a role, which is asked for in a region.
    let asked_in = ProviderConfig::without_region().with_region(aws.region().cloned());
    let credentials = ProfileFileCredentialsProvider::builder().configure(&asked_in).profile_name(profile).build();
    aws.to_builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build()
}

/// What the local cloud tells of itself while it runs.
#[derive(Debug, Deserialize)]
struct Address {
    endpoint: String,
    functions: BTreeMap<String, String>,
}

impl Address {
    fn find(here: &Path) -> Result<Self> {
        let mut places = here.ancestors().map(|above| above.join(".local/run/cloud.json"));
        let file: PathBuf = places.find(|file| file.is_file()).ok_or_else(|| {
            CloudError::Unreached("no local cloud is up here or above: start one with `make run`".into())
        })?;
        let text = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is damaged: start `make run` anew", file.display()))
    }
}

/// A stack's name, as CloudFormation takes it. It becomes a part of a path.
fn stack(name: &str) -> Result<String, String> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if plain && !name.is_empty() { Ok(name.to_owned()) } else { Err("letters, digits and hyphens".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_named_as_cloudformation_takes_it() {
        assert_eq!(stack("ledgerline-2").as_deref(), Ok("ledgerline-2"));
        for bad in ["", "a/b", "a b", "a%2f"] {
            assert!(stack(bad).is_err(), "{bad}");
        }
    }
}
