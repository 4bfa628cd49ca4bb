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

Look into the partner's own records first: a wrong word makes an effect happen twice, or never.
The event stays parked. A replay takes it on from there.";

/// Say of an effect whether it happened, where nobody could know.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct ResolveArgs {
    /// The event's id.
    id: String,
    /// The effect, as `dead show` lists it.
    effect: String,
    /// It happened, with this result for the effects after it: JSON, as the flow's `result` names it.
    #[arg(long, value_name = "JSON", value_parser = value, group = "verdict")]
    happened: Option<Value>,
    /// It did not happen: a replay calls it.
    #[arg(long, group = "verdict")]
    did_not_happen: bool,
    /// The version of the row that you saw: refused if it has changed since.
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
            anstream::eprint!("{}", columns(ParkedEvent::HEAD, &[line.row()]));
            if !self.yes.confirm(&self.question())? {
                return Ok(CommandExit::Problems);
            }
            let operation = self.why.add_to(cloud, self.operation(&line)).await;
            let answer = cloud.change(operation, &format!("ledgerline dead show {}", self.id)).await?;
            output::print_answer(json, &answer, || {
                format!("It is written down. The event stays parked:\n  ledgerline replay {} --reason '…'\n", self.id)
            })?;
            Ok(CommandExit::Success)
        })
    }

    fn question(&self) -> String {
        let effect = output::printable(&self.effect);
        match self.happened {
            Some(_) => format!("Say that {effect} happened, so that it is never called for this event again?"),
            None => format!("Say that {effect} did not happen, so that a replay calls it?"),
        }
    }

    /// The word on the row as it was shown, or as it was seen before.
    fn operation(&self, line: &ParkedEvent) -> Value {
        let verdict = self.happened.as_ref();
        let verdict = verdict.map_or_else(|| json!("did_not_happen"), |result| json!({"happened": result}));
        let version = self.seen.as_ref().unwrap_or(&line.version);
        json!({"op": "resolve", "id": self.id, "effect": self.effect, "verdict": verdict, "version": version})
    }
}

fn value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}; write JSON, as {{\"crm_id\": \"c-1\"}}"))
}
