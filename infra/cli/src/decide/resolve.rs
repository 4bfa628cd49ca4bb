//! `ledgerline resolve`

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::args::Why;
use crate::cloud::{self, At};
use crate::dead::version;
use crate::{Verdict, output};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline resolve 1b16f576… crm --did-not-happen --reason 'the CRM has no such lead'
  ledgerline resolve 1b16f576… crm --happened '{\"crm_id\": \"c-1\"}' --reason 'saw it in the CRM'

Look into the partner's own records first: a wrong word makes an effect happen twice, or never.
The event stays parked. A replay takes it on from there.";

/// Say of an effect whether it happened, where nobody could know.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct Resolve {
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
    why: Why,
}

impl Resolve {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        let Resolve { id, effect, happened, seen, why, .. } = self;
        let verdict = happened.map_or_else(|| json!("did_not_happen"), |result| json!({"happened": result}));
        let answer = cloud::with(at, async |cloud| {
            let version = version(cloud, &id, seen.as_deref()).await?;
            let operation =
                json!({"op": "resolve", "id": id, "effect": effect, "verdict": verdict, "version": version});
            cloud.change(why.sign(cloud, operation).await, &format!("ledgerline dead show {id}")).await
        })?;
        output::show(json, &answer, || {
            format!("It is written down. The event stays parked:\n  ledgerline replay {id} --reason '…'\n")
        })?;
        Ok(Verdict::Fine)
    }
}

fn value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}; write JSON, as {{\"crm_id\": \"c-1\"}}"))
}
