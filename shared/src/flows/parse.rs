//! The parser: from the flows folder's files to [`Flows`], or to all mistakes in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::catalog::Shelf;
use super::contract::Contract;
use super::integration::{Resolved, WrittenIntegration, resolve};
use super::source::WrittenSource;
use super::{
    Flow, Flows, MAX_KEEP, approval, effect, enrich, guard, invoke, key, log, order, parse_error, safe_mode, slo,
    source, template_reads,
};
use crate::base::locate::{Place, locate};
use crate::base::retention::{DEDUPLICATION_WINDOW, QUEUE_RETENTION};
use crate::base::suggest::suggest;
use crate::base::wrong::Wrong;

/// A file of the flows folder: its path inside the folder, and its text.
#[derive(Clone, Debug)]
pub struct File {
    /// The path: `sources.yaml`, `integrations.yaml`, `flows/<name>.yaml`, `catalog/partners/<name>.yaml`, or
    /// `catalog/sources/<name>.yaml`.
    pub path: String,
    /// The file's text.
    pub text: String,
}

/// One mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's path inside the flows folder.
    pub file: String,
    /// The place in the file.
    pub place: Place,
    /// The mistake, as a sentence.
    pub what: String,
    /// A correct value, where it can be guessed.
    pub hint: Option<String>,
}

impl Problem {
    /// A mistake in this file. It quotes the file, which may hold anything, at any length, and stays one line.
    pub(super) fn new(file: &str, place: Place, what: &str, hint: Option<&str>) -> Self {
        Problem { file: file.to_owned(), place, what: one_line(what), hint: hint.map(one_line) }
    }

    /// The finding of a check, with its place in the file's text.
    pub(super) fn locate(files: &[File], path: &str, wrong: &Wrong) -> Self {
        let text = files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
        Self::new(path, locate(text, &wrong.at), &wrong.what, wrong.hint.as_deref())
    }
}

impl Problem {
    /// A mistake in a file that is no flow file, at a JSON pointer into it.
    pub fn at(file: &File, pointer: &str, what: &str) -> Self {
        Self::locate(std::slice::from_ref(file), &file.path, &Wrong::at(pointer, what))
    }
}

/// Reads a YAML file, or says what is wrong with it, where, and what was meant.
pub fn read_yaml<T: DeserializeOwned>(file: &File) -> Result<T, Problem> {
    yaml(file)
}

/// The mistake in the form of a file of the flows folder that stops its parser, if it has one.
pub fn unreadable(file: &File) -> Option<Problem> {
    ReadFiles::default().read(file).err()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.place.line, self.place.column, self.what)?;
        self.hint.iter().try_for_each(|hint| write!(f, " ({hint})"))
    }
}

/// A text as one line that can be read.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The most characters of a sentence.
const MAX_LINE: usize = 400;

/// The mistakes in the folder, all at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The files as they were read, before they are put together.
#[derive(Default)]
struct ReadFiles {
    sources: BTreeMap<String, WrittenSource>,
    senders: BTreeMap<String, WrittenSource>,
    integrations: BTreeMap<String, WrittenIntegration>,
    partners: BTreeMap<String, WrittenIntegration>,
    /// By their paths.
    flows: BTreeMap<String, Flow>,
}

impl ReadFiles {
    fn read(&mut self, file: &File) -> Result<(), Problem> {
        match file.path.as_str() {
            "sources.yaml" => self.sources = yaml(file)?,
            "integrations.yaml" => self.integrations = yaml(file)?,
            path => match Shelf::of(path) {
                Some(shelf) => {
                    let name = shelf.name(path).ok_or_else(|| misplaced(file, shelf))?.to_owned();
                    match shelf {
                        Shelf::Partners => drop(self.partners.insert(name, yaml(file)?)),
                        Shelf::Sources => drop(self.senders.insert(name, yaml(file)?)),
                    }
                }
                None => drop(self.flows.insert(path.to_owned(), yaml(file)?)),
            },
        }
        Ok(())
    }
}

fn misplaced(file: &File, shelf: Shelf) -> Problem {
    let what = match shelf {
        Shelf::Partners => "a partner of the catalogue belongs in catalog/partners/<name>.yaml",
        Shelf::Sources => "a sender of the catalogue belongs in catalog/sources/<name>.yaml",
    };
    Problem::new(&file.path, Place::START, what, Some("a name has small letters, digits, - and _"))
}

impl Flows {
    /// Reads the folder's files and checks that they fit together. Of the catalogue it needs what `integrations.yaml` and
    /// `sources.yaml` use ([`catalog::used`]); it checks all that it is given.
    ///
    /// [`catalog::used`]: super::catalog::used
    pub fn parse(files: &[File]) -> Result<Flows, Problems> {
        let mut read = ReadFiles::default();
        let mut problems: Vec<Problem> = files.iter().filter_map(|file| read.read(file).err()).collect();
        // A name is not reported as missing from a file that could not be read.
        let unread: BTreeSet<String> = problems.iter().map(|problem| problem.file.clone()).collect();
        let unread_of = |shelf: Shelf| unread.iter().filter_map(|path| shelf.name(path)).map(str::to_owned).collect();
        let Resolved { integrations, mut wrong } =
            resolve(&read.integrations, &read.partners, &unread_of(Shelf::Partners));
        let senders = source::resolve(read.sources, &read.senders, &unread_of(Shelf::Sources));
        wrong.extend(senders.wrong);
        let named = |(path, flow): (&String, &mut Flow)| {
            flow.resolve(&integrations).into_iter().map(|wrong| (path.clone(), wrong)).collect::<Vec<_>>()
        };
        let wrong: Vec<(String, Wrong)> = wrong.into_iter().chain(read.flows.iter_mut().flat_map(named)).collect();
        let mut flows = Flows { sources: senders.sources, integrations, flows: read.flows, ..Flows::default() };
        flows.add_functions();
        let judged = |wrong: &Wrong| refers_to(&wrong.at).is_none_or(|file| !unread.contains(file));
        let found = flows.check(wrong).into_iter().filter(|(_, wrong)| judged(wrong));
        problems.extend(found.map(|(path, wrong)| Problem::locate(files, &path, &wrong)));
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let read = std::mem::take(&mut flows.flows).into_values();
        flows.flows = read.map(|flow| (flow.name.clone(), flow.with_renamed())).collect();
        Ok(flows)
    }

