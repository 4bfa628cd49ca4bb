//! `ledgerline flows diff`

mod in_force;
mod risk;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use shared::flows::catalog::Shelf;
use shared::flows::{File, Flows};

use crate::{CommandExit, flows_folder, output};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows diff HEAD                prints what is not committed yet
  ledgerline flows diff origin/main --json  prints what a pull request changes, for a comment on it
  ledgerline flows diff ./deployed infra/flows
                                            prints what a deploy changes, where the deployed flows were unpacked

Exit code 3 means that an effect can happen again or be forgotten, for events that are on their way, parked or sent
again: the flow's name, key, `order_by` or a shorter `ttl`; an effect that is gone, or new without `was`; its guarantee,
lookup, partner or `answers`, or the request of a native one, in safe mode too; a shorter `key_window`. Each such line says
what to do.";

/// Print what changed since a revision, and whether an effect could happen again or be forgotten.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The revision to compare with, as git knows it; or the path of another flows folder, with a `/` in it.
    revision: String,
    /// The flows folder. Without it, that of the project that you are in.
    folder: Option<PathBuf>,
}

/// One change of the flow files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowChange {
    /// The file's path inside the folder.
    pub file: String,
    /// The place in it, dotted: `effects.crm.request.path`.
    pub place: String,
    /// What changed, in words.
    pub what: String,
    /// What could happen again or be forgotten because of the change, and what to do.
    pub risk: Option<String>,
}

impl DiffArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let folder = flows_folder::find(self.folder.clone())?;
        let [old, new] = [self.old(&folder)?, flows_folder::read(&folder)?].map(flows_folder::only_used);
        let changes = changes(&old, &new)?;
        output::print_answer(json, &json!({ "changes": changes }), || text(&changes, &self.revision))?;
        Ok(if changes.iter().any(|change| change.risk.is_some()) {
            CommandExit::RiskyChange
        } else {
            CommandExit::Success
        })
    }

    /// A branch has a `/` in its name, too, and is no folder with flows.
    fn old(&self, folder: &Path) -> Result<Vec<File>> {
        let other = Path::new(&self.revision);
        let is_folder = self.revision.contains('/') && other.join("sources.yaml").is_file();
        if is_folder { flows_folder::read(other) } else { flows_folder::read_at(folder, &self.revision) }
    }
}

/// The changes between two states of the folder.
pub fn changes(old: &[File], new: &[File]) -> Result<Vec<FlowChange>> {
    let paths: BTreeSet<&str> = old.iter().chain(new).map(|file| file.path.as_str()).collect();
    let mut changes = Vec::new();
    for path in paths {
        match (document(old, path)?, document(new, path)?) {
            (Some(old), Some(new)) => compare(path, &mut Vec::new(), Some(&old), Some(&new), false, &mut changes),
            (old, new) => changes.extend(file_change(path, old.is_some(), new.is_some())),
        }
    }
    // Files with mistakes can be compared as they are written only.
    if let (Ok(old), Ok(new)) = (Flows::parse(old), Flows::parse(new)) {
        in_force::judge(&mut changes, &old, &new);
    }
    Ok(changes)
}

fn text(changes: &[FlowChange], revision: &str) -> String {
    if changes.is_empty() {
        return format!("Nothing changed since {revision}.\n");
    }
    let files: BTreeSet<&str> = changes.iter().map(|change| change.file.as_str()).collect();
    let mut text = String::new();
    for file in files {
        text += &format!("{}\n", output::styled(output::BOLD, file));
        text.extend(changes.iter().filter(|change| change.file == file).map(line));
    }
    if changes.iter().any(|change| change.risk.is_some()) {
        text += RISKS;
    }
    text
}

const RISKS: &str =
    "\nAn effect could happen again, or be forgotten. Read the lines that start with `risk`, then decide.\n";

fn line(FlowChange { place, what, risk, .. }: &FlowChange) -> String {
    let change = format!("  {place}{}{what}\n", if place.is_empty() { "" } else { " " });
    let risk = risk.as_ref().map(|risk| format!("{} {risk}\n", output::styled(output::BAD, "    risk:")));
    change + &risk.unwrap_or_default()
}

/// A file as data. Comments and layout are no change.
fn document(files: &[File], path: &str) -> Result<Option<Value>> {
    let Some(file) = files.iter().find(|file| file.path == path) else { return Ok(None) };
    let read = serde_saphyr::from_str(&file.text).map(Some);
    read.with_context(|| {
        format!("{path} is not YAML, so that it cannot be compared: run `ledgerline flows check` to see where")
    })
}

