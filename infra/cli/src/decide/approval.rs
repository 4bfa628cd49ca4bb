//! `ledgerline approve` and `ledgerline reject`

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::read_events;
use crate::CommandExit;
use crate::args::ByAndReasonArgs;
use crate::cloud::CloudError;
use crate::cloud::{self, CloudArgs, CloudClient};
use crate::confirm::ConfirmArgs;
use crate::dead::ParkedEvent;
use crate::event_outcomes::EventOutcomes;
use crate::output::{self, columns, count};
use crate::replay::steps;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline dead list --state awaiting_approval        the events that await approval
  ledgerline approve 1b16f576… --reason 'a good customer'
  ledgerline reject 1b16f576… 77ab02c1… --reason 'too much' --yes

Your answer counts only for what you are shown: if the event has changed since, the function declines it.";

/// The operator's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ApproveOrReject {
    Approve,
    Reject,
}

impl ApproveOrReject {
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            ApproveOrReject::Approve => ("approve", "Approve", "approved"),
            ApproveOrReject::Reject => ("reject", "Reject", "rejected"),
        }
    }
}

/// The events to approve or reject, and who does it.
#[derive(Debug, Args)]
pub(crate) struct ApprovalArgs {
    /// The ids of the events, as `dead list --state awaiting_approval` prints them.
    #[arg(required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    why: ByAndReasonArgs,
    #[command(flatten)]
    yes: ConfirmArgs,
}

impl ApprovalArgs {
    pub(crate) fn run(self, answer: ApproveOrReject, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let (op, question, done) = answer.words();
        cloud::with(at, async |cloud| {
            let lines = read_events(cloud, &self.ids).await?;
            let questions = questions(&lines)?;
            output::print_notice(&table(&lines, &plan(cloud, &self.ids).await?));
            if !self.yes.confirm(&format!("{question} {}?", count(lines.len(), "event")))? {
                return Ok(CommandExit::Problems);
            }
            let operation = self.why.add_to(cloud, json!({"op": op, "questions": questions})).await;
            let answer = cloud.change(operation, "dead list --state awaiting_approval").await?;
            let outcomes = EventOutcomes::read(&answer["answered"]);
            output::print_answer(json, &answer, || outcomes.as_text(done))?;
            Ok(outcomes.exit())
        })
    }
}

async fn plan(cloud: &CloudClient, ids: &[String]) -> Result<Value> {
    cloud.query(json!({"op": "plan", "ids": ids})).await
}

/// The approvals as the operator sees them. An event that awaits none is declined.
fn questions(lines: &[ParkedEvent]) -> Result<Vec<Value>, CloudError> {
    let question = |line: &ParkedEvent| match &line.ask {
        Some(ask) if line.state == "awaiting_approval" => Ok(json!({"id": line.id, "hash": ask.hash})),
        _ => Err(CloudError::Declined(
            json!({"error": format!("the event {} awaits no approval: its state is {}", line.id, line.state)}),
        )),
    };
    lines.iter().map(question).collect()
}

fn table(lines: &[ParkedEvent], plan: &Value) -> String {
    let planned = |id: &str| plan["events"].as_array()?.iter().find(|event| event["id"] == id).map(steps);
    let row = |line: &ParkedEvent| {
        let until = line.ask.as_ref().map(|ask| ask.until.clone()).unwrap_or_default();
        [line.flow.clone(), planned(&line.id).unwrap_or_default(), until, line.id.clone()]
    };
    columns(["FLOW", "WOULD DO", "UNTIL", "ID"], &lines.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    fn line(id: &str, state: &str) -> ParkedEvent {
        let line = json!({"id": id, "flow": "cart-recovery", "state": state, "version": "1.1",
                          "ask": {"hash": "h1", "until": "2026-11-16T12:00:00.000Z", "approved_by": null}});
        ParkedEvent::deserialize(line).expect("a line")
    }

    #[test]
    fn an_answer_is_bound_to_what_was_seen() {
        let lines = [line("aa", "awaiting_approval")];
        assert_eq!(questions(&lines).expect("one"), [json!({"id": "aa", "hash": "h1"})]);
        let plan = json!({"events": [{"id": "aa", "steps": [{"effect": "discount", "fate": "run"}]}]});
        insta::assert_snapshot!(anstream::adapter::strip_str(&table(&lines, &plan)));
    }

    #[test]
    fn what_nobody_asks_is_not_answered() {
        let refused =
            questions(&[line("aa", "awaiting_approval"), line("bb", "queued")]).expect_err("one asks nothing");
        assert_eq!(
            refused.to_string(),
            "declined, and nothing was changed: the event bb awaits no approval: its state is queued"
        );
    }
}
