//! `ledgerline flows keys`

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::arrival::key::{KeyError, fingerprint};
use shared::arrival::window::{Anchors, Placement, Sighting};
use shared::base::time::{Timestamp, Unit};
use shared::flows::{Field, Flow, Flows};

use super::FlowsFolderArgs;
use crate::contacts::csv;
use crate::sample_event::SampleEvent;
use crate::scenarios::play::set;
use crate::{CommandExit, flows_folder, output};

pub(crate) const EXAMPLES: &str = "\
Examples:
  ledgerline flows keys export.jsonl                       reads one event a line, as senders send it
  ledgerline flows keys export.jsonl --flow lead-routing   takes every line for an event of this flow
  ledgerline flows keys export.jsonl --at data.created_at  names the field that says when an event happened
  ledgerline flows keys export.csv --flow orders           takes each column for a field: data.email, data.total

A line may also be {\"headers\": {…}, \"body\": {…}}. The command prints no value of an event.
Exit code 1 means that different payloads share a key: the second one would never be acted on.";

/// Try the key on exported events: which would count as the same event, and which would not.
#[derive(Debug, Args)]
pub struct KeysArgs {
    /// The file with the events, one a line; or a .csv file, with the fields' names in its first line.
    events: PathBuf,
    /// The flow that takes the events. Without it, each event's type names its flow.
    #[arg(long)]
    flow: Option<String>,
    /// The field that says when an event happened. Near misses are looked for within one minute of it, and a window
    /// without a field takes it for the moment of reception.
    #[arg(long, default_value = "timestamp")]
    at: String,
    #[command(flatten)]
    common: FlowsFolderArgs,
}

/// How the keys do on an export.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct KeyReport {
    /// How many lines were events.
    pub events: usize,
    /// How many different keys they have.
    pub distinct: usize,
    /// How many repeat an earlier line: the same key, the same payload.
    pub repeats: usize,
    /// Lines that the intake would not accept, and why.
    pub refused: Vec<(usize, String)>,
    /// Different payloads under one key: all but the first would never be acted on.
    pub collisions: Vec<Collision>,
    /// The same entity within one minute under different keys: perhaps one event, acted on twice.
    pub near_misses: Vec<NearMiss>,
    /// Events just before an edge of their bucket: a repetition that names a moment seconds later would be a new event.
    pub near_edges: Vec<NearEdge>,
}

/// An event just before an edge of its bucket.
#[derive(Debug, PartialEq, Serialize)]
pub struct NearEdge {
    /// The line that it is on.
    pub line: usize,
    /// The field with its moment.
    pub field: String,
    /// The time from its moment to the edge, in milliseconds.
    pub edge_in_ms: u128,
}

/// Different payloads under one key.
#[derive(Debug, PartialEq, Serialize)]
pub struct Collision {
    /// The key.
    pub key: String,
    /// The lines that they are on.
    pub lines: Vec<usize>,
    /// The fields in which they differ.
    pub differ_in: Vec<String>,
}

/// The same entity within one minute under different keys.
#[derive(Debug, PartialEq, Serialize)]
pub struct NearMiss {
    /// The message group of both.
    pub group: String,
    /// The lines that they are on.
    pub lines: Vec<usize>,
    /// The fields in which they differ.
    pub differ_in: Vec<String>,
}

impl KeysArgs {
    pub(crate) fn run(self, json: bool) -> Result<CommandExit> {
        let files = flows_folder::read(&flows_folder::find(self.common.folder)?)?;
        let Some(flows) = flows_folder::parse(&files) else { return Ok(CommandExit::Problems) };
        let text = std::fs::read_to_string(&self.events);
        let text = text.with_context(|| format!("cannot read the events in {}", self.events.display()))?;
        let is_csv = self.events.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
        let text = if is_csv { from_csv(&text, &flows, self.flow.as_deref()) } else { text };
        let at: Field = self.at.parse().map_err(anyhow::Error::msg)?;
        let report = report(&text, &flows, self.flow.as_deref(), &at)?;
        output::print_answer(json, &json!(report), || summary(&report))?;
        Ok(if report.collisions.is_empty() { CommandExit::Success } else { CommandExit::Problems })
    }
}

/// An export in CSV as one with an event a line. Columns are fields, as `data.email`; a cell is a text, unless the schema of
/// the event's flow takes no text there. An empty cell is no field. A record stands on the line on which it begins.
pub fn from_csv(text: &str, flows: &Flows, flow: Option<&str>) -> String {
    let mut records = csv::records(text).into_iter();
    let Some((_, names)) = records.next() else { return String::new() };
    let mut lines: Vec<String> = Vec::new();
    for (line, cells) in records {
        let cells: Vec<(&str, String)> = names.iter().map(|name| name.trim()).zip(cells).collect();
        lines.resize(usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1).max(lines.len()), String::new());
        lines.push(of_cells(&cells, flows, flow).to_string());
    }
    lines.join("\n")
}

