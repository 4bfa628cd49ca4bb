//! The operator's command.
//!
//! Each group of verbs is a module: [`flows`] reads the flow files; `dead`, `trace`, `replay`, `decide`, `switch` and `contacts`
//! invoke the replay function of a [`cloud`]; `secrets` writes to SSM; `latency` reads CloudWatch, and `deploying` counts
//! there that a deploy begins. A verb gathers plain data first and prints it
//! last, so that `--json` and the tables for people hold the same.
//!
//! Deliberately absent: values of events. A plan or a report names places, shapes and keys; `dead show` prints the
//! masked preview that the replay function makes.

mod args;
mod catalog;
mod cloud;
mod completions;
mod confirm;
mod flows_folder;
mod interrupt;
mod event_outcomes;
pub mod output;
mod sample_event;
mod operator_name;

mod contacts;
mod dead;
mod decide;
mod deploying;
pub mod flows;
mod latency;
pub mod rehearse;
mod replay;
pub mod scenarios;
mod secrets;
mod switch;
mod trace;
mod version;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use cloud::{CloudArgs, CloudError};

/// Operate Ledgerline: list and replay parked events, decide on them, switch flows, check flow files.
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
  0  the command did what you asked
  1  the command found problems, you did not confirm, or the batch was stopped
  2  the command line or a file is wrong; nothing was changed
  3  the change makes old events new again (flows diff)
  4  the replay function declined the operation; nothing was changed
  5  AWS, the replay function, something that it needs, or the local cloud did not answer: a change may have been
     made, and the message says where to look
  6  the replay function did some of the operations and declined the others

Colours are printed on terminals only. NO_COLOR=1 turns them off.";

impl OperatorCli {
    /// Runs the verb, and prints what comes of it.
    pub fn run(self) -> Result<CommandExit> {
        let OperatorCli { verb, json, at } = self;
        let result = verb.run(&at, json);
        // A script reads why the function declined where it would read the answer.
        if let Some(CloudError::Declined(answer)) = result.as_ref().err().and_then(|error| error.downcast_ref())
            && json
        {
            output::print_answer(true, answer, String::new)?;
        }
        result
    }
}

/// How a run of the command ends. Each kind has an exit code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandExit {
    /// The command did what it was asked.
    Success,
    /// The command printed problems; or the operator did not confirm; or a batch was stopped.
    Problems,
    /// The command line or a file is wrong: nothing was sent.
    Usage,
    /// A change of the flow files can make an effect happen again, or be forgotten.
    RiskyChange,
    /// The replay function declined the operation.
    Declined,
    /// AWS, the replay function, something that it needs, or the local cloud did not answer.
    Unreached,
    /// The replay function did some of the operations and declined the others.
    PartlyDone,
}

impl CommandExit {
    /// How a run ends that an error ended. A closed pipe is no error: its reader has read what it wanted.
    pub fn of_error(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<CloudError>() {
            Some(CloudError::Declined(_)) => CommandExit::Declined,
            Some(CloudError::Unreached(_)) => CommandExit::Unreached,
            None if error.downcast_ref().is_some_and(output::is_closed_pipe) => CommandExit::Success,
            None => CommandExit::Usage,
        }
    }
}

