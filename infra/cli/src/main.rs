//! The `ledgerline` command.

use std::process::ExitCode;

use clap::Parser;
use ledgerline::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            anstream::eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}
