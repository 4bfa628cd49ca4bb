//! The `ledgerline` command.

use std::process::ExitCode;

use clap::Parser;
use ledgerline::{Cli, Verdict};

fn main() -> ExitCode {
    let verdict = Cli::parse().run().unwrap_or_else(|error| {
        let verdict = Verdict::of(&error);
        if verdict != Verdict::Fine {
            anstream::eprintln!("{error:#}");
        }
        verdict
    });
    verdict.into()
}
