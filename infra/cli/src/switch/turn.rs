//! Turning a switch.

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};

use super::status;
use crate::args::{Why, now, span};
use crate::cloud::{self, At};
use crate::{Verdict, output};

/// What a switch is of.
#[derive(Debug, Args)]
struct Subject {
    /// Of this flow.
    #[arg(long, conflicts_with = "integration")]
    flow: Option<String>,
    /// Of this integration.
    #[arg(long)]
    integration: Option<String>,
}

/// Hold calls back: events wait, and waiting is no attempt.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    of: Subject,
    /// For how long, as `30m`. Without it, until `resume`.
    #[arg(long = "for", value_name = "30m", value_parser = time)]
    time: Option<String>,
    #[command(flatten)]
    why: Why,
}

impl Pause {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        let Subject { flow, integration } = self.of;
        turn(at, json, json!({"op": "pause", "flow": flow, "integration": integration, "for": self.time}), &self.why)
    }
}

/// Let calls go on that were held back.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    of: Subject,
    #[command(flatten)]
    why: Why,
}

impl Resume {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        let Subject { flow, integration } = self.of;
        turn(at, json, json!({"op": "resume", "flow": flow, "integration": integration}), &self.why)
    }
}

/// Make a flow do what its `safe_mode` says, for a while.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("position").required(true))]
pub(crate) struct SafeMode {
    /// Of this flow. Without it, of all flows.
    #[arg(long)]
    flow: Option<String>,
    /// On, for so long, as `30m`.
    #[arg(long = "for", value_name = "30m", value_parser = time, group = "position")]
    time: Option<String>,
    /// Off.
    #[arg(long, group = "position")]
    off: bool,
    #[command(flatten)]
    why: Why,
}

impl SafeMode {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        // For no time at all is off.
        let time = self.time.unwrap_or_else(|| "0s".into());
        turn(at, json, json!({"op": "safe_mode", "flow": self.flow, "for": time}), &self.why)
    }
}

/// Change a flow's retry policy in what is named; in nothing, it is the flow's own again.
#[derive(Debug, Args)]
pub(crate) struct Policy {
    /// The flow.
    #[arg(long)]
    flow: String,
    /// What is changed, as in the flow's `retry`: max_attempts=5 base=2s jitter=full
    #[arg(value_name = "NAME=VALUE", value_parser = change)]
    retry: Vec<(String, Value)>,
    #[command(flatten)]
    why: Why,
}

impl Policy {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        let retry: Map<String, Value> = self.retry.into_iter().collect();
        turn(at, json, json!({"op": "policy", "flow": self.flow, "retry": retry}), &self.why)
    }
}

fn turn(at: &At, json: bool, operation: Value, why: &Why) -> Result<Verdict> {
    let answer =
        cloud::with(at, async |cloud| cloud.change(why.sign(cloud, operation).await, "ledgerline status").await)?;
    let on = || status::of_board(&answer, |board| status::switches(board, now()));
    output::show(json, &answer, || format!("In force within five seconds.\n\n{}", on()))?;
    Ok(Verdict::Fine)
}

/// A stretch of time, checked here and sent as it was written.
fn time(text: &str) -> Result<String, String> {
    match span(text)? {
        span if span.is_zero() => Err("it must be some time; `resume`, or `--off`, ends it".into()),
        _ => Ok(text.to_owned()),
    }
}

/// A change of a policy: a number where it is one, else a text.
fn change(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as max_attempts=5")?;
    Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_changed_in_numbers_and_words() {
        assert_eq!(change("max_attempts=5"), Ok(("max_attempts".into(), json!(5))));
        assert_eq!(change("base=2s"), Ok(("base".into(), json!("2s"))));
        assert_eq!(change("jitter=full"), Ok(("jitter".into(), json!("full"))));
        assert!(change("max_attempts").is_err());
    }

    #[test]
    fn a_switch_is_on_for_some_time() {
        assert_eq!(time("1h30m").as_deref(), Ok("1h30m"));
        assert!(time("0s").is_err() && time("soon").is_err());
    }
}
