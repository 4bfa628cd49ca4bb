//! `ledgerline secrets rotate`

use anyhow::{Result, bail, ensure};
use clap::Args;
use serde_json::json;

use super::set::{print_put, today};
use super::{NewSecretArgs, SecretOwner, input, store};
use crate::cloud::{self, CloudArgs, CloudClient};
use crate::confirm::ConfirmArgs;
use crate::{CommandExit, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline secrets rotate sources/web-forms --generate   the old and the new secret both verify
  ledgerline secrets rotate sources/web-forms --retire     deletes all but the newest
  printenv CRM_TOKEN | ledgerline secrets rotate integrations/crm

First the new secret, then whoever uses it, then --retire. In this order no event is refused.";

/// Put a new secret beside the older ones, or delete those.
#[derive(Debug, Args)]
pub(crate) struct RotateSecretArgs {
    #[command(flatten)]
    new: NewSecretArgs,
    /// Delete all secrets of this owner but the newest: nobody uses them any more.
    #[arg(long, conflicts_with_all = ["generate", "key"])]
    retire: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl RotateSecretArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        if self.retire { self.retire(at, json) } else { self.add(at, json) }
    }

    fn add(&self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let NewSecretArgs { owner, key, .. } = &self.new;
        let (name, retire) = cloud::with(at, async |cloud| {
            let older = names(cloud, owner).await?;
            let name = behind(older.last().map(String::as_str).unwrap_or_default(), today());
            let secret = input::secret(&self.new)?;
            store::put(cloud, owner, &name, &secret, key.as_deref()).await?;
            input::show_generated(&self.new, &secret);
            Ok((name, cloud.command(&format!("secrets rotate {owner} --retire"))))
        })?;
        let told = || format!("The new secret of {owner} is stored as {name}. {}\n", owner.after_rotation(&retire));
        print_put(json, &json!({"owner": owner.to_string(), "name": name}), self.new.generate, told)
    }

    fn retire(&self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let owner = &self.new.owner;
        let deleted = cloud::with(at, async |cloud| {
            let mut names = names(cloud, owner).await?;
            let newest = names.pop().unwrap_or_default();
            ensure!(!names.is_empty(), "nothing was changed: {owner} has no secret but {newest}");
            let question = format!("Delete {} of {owner}, and keep {newest}?", names.join(", "));
            if !self.confirm.confirm(&question)? {
                return Ok(None);
            }
            for name in &names {
                store::delete(cloud, owner, name).await?;
            }
            Ok(Some(names))
        })?;
        let Some(deleted) = deleted else { return Ok(CommandExit::Problems) };
        let told = || format!("Deleted: {}. Containers forget them within five minutes.\n", deleted.join(", "));
        output::print_answer(json, &json!({"owner": owner.to_string(), "deleted": deleted}), told)?;
        Ok(CommandExit::Success)
    }
}

async fn names(cloud: &CloudClient, owner: &SecretOwner) -> Result<Vec<String>> {
    let names = store::names_of(cloud, owner).await?;
    if names.is_empty() {
        let set = cloud.command(&format!("secrets set {owner}"));
        bail!("nothing was changed: {owner} has no secret yet. `{set}` puts the first");
    }
    Ok(names)
}

/// A name that sorts behind another: the wanted one, if it does.
fn behind(newest: &str, wanted: String) -> String {
    if wanted.as_str() > newest { wanted } else { format!("{newest}-2") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_secret_sorts_behind_the_older_ones() {
        for newest in ["", "2026-11", "2026-11-19", "2026-11-19-2", "current"] {
            let name = behind(newest, "2026-11-19".into());
            assert!(name.as_str() > newest && name.len() < 20, "{newest}: {name}");
        }
    }
}
