//! `ledgerline flows`: what the flow files say, and what they would do.

pub mod check;
pub mod diff;
pub mod keys;
pub mod plan;
pub mod schemas;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::CommandExit;

/// What can be done with flow files.
#[derive(Debug, Subcommand)]
pub enum FlowsVerb {
    /// Tell everything that is wrong with the flow files.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Tell in words what changed since a revision, and whether old events become new again.
    #[command(after_help = diff::EXAMPLES)]
    Diff(diff::DiffArgs),
    /// Show what an event would do, effect by effect, without its values. Nothing is called.
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::FlowsPlanArgs),
    /// Run the key over exported events: what would be taken for the same event, and what would not.
    #[command(after_help = keys::EXAMPLES)]
    Keys(keys::KeysArgs),
    /// Write the JSON Schemas by which editors complete and check flow files.
    Schemas(schemas::SchemasArgs),
}

impl FlowsVerb {
    /// Does what was asked.
    pub fn run(self, json: bool) -> Result<CommandExit> {
        match self {
            FlowsVerb::Check(check) => check.run(json),
            FlowsVerb::Diff(diff) => diff.run(json),
            FlowsVerb::Plan(plan) => plan.run(json),
            FlowsVerb::Keys(keys) => keys.run(json),
            FlowsVerb::Schemas(schemas) => schemas.run(),
        }
    }
}

/// What all verbs take.
#[derive(Debug, Args)]
pub struct FlowsFolderArgs {
    /// The flows folder. Without it, the one of the project that you are in.
    #[arg(long = "in", value_name = "DIR", global = true)]
    folder: Option<PathBuf>,
}
