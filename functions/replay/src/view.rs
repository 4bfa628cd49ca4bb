//! The operators' view of events: ids, states and reasons in full, payloads only masked.

use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::base::mask::preview;
use shared::ledger::{Entry, Moment, Progress, Row, State};

use crate::row_version;

/// One event as a line of a list.
pub(crate) fn line(row: &Row) -> Value {
    let mut line = json!({
        "id": row.id,
        "flow": row.flow,
        "state": row.state,
        "received_at": row.received_at.to_string(),
        "replays": row.replay,
        "version": row_version::of(row),
        "trace_id": row.trace.id(),
    });
    if let Some(wait) = row.wait.as_ref().filter(|_| row.state == State::Waiting) {
        let until = wait.until.map(|until| until.to_string());
        line["waits"] =
            json!({"for": wait.on.to_string(), "why": wait.why, "since": wait.since.to_string(), "until": until});
    }
    if let Some(at) = row.listed_at.filter(|_| row.is_parked()) {
        line["parked_at"] = json!(at.to_string());
    }
    if let Some(ask) = &row.ask {
        line["ask"] = json!({"hash": ask.hash, "until": ask.until.to_string(), "approved_by": ask.approved_by});
    }
    if let Some(noop) = &row.noop {
        line["noop"] = json!(noop);
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

/// The answer to the replay of this event, by the row that is on its way. An event that was invalid goes on under
/// another id.
pub(crate) fn replayed(id: &EventId, row: &Row) -> Value {
    let mut answer = json!({"id": id, "state": row.state, "replay": row.replay});
    if row.id != *id {
        answer["replayed_as"] = json!(row.id);
    }
    answer
}

fn effect(entry: &Entry) -> Value {
    let Entry { progress, attempts, at, .. } = entry;
    let mut effect = json!({"state": progress.as_str(), "attempts": attempts, "at": at.to_string()});
    if let Some(error) = progress.error() {
        effect["error"] = json!(error);
    }
    if let Progress::Done { result } = progress {
        effect["result"] = json!(result);
    }
    effect
}

fn moment(moment: &Moment) -> String {
    format!("{}  {}", moment.at, moment.what)
}
