//! What was seen, written as an expectation.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use shared::ledger::Row;
use sim::stage::{DeliveryAnswer, MadeCall};

use super::play::Observed;
use super::written::{Expectation, ExpectedAnswer, ExpectedCall};

/// A call as one line: `POST email /messages`.
pub fn call_line(call: &MadeCall) -> String {
    format!("{} {} {}", call.method, call.integration, call.path)
}

/// The end of an event in a few words.
pub fn state_of(row: &Row) -> String {
    match (&row.noop, &row.death) {
        (Some(noop), _) if row.state.as_str() == "noop" => format!("noop by {}", noop.guard),
        (_, Some(death)) if row.state.as_str() == "dead" => {
            format!("dead: {} ({})", death.reason.as_str(), death.error)
        }
        _ => row.state.as_str().to_owned(),
    }
}

/// What was seen, as an expectation that says as much as the one that is there: all of it, where that says nothing, with
/// the bodies of calls if these are wanted.
pub fn expectation(old: &Expectation, seen: &Observed, bodies: bool) -> Value {
    let all = old.says_nothing();
    let mut expectation = Map::new();
    if all || old.answers.is_some() {
        let answers = seen.answers.iter().enumerate();
        let said = |number: usize| old.answers.as_ref().and_then(|old| old.get(number));
        let written = answers.map(|(number, answer)| written_answer(answer, said(number)));
        expectation.insert("answers".into(), written.collect());
    }
    if all || old.calls.is_some() {
        let said = |number: usize| old.calls.as_ref().and_then(|old| old.get(number));
        let calls =
            seen.calls.iter().enumerate().map(|(number, call)| written_call(call, seen, said(number), all && bodies));
        expectation.insert("calls".into(), calls.collect());
    }
    if let Some(old) = &old.acted {
        let times = |effect: &String| seen.acts.iter().filter(|act| act.effect == *effect).count();
        let acted = old.keys().map(|effect| (effect.clone(), json!(times(effect))));
        expectation.insert("acted".into(), Value::Object(acted.collect()));
    }
    if all || old.ends.is_some() {
        let said = |number: usize| old.ends.as_ref().and_then(|old| old.get(number));
        let ends = seen.rows.iter().enumerate();
        let ends = ends.map(|(number, row)| written_end(row, said(number).is_some_and(|old| old.history.is_some())));
        expectation.insert("ends".into(), ends.collect());
    }
    Value::Object(expectation)
}

fn written_answer(answer: &DeliveryAnswer, old: Option<&ExpectedAnswer>) -> Value {
    let mut written = json!({"status": answer.status});
    if let Some(problem) = answer.problem() {
        written["problem"] = json!(problem);
    }
    if answer.headers.get("idempotent-replayed").is_some_and(|value| value == "true") {
        written["replayed"] = json!(true);
    }
    if old.is_some_and(|old| old.body.is_some()) {
        written["body"] = answer.body.clone();
    }
    write_headers(&mut written, old.map(|old| &old.headers), &answer.headers);
    match written.as_object() {
        Some(fields) if fields.len() == 1 => json!(answer.status),
        _ => written,
    }
}

fn written_call(call: &MadeCall, seen: &Observed, old: Option<&ExpectedCall>, body: bool) -> Value {
    let mut written = json!({"call": call_line(call)});
    if old.is_some_and(|old| old.at.is_some()) {
        let after = super::written::WrittenSpan(call.at.since(seen.starts_at));
        written["at"] = json!(after.to_string());
    }
    write_headers(&mut written, old.map(|old| &old.headers), &call.headers);
    match &call.body {
        Some(seen) if old.is_some_and(|old| old.exactly.is_some()) => written["exactly"] = seen.clone(),
        Some(seen) if body || old.is_some_and(|old| old.body.is_some()) => written["body"] = seen.clone(),
        _ => (),
    }
    match written.as_object() {
        Some(fields) if fields.len() == 1 => json!(call_line(call)),
        _ => written,
    }
}

/// The header fields that were expected, with the values that were seen.
fn write_headers(written: &mut Value, expected: Option<&BTreeMap<String, String>>, seen: &BTreeMap<String, String>) {
    let names = expected.into_iter().flat_map(BTreeMap::keys);
    let found = names.filter_map(|name| Some((name.clone(), json!(seen.get(&name.to_ascii_lowercase())?))));
    let found: Map<String, Value> = found.collect();
    if !found.is_empty() {
        written["headers"] = Value::Object(found);
    }
}

