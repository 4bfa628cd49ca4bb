//! `ledgerline flows check`

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use shared::flows::{File, Flows, Problem, Problems, default_answers};

use crate::args::parse_duration;
use crate::scenarios::folder::ReadScenarios;
use crate::{CommandExit, catalog, flows_folder, output, scenarios};

mod findings;
mod mended;
mod promises;
mod salvage;
pub(super) mod unfilled;

use salvage::Salvage;
pub(super) use unfilled::CHANGE_ME;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows check                     checks the flows of the project that you are in
  ledgerline flows check infra/flows --json  prints JSON for scripts
  ledgerline flows check --allow-unsigned    allows the scheme `none`, for local development only
  ledgerline flows check --processor-timeout 60s  checks for a stack whose ProcessorTimeout is 60
  ledgerline flows check --team-functions 'ledgerline-team-*'  checks which functions the processor may invoke";

/// Check the flow files, and print every problem with its line.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The flows folder. Without it, that of the project that you are in.
    folder: Option<PathBuf>,
    /// Allow sources that do not sign. Never deploy such a source: anybody could send events as it.
    #[arg(long)]
    allow_unsigned: bool,
    /// The ProcessorTimeout of the stack, into which every timeout must fit. Without it, the default of the
    /// template.yaml beside the flows folder.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    processor_timeout: Option<Duration>,
    /// The TeamFunctions of the stack, which every function that `invoke` names must fit. Without it, the default of the
    /// template.yaml beside the flows folder.
    #[arg(long, value_name = "PATTERN")]
    team_functions: Option<String>,
}

impl CheckArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let folder = flows_folder::find(self.folder)?;
        let flow_files = flows_folder::read_all(&folder)?;
        let timeout = self.processor_timeout.unwrap_or_else(|| timeout_of_template(&folder));
        let pattern = self.team_functions.or_else(|| default_of_template(&folder, "TeamFunctions"));
        let pattern = pattern.filter(|pattern| !pattern.is_empty());
        let stack = Stack { allow_unsigned: self.allow_unsigned, timeout, pattern: pattern.as_deref() };
        let (scenarios, unread) = scenarios::folder::read(&folder)?;
        let tests = scenarios.iter().map(|read| &read.file).chain(unread.iter().map(|(file, _)| file));
        let read = flow_files.len();
        let files: Vec<File> = flow_files.iter().chain(tests).cloned().collect();
        let mut problems = unfilled::of(&flow_files);
        let is_told =
            |found: &Problem| problems.iter().any(|told| (&told.file, &told.place) == (&found.file, &found.place));
        let mut found = problems_of(&flow_files, &scenarios, &stack);
        found.retain(|found| !is_told(found));
        problems.extend(found);
        problems.extend(unread.into_iter().map(|(_, problem)| problem));
        let checked = if problems.is_empty() { Flows::parse(&flow_files) } else { Err(Problems(problems)) };
        match &checked {
            _ if json => output::print_answer(json, &as_json(&checked, &files), String::new)?,
            Ok(flows) => {
                let warnings = flows.warnings(&files);
                warnings.iter().for_each(|warning| output::print_notice(&format!("warning: {warning}\n")));
                let functions = pattern.is_none().then(|| functions(flows)).flatten().unwrap_or_default();
                output::print_text(&(success(flows, read) + &functions + &answers(flows)))?;
            }
            Err(problems) => {
                let count = output::count(problems.0.len(), "problem");
                output::print_problems(problems, &files);
                output::print_notice(&format!("{}\n", output::styled(output::BAD, count)));
            }
        }
        Ok(if checked.is_ok() { CommandExit::Success } else { CommandExit::Problems })
    }
}

/// What the stack is like that the flows are checked for.
struct Stack<'s> {
    allow_unsigned: bool,
    timeout: Duration,
    pattern: Option<&'s str>,
}

impl Stack<'_> {
    fn problems(&self, flows: &Flows, files: &[File]) -> Vec<Problem> {
        let fits = flows.fit_into(files, self.timeout);
        let signed = if self.allow_unsigned { Ok(()) } else { flows.deployable(files) };
        let functions = self.pattern.map_or(Ok(()), |pattern| flows.check_functions(files, pattern));
        [fits, signed, functions].into_iter().filter_map(Result::err).flat_map(|problems| problems.0).collect()
    }
}

