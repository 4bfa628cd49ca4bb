//! The line that a message leaves in the log: one each, when it has been worked on.

use shared::arrival::business_ids::business_ids_as_json;
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
    let (replay, wake) = (work.event.replay, work.event.wake);
    let ids = flow.and_then(|flow| business_ids_as_json(flow, &work.event.payload));
    let (outcome, attempt, reason) = (ended.outcome, ended.attempt, ended.reason.as_deref());
    info!(event, flow = flow_name, attempt, outcome, reason, replay, wake, trace_id, ids, "the message was processed");
}
