//! `ledgerline dead`: looks at parked events, and changes nothing.

mod parked_event;
mod list;
mod show;
mod reasons;
mod tail;

use anyhow::Result;
use clap::Subcommand;

use crate::CommandExit;
use crate::cloud::CloudArgs;

pub(crate) use parked_event::{ParkedEvent, no_match};
pub(crate) use show::{read_event, row_version};

/// The verbs below `ledgerline dead`.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadVerb {
    /// Print the newest parked events like a log, the newest at the bottom.
    #[command(after_help = tail::EXAMPLES, mut_arg("reason_was", |arg| arg.visible_alias("reason")))]
    Tail(tail::TailArgs),
    /// List the newest parked events, the newest first.
    #[command(after_help = list::EXAMPLES, mut_arg("reason_was", |arg| arg.visible_alias("reason")))]
    List(list::ListArgs),
    /// Show one event: its effects, its history, a masked preview, what to do next.
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// Count the reasons for which parked events died, the most frequent first.
    #[command(after_help = reasons::EXAMPLES, mut_arg("reason_was", |arg| arg.visible_alias("reason")))]
    Reasons(reasons::ReasonsArgs),
}

impl DeadVerb {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        match self {
            DeadVerb::Tail(tail) => tail.run(at, json),
            DeadVerb::List(list) => list.run(at, json),
            DeadVerb::Show(show) => show.run(at, json),
            DeadVerb::Reasons(reasons) => reasons.run(at, json),
        }
    }
}
