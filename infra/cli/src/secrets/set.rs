//! `ledgerline secrets set`

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use super::{NewSecretArgs, input, store};
use crate::cloud::{self, CloudArgs};
use crate::{CommandExit, args, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline secrets set sources/web-forms --generate          makes one, and prints it once for the sender
  ledgerline secrets set sources/shopify                       asks for it, and shows nothing of it
  printenv CRM_TOKEN | ledgerline secrets set integrations/crm reads it from standard input, as in CI
  ledgerline secrets set integrations/google < private-key.pem

A secret is never an argument: a shell would keep it. An owner that has a secret gets another by `secrets rotate`.";

/// Put the first secret of an owner.
#[derive(Debug, Args)]
pub(crate) struct SetSecretArgs {
    #[command(flatten)]
    new: NewSecretArgs,
}

impl SetSecretArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let NewSecretArgs { owner, key, .. } = &self.new;
        let name = today();
        cloud::with(at, async |cloud| {
            if !store::names_of(cloud, owner).await?.is_empty() {
                let rotate = cloud.command(&format!("secrets rotate {owner}"));
                bail!("nothing was changed: {owner} has a secret. `{rotate}` puts a new one beside it");
            }
            let secret = input::secret(&self.new)?;
            store::put(cloud, owner, &name, &secret, key.as_deref()).await?;
            input::show_generated(&self.new, &secret);
            Ok(())
        })?;
        let told = || format!("The secret of {owner} is stored as {name}. It counts from its first use.\n");
        print_put(json, &json!({"owner": owner.to_string(), "name": name}), self.new.generate, told)
    }
}

/// The name of a secret that is put today.
pub(super) fn today() -> String {
    args::now().to_string().chars().take(10).collect()
}

/// Prints what was done. Where the secret itself was printed, standard output has that alone.
pub(super) fn print_put(
    json: bool,
    answer: &serde_json::Value,
    generated: bool,
    told: impl FnOnce() -> String,
) -> Result<CommandExit> {
    if generated {
        output::print_notice(&told());
    } else {
        output::print_answer(json, answer, told)?;
    }
    Ok(CommandExit::Success)
}
