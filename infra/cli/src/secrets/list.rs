//! `ledgerline secrets list`

use anyhow::Result;
use serde_json::json;
use shared::base::time::Timestamp;

use super::store::{self, StoredSecret};
use crate::cloud::{self, CloudArgs};
use crate::{CommandExit, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline secrets list
  ledgerline --stack ledgerline-staging secrets list --json

Of several secrets of a source, each verifies. Of several of an integration, the last by name counts.";

pub(super) fn run(at: &CloudArgs, json: bool) -> Result<CommandExit> {
    let secrets = cloud::with(at, async |cloud| store::all(cloud).await)?;
    output::print_answer(json, &json!({ "secrets": secrets }), || text(&secrets))?;
    Ok(CommandExit::Success)
}

fn text(secrets: &[StoredSecret]) -> String {
    if secrets.is_empty() {
        return "The stack has no secrets: `ledgerline secrets set sources/<source>` puts the first.\n".into();
    }
    let row = |secret: &StoredSecret| {
        [secret.owner.clone(), secret.name.clone(), Timestamp::from_secs(secret.written_at).to_string()]
    };
    output::columns(["whose", "name", "written"], &secrets.iter().map(row).collect::<Vec<_>>())
}