/// An event of cells. Its type, a text, names its flow where the command does not.
fn of_cells(cells: &[(&str, String)], flows: &Flows, flow: Option<&str>) -> Value {
    let of = |schema: &Value| {
        let mut event = json!({});
        for (name, cell) in cells.iter().filter(|(_, cell)| !cell.is_empty()) {
            let field = name.parse::<Field>().ok();
            let kind = field.as_ref().map_or(&Value::Null, |field| field.in_schema(schema));
            // What has no place is left out, and the schema says what is missing.
            let _ = set(&mut event, name, Some(of_cell(cell, kind)));
        }
        event
    };
    let plain = of(&Value::Null);
    let flow = match flow {
        Some(name) => flows.flow(name),
        None => SampleEvent::parse(&plain.to_string()).ok().and_then(|sample| sample.flows(flows).first().copied()),
    };
    flow.map_or(plain, |flow| of(&flow.schema))
}

/// A cell as its schema takes it: a text where it may be one.
fn of_cell(cell: &str, schema: &Value) -> Value {
    let text = Value::from(cell);
    let Some(parsed) = serde_json::from_str::<Value>(cell).ok() else { return text };
    let listed =
        |value: &Value| schema["enum"].as_array().is_some_and(|all| all.contains(value)) || schema["const"] == *value;
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        kinds => kinds.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    let kind = match &parsed {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::String(_) => return text,
    };
    let is_kind = kinds.contains(&kind) || (kind == "number" && kinds.contains(&"integer"));
    let is_listed = listed(&parsed) && !listed(&text);
    if is_listed || (is_kind && !kinds.contains(&"string")) { parsed } else { text }
}

/// Tries the keys on an export.
pub fn report(text: &str, flows: &Flows, flow: Option<&str>, at: &Field) -> Result<KeyReport> {
    if let Some(name) = flow.filter(|name| flows.flow(name).is_none()) {
        bail!("the flows folder has no flow `{name}`: check the name after --flow");
    }
    let mut report = KeyReport::default();
    let mut events = Vec::new();
    let mut anchors = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match ExportedEvent::read(index + 1, line, flows, flow, at).and_then(|event| event.anchored(&mut anchors)) {
            Ok(event) => events.push(event),
            Err(why) => report.refused.push((index + 1, why)),
        }
    }
    let by_key = grouped(&events, |exported| Some(exported.event.id.to_string()));
    report.events = events.len();
    report.distinct = by_key.len();
    for (key, same) in by_key {
        let differ_in = differences(same.iter().map(|exported| &exported.compared));
        let payloads: BTreeSet<String> = same.iter().map(|exported| fingerprint(&exported.compared)).collect();
        report.repeats += same.len() - payloads.len();
        if !differ_in.is_empty() {
            report.collisions.push(Collision { key, lines: lines(&same), differ_in });
        }
    }
    let minute = |exported: &ExportedEvent<'_>| {
        let moment = moment(&exported.event.payload, at)?;
        Some((exported.event.group.clone(), moment.floor(Unit::Minute.duration())))
    };
    for ((group, _), close) in grouped(&events, minute) {
        let keys: BTreeSet<&str> = close.iter().map(|exported| exported.event.id.as_str()).collect();
        if keys.len() > 1 {
            let differ_in = differences(close.iter().map(|exported| &exported.event.payload));
            report.near_misses.push(NearMiss { group, lines: lines(&close), differ_in });
        }
    }
    report.near_edges = events.iter().filter_map(ExportedEvent::near_edge).collect();
    Ok(report)
}

/// An event of an export.
struct ExportedEvent<'f> {
    line: usize,
    flow: &'f Flow,
    sighting: Option<Sighting>,
    event: Event,
    /// The payload without the moment of the key's window: two deliveries of one event may differ in it.
    compared: Value,
}

impl<'f> ExportedEvent<'f> {
    fn read(line: usize, text: &str, flows: &'f Flows, flow: Option<&str>, at: &Field) -> Result<Self, String> {
        let sample = SampleEvent::parse(text).map_err(|error| error.to_string())?;
        let flow: &Flow = match flow {
            Some(name) => flows.flow(name),
            None => sample.flows(flows).first().copied(),
        }
        .ok_or("no flow takes an event of this type")?;
        let received_at = moment(&sample.body, at).unwrap_or(Timestamp::from_secs(0));
        let event = sample.event(flow, flows, received_at).map_err(|refused| refused.0)?;
        let sighting = sample.sighting(flow, flows, &event).map_err(|error| error.to_string())?;
        let compared = compared(flow, event.payload.clone());
        Ok(ExportedEvent { line, flow, sighting, event, compared })
    }

    /// The event under the id that it has after those before it.
    fn anchored(mut self, anchors: &mut BTreeMap<String, Anchors>) -> Result<Self, String> {
        let Some(sighting) = &self.sighting else { return Ok(self) };
        let known = anchors.entry(sighting.key.clone()).or_default();
        match known.place(sighting) {
            Placement::Of(anchor) => self.event.id = sighting.id_at(anchor),
            Placement::New(next) => *known = next,
            Placement::Forgotten => return Err(KeyError::MomentForgotten.to_string()),
        }
        Ok(self)
    }

