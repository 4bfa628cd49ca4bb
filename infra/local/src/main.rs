//! The `local` command.

use std::process::ExitCode;

use clap::Parser;
use local::cli::LocalCli;

#[tokio::main]
async fn main() -> ExitCode {
    match LocalCli::parse().run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("\n{error:#}");
            ExitCode::FAILURE
        }
    }
}
