//! `ledgerline secrets`: the secrets of senders and partners in SSM Parameter Store.
//!
//! Deliberately absent: a value as an argument, which a shell would keep and `ps` would show, and any way to print one that
//! is stored. What `--generate` makes is printed once, for whoever hands it to the sender.

mod input;
mod list;
mod rotate;
mod set;
mod store;

use std::fmt::{self, Display, Formatter};

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::CommandExit;
use crate::cloud::CloudArgs;

/// The verbs below `ledgerline secrets`.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretsVerb {
    /// List the names of the stack's secrets, and when each was written. Prints no value.
    #[command(after_help = list::EXAMPLES)]
    List,
    /// Put the first secret of a source or an integration. It is asked for and not shown, or read from standard input.
    #[command(after_help = set::EXAMPLES)]
    Set(set::SetSecretArgs),
    /// Put a new secret beside the one in use, or delete the older ones once nobody uses them.
    #[command(after_help = rotate::EXAMPLES)]
    Rotate(rotate::RotateSecretArgs),
}

impl SecretsVerb {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        match self {
            SecretsVerb::List => list::run(at, json),
            SecretsVerb::Set(set) => set.run(at, json),
            SecretsVerb::Rotate(rotate) => rotate.run(at, json),
        }
    }
}

/// Whose secret it is, and where a new one comes from.
#[derive(Debug, Args)]
struct NewSecretArgs {
    /// Whose secret: `sources/<source>`, `receipts/<source>`, `integrations/<integration>` or
    /// `integrations/<integration>/vars/<var>`.
    #[arg(value_name = "WHOSE", value_parser = SecretOwner::parse)]
    owner: SecretOwner,
    /// Make a random secret and print it, once: `whsec_…` for a source, `<source>.…` for receipts.
    #[arg(long)]
    generate: bool,
    /// The KMS key of your own that encrypts it: that of the parameter SecretsKeyArn. Without it, the account's key.
    #[arg(long, value_name = "ARN")]
    key: Option<String>,
}

/// Whose secret it is: the path below the stack's own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SecretOwner {
    Source(String),
    Receipts(String),
    Integration(String),
    Variable(String, String),
}

impl SecretOwner {
    fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.trim_matches('/').split('/').collect();
        let plain =
            |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !parts.iter().all(plain) {
            return Err("names have letters, digits, hyphens and underscores only".into());
        }
        match parts[..] {
            ["sources", source] => Ok(SecretOwner::Source(source.into())),
            ["receipts", source] => Ok(SecretOwner::Receipts(source.into())),
            ["integrations", name] => Ok(SecretOwner::Integration(name.into())),
            ["integrations", name, "vars", var] => Ok(SecretOwner::Variable(name.into(), var.into())),
            _ => Err("write sources/<source>, receipts/<source>, integrations/<integration> or \
                      integrations/<integration>/vars/<var>"
                .into()),
        }
    }

    /// What becomes of a new secret that stands beside older ones, and what to do.
    fn after_rotation(&self, retire: &str) -> String {
        match self {
            SecretOwner::Source(source) => {
                format!("Both verify from now on. Hand the new one to {source}; once it signs by it: `{retire}`")
            }
            SecretOwner::Receipts(source) => {
                format!("Both open receipts from now on. Hand the new one to {source}; once it uses it: `{retire}`")
            }
            SecretOwner::Integration(_) | SecretOwner::Variable(..) => format!(
                "Calls are made with the new one within five minutes. After that, and once the partner took one: `{retire}`"
            ),
        }
    }
}

impl Display for SecretOwner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SecretOwner::Source(source) => write!(f, "sources/{source}"),
            SecretOwner::Receipts(source) => write!(f, "receipts/{source}"),
            SecretOwner::Integration(name) => write!(f, "integrations/{name}"),
            SecretOwner::Variable(name, var) => write!(f, "integrations/{name}/vars/{var}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_path_that_a_function_reads() {
        for good in ["sources/web-forms", "receipts/web-forms", "integrations/crm", "integrations/crm/vars/hook_1"] {
            assert_eq!(SecretOwner::parse(good).map(|owner| owner.to_string()).as_deref(), Ok(good));
        }
        for bad in ["", "web-forms", "sources/", "sources/a/b", "integrations/a/b/c", "sources/../x", "sources/a b"] {
            assert!(SecretOwner::parse(bad).is_err(), "{bad}");
        }
    }
}
