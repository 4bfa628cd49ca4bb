//! The operator's command.
//!
//! Each group of verbs is a module: [`flows`] says what the flow files mean. A verb gathers, then shows:
//! what it found is plain data first, so that `--json` and the tables for people tell the same.
//!
//! Deliberately absent: values of events. A plan or a report names places, shapes and keys.

mod completions;
mod delivery;
mod folder;
pub mod output;

pub mod flows;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Ledgerline: partner webhooks in, each side effect at most once.
#[derive(Debug, Parser)]
#[command(name = "ledgerline", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  there are problems
  2  wrong usage, or a file that cannot be read
  3  a change makes old events new again (flows diff)

Colours are for terminals only, and NO_COLOR takes them away.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check, compare and try out flow files. Nothing is called, nothing is changed.
    #[command(subcommand)]
    Flows(flows::Verb),
    /// Print a completion script for your shell.
    #[command(after_help = completions::EXAMPLES)]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

impl Cli {
    /// Does what was asked.
    pub fn run(self) -> Result<Verdict> {
        match self.verb {
            Verb::Flows(verb) => verb.run(),
            Verb::Completions { shell } => completions::print(shell),
        }
    }
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Fine,
    /// There are problems, and they were shown.
    Problems,
    /// A change makes old events new again.
    Resets,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        ExitCode::from(match verdict {
            Verdict::Fine => 0,
            Verdict::Problems => 1,
            Verdict::Resets => 3,
        })
    }
}
