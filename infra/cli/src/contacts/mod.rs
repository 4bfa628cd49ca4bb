//! `ledgerline contacts`: the people that flows know, of whom guards ask for consent.

pub(crate) mod csv;
mod import;
mod report;
pub(crate) mod rows;
mod set;
mod show;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::CommandExit;
use crate::cloud::CloudArgs;

/// The verbs below `ledgerline contacts`.
#[derive(Debug, Subcommand)]
pub(crate) enum ContactsVerb {
    /// Show a contact: its fields, masked, and when each was last changed.
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowContactArgs),
    /// Set or remove fields of a contact, as of now.
    #[command(after_help = set::EXAMPLES)]
    Set(set::SetContactArgs),
    /// Import contacts from a file. The same import again changes nothing.
    #[command(after_help = import::EXAMPLES)]
    Import(import::ImportArgs),
}

impl ContactsVerb {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        match self {
            ContactsVerb::Show(show) => show.run(at, json),
            ContactsVerb::Set(set) => set.run(at, json),
            ContactsVerb::Import(import) => import.run(at, json),
        }
    }
}

/// The contact that a verb is about.
#[derive(Debug, Args)]
struct ContactArgs {
    /// The contact's email, in any spelling.
    email: String,
    /// The tenant that the contact belongs to.
    #[arg(long)]
    tenant: String,
}
