//! `ledgerline apply`

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::args::ByAndReasonArgs;
use crate::cloud::{self, CloudArgs};
use crate::event_outcomes::EventOutcomes;
use crate::{CommandExit, output};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline apply 1b16f576…=9a0b… --reason 'the CRM is back'    as `plan` prints it
  ledgerline apply --plan plan.json --reason 'the CRM is back'   the JSON of `plan --json`

If an event has changed since it was planned, nothing at all is replayed.";

/// Replay exactly what a plan said, or nothing.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// Events of a plan, each with its hash.
    #[arg(value_name = "ID=HASH", value_parser = pair, required_unless_present = "plan", conflicts_with = "plan")]
    events: Vec<(String, String)>,
    /// The JSON of `plan --json`. What is blocked in it is left out.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl ApplyArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let events = match &self.plan {
            Some(file) => read(file)?,
            None => self.events.clone(),
        };
        let events: Vec<Value> = events.into_iter().map(|(id, hash)| json!({"id": id, "hash": hash})).collect();
        let answer = cloud::with(at, async |cloud| {
            let operation = self.why.add_to(cloud, json!({"op": "apply", "events": events})).await;
            cloud.change(operation, "ledgerline dead list").await
        })?;
        let outcomes = EventOutcomes::read(&answer["applied"]);
        output::print_answer(json, &answer, || outcomes.as_text("replayed"))?;
        Ok(outcomes.verdict())
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(id, hash)| !id.is_empty() && !hash.is_empty());
    pair.map(|(id, hash)| (id.to_owned(), hash.to_owned())).ok_or_else(|| "write the event's id, `=`, its hash".into())
}

fn read(file: &Path) -> Result<Vec<(String, String)>> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let plan = serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", file.display()))?;
    let events = planned(&plan).with_context(|| format!("{} is not the JSON of `plan --json`", file.display()))?;
    if events.is_empty() {
        bail!("the plan in {} has nothing that can be replayed", file.display());
    }
    Ok(events)
}

/// The events of a plan that it would replay.
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
