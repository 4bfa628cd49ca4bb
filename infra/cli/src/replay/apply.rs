//! `ledgerline apply`

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::args::ByAndReasonArgs;
use crate::cloud::{self, CloudArgs};
use crate::event_outcomes::EventOutcomes;
use crate::replay::with_new;
use crate::{CommandExit, output};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline apply 1b16f576…=9a0b… --reason 'the CRM is back'    takes what `plan` prints
  ledgerline apply --plan plan.json --reason 'the CRM is back'   takes what `plan --json` prints

If an event has changed since the plan was made, no event is replayed.";

/// Replay exactly what a plan showed, or nothing.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The events of a plan, each with its hash, as `plan` prints them.
    #[arg(value_name = "ID=HASH", value_parser = pair, required_unless_present = "plan", conflicts_with = "plan")]
    events: Vec<(String, String)>,
    /// The file with the output of `plan --json`. Events that it lists as blocked are left out.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// The plan was made with --with-new. A file says so itself.
    #[arg(long, conflicts_with = "plan")]
    with_new: bool,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl ApplyArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let (events, asked) = match &self.plan {
            Some(file) => read(file)?,
            None => (self.events.clone(), self.with_new),
        };
        let events: Vec<Value> = events.into_iter().map(|(id, hash)| json!({"id": id, "hash": hash})).collect();
        let answer = cloud::with(at, async |cloud| {
            let operation = with_new(json!({"op": "apply", "events": events}), asked);
            let operation = self.why.add_to(cloud, operation).await;
            cloud.change(operation, "dead list").await
        })?;
        let outcomes = EventOutcomes::read(&answer["applied"]);
        output::print_answer(json, &answer, || outcomes.as_text("replayed"))?;
        Ok(outcomes.exit())
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(id, hash)| !id.is_empty() && !hash.is_empty());
    pair.map(|(id, hash)| (id.to_owned(), hash.to_owned()))
        .ok_or_else(|| "write the event's id, `=` and its hash, as `ledgerline plan` prints them".into())
}

/// The events of a plan in a file, and whether it was made with what is new.
fn read(file: &Path) -> Result<(Vec<(String, String)>, bool)> {
    let text = std::fs::read(file)
        .with_context(|| format!("nothing was replayed: cannot read the plan in {}", file.display()))?;
    let plan: Value = serde_json::from_slice(&text).with_context(|| {
        format!(
            "nothing was replayed: {} is not JSON. Make it with `ledgerline plan … --json > plan.json`",
            file.display()
        )
    })?;
    let events = planned(&plan).with_context(|| {
        format!(
            "nothing was replayed: {} is not a plan. Make it with `ledgerline plan … --json > plan.json`",
            file.display()
        )
    })?;
    if events.is_empty() {
        bail!("nothing was replayed: every event of the plan in {} is blocked, or it has none", file.display());
    }
    Ok((events, plan["with_new"] == true))
}

/// The events that a plan would replay, with their hashes.
fn planned(plan: &Value) -> Option<Vec<(String, String)>> {
    let free = plan["events"].as_array()?.iter().filter(|event| event["blocked"].is_null());
    free.map(|event| Some((event["id"].as_str()?.to_owned(), event["hash"].as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_hash() {
        assert_eq!(pair("aa=bb"), Ok(("aa".into(), "bb".into())));
        for bad in ["aa", "aa=", "=bb"] {
            assert!(pair(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_plan_is_applied_without_what_is_blocked() {
        let plan = json!({"hash": "x", "events": [
            {"id": "aa", "hash": "1", "blocked": null},
            {"id": "bb", "hash": "2", "blocked": "its payload is not kept"},
        ]});
        assert_eq!(planned(&plan), Some(vec![("aa".into(), "1".into())]));
        assert_eq!(planned(&json!({"parked": []})), None);
    }
}
