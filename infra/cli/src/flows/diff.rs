//! `ledgerline flows diff`

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use shared::flows::File;

use crate::{CommandExit, flows_folder, output};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows diff HEAD                what is not committed yet
  ledgerline flows diff origin/main --json  what a pull request changes, for a comment on it

Exit code 3 says that old events become new again: the flow's name, its key's version, fields,
normalisers or bucket changed, so a sender that repeats an event is not recognised.";

/// Tell in words what changed since a revision, and whether old events become new again.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The revision to compare with, as git knows it.
    revision: String,
    /// The flows folder. Without it, the one of the project that you are in.
    folder: Option<PathBuf>,
}

/// One thing that changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowChange {
    /// The file's path inside the folder.
    pub file: String,
    /// The place in it, dotted: `effects.crm.request.path`.
    pub place: String,
    /// What changed, in words.
    pub what: String,
    /// Whether old events become new again.
    pub resets: bool,
}

impl DiffArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let folder = flows_folder::find(self.folder)?;
        let (old, new) = (flows_folder::read_at(&folder, &self.revision)?, flows_folder::read(&folder)?);
        let changes = changes(&old, &new)?;
        if json {
            output::json(&json!({ "changes": changes }));
        } else {
            show(&changes, &self.revision);
        }
        Ok(if changes.iter().any(|change| change.resets) { CommandExit::ResetsDedup } else { CommandExit::Success })
    }
}

fn show(changes: &[FlowChange], revision: &str) {
    if changes.is_empty() {
        anstream::println!("Nothing changed since {revision}.");
    }
    let files: BTreeSet<&str> = changes.iter().map(|change| change.file.as_str()).collect();
    for file in files {
        anstream::println!("{}", output::styled(output::BOLD, file));
        for FlowChange { place, what, resets, .. } in changes.iter().filter(|change| change.file == file) {
            let mark = if *resets { output::styled(output::BAD, "  resets dedup: ") } else { "  ".into() };
            anstream::println!("{mark}{place}{}{what}", if place.is_empty() { "" } else { " " });
        }
    }
    if changes.iter().any(|change| change.resets) {
        anstream::println!(
            "\nOld events become new again: a repeated event is not recognised, and its effects happen anew."
        );
    }
}

/// What changed between two states of the folder.
pub fn changes(old: &[File], new: &[File]) -> Result<Vec<FlowChange>> {
    let paths: BTreeSet<&str> = old.iter().chain(new).map(|file| file.path.as_str()).collect();
    let mut changes = Vec::new();
    for path in paths {
        match (document(old, path)?, document(new, path)?) {
            (Some(old), Some(new)) => compare(path, &mut Vec::new(), Some(&old), Some(&new), &mut changes),
            (old, new) => changes.extend(file_change(path, old.is_some(), new.is_some())),
        }
    }
    Ok(changes)
}

/// A file as data. Comments and layout are no change.
fn document(files: &[File], path: &str) -> Result<Option<Value>> {
    let Some(file) = files.iter().find(|file| file.path == path) else { return Ok(None) };
    let read = serde_saphyr::from_str(&file.text).map(Some);
    read.with_context(|| format!("{path} is not YAML: see `ledgerline flows check`"))
}

/// A flow that is gone takes its keys with it: under another name every event is new.
fn file_change(path: &str, was: bool, is: bool) -> Option<FlowChange> {
    let (what, resets) = match (was, is) {
        (true, false) => ("the file is gone, and with it the memory of its events", path.starts_with("flows/")),
        (false, true) => ("the file is new", false),
        _ => return None,
    };
    Some(FlowChange { file: path.to_owned(), place: String::new(), what: what.into(), resets })
}

fn compare(file: &str, at: &mut Vec<String>, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<FlowChange>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                at.push(name.clone());
                compare(file, at, before.get(name), after.get(name), changes);
                at.pop();
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if is_named(before) && is_named(after) => {
            compare_named(file, at, before, after, changes);
        }
        _ => changes.push(FlowChange {
            file: file.to_owned(),
            place: at.join("."),
            what: words(old, new),
            resets: resets_dedup(file, at),
        }),
    }
}

/// Effects and guards go by their ids: one that moved is the same one.
fn compare_named(file: &str, at: &mut Vec<String>, old: &[Value], new: &[Value], changes: &mut Vec<FlowChange>) {
    let id = |item: &Value| item["id"].as_str().unwrap_or_default().to_owned();
    let (before, after): (Vec<String>, Vec<String>) = (old.iter().map(id).collect(), new.iter().map(id).collect());
    let find = |items: &'_ [Value], name: &str| items.iter().find(|item| id(item) == name).cloned();
    let names: BTreeSet<&String> = before.iter().chain(&after).collect();
    for name in names {
        at.push(name.clone());
        compare(file, at, find(old, name).as_ref(), find(new, name).as_ref(), changes);
        at.pop();
    }
    let both =
        |names: &[String], others: &[String]| names.iter().filter(|n| others.contains(n)).cloned().collect::<Vec<_>>();
    if both(&before, &after) != both(&after, &before) {
        let what = format!("stand in another order: {}", after.join(", "));
        changes.push(FlowChange { file: file.to_owned(), place: at.join("."), what, resets: false });
    }
}

fn is_named(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(|item| item["id"].is_string())
}

/// All that an event's key is made of: see [`shared::base::id::EventId::derive`].
fn resets_dedup(file: &str, at: &[String]) -> bool {
    file.starts_with("flows/") && matches!(at.first().map(String::as_str), Some("name" | "key"))
        || file == "sources.yaml" && at.get(1).is_some_and(|field| field == "id_at")
}

fn words(old: Option<&Value>, new: Option<&Value>) -> String {
    match (old, new) {
        (Some(old), Some(new)) => format!("was {}, is {}", short(old), short(new)),
        (Some(old), None) => format!("is gone (was {})", short(old)),
        (None, Some(new)) => format!("is new: {}", short(new)),
        (None, None) => String::new(),
    }
}

/// A value in one line: what does not fit is left out.
fn short(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), |text| format!("`{text}`"));
    let cut: String = text.chars().take(MAX_SHOWN).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

const MAX_SHOWN: usize = 72;
