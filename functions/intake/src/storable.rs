//! What an event must be so that it can be worked on: what was answered with 202 never fails later for its form.
//!
//! A schema says what a payload means. These rules say that the queue and the ledger can keep it exactly: they
//! hold for every flow, and are judged after the fields that no schema lists are dropped.

use serde_json::Value;
use shared::arrival::event::Event;
use shared::base::wrong::step;
use shared::flows::contract::{MAX_VIOLATIONS, SchemaViolation};

use crate::rejection::Rejection;

/// The deepest nesting of a payload. The message and the record wrap it in objects of their own, and their readers
/// end at 128 levels.
pub(crate) const MAX_DEPTH: usize = 64;

/// The longest message, in bytes. SQS takes 256 KiB with all attributes; a dead letter carries its context in some.
pub(crate) const MAX_MESSAGE: usize = 248 * 1024;

/// Rejects an event that the queue or the ledger could not keep as it is, with the places and the rules.
///
/// `changed` names the numbers that would not be the same once written again, and `delivered` is the size of the body
/// that held the event.
pub(crate) fn check(event: &Event, changed: &[String], delivered: usize) -> Result<(), Rejection> {
    check_body(event, &event.payload, changed, delivered)
}

/// The same of an event that is kept whole, because it broke its schema: its body stands inside of its payload.
pub(crate) fn check_invalid(event: &Event, changed: &[String], delivered: usize) -> Result<(), Rejection> {
    check_body(event, &event.payload["body"], changed, delivered)
}

fn check_body(event: &Event, body: &Value, changed: &[String], delivered: usize) -> Result<(), Rejection> {
    let mut broken = Vec::new();
    walk(body, &mut Vec::new(), &mut broken);
    let kept = |at: &&String| body.pointer(at).is_some();
    broken.extend(changed.iter().filter(kept).map(|at| violation(at, "number")));
    // Only what may have grown too large is written to be measured.
    let may_be_too_large = delivered.saturating_mul(MAX_GROWTH) > MAX_MESSAGE - ENVELOPE;
    if broken.is_empty() && may_be_too_large && length(event) > MAX_MESSAGE {
        broken.push(violation("", "size"));
    }
    broken.truncate(MAX_VIOLATIONS);
    if broken.is_empty() { Ok(()) } else { Err(Rejection::Invalid(broken)) }
}

/// How much longer a value gets at most when it is written again: `1e15,` becomes `1000000000000000.0,`.
const MAX_GROWTH: usize = 5;

/// The most that a message adds to its payload: ids, names, a trace.
const ENVELOPE: usize = 8 * 1024;

fn length(event: &Event) -> usize {
    serde_json::to_string(event).map_or(usize::MAX, |text| text.len())
}

/// One step into a value. It becomes text only where something is wrong.
enum Step<'v> {
    Field(&'v str),
    Item(usize),
}

fn walk<'v>(value: &'v Value, path: &mut Vec<Step<'v>>, broken: &mut Vec<SchemaViolation>) {
    if broken.len() >= MAX_VIOLATIONS {
        return;
    }
    match value {
        Value::String(text) if !is_taken(text) => broken.push(violation(&pointer(path), "character")),
        Value::Array(_) | Value::Object(_) if path.len() >= MAX_DEPTH => {
            broken.push(violation(&pointer(path), "depth"));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Item(index));
                walk(item, path, broken);
                path.pop();
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                // The place of a bad name is its object: the name itself cannot be told.
                if !is_taken(name) {
                    broken.push(violation(&pointer(path), "character"));
                    continue;
                }
                path.push(Step::Field(name));
                walk(field, path, broken);
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

fn pointer(path: &[Step<'_>]) -> String {
    let step = |part: &Step<'_>| match part {
        Step::Field(name) => step(name),
        Step::Item(index) => format!("/{index}"),
    };
    path.iter().map(step).collect()
}

/// Whether SQS takes a text. JSON escapes control characters; of the others it refuses two, or replaces them:
/// its documentation says both.
fn is_taken(text: &str) -> bool {
    !text.contains(['\u{fffe}', '\u{ffff}'])
}

fn violation(at: &str, rule: &str) -> SchemaViolation {
    SchemaViolation { pointer: at.to_owned(), rule: rule.to_owned() }
}
