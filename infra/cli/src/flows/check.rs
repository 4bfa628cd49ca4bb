//! `ledgerline flows check`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use shared::flows::{File, Flows, Problems};

use crate::{CommandExit, flows_folder, output};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows check                     checks the flows of the project that you are in
  ledgerline flows check infra/flows --json  prints JSON for scripts
  ledgerline flows check --allow-unsigned    allows the scheme `none`, for local development only";

/// Check the flow files, and print every problem with its line.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The flows folder. Without it, that of the project that you are in.
    folder: Option<PathBuf>,
    /// Allow sources that do not sign. Never deploy such a source: anybody could send events as it.
    #[arg(long)]
    allow_unsigned: bool,
}

impl CheckArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let files = flows_folder::read(&flows_folder::find(self.folder)?)?;
        let checked = check(&files, self.allow_unsigned);
        match &checked {
            _ if json => output::print_answer(json, &as_json(&checked), String::new)?,
            Ok(flows) => output::print_text(&success(flows, files.len()))?,
            Err(problems) => {
                let count = output::count(problems.0.len(), "problem");
                output::print_problems(problems, &files);
                output::print_notice(&format!("{}\n", output::styled(output::BAD, count)));
            }
        }
        Ok(if checked.is_ok() { CommandExit::Success } else { CommandExit::Problems })
    }
}

/// The flows of the files, or every problem that they have.
pub fn check(files: &[File], allow_unsigned: bool) -> Result<Flows, Problems> {
    let flows = Flows::parse(files)?;
    if !allow_unsigned {
        flows.deployable(files)?;
    }
    Ok(flows)
}

fn success(flows: &Flows, files: usize) -> String {
    let (flows, files) = (output::count(flows.all().count(), "flow"), output::count(files, "file"));
    format!("{} in {flows}, {files}\n", output::styled(output::GOOD, "no problems"))
}

fn as_json(checked: &Result<Flows, Problems>) -> Value {
    let problems = checked.as_ref().err().map_or(&[][..], |problems| &problems.0);
    json!({ "problems": output::problems_as_json(problems) })
}
