//! One message: whether it is an event, and whether the invocation has time for it.

use std::sync::Arc;
use std::time::Duration;

use shared::arrival::event::{Event, NotReadable};
use shared::base::time::Timestamp;
use shared::ledger::queue::Received;
use shared::operate::metric::Fact;
use shared::operate::switchboard::{BoardProblem, InForce};
use tracing::{info, warn};

use crate::claim::claim;
use crate::ends::bury_malformed;
use crate::work::{MessageFate, NEWER_FORMAT_DELAY, Processor, Work};

/// Works on one message.
pub async fn process(processor: &Processor, message: &Received, deadline: Timestamp) -> MessageFate {
    let event = match Event::read(&message.body) {
        Ok(event) => event,
        Err(NotReadable::Malformed) => return bury_malformed(processor, message).await,
        Err(NotReadable::NewerFormat(format)) => return leave_to_newer(processor, message, format),
    };
    let flow = processor.flows.flow(&event.flow);
    let work = Work { processor, message, event: &event, deadline, board: board(processor).await };
    if !work.has_time(flow) {
        return MessageFate::RedeliverAfter(Duration::ZERO);
    }
    let fate = claim(&work, flow).await;
    let (replay, trace_id) = (event.replay, event.trace.id());
    info!(event = %event.id, flow = event.flow, replay, ?fate, trace_id, "the message was processed");
    fate
}

/// Leaves a message of a newer version to that version.
fn leave_to_newer(processor: &Processor, message: &Received, format: u32) -> MessageFate {
    // The fields that this version knows may be there.
    let known = serde_json::from_str::<Event>(&message.body).ok();
    let (event, flow) = (known.as_ref().map(|e| e.id.as_str()), known.as_ref().map(|e| e.flow.as_str()));
    let (message_id, trace_id) = (&message.message_id, known.as_ref().map(|e| e.trace.id()));
    let told = "a newer version sent this message; it is left on the queue for that version";
    warn!(message_id, event, flow, trace_id, format, "{told}");
    processor.metrics.put(&Fact::NewerFormat);
    MessageFate::RedeliverAfter(NEWER_FORMAT_DELAY)
}

/// The switchboard in force. Each problem of the newest one is reported once.
async fn board(processor: &Processor) -> Arc<InForce> {
    let (board, problems) = processor.switchboard.at(&processor.flows, processor.clock.now()).await;
    for problem in problems {
        match problem {
            BoardProblem::NotUnderstood { .. } => {
                warn!(%problem, "a switch is not understood; what it names is paused in this container");
            }
            _ => warn!(%problem, "the stored switchboard cannot be used; the last good one stays in force"),
        }
        processor.metrics.put(&Fact::BadSwitchboard);
    }
    board
}