/// The change where a whole file was added or removed. A removed flow takes its keys with it: under another name
/// every event is new.
fn file_change(path: &str, was: bool, is: bool) -> Option<FlowChange> {
    let what = match (was, is) {
        (true, false) if path.starts_with("flows/") => "the file was removed, and its events are no longer recognised",
        (true, false) if Shelf::of(path).is_some() => "is no longer there, or no longer used",
        (true, false) => "the file was removed",
        (false, true) if Shelf::of(path).is_some() => "is new, or used now",
        (false, true) => "the file was added",
        _ => return None,
    };
    let risk = (was && path.starts_with("flows/")).then(|| REMOVED.to_owned());
    Some(FlowChange { file: path.to_owned(), place: String::new(), what: what.into(), risk })
}

const REMOVED: &str = "events that are on their way wait for an hour and are parked as `unknown_flow`; under another name \
    every old event is new, and its effects happen again: let the queue run empty first";

/// Compares two values at a place. `keyed` says whether it belongs to an effect whose partner knows our key.
fn compare(
    file: &str,
    at: &mut Vec<String>,
    old: Option<&Value>,
    new: Option<&Value>,
    keyed: bool,
    changes: &mut Vec<FlowChange>,
) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                at.push(name.clone());
                compare(file, at, before.get(name), after.get(name), keyed, changes);
                at.pop();
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if is_named(before) && is_named(after) => {
            compare_named(file, at, before, after, changes);
        }
        _ => changes.push(FlowChange {
            file: file.to_owned(),
            place: at.join("."),
            what: sentence(old, new),
            risk: risk::risk(file, at, old, new, keyed).map(str::to_owned),
        }),
    }
}

/// Effects and guards go by their ids: one that moved is the same one, and so is an effect that says which it was.
fn compare_named(file: &str, at: &mut Vec<String>, old: &[Value], new: &[Value], changes: &mut Vec<FlowChange>) {
    let id = |item: &Value| item["id"].as_str().unwrap_or_default().to_owned();
    let (before, after): (Vec<String>, Vec<String>) = (old.iter().map(id).collect(), new.iter().map(id).collect());
    let find = |items: &'_ [Value], name: &str| items.iter().find(|item| id(item) == name).cloned();
    let renamed = |name: &String| -> Option<String> {
        let was = find(new, name)?["was"].as_array()?.clone();
        before.iter().find(|id| !after.contains(id) && was.iter().any(|was| was == id.as_str())).cloned()
    };
    let gone_on: BTreeSet<String> = after.iter().filter_map(renamed).collect();
    let names: BTreeSet<&String> = before.iter().filter(|name| !gone_on.contains(*name)).chain(&after).collect();
    for name in names {
        at.push(name.clone());
        let (mut was, is) = (find(old, renamed(name).as_ref().unwrap_or(name)), find(new, name));
        if let (Some(was), Some(is), Some(from)) = (&mut was, &is, renamed(name)) {
            let (place, what) = (at.join("."), format!("is the effect `{from}` under another name"));
            changes.push(FlowChange { file: file.to_owned(), place, what, risk: None });
            (was["id"], was["was"]) = (is["id"].clone(), is["was"].clone());
        }
        let keyed = [&was, &is].into_iter().flatten().any(|effect| effect["guarantee"] == "native");
        compare(file, at, was.as_ref(), is.as_ref(), keyed, changes);
        at.pop();
    }
    let both =
        |names: &[String], others: &[String]| names.iter().filter(|n| others.contains(n)).cloned().collect::<Vec<_>>();
    if both(&before, &after) != both(&after, &before) {
        let what = format!("have another order: {}", after.join(", "));
        changes.push(FlowChange { file: file.to_owned(), place: at.join("."), what, risk: None });
    }
}

fn is_named(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(|item| item["id"].is_string())
}

fn sentence(old: Option<&Value>, new: Option<&Value>) -> String {
    match (old, new) {
        (Some(old), Some(new)) => format!("changed from {} to {}", short(old), short(new)),
        (Some(old), None) => format!("was removed (it was {})", short(old)),
        (None, Some(new)) => format!("was added: {}", short(new)),
        (None, None) => String::new(),
    }
}

/// A value on one line: what does not fit is left out.
fn short(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), |text| format!("`{text}`"));
    let cut: String = text.chars().take(MAX_SHOWN).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

const MAX_SHOWN: usize = 72;
