//! `ledgerline pause`, `resume`, `safe-mode`, `policy` and `log-level`: each turns a switch.

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};

use super::status;
use crate::args::{ByAndReasonArgs, now, parse_change, parse_duration};
use crate::cloud::{self, CloudArgs};
use crate::{CommandExit, output};

/// Pause calls to partners: events wait, and waiting is no attempt.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    of: SwitchTargetArgs,
    /// How long the pause lasts, for example `30m`. Without it, until `resume`.
    #[arg(long = "for", value_name = "30m", value_parser = time)]
    time: Option<String>,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl PauseArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let SwitchTargetArgs { flow, integration } = self.of;
        turn(at, json, json!({"op": "pause", "flow": flow, "integration": integration, "for": self.time}), &self.why)
    }
}

/// Resume calls to partners that are paused.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    of: SwitchTargetArgs,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl ResumeArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let SwitchTargetArgs { flow, integration } = self.of;
        turn(at, json, json!({"op": "resume", "flow": flow, "integration": integration}), &self.why)
    }
}

/// Turn a flow's safe mode on for a while, or off.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("position").required(true))]
pub(crate) struct SafeModeArgs {
    /// Only this flow. Without it, all flows.
    #[arg(long)]
    flow: Option<String>,
    /// Turn safe mode on for this long, for example `30m`.
    #[arg(long = "for", value_name = "30m", value_parser = time, group = "position")]
    time: Option<String>,
    /// Turn safe mode off.
    #[arg(long, group = "position")]
    off: bool,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl SafeModeArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        // For zero seconds means off.
        let time = self.time.unwrap_or_else(|| "0s".into());
        turn(at, json, json!({"op": "safe_mode", "flow": self.flow, "for": time}), &self.why)
    }
}

/// Change the named parts of a flow's retry policy; with none named, restore the one in its file.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// The flow whose policy changes.
    #[arg(long)]
    flow: String,
    /// The parts to change, as in the flow's `retry`: max_attempts=5 base=2s jitter=full
    #[arg(value_name = "NAME=VALUE", value_parser = parse_change)]
    retry: Vec<(String, Value)>,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl PolicyArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let retry: Map<String, Value> = self.retry.into_iter().collect();
        turn(at, json, json!({"op": "policy", "flow": self.flow, "retry": retry}), &self.why)
    }
}

/// Log more or less of one flow for a while.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("position").required(true))]
pub(crate) struct LogLevelArgs {
    /// The flow whose events are logged.
    #[arg(long)]
    flow: String,
    /// For how long, for example `30m`: 24 hours at most.
    #[arg(long = "for", value_name = "30m", value_parser = time, group = "position")]
    time: Option<String>,
    /// Log as usual again.
    #[arg(long, group = "position")]
    off: bool,
    /// How much is logged: each step of a message is at debug.
    #[arg(value_name = "LEVEL", value_parser = ["error", "warn", "info", "debug"], default_value = "debug")]
    level: String,
    #[command(flatten)]
    why: ByAndReasonArgs,
}

impl LogLevelArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        // For zero seconds means as usual.
        let time = self.time.unwrap_or_else(|| "0s".into());
        turn(at, json, json!({"op": "log_level", "flow": self.flow, "level": self.level, "for": time}), &self.why)
    }
}

/// The flow or the integration that a switch is for.
#[derive(Debug, Args)]
struct SwitchTargetArgs {
    /// Only calls of this flow.
    #[arg(long, conflicts_with = "integration")]
    flow: Option<String>,
    /// Only calls to this integration.
    #[arg(long)]
    integration: Option<String>,
}

fn turn(at: &CloudArgs, json: bool, operation: Value, why: &ByAndReasonArgs) -> Result<CommandExit> {
    let answer = cloud::with(at, async |cloud| cloud.change(why.add_to(cloud, operation).await, "status").await)?;
    let on = || status::board_text(&answer, |board| status::switches_text(board, now()));
    output::print_answer(json, &answer, || {
        format!("The switch is in force within five seconds. {}Now on:\n\n{}", woken(&answer), on())
    })?;
    Ok(CommandExit::Success)
}

/// How many events a resume woke. Other turns wake none.
fn woken(answer: &Value) -> String {
    let woken = answer["woken"].as_u64().and_then(|woken| usize::try_from(woken).ok());
    woken.map_or_else(String::new, |woken| format!("{} woken. ", output::count(woken, "waiting event")))
}

/// Reads a duration, and sends it as it was written.
fn time(text: &str) -> Result<String, String> {
    match parse_duration(text)? {
        span if span.is_zero() => {
            Err("write a time above zero; to end a pause, use `resume`, and to end safe mode, `--off`".into())
        }
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resume_says_how_many_events_it_woke() {
        assert_eq!(woken(&json!({"woken": 3})), "3 waiting events woken. ");
        assert_eq!(
            (woken(&json!({"woken": 0})), woken(&json!({}))),
            ("0 waiting events woken. ".into(), String::new())
        );
    }

    #[test]
    fn a_switch_is_on_for_some_time() {
        assert_eq!(time("1h30m").as_deref(), Ok("1h30m"));
        assert!(time("0s").is_err() && time("soon").is_err());
    }
}
