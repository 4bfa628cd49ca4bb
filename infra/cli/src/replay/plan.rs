//! `ledgerline plan`

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::CommandExit;
use crate::args::{FilterArgs, MAX_LISTED, now, up_to};
use crate::cloud::{self, CloudArgs};
use crate::output::{self, columns, count};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline plan 1b16f576…
  ledgerline plan --flow lead-routing --since 2h --json > plan.json
  ledgerline apply --plan plan.json --reason 'the CRM is back'     exactly that, or nothing";

/// Tell what a replay would do for each event and each effect. Nothing is changed.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The events' ids. Without any, those that the options choose.
    ids: Vec<String>,
    #[command(flatten)]
    only: FilterArgs,
    #[arg(long, default_value_t = 20, value_parser = up_to(MAX_LISTED), help = format!("How many at most, up to {MAX_LISTED}"))]
    max: u32,
    /// How many a batch would replay at most, where this is what one would do.
    #[arg(skip)]
    batch: Option<u32>,
}

impl PlanArgs {
    /// What a batch of up to so many would do first.
    pub(super) fn of_batch(ids: Vec<String>, only: FilterArgs, max: u32) -> Self {
        PlanArgs { batch: ids.is_empty().then_some(max), ids, only, max: max.min(MAX_LISTED) }
    }

    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        if !self.ids.is_empty() && !self.only.is_empty() {
            bail!("name events or choose them by options, not both");
        }
        let operation = json!({"op": "plan", "ids": self.ids, "only": self.only.filter(now()), "max": self.max});
        let answer = cloud::with(at, async |cloud| cloud.query(operation).await)?;
        output::print_answer(json, &answer, || text(&answer, self.batch))?;
        Ok(CommandExit::Success)
    }
}

/// What would be done for an event of a plan: `crm run, mail skip`.
pub(crate) fn steps(event: &Value) -> String {
    let step = |step: &Value| format!("{} {}", word(&step["effect"]), word(&step["fate"]));
    event["steps"].as_array().into_iter().flatten().map(step).collect::<Vec<_>>().join(", ")
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// How many events a command line has room for.
const NAMED: usize = 3;

fn text(answer: &Value, batch: Option<u32>) -> String {
    let events: Vec<&Value> = answer["events"].as_array().into_iter().flatten().collect();
    let row = |event: &&Value| {
        let [flow, blocked, id] = ["flow", "blocked", "id"].map(|name| word(&event[name]).to_owned());
        [flow, steps(event), blocked, id]
    };
    let rows: Vec<_> = events.iter().map(row).collect();
    if rows.is_empty() {
        return match answer["more"] == true {
            true => "None of the 5,000 oldest that are parked matches. There may be newer ones that do.\n".into(),
            false => "Nothing is parked that matches.\n".into(),
        };
    }
    let blocked = events.iter().filter(|event| event["blocked"].is_string()).count();
    let told =
        format!("{} would be replayed, {blocked} blocked. Nothing was changed.", count(rows.len() - blocked, "event"));
    let table = columns(["FLOW", "EFFECTS", "BLOCKED", "ID"], &rows);
    format!("{table}{told}\n{}{}", beyond(rows.len(), batch), next(&events))
}

/// That a batch would go on where a plan ends.
fn beyond(planned: usize, batch: Option<u32>) -> String {
    match batch {
        Some(max) if planned == MAX_LISTED as usize && max > MAX_LISTED => {
            format!("These are the first {MAX_LISTED}: a batch would go on, up to {max}.\n")
        }
        _ => String::new(),
    }
}

/// The command that does exactly this.
fn next(events: &[&Value]) -> String {
    let free: Vec<_> = events.iter().filter(|event| !event["blocked"].is_string()).collect();
    let pair = |event: &&&Value| format!("{}={}", word(&event["id"]), word(&event["hash"]));
    match free.len() {
        0 => String::new(),
        1..=NAMED => {
            let pairs: Vec<_> = free.iter().map(pair).collect();
            format!("Exactly this: ledgerline apply {} --reason '…'\n", pairs.join(" "))
        }
        _ => "Exactly this: the same with --json > plan.json, then ledgerline apply --plan plan.json --reason '…'\n"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_tells_the_fate_of_every_effect() {
        let event = |id: &str, blocked: Option<&str>| {
            json!({"id": id, "flow": "lead-routing", "state": "dead", "version": "3.4", "hash": format!("h-{id}"),
                   "blocked": blocked,
                   "steps": [{"effect": "crm", "fate": "skip"}, {"effect": "mail", "fate": "run"}]})
        };
        let some = json!({"events": [event("aa", None), event("bb", Some("nobody knows whether mail happened"))]});
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&some, Some(2))));
        let many = json!({"events": (0..5).map(|n| event(&n.to_string(), None)).collect::<Vec<_>>()});
        let told = text(&many, None);
        assert!(told.ends_with("ledgerline apply --plan plan.json --reason '…'\n"), "{told}");
    }

    #[test]
    fn a_plan_of_nothing_says_how_far_it_looked() {
        assert!(text(&json!({"events": [], "more": true}), None).contains("There may be newer ones"));
        assert_eq!(text(&json!({"events": [], "more": false}), None), "Nothing is parked that matches.\n");
    }

    #[test]
    fn a_dry_run_says_that_a_batch_would_go_on() {
        assert_eq!(beyond(100, Some(200)), "These are the first 100: a batch would go on, up to 200.\n");
        for (planned, batch) in [(99, Some(200)), (100, Some(100)), (100, None)] {
            assert_eq!(beyond(planned, batch), "", "{planned} of {batch:?}");
        }
    }
}
