//! The cloud that an operation goes to: by the options, or by the file of the local cloud.

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

const STACK_VARIABLE: &str = "LEDGERLINE_STACK";
const DEFAULT_STACK: &str = "ledgerline";

/// The heading in the help.
const CLOUD: &str = "Which cloud (all verbs but flows and completions)";

/// The options that choose a cloud.
#[derive(Clone, Debug, Args)]
pub(crate) struct CloudArgs {
    /// Operate the local cloud that `make run` started in this project.
    #[arg(long, global = true, help_heading = CLOUD, conflicts_with_all = ["profile", "region"])]
    local: bool,
    /// Use this profile of your AWS configuration, and not the credentials in the environment.
    #[arg(long, global = true, help_heading = CLOUD, value_name = "NAME")]
    profile: Option<String>,
    /// The AWS region that the stack is deployed in.
    #[arg(long, global = true, help_heading = CLOUD, value_name = "REGION")]
    region: Option<String>,
    /// Be an approver: whoever may invoke only the function's alias `approvers` looks and answers by it.
    #[arg(long, global = true, help_heading = CLOUD)]
    approver: bool,
    /// The name of the deployed stack.
    #[arg(long, global = true, help_heading = CLOUD, value_name = "NAME", value_parser = stack,
          env = STACK_VARIABLE, default_value = DEFAULT_STACK)]
    stack: String,
}

/// A cloud that an operation can be sent to.
#[derive(Debug)]
pub(super) struct CloudTarget {
    pub(super) aws: SdkConfig,
    /// The stack's name.
    pub(super) stack: String,
    /// The replay function's name.
    pub(super) function: String,
    /// The alias by which it is invoked.
    pub(super) alias: &'static str,
    /// What the operator should check when the cloud does not answer.
    pub(super) hint: &'static str,
}

/// The alias by which the template lets everything run the functions: the version that is deployed, flows included.
const LIVE: &str = "live";

/// The alias by which approvers, who may use no other, answer questions.
const APPROVERS: &str = "approvers";

impl CloudArgs {
    fn alias(&self) -> &'static str {
        if self.approver { APPROVERS } else { LIVE }
    }

    pub(super) async fn target(&self) -> Result<CloudTarget> {
        if self.local { self.on_this_machine().await } else { Ok(self.in_aws().await) }
    }

    /// Whether it is the local cloud.
    pub(super) fn is_local(&self) -> bool {
        self.local
    }

    /// A command that operates the same cloud when it is pasted: `ledgerline --local status`.
    pub(crate) fn command(&self, verb: &str) -> String {
        self.command_where(&std::env::var(STACK_VARIABLE).unwrap_or_else(|_| DEFAULT_STACK.into()), verb)
    }

    /// The same, where a command without `--stack` means this stack.
    fn command_where(&self, default_stack: &str, verb: &str) -> String {
        let stack = Some(&self.stack).filter(|stack| *stack != default_stack);
        let options = [("--profile", self.profile.as_ref()), ("--region", self.region.as_ref()), ("--stack", stack)];
        let options = options.into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", quoted(value?))));
        let local = if self.local { " --local" } else { "" };
        let local = local.to_owned() + if self.approver { " --approver" } else { "" };
        format!("{}{local}{} {verb}", program(std::env::args().next()), options.collect::<String>())
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
        let hint = "Check the network, the region, and AWS_ENDPOINT_URL if it is set.";
        let (stack, function) = (self.stack.clone(), format!("{}-replay", self.stack));
        CloudTarget { aws, stack, function, alias: self.alias(), hint }
    }

    async fn on_this_machine(&self) -> Result<CloudTarget> {
        let here =
            std::env::current_dir().context("cannot read the working directory: change into the project's folder")?;
        let Address { endpoint, functions, credentials } = Address::find(&here)?;
        let aws = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(credentials.for_sdk())
            .endpoint_url(endpoint);
        let function = functions
            .get("replay")
            .context(
                "the local cloud has no replay function: stop it with `make stop` and start it again with `make run`",
            )?
            .clone();
        let stack = function.strip_suffix("-replay").unwrap_or(&self.stack).to_owned();
        Ok(CloudTarget {
            aws: aws.load().await,
            stack,
            function,
            alias: self.alias(),
            hint: "Start the local cloud with `make run`, if it is not running.",
        })
    }
}

