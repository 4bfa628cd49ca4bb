//! The `local` command.

use std::process::ExitCode;

use clap::Parser;
use local::cli::LocalCli;
use local::output::error_text;

#[tokio::main]
async fn main() -> ExitCode {
    match LocalCli::parse().run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("\n{}", error_text(&error));
            ExitCode::FAILURE
        }
    }
}