impl From<CommandExit> for ExitCode {
    fn from(exit: CommandExit) -> Self {
        ExitCode::from(match exit {
            CommandExit::Success => 0,
            CommandExit::Problems => 1,
            CommandExit::Usage => 2,
            CommandExit::RiskyChange => 3,
            CommandExit::Declined => 4,
            CommandExit::Unreached => 5,
            CommandExit::PartlyDone => 6,
        })
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Look at parked events. Changes nothing.
    #[command(subcommand)]
    Dead(dead::DeadVerb),
    /// Show what a replay would do for each event and each effect. Changes nothing.
    #[command(after_help = replay::PLAN_EXAMPLES)]
    Plan(replay::PlanArgs),
    /// Replay exactly what a plan showed, or nothing.
    #[command(after_help = replay::APPLY_EXAMPLES)]
    Apply(replay::ApplyArgs),
    /// Show what was done for an event, and when it waited. Changes nothing.
    #[command(after_help = trace::EXAMPLES)]
    Trace(trace::TraceArgs),
    /// Send parked events through the queue again. An effect that is done is not called again.
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArgs),
    /// Stop a batch of replays. The events that it has sent go on.
    #[command(after_help = replay::STOP_EXAMPLES)]
    Stop(replay::StopArgs),
    /// Approve events that await approval: their effects are called as you are shown.
    #[command(after_help = decide::APPROVAL_EXAMPLES)]
    Approve(decide::ApprovalArgs),
    /// Reject events that await approval: their effects are never called.
    #[command(after_help = decide::APPROVAL_EXAMPLES)]
    Reject(decide::ApprovalArgs),
    /// Give up for good on events that are dead or await approval, with a sign-off.
    #[command(after_help = decide::DROP_EXAMPLES)]
    Drop(decide::DropArgs),
    /// Record whether an effect happened, where the processor could not find out.
    #[command(after_help = decide::RESOLVE_EXAMPLES)]
    Resolve(decide::ResolveArgs),
    /// Pause calls to partners: those of a flow, those to an integration, or all of them.
    #[command(after_help = switch::EXAMPLES)]
    Pause(switch::PauseArgs),
    /// Resume calls to partners that are paused.
    #[command(after_help = switch::EXAMPLES)]
    Resume(switch::ResumeArgs),
    /// Turn a flow's safe mode on for a while, or off: it does what its `safe_mode` block says.
    #[command(after_help = switch::EXAMPLES)]
    SafeMode(switch::SafeModeArgs),
    /// Change a flow's retry policy without a deploy, or restore the one in its file.
    #[command(after_help = switch::EXAMPLES)]
    Policy(switch::PolicyArgs),
    /// Log more or less of one flow for a while, without a deploy.
    #[command(after_help = switch::EXAMPLES)]
    LogLevel(switch::LogLevelArgs),
    /// Show which switches are on, the last turns of switches, and the newest batches of replays.
    Status(switch::StatusArgs),
    /// Show, set and import contacts: whom guards ask for consent.
    #[command(subcommand)]
    Contacts(contacts::ContactsVerb),
    /// List, put and rotate the secrets of senders and partners. Never prints one that is stored.
    #[command(subcommand)]
    Secrets(secrets::SecretsVerb),
    /// Show how long events take, from received to settled.
    #[command(after_help = latency::EXAMPLES)]
    Latency(latency::LatencyArgs),
    /// Hold back the alarms that a deploy disturbs, for 15 minutes. `make deploy` does it by itself.
    #[command(after_help = deploying::EXAMPLES)]
    Deploying(deploying::DeployingArgs),
    /// Check, compare, test and prove flow files. Calls no partner; only `schemas`, `new` and `--update` write files.
    #[command(subcommand)]
    Flows(flows::FlowsVerb),
    /// Send a historical export through your flows, in-process and at machine speed, and report what would become of it.
    #[command(after_help = rehearse::EXAMPLES)]
    Rehearse(rehearse::RehearseArgs),
    /// Print the version, the commit that it was built from, and the formats that it knows.
    Version,
    /// Print a completion script for your shell.
    #[command(after_help = completions::EXAMPLES)]
    Completions {
        /// The shell that the script is for.
        shell: clap_complete::Shell,
    },
}

impl Verb {
    fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        match self {
            Verb::Dead(verb) => verb.run(at, json),
            Verb::Plan(plan) => plan.run(at, json),
            Verb::Apply(apply) => apply.run(at, json),
            Verb::Trace(trace) => trace.run(at, json),
            Verb::Replay(replay) => replay.run(at, json),
            Verb::Stop(stop) => stop.run(at, json),
            Verb::Approve(events) => events.run(decide::ApproveOrReject::Approve, at, json),
            Verb::Reject(events) => events.run(decide::ApproveOrReject::Reject, at, json),
            Verb::Drop(drop) => drop.run(at, json),
            Verb::Resolve(resolve) => resolve.run(at, json),
            Verb::Pause(pause) => pause.run(at, json),
            Verb::Resume(resume) => resume.run(at, json),
            Verb::SafeMode(safe_mode) => safe_mode.run(at, json),
            Verb::Policy(policy) => policy.run(at, json),
            Verb::LogLevel(level) => level.run(at, json),
            Verb::Status(status) => status.run(at, json),
            Verb::Contacts(verb) => verb.run(at, json),
            Verb::Secrets(verb) => verb.run(at, json),
            Verb::Latency(latency) => latency.run(at, json),
            Verb::Deploying(deploying) => deploying.run(at, json),
            Verb::Flows(verb) => verb.run(json),
            Verb::Rehearse(rehearse) => rehearse.run(json),
            Verb::Version => version::print(json),
            Verb::Completions { shell } => completions::print(shell),
        }
    }
}
