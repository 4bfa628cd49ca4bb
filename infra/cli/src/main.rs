//! The `ledgerline` command.

use std::process::ExitCode;

use clap::Parser;
use ledgerline::{CommandExit, OperatorCli, output};

fn main() -> ExitCode {
    let exit = OperatorCli::parse().run().unwrap_or_else(|error| {
        let exit = CommandExit::of_error(&error);
        if exit != CommandExit::Success {
            output::print_error(&error);
        }
        exit
    });
    exit.into()
}
