//! `ledgerline dead`: looking over what is parked. Nothing is changed.

mod line;
mod list;
mod page;
mod reasons;
mod tail;

use anyhow::Result;
use clap::Subcommand;

use crate::Verdict;
use crate::cloud::At;

pub(crate) use line::{Line, none};
pub(crate) use page::{show as look_at, version};

/// What can be looked at.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Print the newest parked events like a log, the newest at the bottom.
    #[command(after_help = tail::EXAMPLES, mut_arg("reason_was", |arg| arg.visible_alias("reason")))]
    Tail(tail::Tail),
    /// List the newest parked events, the newest first.
    #[command(after_help = list::EXAMPLES, mut_arg("reason_was", |arg| arg.visible_alias("reason")))]
    List(list::List),
    /// Show everything about one event: its effects, its history, a masked preview.
    #[command(after_help = page::EXAMPLES)]
    Show(page::Show),
    /// Tell what the parked died of, the most frequent first.
    #[command(after_help = reasons::EXAMPLES, mut_arg("reason_was", |arg| arg.visible_alias("reason")))]
    Reasons(reasons::Reasons),
}

impl Verb {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        match self {
            Verb::Tail(tail) => tail.run(at, json),
            Verb::List(list) => list.run(at, json),
            Verb::Show(show) => show.run(at, json),
            Verb::Reasons(reasons) => reasons.run(at, json),
        }
    }
}
