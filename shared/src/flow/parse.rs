//! From the flows folder's files to [`Flows`], or to all that is wrong with them.

use std::fmt;
use std::time::Duration;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::{Flow, Flows, effect, key};
use crate::contract::Contract;

/// A file of the flows folder: its path inside the folder, and its text.
#[derive(Clone, Debug)]
pub struct File {
    /// `sources.yaml`, `integrations.yaml`, or `flows/<name>.yaml`.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's path inside the flows folder.
    pub file: String,
    /// Line and column, where the parser knows them.
    pub at: Option<(u64, u64)>,
    /// What is wrong, as a sentence.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// Everything that is wrong with the folder, at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl Flows {
    /// Reads the folder's files and checks that they fit together.
    pub fn parse(files: &[File]) -> Result<Flows, Problems> {
        let mut flows = Flows::default();
        let mut problems = Vec::new();
        for file in files {
            let read = match file.path.as_str() {
                "sources.yaml" => yaml(file).map(|sources| flows.sources = sources),
                "integrations.yaml" => yaml(file).map(|integrations| flows.integrations = integrations),
                _ => yaml(file).map(|flow: Flow| drop(flows.flows.insert(file.path.clone(), flow))),
            };
            problems.extend(read.err());
        }
        // Flows were kept under their paths until here, so that a problem can name its file.
        for (path, flow) in &flows.flows {
            let found = check(path, flow, &flows);
            problems.extend(found.into_iter().map(|what| Problem { file: path.clone(), at: None, what }));
        }
        problems.extend(flows.check_sources());
        problems.extend(check_integrations(&flows));
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        flows.flows = std::mem::take(&mut flows.flows).into_values().map(|flow| (flow.name.clone(), flow)).collect();
        Ok(flows)
    }
}

fn yaml<T: DeserializeOwned>(file: &File) -> Result<T, Problem> {
    serde_saphyr::from_str(&file.text).map_err(|error| Problem {
        file: file.path.clone(),
        at: error.location().map(|at| (at.line(), at.column())),
        what: error.without_snippet().to_string(),
    })
}

/// What is wrong with one flow, given its neighbours.
fn check(path: &str, flow: &Flow, all: &Flows) -> Vec<String> {
    let mut wrong = Vec::new();
    if path != format!("flows/{}.yaml", flow.name) {
        wrong.push(format!("the flow `{0}` belongs into flows/{0}.yaml", flow.name));
    }
    if all.source(&flow.on.source).is_none() {
        wrong.push(format!("sources.yaml has no source `{}`", flow.on.source));
    }
    let rivals = all.flows.values().filter(|f| f.on.source == flow.on.source && f.on.event_type == flow.on.event_type);
    if rivals.count() > 1 {
        wrong.push(format!("two flows take `{}` from `{}`", flow.on.event_type, flow.on.source));
    }
    wrong.extend(check_schemas(flow));
    wrong.extend(key::check(flow, all.source(&flow.on.source)));
    wrong.extend(effect::check(flow, all));
    wrong.extend(flow.retry.check());
    // A retry that outlives the key would run an event that its sender may send anew.
    if flow.ttl <= flow.retry.horizon() {
        wrong.push("ttl must be longer than all retries together".into());
    }
    if flow.max_age >= QUEUE_RETENTION {
        wrong.push("max_age must be less than 4 days, for which the queue keeps a message".into());
    }
    wrong
}

/// How long the queue keeps a message. The template says the same.
const QUEUE_RETENTION: Duration = Duration::from_secs(4 * 24 * 3600);

fn check_schemas(flow: &Flow) -> Vec<String> {
    let mut wrong = Vec::new();
    if flow.older.keys().any(|version| *version >= flow.version) {
        wrong.push("older names a version that is not older than the flow's".into());
    }
    if flow.version_at.is_none() && !flow.older.is_empty() {
        wrong.push("older needs version_at: which field says which version an event is of?".into());
    }
    let compiled = flow.schemas().map(|(version, schema)| (version, Contract::compile(schema)));
    wrong.extend(compiled.filter_map(|(version, contract)| Some(format!("schema {version}: {}", contract.err()?))));
    wrong
}

fn check_integrations(flows: &Flows) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, partner) in &flows.integrations {
        let plain = (!partner.base_url.starts_with("https://")).then(|| "base_url must start with https://".to_owned());
        let wrong = plain.into_iter().chain(partner.pressure.check());
        let problem = |what| Problem { file: "integrations.yaml".into(), at: None, what: format!("`{name}`: {what}") };
        problems.extend(wrong.map(problem));
    }
    problems
}

/// A size as flow files write it: `64KiB`, `1MiB`, or plain bytes.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let text = String::deserialize(deserializer)?;
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit.trim() {
        "" | "B" => Some(1),
        "KiB" => Some(1024),
        "MiB" => Some(1024 * 1024),
        _ => None,
    };
    factor
        .and_then(|factor: usize| digits.parse::<usize>().ok()?.checked_mul(factor))
        .ok_or_else(|| D::Error::custom(format!("`{text}` is not a size; write `64KiB` or `1MiB`")))
}
