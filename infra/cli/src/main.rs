//! The `ledgerline` command.

use std::process::ExitCode;

use clap::Parser;
use ledgerline::{CommandExit, OperatorCli};

fn main() -> ExitCode {
    let verdict = OperatorCli::parse().run().unwrap_or_else(|error| {
        let verdict = CommandExit::of(&error);
        if verdict != CommandExit::Success {
            anstream::eprintln!("{error:#}");
        }
        verdict
    });
    verdict.into()
}
