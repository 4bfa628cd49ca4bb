//! `ledgerline dead list`

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::parked_event::{ParkedEvent, list_operation, no_match};
use crate::args::{FilterArgs, MAX_LISTED, now, up_to};
use crate::cloud::{self, CloudArgs};
use crate::{CommandExit, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline dead list --since 2h                       the events that were parked in the last two hours
  ledgerline dead list --flow lead-routing --limit 100
  ledgerline dead list --state awaiting_approval        the events that wait for `approve` or `reject`";

/// List the newest parked events, the newest first.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    only: FilterArgs,
    #[arg(long, default_value_t = 20, value_parser = up_to(MAX_LISTED), help = format!("How many events at most, up to {MAX_LISTED}"))]
    limit: u32,
}

impl ListArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let operation = list_operation(&self.only.filter(now()), self.limit);
        let answer = cloud::with(at, async |cloud| cloud.query(operation).await)?;
        output::print_answer(json, &answer, || text(&answer))?;
        Ok(CommandExit::Success)
    }
}

fn text(answer: &Value) -> String {
    let lines = ParkedEvent::all(answer);
    let matching = answer["matching"].as_u64().unwrap_or_default();
    if lines.is_empty() {
        return no_match(answer).into();
    }
    let rows: Vec<_> = lines.iter().map(ParkedEvent::row).collect();
    let more = if answer["more"] == true { " among the 5,000 newest parked events" } else { "" };
    format!("{}{} of {matching} events that match{more}\n", output::columns(ParkedEvent::HEAD, &rows), rows.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use shared::ledger::batch::Filter;

    use super::*;

    #[test]
    fn a_list_is_a_table_with_the_newest_first() {
        let line = |id: &str, error: &str| {
            json!({"id": id, "flow": "lead-routing", "state": "dead", "version": "3.4",
                   "parked_at": "2026-11-16T10:00:00.042Z", "reason": "attempts_spent", "effect": "crm",
                   "error": error, "attempts": 3})
        };
        let mut asked = line("cc", "");
        asked["state"] = json!("awaiting_approval");
        asked["reason"] = Value::Null;
        let parked = json!([line("aa", "answered 500"), line("bb", "\u{1b}[2J bad\nline"), asked]);
        let answer = json!({"parked": parked, "matching": 7, "more": false});
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&answer)));
    }

    #[test]
    fn a_waiting_event_says_why_and_since_when() {
        let waits = json!({"for": "integration crm", "why": "breaker open", "since": "2026-11-16T10:00:00.000Z", "until": null});
        let line = json!({"id": "aa", "flow": "leads", "state": "waiting", "version": "3.4", "waits": waits});
        let told = text(&json!({"parked": [line], "matching": 1, "more": false}));
        assert!(told.contains("for integration crm: breaker open, since 2026-11-16T10:00:00.000Z"), "{told}");
    }

    #[test]
    fn nothing_is_told_in_words() {
        let none = |more: bool| text(&json!({"parked": [], "matching": 0, "more": more}));
        assert_eq!(none(false), "No parked event matches.\n");
        assert_eq!(Filter::MAX_SCANNED, 5000, "as the sentences say");
        assert!(none(true).starts_with("None of the 5,000 newest parked events matches."), "{}", none(true));
    }
}
