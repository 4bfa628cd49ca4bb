//! `ledgerline contacts show`

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::ContactArgs;
use crate::CommandExit;
use crate::cloud::{self, CloudArgs};
use crate::output::{self, columns, printable};

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline contacts show ada@example.com --tenant acme

Texts are cut to their first letter and numbers are hidden, as in the preview of an event. true and false are shown.";

/// Show a contact: its fields, masked, and when each was last changed.
#[derive(Debug, Args)]
pub(crate) struct ShowContactArgs {
    #[command(flatten)]
    contact: ContactArgs,
}

impl ShowContactArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let ContactArgs { email, tenant } = self.contact;
        let operation = json!({"op": "show_contact", "tenant": tenant, "email": email});
        let answer = cloud::with(at, async |cloud| cloud.query(operation).await)?;
        output::print_answer(json, &answer, || text(&answer))?;
        Ok(CommandExit::Success)
    }
}

fn text(page: &Value) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |(name, field): (&String, &Value)| {
        let value = if field["removed"] == true { "(removed)".to_owned() } else { word(&field["value"]) };
        [name.clone(), value, word(&field["at"])]
    };
    let rows: Vec<_> = page["fields"].as_object().into_iter().flatten().map(row).collect();
    let fields = columns(["FIELD", "VALUE (masked)", "LAST CHANGED"], &rows);
    let signed = page["signed_off"].as_str().map(|by| format!("\nlast change by an operator: {}\n", printable(by)));
    format!("contact {}\n\n{fields}{}", printable(&word(&page["id"])), signed.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_was_removed_is_told_from_one_that_is_set() {
        let page = json!({"id": "c1", "signed_off": "2026-11-16T10:00:00.000Z by ada: she called us", "fields": {
            "consent_email": {"value": false, "at": "2026-11-16T10:00:00.000Z"},
            "phone": {"removed": true, "at": "2026-11-16T10:00:00.000Z"}}});
        let shown = text(&page);
        for part in ["contact c1", "consent_email  false", "(removed)", "by ada: she called us"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}