fn written_end(row: &Row, history: bool) -> Value {
    let mut written = json!({"state": row.state.as_str()});
    if let Some(noop) = row.noop.as_ref().filter(|_| row.state.as_str() == "noop") {
        written["guard"] = json!(noop.guard);
    }
    if let Some(death) = row.death.as_ref().filter(|_| row.state.as_str() == "dead") {
        written["reason"] = json!(death.reason.as_str());
        written.as_object_mut().expect("an object").extend(death.effect.iter().map(|e| ("effect".into(), json!(e))));
    }
    if !row.effects.is_empty() {
        let effects = row.effects.iter().map(|(id, entry)| (id.clone(), json!(entry.progress.as_str())));
        written["effects"] = Value::Object(effects.collect());
    }
    if history {
        written["history"] = row.history.iter().map(|moment| json!(moment.what)).collect();
    }
    match written.as_object() {
        Some(fields) if fields.len() == 1 => json!(row.state.as_str()),
        _ => written,
    }
}

/// A scenario file's text with another expectation in a scenario: nothing else of the text is touched.
///
/// The scenario is the one of this number. Nothing, where the text is written in a way in which that cannot be done.
pub fn with_expectation(text: &str, scenario: usize, expectation: &Value) -> Option<String> {
    let written = rewritten(text, scenario, expectation)?;
    let (before, after) = (parsed(text)?, parsed(&written)?);
    let mut wanted = before;
    wanted["scenarios"].get_mut(scenario)?["expect"] = expectation.clone();
    (wanted == after).then_some(written)
}

fn parsed(text: &str) -> Option<Value> {
    serde_saphyr::from_str(text).ok()
}

fn rewritten(text: &str, scenario: usize, expectation: &Value) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (start, end, indent) = scenario_lines(&lines, scenario)?;
    let field = |place: &usize| indent_of(lines[*place], *place == start) == indent && names(lines[*place], "expect");
    let old = (start..end).find(field);
    let below = |from: usize| {
        let deeper = |line: &&&str| {
            let trimmed = line.trim();
            trimmed.is_empty() || trimmed.starts_with('#') || indent_of(line, false) > indent
        };
        let taken = lines[from + 1..end].iter().take_while(deeper).count();
        // What stands empty or as a comment before the next thing belongs to that.
        let trailing = lines[from + 1..from + 1 + taken].iter().rev();
        taken - trailing.take_while(|line| line.trim().is_empty() || line.trim().starts_with('#')).count()
    };
    let (from, to) = match old {
        Some(place) => (place, place + 1 + below(place)),
        None => (end, end),
    };
    let mut written = lines[..from].concat();
    if !written.ends_with('\n') {
        written.push('\n');
    }
    // The first field of an item stands behind its dash.
    let pad = match old {
        Some(place) if place == start => lines[place][..indent].to_owned(),
        _ => " ".repeat(indent),
    };
    written += &format!("{pad}expect:\n");
    yaml(expectation, indent + 2, &mut written);
    written += &lines[to..].concat();
    Some(written)
}

/// How far a line stands in; of an item's first line, what is behind its dash.
fn indent_of(line: &str, is_first: bool) -> usize {
    let own = line.len() - line.trim_start().len();
    match line.trim_start().strip_prefix('-').filter(|_| is_first) {
        Some(rest) => own + 1 + rest.len() - rest.trim_start().len(),
        None => own,
    }
}

/// Whether a line begins with this field.
fn names(line: &str, field: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix('-').map_or(line, str::trim_start);
    line.strip_prefix(field).is_some_and(|rest| rest.starts_with(':'))
}

/// The lines of a scenario, from the first to the one behind the last that is not empty, and how far its fields stand in.
fn scenario_lines(lines: &[&str], scenario: usize) -> Option<(usize, usize, usize)> {
    let is_head = |line: &&str| {
        let rest = line.strip_prefix("scenarios:");
        rest.is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
    };
    let head = lines.iter().position(is_head)?;
    let dash = lines[head + 1..].iter().find(|line| line.trim_start().starts_with("- "))?;
    let dash = dash.len() - dash.trim_start().len();
    let begins = |line: &&str| line.len() - line.trim_start().len() == dash && line.trim_start().starts_with("- ");
    let starts: Vec<usize> = (head + 1..lines.len()).filter(|place| begins(&lines[*place])).collect();
    let start = *starts.get(scenario)?;
    let mut end = starts.get(scenario + 1).copied().unwrap_or(lines.len());
    while end > start + 1 && (lines[end - 1].trim().is_empty() || lines[end - 1].trim().starts_with('#')) {
        end -= 1;
    }
    Some((start, end, indent_of(lines[start], true)))
}