/// Everything that is wrong with files, in one run: their forms, their meanings, and what only whole flows show.
fn problems_of(files: &[File], scenarios: &[ReadScenarios], stack: &Stack<'_>) -> Vec<Problem> {
    let files = &completed(files);
    let mut salvage = Salvage::of(files);
    let Some(mut flows) = salvage.flows() else {
        let shapes = findings::of_shapes(files, &salvage.problems);
        return salvage.problems.into_iter().chain(shapes).collect();
    };
    // A flow whose key is none makes no event to look at.
    loop {
        let unstable = findings::unstable(&salvage.left(), &flows);
        salvage.tell(&unstable);
        match unstable.first().and_then(|first| salvage.mend(first)) {
            Some(mended) => flows = mended,
            None => break,
        }
    }
    let found = stack.problems(&flows, &salvage.left());
    salvage.tell(&found);
    // What is said of a flow that could not be read is no mistake in its scenarios.
    let is_unread = |read: &&ReadScenarios| {
        let path = format!("flows/{}.yaml", read.written.flow);
        flows.flow(&read.written.flow).is_none() && files.iter().any(|file| file.path == path)
    };
    let scenarios: Vec<&ReadScenarios> = scenarios.iter().filter(|read| !is_unread(read)).collect();
    let found = findings::of_flows(&salvage.left(), &flows, &scenarios);
    salvage.tell(&found);
    salvage.problems
}

/// The files with what they use of the catalogue, also where a mistake beside it hides that they do.
fn completed(files: &[File]) -> Vec<File> {
    let left = catalog::complete(Salvage::of(files).left());
    let missing = left.into_iter().filter(|file| files.iter().all(|known| known.path != file.path));
    files.iter().cloned().chain(missing).collect()
}

/// The flows of the files, or every problem that they have where the processor has this long for a batch.
pub fn check(files: &[File], allow_unsigned: bool, processor_timeout: Duration) -> Result<Flows, Problems> {
    let flows = Flows::parse(files)?;
    flows.fit_into(files, processor_timeout)?;
    if !allow_unsigned {
        flows.deployable(files)?;
    }
    Ok(flows)
}

/// The ProcessorTimeout of a stack that is deployed from a template as we ship it.
pub const SHIPPED_TIMEOUT: Duration = Duration::from_secs(30);

/// The default of ProcessorTimeout in the template beside a flows folder, or else the shipped one.
fn timeout_of_template(folder: &Path) -> Duration {
    let seconds = default_of_template(folder, "ProcessorTimeout").and_then(|default| default.parse().ok());
    seconds.map_or(SHIPPED_TIMEOUT, Duration::from_secs)
}

/// The default of a parameter in the template beside a flows folder. A folder of its own has none.
fn default_of_template(folder: &Path, parameter: &str) -> Option<String> {
    let template = std::fs::read_to_string(folder.join("../template.yaml")).ok()?;
    let (_, rest) = template.split_once(&format!("\n  {parameter}:\n"))?;
    let mut own = rest.lines().take_while(|line| line.starts_with("    "));
    let default = own.find_map(|line| line.trim().strip_prefix("Default: "))?;
    Some(default.trim_matches(['"', '\'']).to_owned())
}

/// A reminder of the functions that the stack must let the processor invoke, where nothing says which it does.
fn functions(flows: &Flows) -> Option<String> {
    let names: Vec<&str> = flows.functions().map(|(_, function)| function.name()).collect();
    let told = "The flows invoke functions: deploy with a TeamFunctions that fits";
    (!names.is_empty()).then(|| format!("{told} {}, or check with --team-functions\n", names.join(", ")))
}

fn success(flows: &Flows, files: usize) -> String {
    let (flows, files) = (output::count(flows.all().count(), "flow"), output::count(files, "file"));
    format!("{} in {flows}, {files}\n", output::styled(output::GOOD, "no problems"))
}

/// The tables of answers in force: those that are not the default, and in one line the default.
fn answers(flows: &Flows) -> String {
    let mut text = String::new();
    for (flow, effect, rows) in tables(flows) {
        text += &format!("\n{}\n", output::styled(output::BOLD, format!("answers to {flow}/{effect}")));
        text.extend(rows.iter().map(|row| format!("  {row}\n")));
    }
    let all = if text.is_empty() { "answers to all calls" } else { "answers to all other calls" };
    text + &format!("\n{}\n  {}\n", output::styled(output::BOLD, all), default_answers())
}

/// The flow, the effect and the table of each effect whose partner's answers do not have the default meanings.
fn tables(flows: &Flows) -> impl Iterator<Item = (&str, &str, Vec<String>)> {
    let effects = flows.all().flat_map(|flow| flow.effects.iter().map(move |effect| (flow, effect)));
    effects.filter_map(|(flow, effect)| Some((flow.name.as_str(), effect.id.as_str(), flows.own_answers(effect)?)))
}

fn as_json(checked: &Result<Flows, Problems>, files: &[File]) -> Value {
    let problems = checked.as_ref().err().map_or(&[][..], |problems| &problems.0);
    let tables = checked.iter().flat_map(tables);
    let tables: Vec<Value> =
        tables.map(|(flow, effect, rows)| json!({"flow": flow, "effect": effect, "answers": rows})).collect();
    let warnings: Vec<Problem> = checked.iter().flat_map(|flows| flows.warnings(files)).collect();
    json!({
        "problems": output::problems_as_json(problems),
        "warnings": output::problems_as_json(&warnings),
        "answers": tables,
        "default_answers": default_answers(),
    })
}