/// The name that the command was started by, so that a suggestion works where it is not on `PATH`.
fn program(name: Option<String>) -> String {
    let is_ours = |name: &String| Path::new(name).file_name().is_some_and(|file| file == "ledgerline");
    name.filter(is_ours).map_or_else(|| "ledgerline".into(), |name| quoted(&name))
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./@+:".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The configuration with the profile's own credentials. The SDK would take those of the environment first, which
/// may be of another account.
fn with_credentials_of(profile: &str, aws: SdkConfig) -> SdkConfig {
    // The profile may assume a role, which is asked for in a region.
    let asked_in = ProviderConfig::without_region().with_region(aws.region().cloned());
    let credentials = ProfileFileCredentialsProvider::builder().configure(&asked_in).profile_name(profile).build();
    aws.to_builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build()
}

/// The address that the local cloud writes down while it runs.
#[derive(Deserialize)]
struct Address {
    endpoint: String,
    functions: BTreeMap<String, String>,
    credentials: LocalCredentials,
}

/// The credentials that were made for the run of the local cloud. They are valid nowhere else.
#[derive(Deserialize)]
struct LocalCredentials {
    access_key_id: String,
    secret_access_key: String,
}

impl LocalCredentials {
    fn for_sdk(self) -> Credentials {
        Credentials::new(self.access_key_id, self.secret_access_key, None, None, "local")
    }
}

impl Address {
    fn find(here: &Path) -> Result<Self> {
        let mut places = here.ancestors().map(|above| above.join(".local/run/cloud.json"));
        let file: PathBuf = places.find(|file| file.is_file()).ok_or_else(|| {
            CloudError::Unreached("no local cloud runs in this folder's project: start one with `make run` in another terminal, or change into \
                 the project that has one"
                    .into(),)
        })?;
        let text = std::fs::read(&file)
            .with_context(|| format!("cannot read the local cloud's address in {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| {
            format!(
                "the local cloud's address in {} is damaged: stop the cloud with `make stop` and start it again with \
                 `make run`",
                file.display()
            )
        })
    }
}

/// Reads a stack's name, as CloudFormation takes it. It becomes a part of a path.
fn stack(name: &str) -> Result<String, String> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if plain && !name.is_empty() { Ok(name.to_owned()) } else { Err("write letters, digits and hyphens only".into()) }
}

#[cfg(test)]
impl CloudArgs {
    /// The options of a command that names no cloud.
    pub(crate) fn unnamed() -> Self {
        let stack = std::env::var(STACK_VARIABLE).unwrap_or_else(|_| DEFAULT_STACK.into());
        Self { local: false, profile: None, region: None, approver: false, stack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggested_command_goes_to_the_same_cloud() {
        let args = |local: bool, profile: Option<&str>, stack: &str| CloudArgs {
            local,
            profile: profile.map(str::to_owned),
            region: profile.map(|_| "eu-central-1".to_owned()),
            approver: false,
            stack: stack.to_owned(),
        };
        assert_eq!(args(false, None, "ledgerline").command_where("ledgerline", "status"), "ledgerline status");
        assert_eq!(args(true, None, "shop").command_where("shop", "status"), "ledgerline --local status");
        assert_eq!(
            args(false, None, "ledgerline").command_where("shop", "status"),
            "ledgerline --stack ledgerline status"
        );
        assert_eq!(
            args(false, Some("my prod"), "shop").command_where("ledgerline", "status"),
            "ledgerline --profile 'my prod' --region eu-central-1 --stack shop status"
        );
        let approver = CloudArgs { approver: true, ..args(true, None, "shop") };
        assert_eq!(approver.command_where("shop", "show e1"), "ledgerline --local --approver show e1");
    }

    #[test]
    fn a_suggested_command_starts_the_same_program() {
        for (started_by, suggested) in [
            (Some("target/debug/ledgerline"), "target/debug/ledgerline"),
            (Some("/opt/my tools/ledgerline"), "'/opt/my tools/ledgerline'"),
            (Some("target/debug/deps/a_test-04f2"), "ledgerline"),
            (None, "ledgerline"),
        ] {
            assert_eq!(program(started_by.map(str::to_owned)), suggested);
        }
    }

    #[test]
    fn a_stack_is_named_as_cloudformation_takes_it() {
        assert_eq!(stack("ledgerline-2").as_deref(), Ok("ledgerline-2"));
        for bad in ["", "a/b", "a b", "a%2f"] {
            assert!(stack(bad).is_err(), "{bad}");
        }
    }
}
