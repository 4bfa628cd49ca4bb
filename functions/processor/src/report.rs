//! The line that a message leaves in the log: one each, when it has been worked on.

use serde_json::{Map, Value};
use shared::arrival::business_ids::business_ids;
use shared::flows::Flow;
use tracing::info;

use crate::ended::Ended;
use crate::work::Work;

/// Writes the line. Of plain successes only a sample is written; replays and wakes always are.
pub(crate) fn report(work: &Work<'_>, flow: Option<&Flow>, ended: &Ended) {
    let again = work.event.replay > 0 || work.event.wake > 0;
    if ended.is_plain_success() && !again && !work.processor.sampling.keeps(&work.event.id) {
        return;
    }
    let (event, flow_name, trace_id) = work.ids();
    let (replay, wake, ids) = (work.event.replay, work.event.wake, flow.and_then(|flow| ids(work, flow)));
    let (outcome, attempt, reason) = (ended.outcome, ended.attempt, ended.reason.as_deref());
    info!(event, flow = flow_name, attempt, outcome, reason, replay, wake, trace_id, ids, "the message was processed");
}

/// The event's business ids as JSON, if its flow marks any.
fn ids(work: &Work<'_>, flow: &Flow) -> Option<String> {
    let ids = business_ids(flow, &work.event.payload).into_iter();
    let ids: Map<String, Value> = ids.map(|(name, id)| (name.to_owned(), Value::String(id))).collect();
    (!ids.is_empty()).then(|| Value::Object(ids).to_string())
}
