//! `ledgerline flows check`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use shared::flows::{File, Flows, Problems};

use crate::{CommandExit, flows_folder, output};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows check                     the flows of the project that you are in
  ledgerline flows check infra/flows --json  for scripts
  ledgerline flows check --allow-unsigned    a source may have the scheme none, for local development";

/// Tell everything that is wrong with the flow files.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The flows folder. Without it, the one of the project that you are in.
    folder: Option<PathBuf>,
    /// Take sources that do not sign. Nothing that strangers reach may do so.
    #[arg(long)]
    allow_unsigned: bool,
}

impl CheckArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let files = flows_folder::read(&flows_folder::find(self.folder)?)?;
        let checked = check(&files, self.allow_unsigned);
        let problems = checked.as_ref().err().map_or(&[][..], |problems| &problems.0);
        match &checked {
            _ if json => output::json(&json!({ "problems": output::problems_as_json(problems) })),
            Ok(flows) => {
                let all = output::count(flows.all().count(), "flow");
                anstream::println!(
                    "{} {all} in {}",
                    output::styled(output::GOOD, "fine:"),
                    output::count(files.len(), "file")
                );
            }
            Err(problems) => {
                output::problems(problems, &files);
                anstream::eprintln!("{}", output::styled(output::BAD, output::count(problems.0.len(), "problem")));
            }
        }
        Ok(if problems.is_empty() { CommandExit::Success } else { CommandExit::Problems })
    }
}

/// Everything that is wrong with the files, or the flows.
pub fn check(files: &[File], allow_unsigned: bool) -> Result<Flows, Problems> {
    let flows = Flows::parse(files)?;
    if !allow_unsigned {
        flows.deployable(files)?;
    }
    Ok(flows)
}
