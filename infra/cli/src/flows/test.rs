//! `ledgerline flows test`

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use shared::flows::{File, Flows, Problem, Problems};
use sim::FlowsVersion;

use crate::confirm::ConfirmArgs;
use crate::scenarios::compare::{Difference, differences};
use crate::scenarios::coverage::{self, CoverageLine, Covered};
use crate::scenarios::folder::{self, ReadScenarios};
use crate::scenarios::mistakes;
use crate::scenarios::observed::{self, with_expectation};
use crate::scenarios::play::{Observed, play};
use crate::{CommandExit, flows_folder, output};

mod junit;

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows test                          plays tests/*.yaml of the flows that you are in
  ledgerline flows test --only 'first answer'    plays the scenarios whose sentence has this in it, line by line
  ledgerline flows test --update                 writes what is seen into the scenarios that fail, after asking
  ledgerline flows test --junit target/flows.xml writes a report for CI
  ledgerline flows test --complete               fails where a part of a flow is in no scenario

The real functions play each scenario over models, on virtual time. Nothing is called, and nothing is stored.
Exit code 1 means that a scenario fails.";

/// Play the scenarios beside the flows: given these deliveries and answers, these calls and ends.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The flows folder. Without it, that of the project that you are in.
    folder: Option<PathBuf>,
    /// Play the scenarios whose flow or sentence has this in it, and print what happened line by line.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write what is seen into the scenarios that fail.
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    /// Write a report in JUnit's form.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Fail where a part of a flow is in no scenario.
    #[arg(long, conflicts_with = "only")]
    complete: bool,
}

/// How one scenario went.
pub struct ScenarioResult {
    /// Its place among the scenarios of its file.
    pub number: usize,
    /// Its sentence.
    pub it: String,
    /// The differences, or why it could not be played.
    pub failed: Vec<Difference>,
    /// What was seen, if it could be played.
    pub seen: Option<Observed>,
    /// How long it took on this machine.
    pub took: Duration,
}

/// How the scenarios of one file went.
pub struct FileResult {
    /// The file.
    pub read: ReadScenarios,
    /// The scenarios, in order.
    pub scenarios: Vec<ScenarioResult>,
}

impl TestArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let folder = flows_folder::find(self.folder.clone())?;
        let files = flows_folder::read(&folder)?;
        let Some(flows) = flows_folder::parse(&files) else { return Ok(CommandExit::Problems) };
        let (read, broken) = folder::read(&folder)?;
        for (file, problem) in &broken {
            output::print_problems(&Problems(vec![problem.clone()]), std::slice::from_ref(file));
        }
        let version = FlowsVersion::of(flows.clone());
        let only = self.only.as_deref().unwrap_or_default();
        let results: Vec<FileResult> = read.into_iter().map(|read| run_file(&version, read, only)).collect();
        let covered: BTreeSet<Covered> =
            results.iter().flat_map(FileResult::seen).flat_map(|seen| seen.covered.clone()).collect();
        let table = coverage::table(&flows, &covered);
        if let Some(path) = &self.junit {
            std::fs::write(path, junit::report(&results, &broken))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        output::print_answer(json, &as_json(&results, &table), || self.text(&results, &table))?;
        results.iter().for_each(print_failures);
        let failed = results.iter().flat_map(|file| &file.scenarios).any(|scenario| !scenario.failed.is_empty());
        if self.update && failed && broken.is_empty() {
            return self.update(&version, &folder, &results);
        }
        if results.iter().all(|file| file.scenarios.is_empty()) && broken.is_empty() {
            return Ok(CommandExit::Problems);
        }
        let incomplete = self.complete && table.iter().any(|line| !line.missing.is_empty());
        Ok(if failed || incomplete || !broken.is_empty() { CommandExit::Problems } else { CommandExit::Success })
    }

    fn text(&self, results: &[FileResult], table: &[CoverageLine]) -> String {
        let mut text = String::new();
        for FileResult { read, scenarios } in results.iter().filter(|file| !file.scenarios.is_empty()) {
            text += &format!("{}\n", output::styled(output::BOLD, &read.written.flow));
            for ScenarioResult { it, failed, seen, .. } in scenarios {
                let mark = match failed.is_empty() {
                    true => output::styled(output::GOOD, "ok   "),
                    false => output::styled(output::BAD, "FAILS"),
                };
                text += &format!("  {mark} {it}\n");
                if let Some(seen) = seen.as_ref().filter(|_| self.only.is_some()) {
                    text += &format!("{}\n", folded(&seen.timeline.to_string()));
                }
            }
        }
        let all: Vec<&ScenarioResult> = results.iter().flat_map(|file| &file.scenarios).collect();
        let failed = all.iter().filter(|scenario| !scenario.failed.is_empty()).count();
        if self.only.is_none() {
            text += &coverage_text(table);
        }
        text + &format!("\n{}\n", self.last_line(all.len(), failed, table))
    }

    /// The verdict, in one line.
    fn last_line(&self, all: usize, failed: usize, table: &[CoverageLine]) -> String {
        let missing: usize = table.iter().map(|line| line.missing.len()).sum();
        if all == 0 {
            return output::styled(output::BAD, self.nothing_played()).to_string();
        }
        let count = output::count(all, "scenario");
        let played = match (failed, all) {
            (0, 1) if self.complete && missing > 0 => format!("{count}, and it holds"),
            (0, _) => format!("{count}, and all hold"),
            _ => format!("{failed} of {count} fail"),
        };
        if !self.complete || missing == 0 {
            return output::styled(if failed == 0 { output::GOOD } else { output::BAD }, played).to_string();
        }
        let parts = if missing == 1 { "1 part is".to_owned() } else { format!("{missing} parts are") };
        output::styled(output::BAD, format!("{played}; --complete fails: {parts} in no scenario")).to_string()
    }

    fn nothing_played(&self) -> String {
        match &self.only {
            Some(only) => format!("no scenario was played: `{only}` is in no flow's name and in no sentence"),
            None => "no scenario was played: write tests/<flow>.yaml with `flow` and `scenarios`".to_owned(),
        }
    }

    /// Writes what was seen into the files of the scenarios that failed, and plays them again.
    fn update(&self, version: &FlowsVersion, folder: &Path, results: &[FileResult]) -> Result<CommandExit> {
        let mut texts = Vec::new();
        let mut changed = 0;
        for FileResult { read, scenarios } in results {
            let mut text = read.file.text.clone();
            for ScenarioResult { number, seen, failed, .. } in scenarios.iter().rev() {
                let Some(seen) = seen.as_ref().filter(|seen| !failed.is_empty() && seen.declined.is_empty()) else {
                    continue;
                };
                let expectation = observed::expectation(&read.written.scenarios[*number].expect, seen, *number == 0);
                match with_expectation(&text, *number, &expectation) {
                    Some(written) => (text, changed) = (written, changed + 1),
                    None => output::print_notice(&format!(
                        "{}: what was seen of \"it {}\" cannot be written where it stands: write the scenario as a block, with \
                         each field on a line of its own\n",
                        read.file.path, read.written.scenarios[*number].it
                    )),
                }
            }
            if text != read.file.text {
                texts.push((&read.path, text));
            }
        }
        if texts.is_empty() {
            output::print_notice("Nothing was written: what fails is no difference to what is expected.\n");
            return Ok(CommandExit::Problems);
        }
        let question = format!("Write what was seen into {}?", output::count(changed, "scenario"));
        if !self.confirm.confirm(&question)? {
            return Ok(CommandExit::Problems);
        }
        for (path, text) in texts {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
            output::print_notice(&format!("wrote {}\n", path.display()));
        }
        self.play_again(version, folder)
    }

    /// Plays what was written. What was no difference to an expectation still fails.
    fn play_again(&self, version: &FlowsVersion, folder: &Path) -> Result<CommandExit> {
        let (read, broken) = folder::read(folder)?;
        let only = self.only.as_deref().unwrap_or_default();
        let results: Vec<FileResult> = read.into_iter().map(|read| run_file(version, read, only)).collect();
        let failed =
            results.iter().flat_map(|file| &file.scenarios).filter(|scenario| !scenario.failed.is_empty()).count();
        if failed == 0 && broken.is_empty() {
            return Ok(CommandExit::Success);
        }
        results.iter().for_each(print_failures);
        output::print_notice(&format!(
            "{} still fail: that is no difference to what they expect\n",
            output::count(failed, "scenario")
        ));
        Ok(CommandExit::Problems)
    }
}

/// A trace without what comes again and again: each line is printed a few times, and then counted.
fn folded(trace: &str) -> String {
    let (mut seen, mut left_out, mut text) = (BTreeMap::<String, usize>::new(), 0, String::new());
    for line in trace.lines() {
        // Moments, receipts and epochs are new each time.
        let what = line.chars().filter(|c| !c.is_ascii_digit() && !c.is_whitespace()).collect();
        let times = seen.entry(what).or_default();
        *times += 1;
        if *times > PRINTED_TIMES {
            left_out += 1;
            continue;
        }
        text += &left_out_line(std::mem::take(&mut left_out));
        text += &format!("{line}\n");
    }
    text + &left_out_line(left_out)
}

/// How often the same line of a trace is printed.
const PRINTED_TIMES: usize = 8;

fn left_out_line(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("            … {} as above\n", output::count(lines, "line")) }
}

impl FileResult {
    fn seen(&self) -> impl Iterator<Item = &Observed> {
        self.scenarios.iter().filter_map(|scenario| scenario.seen.as_ref())
    }
}

/// Plays the scenarios of a file whose flow or sentence has this in it.
pub fn run_file(version: &FlowsVersion, read: ReadScenarios, only: &str) -> FileResult {
    let wanted = |it: &str| read.written.flow.contains(only) || it.contains(only);
    let mut scenarios = Vec::new();
    for (number, scenario) in read.written.scenarios.iter().enumerate().filter(|(_, scenario)| wanted(&scenario.it)) {
        let began = Instant::now();
        let mistakes = mistakes_in(version.flows(), &read, number);
        let (seen, failed) = match play(version, &read, scenario) {
            _ if !mistakes.is_empty() => (None, mistakes),
            Ok(seen) => {
                let failed = differences(number, scenario, &seen);
                (Some(seen), failed)
            }
            Err(why) => (None, vec![unplayed(number, &why)]),
        };
        scenarios.push(ScenarioResult { number, it: scenario.it.clone(), failed, seen, took: began.elapsed() });
    }
    FileResult { read, scenarios }
}

/// What would make a scenario hold whatever its flow does.
fn mistakes_in(flows: &Flows, read: &ReadScenarios, number: usize) -> Vec<Difference> {
    let flow = flows.flow(&read.written.flow);
    let found = flow.map(|flow| mistakes::of_scenario(flows, flow, &read.written.scenarios[number]));
    let found = found.unwrap_or_default().into_iter();
    found.map(|(at, what)| Difference::plain(format!("/scenarios/{number}{at}"), what)).collect()
}

fn unplayed(scenario: usize, why: &anyhow::Error) -> Difference {
    let causes: Vec<String> = why.chain().map(ToString::to_string).collect();
    Difference::plain(format!("/scenarios/{scenario}"), format!("it cannot be played: {}", causes.join(": ")))
}

fn print_failures(FileResult { read, scenarios }: &FileResult) {
    for ScenarioResult { it, failed, .. } in scenarios {
        for difference in failed {
            let problem =
                Problem { hint: Some(format!("{}: it {it}", read.written.flow)), ..difference.problem(&read.file) };
            let file = File { path: read.path.display().to_string(), text: read.file.text.clone() };
            let problem = Problem { file: file.path.clone(), ..problem };
            output::print_problems(&Problems(vec![problem]), &[file]);
            let lines = difference.lines.iter().map(|line| match line.chars().next() {
                Some('-') => format!("    {}\n", output::styled(output::BAD, output::printable(line))),
                Some('+') => format!("    {}\n", output::styled(output::GOOD, output::printable(line))),
                _ => format!("    {}\n", output::printable(line)),
            });
            let lines: String = lines.collect();
            if !lines.is_empty() {
                output::print_notice(&format!("{lines}\n"));
            }
        }
    }
}

fn coverage_text(table: &[CoverageLine]) -> String {
    let share = |(touched, all): (usize, usize)| if all == 0 { "-".to_owned() } else { format!("{touched}/{all}") };
    let rows = table.iter().map(|line| {
        let [effects, guards, conditions, answers, ends] = line.counts.map(share);
        [line.flow.clone(), effects, guards, conditions, answers, ends]
    });
    let head = ["FLOW", "EFFECTS", "GUARDS", "CONDITIONS", "ANSWERS", "ENDS"];
    let mut text = format!("\n{}", output::columns(head, &rows.collect::<Vec<_>>()));
    for line in table.iter().filter(|line| !line.missing.is_empty()) {
        let missing: Vec<String> = line.missing.iter().map(ToString::to_string).collect();
        text += &format!("in no scenario of {}: {}\n", line.flow, missing.join("; "));
    }
    text
}

fn as_json(results: &[FileResult], table: &[CoverageLine]) -> Value {
    let scenarios = results.iter().flat_map(|file| file.scenarios.iter().map(move |scenario| (file, scenario)));
    let scenarios: Vec<Value> = scenarios
        .map(|(file, scenario)| {
            let failed: Vec<String> =
                scenario.failed.iter().map(|difference| difference.problem(&file.read.file).to_string()).collect();
            json!({"flow": file.read.written.flow, "it": scenario.it, "ok": failed.is_empty(), "failed": failed})
        })
        .collect();
    let coverage: Vec<Value> = table
        .iter()
        .map(|line| {
            let missing: Vec<String> = line.missing.iter().map(ToString::to_string).collect();
            let [effects, guards, conditions, answers, ends] = line.counts.map(|(touched, all)| json!([touched, all]));
            json!({"flow": line.flow, "effects": effects, "guards": guards, "conditions": conditions,
                   "answers": answers, "ends": ends, "missing": missing})
        })
        .collect();
    json!({ "scenarios": scenarios, "coverage": coverage })
}

/// The parts of these flows that these files touch, for tests.
pub fn covered(results: &[FileResult]) -> BTreeSet<Covered> {
    results.iter().flat_map(FileResult::seen).flat_map(|seen| seen.covered.clone()).collect()
}

/// The table of the parts of these flows.
pub fn coverage_of(flows: &Flows, results: &[FileResult]) -> Vec<CoverageLine> {
    coverage::table(flows, &covered(results))
}
