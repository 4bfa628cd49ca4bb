//! `ledgerline plan`

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::CommandExit;
use crate::args::{FilterArgs, MAX_LISTED, now, up_to};
use crate::cloud::{self, CloudArgs};
use crate::output::{self, columns, count};
use crate::replay::with_new;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline plan 1b16f576…
  ledgerline plan --flow lead-routing --since 2h --json > plan.json
  ledgerline apply --plan plan.json --reason 'the CRM is back'     replays exactly that, or nothing";

/// Show what a replay would do for each event and each effect. Changes nothing.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The ids of the events. Without ids, the events that the options choose.
    ids: Vec<String>,
    #[command(flatten)]
    only: FilterArgs,
    #[arg(long, default_value_t = 20, value_parser = up_to(MAX_LISTED), help = format!("How many events at most, up to {MAX_LISTED}"))]
    max: u32,
    /// Also do the effects that the flow did not have when it accepted the events. Without it they are shown as `new`.
    #[arg(long)]
    with_new: bool,
    /// How many events a batch would replay at most, where this plan is the dry run of one.
    #[arg(skip)]
    batch: Option<u32>,
}

impl PlanArgs {
    /// The plan of what a batch of up to `max` events would do first.
    pub(super) fn of_batch(ids: Vec<String>, only: FilterArgs, max: u32, with_new: bool) -> Self {
        PlanArgs { batch: ids.is_empty().then_some(max), ids, only, max: max.min(MAX_LISTED), with_new }
    }

    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        if !self.ids.is_empty() && !self.only.is_empty() {
            bail!("there is no plan: name the events by id or choose them by options, not both");
        }
        let operation = json!({"op": "plan", "ids": self.ids, "only": self.only.filter(now()), "max": self.max});
        let operation = with_new(operation, self.with_new);
        let answer = cloud::with(at, async |cloud| cloud.query(operation).await)?;
        output::print_answer(json, &answer, || text(&answer, self.batch, at))?;
        Ok(CommandExit::Success)
    }
}

/// What a replay would do for an event of a plan: `crm run, mail skip`.
pub(crate) fn steps(event: &Value) -> String {
    let step = |step: &Value| format!("{} {}", word(&step["effect"]), word(&step["fate"]));
    event["steps"].as_array().into_iter().flatten().map(step).collect::<Vec<_>>().join(", ")
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// How many events a suggested command line has room for.
const MAX_NAMED: usize = 3;

fn text(answer: &Value, batch: Option<u32>, at: &CloudArgs) -> String {
    let events: Vec<&Value> = answer["events"].as_array().into_iter().flatten().collect();
    let row = |event: &&Value| {
        let [flow, blocked, id] = ["flow", "blocked", "id"].map(|name| word(&event[name]).to_owned());
        [flow, steps(event), blocked, id]
    };
    let rows: Vec<_> = events.iter().map(row).collect();
    if rows.is_empty() {
        return match answer["more"] == true {
            true => "None of the 5,000 oldest parked events matches. There may be newer ones that do.\n".into(),
            false => "No parked event matches.\n".into(),
        };
    }
    let blocked = events.iter().filter(|event| event["blocked"].is_string()).count();
    let summary =
        format!("{} would be replayed, {blocked} blocked. Nothing was changed.", count(rows.len() - blocked, "event"));
    let table = columns(["FLOW", "EFFECTS", "BLOCKED", "ID"], &rows);
    format!("{table}{summary}\n{}{}", beyond(rows.len(), batch), next_step(&events, answer["with_new"] == true, at))
}

/// The sentence that a batch would go on where a plan ends.
fn beyond(planned: usize, batch: Option<u32>) -> String {
    match batch {
        Some(max) if planned == MAX_LISTED as usize && max > MAX_LISTED => {
            format!("These are the first {MAX_LISTED} events: a batch would go on, up to {max}.\n")
        }
        _ => String::new(),
    }
}

/// The command that does exactly what the plan shows.
fn next_step(events: &[&Value], with_new: bool, at: &CloudArgs) -> String {
    let free: Vec<_> = events.iter().filter(|event| !event["blocked"].is_string()).collect();
    let pair = |event: &&&Value| format!("{}={}", word(&event["id"]), word(&event["hash"]));
    match free.len() {
        0 => String::new(),
        1..=MAX_NAMED => {
            let pairs: Vec<_> = free.iter().map(pair).collect();
            let new = if with_new { " --with-new" } else { "" };
            let apply = at.command(&format!("apply {}{new} --reason '…'", pairs.join(" ")));
            format!("To replay exactly this:\n  {apply}\n")
        }
        _ => {
            let apply = at.command("apply --plan plan.json --reason '…'");
            format!("To replay exactly this, repeat this command with --json > plan.json, then:\n  {apply}\n")
        }
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
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&some, Some(2), &CloudArgs::unnamed())));
        let many = json!({"events": (0..5).map(|n| event(&n.to_string(), None)).collect::<Vec<_>>()});
        let told = text(&many, None, &CloudArgs::unnamed());
        assert!(told.ends_with("ledgerline apply --plan plan.json --reason '…'\n"), "{told}");
    }

    #[test]
    fn a_plan_of_nothing_says_how_far_it_looked() {
        let text = |more: bool| text(&json!({"events": [], "more": more}), None, &CloudArgs::unnamed());
        assert!(text(true).contains("There may be newer ones"));
        assert_eq!(text(false), "No parked event matches.\n");
    }

    #[test]
    fn a_dry_run_says_that_a_batch_would_go_on() {
        assert_eq!(beyond(100, Some(200)), "These are the first 100 events: a batch would go on, up to 200.\n");
        for (planned, batch) in [(99, Some(200)), (100, Some(100)), (100, None)] {
            assert_eq!(beyond(planned, batch), "", "{planned} of {batch:?}");
        }
    }
}
