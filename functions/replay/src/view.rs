//! What operators see: ids, states and reasons in full, payloads only masked.

use serde_json::{Value, json};
use shared::event::Event;
use shared::ledger::{Entry, Moment, Progress, Row};

/// The most lines of a payload that are shown.
const PREVIEW_LINES: usize = 10;

/// One event as a line of a list.
pub(crate) fn line(row: &Row) -> Value {
    let mut line = json!({
        "id": row.id,
        "flow": row.flow,
        "state": row.state,
        "received_at": row.received_at.to_string(),
        "replays": row.replay,
        "trace_id": row.trace.id(),
    });
    if let Some(at) = row.parked_at {
        line["parked_at"] = json!(at.to_string());
    }
    if let Some(death) = &row.death {
        line["reason"] = json!(death.reason);
        line["effect"] = json!(death.effect);
        line["error"] = json!(death.error);
        line["attempts"] = json!(death.attempts);
    }
    line
}

/// One event in full, with its payload masked.
pub(crate) fn page(row: &Row, kept: Option<&Event>) -> Value {
    let mut page = line(row);
    page["source"] = json!(row.source);
    page["effects"] = Value::Object(row.effects.iter().map(|(id, entry)| (id.clone(), effect(entry))).collect());
    page["history"] = json!(row.history.iter().map(moment).collect::<Vec<_>>());
    if let Some(event) = kept {
        page["preview"] = json!(preview(&event.payload));
    }
    page
}

fn effect(entry: &Entry) -> Value {
    let (state, more) = match &entry.progress {
        Progress::Intent => ("intent", json!({})),
        Progress::Failed { error } => ("failed", json!({"error": error})),
        Progress::Unknown { error } => ("unknown", json!({"error": error})),
        Progress::Skipped => ("skipped", json!({})),
        Progress::Done { result } => ("done", json!({"result": result})),
    };
    let mut effect = json!({"state": state, "attempts": entry.attempts, "at": entry.at.to_string()});
    if let (Value::Object(effect), Value::Object(more)) = (&mut effect, more) {
        effect.extend(more);
    }
    effect
}

fn moment(moment: &Moment) -> String {
    format!("{}  {}", moment.at, moment.what)
}

/// The first lines of a payload with every value masked: its shape, and not its contents.
fn preview(payload: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(&mask(payload)).unwrap_or_default();
    text.lines().take(PREVIEW_LINES).map(str::to_owned).collect()
}

fn mask(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), mask(value))).collect(),
        Value::Array(items) => items.iter().map(mask).collect(),
        Value::String(text) => json!(format!("{}***", text.chars().take(1).collect::<String>())),
        Value::Number(_) => json!("***"),
        Value::Bool(_) | Value::Null => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_shows_the_shape_and_not_the_contents() {
        let payload = json!({"email": "ada@example.com", "phone": 442079460018u64, "tags": ["vip"], "optin": true});
        let preview = preview(&payload).join("\n");
        for secret in ["ada", "4420", "vip"] {
            assert!(!preview.contains(secret), "{preview}");
        }
        assert!(preview.contains("\"email\": \"a***\""), "{preview}");
        assert!(preview.contains("\"optin\": true"), "{preview}");
    }

    #[test]
    fn a_preview_is_ten_lines_at_most() {
        assert_eq!(preview(&json!((0..50).collect::<Vec<_>>())).len(), PREVIEW_LINES);
    }
}