    /// The mistakes, each with its file's path; `resolved` are those that were found before. Flows are kept under their
    /// paths until there are none.
    fn check(&self, resolved: Vec<(String, Wrong)>) -> Vec<(String, Wrong)> {
        let mut all = resolved;
        for (path, flow) in &self.flows {
            all.extend(check(path, flow, self).into_iter().map(|wrong| (path.clone(), wrong)));
        }
        all
    }
}

fn yaml<T: DeserializeOwned>(file: &File) -> Result<T, Problem> {
    serde_saphyr::from_str(&file.text).map_err(|error| parse_error::problem(file, &error))
}

/// The file that a check of this place looks something up in.
fn refers_to(pointer: &str) -> Option<&'static str> {
    match pointer.rsplit('/').next() {
        Some("source") => Some("sources.yaml"),
        Some("integration" | "call" | "invoke") => Some("integrations.yaml"),
        _ => None,
    }
}

/// The mistakes in one flow, given its neighbours.
fn check(path: &str, flow: &Flow, all: &Flows) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if path != format!("flows/{}.yaml", flow.name) {
        let what = format!("the flow `{0}` belongs in flows/{0}.yaml", flow.name);
        let hint = "rename the file: a flow under another name takes old events for new";
        wrong.push(Wrong::at("/name", what).hint(hint));
    }
    if all.source(&flow.on.source).is_none() {
        let hint = suggest(&flow.on.source, all.sources.keys().map(String::as_str));
        let what = format!("sources.yaml has no source `{}`", flow.on.source);
        wrong.push(Wrong::at("/on/source", what).hint(hint));
    }
    let schemas = check_schemas(flow);
    // A field of a schema can be checked once the schema is one.
    if schemas.is_empty() {
        wrong.extend(key::check_fields(flow));
        wrong.extend(order::check(flow));
        wrong.extend(log::check(flow));
    }
    wrong.extend(schemas);
    wrong.extend(key::check(flow, all.source(&flow.on.source)));
    wrong.extend(guard::check(flow));
    wrong.extend(enrich::check(flow, all));
    wrong.extend(approval::check(flow, all));
    wrong.extend(safe_mode::check(flow, all));
    wrong.extend(slo::check(flow));
    wrong.extend(template_reads::check_flow(flow, all));
    wrong.extend(effect::check(flow, all));
    wrong.extend(invoke::check(flow, all));
    let policy = flow.retry.check();
    // A retry that outlives the key would run an event that its sender may send anew. Only the delays of
    // a sound policy can be added up.
    if policy.is_empty() && flow.ttl <= flow.retry.horizon() {
        let what = "ttl must be longer than all retries together: an event could run after it is forgotten";
        let hint = format!("retries take up to {}s", flow.retry.horizon().as_secs());
        wrong.push(Wrong::at("/ttl", what).hint(hint));
    } else if flow.ttl < DEDUPLICATION_WINDOW {
        let what =
            "ttl must be at least 5m: the queue drops the same event for that long, even if its key is forgotten";
        wrong.push(Wrong::at("/ttl", what));
    }
    if flow.keep > MAX_KEEP {
        let what = "keep must be at most 400d: every row holds results of partners, and is paid for";
        wrong.push(Wrong::at("/keep", what));
    }
    wrong.extend(policy.into_iter().map(|wrong| wrong.under("/retry")));
    if flow.max_age >= QUEUE_RETENTION {
        wrong.push(Wrong::at("/max_age", "max_age must be less than 4 days, for which the queue keeps a message"));
    }
    wrong
}

fn check_schemas(flow: &Flow) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if let Some(version) = flow.older.keys().find(|version| **version >= flow.version) {
        let what = "older names a version that is not older than the flow's";
        wrong.push(Wrong::at(format!("/older/{version}"), what));
    }
    if flow.version_at.is_none() && !flow.older.is_empty() {
        let what = "older needs version_at: which field says which version an event is of?";
        wrong.push(Wrong::at("/older", what));
    }
    wrong.extend(flow.schemas().filter_map(|(version, schema)| {
        let at = if version == flow.version { "/schema".to_owned() } else { format!("/older/{version}") };
        Some(Contract::check(schema)?.under(&at))
    }));
    wrong
}

/// A size as flow files write it: `64KiB`, `1MiB`, or plain bytes. For `#[serde(with = "Size")]`.
pub(super) struct Size;

impl Size {
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bad = || D::Error::custom(format!("`{text}` is not a size; write `64KiB` or `1MiB`"));
        read_size(&text).ok_or_else(bad)
    }
}

fn read_size(text: &str) -> Option<usize> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit.trim() {
        "" | "B" => Some(1),
        "KiB" => Some(1024),
        "MiB" => Some(1024 * 1024),
        _ => None,
    };
    digits.parse::<usize>().ok()?.checked_mul(factor?)
}
