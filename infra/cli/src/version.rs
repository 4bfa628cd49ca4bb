//! `ledgerline version`

use anyhow::Result;
use serde_json::json;
use shared::base::format::FORMAT;
use shared::effects::invocation::INVOCATION_FORMAT;

use crate::{CommandExit, output};

/// The commit that a release was built from. A checkout has none: it may have been changed since.
const COMMIT: Option<&str> = option_env!("LEDGERLINE_COMMIT");

/// Prints the version, the commit and the formats.
pub(crate) fn print(json: bool) -> Result<CommandExit> {
    let (version, os, architecture) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    let answer = json!({
        "version": version, "commit": COMMIT, "os": os, "architecture": architecture,
        "format": FORMAT, "invocation_format": INVOCATION_FORMAT,
    });
    output::print_answer(json, &answer, || {
        format!(
            "ledgerline {version} for {os} on {architecture}\n\
             commit: {}\n\
             format of rows, messages and documents: {FORMAT}; 1 to {FORMAT} are read\n\
             format of the invocations of functions of your own: {INVOCATION_FORMAT}\n",
            COMMIT.unwrap_or("not known, as this was not built by `make release`")
        )
    })?;
    Ok(CommandExit::Success)
}
