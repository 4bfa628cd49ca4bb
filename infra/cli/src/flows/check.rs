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
            Ok(flows) => output::print_text(&(success(flows, files.len()) + &answers(flows)))?,
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

/// The tables of answers in force, of the effects that have rows declared. All others have the default.
fn answers(flows: &Flows) -> String {
    let mut text = String::new();
    for (flow, effect, rows) in tables(flows) {
        text += &format!("\n{}\n", output::styled(output::BOLD, format!("answers to {flow}/{effect}")));
        text.extend(rows.iter().map(|row| format!("  {row}\n")));
    }
    text
}

/// The flow, the effect and the table of each effect whose partner's answers have declared meanings.
fn tables(flows: &Flows) -> impl Iterator<Item = (&str, &str, Vec<String>)> {
    let effects = flows.all().flat_map(|flow| flow.effects.iter().map(move |effect| (flow, effect)));
    let declared = effects.filter(|(_, effect)| flows.declares_answers(effect));
    declared.map(|(flow, effect)| (flow.name.as_str(), effect.id.as_str(), flows.answers_in_force(effect)))
}

fn as_json(checked: &Result<Flows, Problems>) -> Value {
    let problems = checked.as_ref().err().map_or(&[][..], |problems| &problems.0);
    let tables = checked.iter().flat_map(tables);
    let tables: Vec<Value> =
        tables.map(|(flow, effect, rows)| json!({"flow": flow, "effect": effect, "answers": rows})).collect();
    json!({ "problems": output::problems_as_json(problems), "answers": tables })
}
