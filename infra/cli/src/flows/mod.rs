//! `ledgerline flows`: checks the flow files, compares them, and shows what they would do.

pub mod check;
pub mod diff;
pub mod keys;
pub mod new;
pub mod plan;
pub mod prove;
pub mod schemas;
pub mod test;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::CommandExit;

/// The verbs below `ledgerline flows`.
#[derive(Debug, Subcommand)]
pub enum FlowsVerb {
    /// Check the flow files, and print every problem with its line.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Print what changed since a revision, and whether old events become new again.
    #[command(after_help = diff::EXAMPLES)]
    Diff(diff::DiffArgs),
    /// Show what an event would do, effect by effect. Calls no partner.
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::FlowsPlanArgs),
    /// Try the key on exported events: which would count as the same event, and which would not.
    #[command(after_help = keys::EXAMPLES)]
    Keys(keys::KeysArgs),
    /// Play the scenarios beside the flows: given these deliveries and answers, these calls and ends.
    #[command(after_help = test::EXAMPLES)]
    Test(test::TestArgs),
    /// Ask of flows whether they can do something twice, lose something, or get stuck, before they are deployed.
    #[command(after_help = prove::EXAMPLES)]
    Prove(prove::ProveArgs),
    /// Make a flow and its first scenario from a sample event, for a partner of the catalogue.
    #[command(after_help = new::EXAMPLES)]
    New(new::NewArgs),
    /// Write the JSON Schemas that editors use to complete and check flow files.
    Schemas(schemas::SchemasArgs),
}

impl FlowsVerb {
    /// Runs the verb, and prints what comes of it.
    pub fn run(self, json: bool) -> Result<CommandExit> {
        match self {
            FlowsVerb::Check(check) => check.run(json),
            FlowsVerb::Diff(diff) => diff.run(json),
            FlowsVerb::Plan(plan) => plan.run(json),
            FlowsVerb::Keys(keys) => keys.run(json),
            FlowsVerb::Test(test) => test.run(json),
            FlowsVerb::Prove(prove) => prove.run(json),
            FlowsVerb::New(new) => new.run(),
            FlowsVerb::Schemas(schemas) => schemas.run(),
        }
    }
}

/// The option that names the flows folder.
#[derive(Debug, Args)]
pub struct FlowsFolderArgs {
    /// The flows folder. Without it, that of the project that you are in.
    #[arg(long = "in", value_name = "DIR", global = true)]
    folder: Option<PathBuf>,
}
