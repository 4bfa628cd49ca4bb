//! `ledgerline resolve`

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::CommandExit;
use crate::args::ByAndReasonArgs;
use crate::cloud::{self, CloudArgs};
use crate::confirm::ConfirmArgs;
use crate::dead::{ParkedEvent, read_event};
use crate::output::{self, columns};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline resolve 1b16f576… crm --did-not-happen --reason 'the CRM has no such lead'
  ledgerline resolve 1b16f576… crm --happened '{\"crm_id\": \"c-1\"}' --reason 'saw it in the CRM'

Look into the partner's own records first: a wrong answer makes the effect happen twice, or never.
The event stays parked until you replay it.";

/// Record whether an effect happened, where you know better than the ledger: unknown, failed, or without its result.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct ResolveArgs {
    /// The event's id, as `dead list` prints it.
    id: String,
    /// The effect, as `dead show` lists it.
    effect: String,
    /// The effect happened, with this result for later effects: JSON with the names of the flow's `result`.
    #[arg(long, value_name = "JSON", value_parser = value, group = "verdict")]
    happened: Option<Value>,
    /// The effect did not happen: a replay calls it.
    #[arg(long, group = "verdict")]
    did_not_happen: bool,
    /// The version of the row that you saw, as `dead show` prints it: declined if the row has changed since.
    #[arg(long, value_name = "VERSION")]
    seen: Option<String>,
    #[command(flatten)]
    why: ByAndReasonArgs,
    #[command(flatten)]
    yes: ConfirmArgs,
}

impl ResolveArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        cloud::with(at, async |cloud| {
            let line = ParkedEvent::deserialize(read_event(cloud, &self.id).await?)?;
            output::print_notice(&columns(ParkedEvent::HEAD, &[line.row()]));
            if !self.yes.confirm(&self.question())? {
                return Ok(CommandExit::Problems);
            }
            let operation = self.why.add_to(cloud, self.operation(&line)).await;
            let answer = cloud.change(operation, &format!("dead show {}", self.id)).await?;
            output::print_answer(json, &answer, || {
                let replay = at.command(&format!("replay {} --reason '…'", self.id));
                format!("Your answer is recorded. The event stays parked until you replay it:\n  {replay}\n")
            })?;
            Ok(CommandExit::Success)
        })
    }

    fn question(&self) -> String {
        let effect = output::printable(&self.effect);
        match self.happened {
            Some(_) => format!("Record that {effect} happened? It is then never called for this event again."),
            None => format!("Record that {effect} did not happen? A replay then calls it."),
        }
    }

    /// The operation on the row as it was shown, or as the operator saw it before.
    fn operation(&self, line: &ParkedEvent) -> Value {
        let verdict = self.happened.as_ref();
        let verdict = verdict.map_or_else(|| json!("did_not_happen"), |result| json!({"happened": result}));
        let version = self.seen.as_ref().unwrap_or(&line.version);
        json!({"op": "resolve", "id": self.id, "effect": self.effect, "verdict": verdict, "version": version})
    }
}

fn value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}; write JSON, for example {{\"crm_id\": \"c-1\"}}"))
}