    fn near_edge(&self) -> Option<NearEdge> {
        let bucket = self.flow.key.bucket.as_ref()?;
        let moment = moment(&self.event.payload, &bucket.field)?;
        let edge_in = bucket.every.saturating_sub(moment.since(moment.floor(bucket.every)));
        let near = edge_in <= NEAR_EDGE.min(bucket.every / 10);
        near.then(|| NearEdge { line: self.line, field: bucket.field.to_string(), edge_in_ms: edge_in.as_millis() })
    }
}

/// How close to an edge of its bucket an event is told of, at most: senders repeat themselves within seconds.
const NEAR_EDGE: Duration = Duration::from_secs(10);

/// What of a payload two deliveries of one event share: all but the moment of the key's window.
pub(crate) fn compared(flow: &Flow, payload: Value) -> Value {
    match flow.key.window.as_ref().and_then(|window| window.field.as_ref()) {
        Some(field) => without(field, payload),
        None => payload,
    }
}

fn without(field: &Field, mut payload: Value) -> Value {
    if let Some(value) = payload.pointer_mut(&format!("/{}", field.to_string().replace('.', "/"))) {
        *value = Value::Null;
    }
    payload
}

fn grouped<'e, 'f, K: Ord>(
    events: &'e [ExportedEvent<'f>],
    by: impl Fn(&ExportedEvent<'f>) -> Option<K>,
) -> BTreeMap<K, Vec<&'e ExportedEvent<'f>>> {
    let mut groups: BTreeMap<K, Vec<&ExportedEvent<'f>>> = BTreeMap::new();
    for exported in events {
        if let Some(key) = by(exported) {
            groups.entry(key).or_default().push(exported);
        }
    }
    groups
}

fn lines(events: &[&ExportedEvent<'_>]) -> Vec<usize> {
    events.iter().map(|exported| exported.line).collect()
}

fn moment(payload: &Value, at: &Field) -> Option<Timestamp> {
    Timestamp::parse(at.of(payload)?.as_str()?)
}

/// The places in which the payloads are not all the same. Never the values.
fn differences<'v>(mut payloads: impl Iterator<Item = &'v Value>) -> Vec<String> {
    let mut places = BTreeSet::new();
    if let Some(first) = payloads.next() {
        payloads.for_each(|other| differing(first, other, &mut Vec::new(), &mut places));
    }
    places.into_iter().collect()
}

fn differing(one: &Value, other: &Value, at: &mut Vec<String>, places: &mut BTreeSet<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                at.push(name.clone());
                let value = |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                differing(&value(one), &value(other), at, places);
                at.pop();
            }
        }
        _ if one != other => drop(places.insert(at.join("."))),
        _ => (),
    }
}

fn summary(report: &KeyReport) -> String {
    let KeyReport { events, distinct, repeats, refused, collisions, near_misses, near_edges } = report;
    let joined = |numbers: &[usize]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (events, distinct) = (output::count(*events, "event"), output::count(*distinct, "different key"));
    let mut text = format!("{events} with {distinct}\n{} an earlier line\n", repeating(*repeats));
    if !collisions.is_empty() {
        let title = output::styled(output::BAD, output::count(collisions.len(), "collision"));
        text += &format!("\n{title}: different payloads share a key, and only the first is acted on\n");
        let rows = collisions.iter().map(|c| [c.key[..12].to_owned(), joined(&c.lines), c.differ_in.join(", ")]);
        text += &output::columns(["KEY", "LINES", "DIFFER IN"], &rows.collect::<Vec<_>>());
    }
    if !near_misses.is_empty() {
        let title = if near_misses.len() == 1 { "near miss" } else { "near misses" };
        let title = output::styled(output::BOLD, format!("{} {title}", near_misses.len()));
        text += &format!("\n{title}: one entity has several keys within one minute, and may be acted on twice\n");
        let rows = near_misses.iter().map(|n| [n.group[..12].to_owned(), joined(&n.lines), n.differ_in.join(", ")]);
        text += &output::columns(["GROUP", "LINES", "DIFFER IN"], &rows.collect::<Vec<_>>());
    }
    if !near_edges.is_empty() {
        let title = output::styled(output::BOLD, output::count(near_edges.len(), "event"));
        text += &format!("\n{title} just before an edge of a bucket: a repetition seconds later is a new event\n");
        let rows = near_edges.iter().map(|n| [n.line.to_string(), n.field.clone(), format!("{} ms", n.edge_in_ms)]);
        text += &output::columns(["LINE", "FIELD", "EDGE IN"], &rows.collect::<Vec<_>>());
        text += "A window has no edges: write `window: {field: …, within: …}` in the place of the bucket.\n";
    }
    if !refused.is_empty() {
        let title = output::styled(output::BOLD, output::count(refused.len(), "line"));
        text += &format!("\n{title} that the intake would not accept\n");
        let rows = refused.iter().map(|(line, why)| [line.to_string(), why.clone()]);
        text += &output::columns(["LINE", "WHY"], &rows.collect::<Vec<_>>());
    }
    text
}

fn repeating(repeats: usize) -> String {
    format!("{} {}", output::count(repeats, "event"), if repeats == 1 { "repeats" } else { "repeat" })
}
