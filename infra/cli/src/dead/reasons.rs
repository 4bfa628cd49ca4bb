//! `ledgerline dead reasons`

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::parked_event::no_match;
use crate::CommandExit;
use crate::args::{FilterArgs, now};
use crate::cloud::{self, CloudArgs};
use crate::output::{self, columns, short};

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline dead reasons
  ledgerline dead reasons --flow lead-routing --since 24h";

/// Count the reasons for which parked events died, the most frequent first.
#[derive(Debug, Args)]
pub(crate) struct ReasonsArgs {
    #[command(flatten)]
    only: FilterArgs,
}

impl ReasonsArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let operation = json!({"op": "reasons", "only": self.only.filter(now())});
        let answer = cloud::with(at, async |cloud| cloud.query(operation).await)?;
        output::print_answer(json, &answer, || text(&answer))?;
        Ok(CommandExit::Success)
    }
}

fn text(answer: &Value) -> String {
    let cell = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let row = |line: &Value| {
        let error = short(&cell(line, "error"), 40);
        [
            line["count"].to_string(),
            cell(line, "flow"),
            cell(line, "reason"),
            cell(line, "newest_at"),
            error,
            cell(line, "newest"),
        ]
    };
    let rows: Vec<_> = answer["reasons"].as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        return no_match(answer).into();
    }
    let more = if answer["more"] == true {
        "Only the 5,000 newest parked events are counted: there may be older ones.\n"
    } else {
        ""
    };
    columns(["COUNT", "FLOW", "REASON", "NEWEST", "NEWEST ERROR", "NEWEST ID"], &rows) + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_by_flow() {
        let reason = |flow: &str, reason: &str, count: u64| {
            json!({"flow": flow, "reason": reason, "count": count, "newest": "aa", "error": "answered 500",
                   "newest_at": "2026-11-16T10:00:00.042Z"})
        };
        let reasons = json!([reason("lead-routing", "attempts_spent", 12), reason("cart-recovery", "terminal", 1)]);
        let mut answer = json!({"reasons": reasons, "more": false});
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&answer)));
        answer["more"] = json!(true);
        assert!(text(&answer).ends_with("Only the 5,000 newest parked events are counted: there may be older ones.\n"));
    }
}