/// A value as YAML: lists and mappings below their names, what is small on one line.
pub fn yaml(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(fields) => {
            for (name, value) in in_order(fields) {
                *text += &format!("{pad}{}:", flow_text(name));
                nested(value, indent + 2, text);
            }
        }
        Value::Array(items) => {
            for item in items {
                *text += &format!("{pad}-");
                match item {
                    Value::Object(_) if in_line(item).len() > LONGEST_LINE => {
                        let mut inner = String::new();
                        yaml(item, indent + 2, &mut inner);
                        *text += &format!(" {}", inner.trim_start());
                    }
                    _ => nested(item, indent + 2, text),
                }
            }
        }
        _ => *text += &format!("{pad}{}\n", in_line(value)),
    }
}

/// The names of scenario files, in the order in which they are read.
const NAMES: [&str; 22] = [
    "flow",
    "event",
    "starts_at",
    "contacts",
    "prove",
    "scenarios",
    "it",
    "at",
    "deliver",
    "given",
    "partners",
    "keeps",
    "faults",
    "expect",
    "answers",
    "calls",
    "acted",
    "ends",
    "call",
    "status",
    "state",
    "effect",
];

/// The fields of a mapping: those that scenario files know first, in their order.
fn in_order(fields: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let place = |name: &str| NAMES.iter().position(|known| *known == name).unwrap_or(NAMES.len());
    let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| place(name));
    fields.into_iter()
}

const LONGEST_LINE: usize = 96;

fn nested(value: &Value, indent: usize, text: &mut String) {
    let line = in_line(value);
    let holds = matches!(value, Value::Object(fields) if !fields.is_empty())
        || matches!(value, Value::Array(items) if !items.is_empty());
    let list_of_maps = matches!(value, Value::Array(items) if items.iter().any(Value::is_object) && items.len() > 1);
    if holds && (line.len() > LONGEST_LINE || list_of_maps) {
        text.push('\n');
        yaml(value, indent, text);
    } else {
        *text += &format!(" {line}\n");
    }
}

fn in_line(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = in_order(fields).map(|(name, value)| format!("{}: {}", flow_text(name), in_line(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(in_line).collect::<Vec<_>>().join(", ")),
        Value::String(text) => flow_text(text),
        other => other.to_string(),
    }
}

/// A text, in quotes where YAML would read something else.
fn flow_text(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-/. ".contains(c);
    let letters = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '/');
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let span = text.starts_with(|c: char| c.is_ascii_digit()) && crate::args::parse_duration(text).is_ok();
    let safe = span || (letters && text.chars().all(plain) && text.trim() == text);
    if safe && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "flow: f\nscenarios:\n  - it: one\n    # what it does\n    expect:\n      ends: [dead]\n\n  # the next\n  - it: two\n";

    #[test]
    fn an_expectation_takes_the_place_of_the_old_one_and_of_nothing_else() {
        let new = json!({"ends": ["succeeded"]});
        let text = with_expectation(TEXT, 0, &new).expect("it is there");
        assert_eq!(text, TEXT.replace("[dead]", "[succeeded]"));
        let text = with_expectation(TEXT, 1, &new).expect("it is there");
        assert_eq!(text, format!("{TEXT}    expect:\n      ends: [succeeded]\n"));
        assert_eq!(with_expectation(TEXT, 2, &new), None);
    }

    #[test]
    fn an_expectation_is_written_where_it_stands_or_not_at_all() {
        let new = json!({"ends": ["succeeded"]});
        let first = "flow: f\nscenarios: # ours\n  - expect:\n      ends: [dead]\n    it: one\n  - it: two\n";
        let text = with_expectation(first, 0, &new).expect("it is there");
        assert_eq!(text, first.replace("[dead]", "[succeeded]"));
        let wide = "flow: f\nscenarios:\n-   it: one\n    expect: {ends: [dead]}\n";
        let text = with_expectation(wide, 0, &new).expect("it is there");
        assert_eq!(text, wide.replace("expect: {ends: [dead]}", "expect:\n      ends: [succeeded]"));
        for unwritable in ["flow: f\nscenarios:\n  - {it: one}\n", "flow: f\nscenarios: [{it: one}]\n"] {
            assert_eq!(with_expectation(unwritable, 0, &new), None, "{unwritable}");
        }
    }

    #[test]
    fn what_yaml_would_read_otherwise_is_quoted() {
        let value = json!({"a": "yes", "b": "+49", "c": "POST email /messages", "d": {"e": [1, null, "x: y"]}});
        let mut text = String::new();
        yaml(&value, 0, &mut text);
        assert_eq!(text, "a: \"yes\"\nb: \"+49\"\nc: POST email /messages\nd: {e: [1, null, \"x: y\"]}\n");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).expect("YAML"), value);
    }
}
