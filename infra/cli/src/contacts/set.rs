//! `ledgerline contacts set`

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};

use super::ContactArgs;
use crate::CommandExit;
use crate::args::{ByAndReasonArgs, parse_change};
use crate::cloud::{self, CloudArgs, quoted};
use crate::output;

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline contacts set ada@example.com --tenant acme consent_email=false --reason 'she called us'
  ledgerline contacts set ada@example.com --tenant acme phone=null --reason 'not hers any more'

true, false and numbers are taken as such, null removes the field, and everything else is a text. Write a text of
digits as 'phone=\"441234\"'. An event that was received before does not undo it, whenever it is replayed.";

/// Set or remove fields of a contact, as of now. Makes the contact where there is none.
#[derive(Debug, Args)]
pub(crate) struct SetContactArgs {
    #[command(flatten)]
    contact: ContactArgs,
    /// The fields to set: consent_email=false
    #[arg(value_name = "NAME=VALUE", value_parser = parse_change, required = true)]
    fields: Vec<(String, Value)>,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl SetContactArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let ContactArgs { email, tenant } = self.contact;
        let fields: Map<String, Value> = self.fields.into_iter().collect();
        let check = format!("contacts show {} --tenant {}", quoted(&email), quoted(&tenant));
        let operation = json!({"op": "set_contact", "tenant": tenant, "email": email, "fields": fields});
        let answer =
            cloud::with(at, async |cloud| cloud.change(self.why.add_to(cloud, operation).await, &check).await)?;
        output::print_answer(json, &answer, || text(&answer))?;
        Ok(CommandExit::Success)
    }
}

fn text(answer: &Value) -> String {
    let word = |value: &Value| output::printable(value.as_str().unwrap_or_default());
    let done = if answer["created"] == true { "created" } else { "changed" };
    format!("{} contact {} as of {}\n", output::styled(output::GOOD, done), word(&answer["id"]), word(&answer["at"]))
}
