//! The operator's command.
//!
//! Each group of verbs is a module: [`flows`] says what the flow files mean; `dead`, `replay`, `decide` and
//! `switch` ask the replay function of a [`cloud`]; `latency` asks its CloudWatch. A verb gathers, then shows:
//! what it found is plain data first, so that `--json` and the tables for people tell the same.
//!
//! Deliberately absent: values of events. A plan or a report names places, shapes and keys; a page has the
//! masked preview that the function makes.

mod args;
mod cloud;
mod completions;
mod confirm;
mod flows_folder;
mod interrupt;
mod event_outcomes;
pub mod output;
mod sample_event;
mod operator_name;

mod dead;
mod decide;
pub mod flows;
mod latency;
mod replay;
mod switch;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use cloud::{CloudArgs, CloudError};

/// Ledgerline: partner webhooks in, each side effect at most once.
#[derive(Debug, Parser)]
#[command(name = "ledgerline", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct OperatorCli {
    #[command(subcommand)]
    verb: Verb,
    /// Print JSON for scripts.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    at: CloudArgs,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  there are problems, a batch was stopped, or you said no
  2  wrong usage, or a file that cannot be read
  3  a change makes old events new again (flows diff)
  4  refused: the function said no, and nothing was changed
  5  not reached: AWS, the function, what it works with, or the local cloud; or an answer was lost
  6  some were done, and some refused

Colours are for terminals only, and NO_COLOR takes them away.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Look over what is parked. Nothing is changed.
    #[command(subcommand)]
    Dead(dead::DeadVerb),
    /// Tell what a replay would do for each event and each effect. Nothing is changed.
    #[command(after_help = replay::PLAN_EXAMPLES)]
    Plan(replay::PlanArgs),
    /// Replay exactly what a plan said, or nothing.
    #[command(after_help = replay::APPLY_EXAMPLES)]
    Apply(replay::ApplyArgs),
    /// Send parked events through the queue again. What is done stays done.
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArgs),
    /// Stop a batch of replays. What is on its way goes on.
    #[command(after_help = replay::STOP_EXAMPLES)]
    Stop(replay::StopArgs),
    /// Approve what awaits it, as it is shown.
    #[command(after_help = decide::APPROVAL_EXAMPLES)]
    Approve(decide::ApprovalArgs),
    /// Say no to what awaits approval.
    #[command(after_help = decide::APPROVAL_EXAMPLES)]
    Reject(decide::ApprovalArgs),
    /// Give up for good on events that are dead or await approval, with a sign-off.
    #[command(after_help = decide::DROP_EXAMPLES)]
    Drop(decide::DropArgs),
    /// Say of an effect whether it happened, where nobody could know.
    #[command(after_help = decide::RESOLVE_EXAMPLES)]
    Resolve(decide::ResolveArgs),
    /// Hold calls back: of a flow, of an integration, or all of them.
    #[command(after_help = switch::EXAMPLES)]
    Pause(switch::PauseArgs),
    /// Let calls go on that were held back.
    #[command(after_help = switch::EXAMPLES)]
    Resume(switch::ResumeArgs),
    /// Make a flow do what its `safe_mode` says, for a while.
    #[command(after_help = switch::EXAMPLES)]
    SafeMode(switch::SafeModeArgs),
    /// Change a flow's retry policy, or take that back.
    #[command(after_help = switch::EXAMPLES)]
    Policy(switch::PolicyArgs),
    /// Show what is switched, what was turned last, and the newest batches of replays.
    Status(switch::StatusArgs),
    /// Tell how long events take, from received to settled.
    #[command(after_help = latency::EXAMPLES)]
    Latency(latency::LatencyArgs),
    /// Check, compare and try out flow files. Nothing is called, and only `schemas` writes files.
    #[command(subcommand)]
    Flows(flows::FlowsVerb),
    /// Print a completion script for your shell.
    #[command(after_help = completions::EXAMPLES)]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

impl OperatorCli {
    /// Does what was asked.
    pub fn run(self) -> Result<CommandExit> {
        let OperatorCli { verb, json, at } = self;
        let ran = verb.run(&at, json);
        // A script reads the refusal where it would read the answer.
        if let Some(CloudError::Declined(answer)) = ran.as_ref().err().and_then(|error| error.downcast_ref())
            && json
        {
            output::json(answer);
        }
        ran
    }
}

impl Verb {
    fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        match self {
            Verb::Dead(verb) => verb.run(at, json),
            Verb::Plan(plan) => plan.run(at, json),
            Verb::Apply(apply) => apply.run(at, json),
            Verb::Replay(replay) => replay.run(at, json),
            Verb::Stop(stop) => stop.run(at, json),
            Verb::Approve(question) => question.run(decide::ApproveOrReject::Approve, at, json),
            Verb::Reject(question) => question.run(decide::ApproveOrReject::Reject, at, json),
            Verb::Drop(drop) => drop.run(at, json),
            Verb::Resolve(resolve) => resolve.run(at, json),
            Verb::Pause(pause) => pause.run(at, json),
            Verb::Resume(resume) => resume.run(at, json),
            Verb::SafeMode(safe_mode) => safe_mode.run(at, json),
            Verb::Policy(policy) => policy.run(at, json),
            Verb::Status(status) => status.run(at, json),
            Verb::Latency(latency) => latency.run(at, json),
            Verb::Flows(verb) => verb.run(json),
            Verb::Completions { shell } => completions::print(shell),
        }
    }
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandExit {
    /// All is well.
    Success,
    /// There are problems, and they were shown; or something was not done after all.
    Problems,
    /// It could not even be tried: the words or the files are wrong.
    Usage,
    /// A change makes old events new again.
    ResetsDedup,
    /// The function said no.
    Declined,
    /// AWS, the function, what it works with or the local cloud was not reached.
    Unreached,
    /// Some were done, and some refused.
    PartlyDone,
}

impl CommandExit {
    /// What an error comes to. A reader that has gone is none: it has read what it wanted.
    pub fn of(error: &anyhow::Error) -> Self {
        let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        match error.downcast_ref::<CloudError>() {
            Some(CloudError::Declined(_)) => CommandExit::Declined,
            Some(CloudError::Unreached(_)) => CommandExit::Unreached,
            None if error.downcast_ref().is_some_and(gone) => CommandExit::Success,
            None => CommandExit::Usage,
        }
    }
}

impl From<CommandExit> for ExitCode {
    fn from(verdict: CommandExit) -> Self {
        ExitCode::from(match verdict {
            CommandExit::Success => 0,
            CommandExit::Problems => 1,
            CommandExit::Usage => 2,
            CommandExit::ResetsDedup => 3,
            CommandExit::Declined => 4,
            CommandExit::Unreached => 5,
            CommandExit::PartlyDone => 6,
        })
    }
}
