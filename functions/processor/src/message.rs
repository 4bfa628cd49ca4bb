//! One message: whether it is an event, and whether the invocation has time for it.

use std::sync::Arc;
use std::time::Duration;

use shared::arrival::event::Event;
use shared::base::time::Timestamp;
use shared::ledger::queue::Received;
use shared::operate::metric::Fact;
use shared::operate::switchboard::InForce;
use tracing::{info, warn};

use crate::claim::claim;
use crate::ends::bury_malformed;
use crate::work::{MessageFate, Processor, Work};

/// Works on one message.
pub async fn process(processor: &Processor, message: &Received, deadline: Timestamp) -> MessageFate {
    let Ok(event) = serde_json::from_str::<Event>(&message.body) else {
        return bury_malformed(processor, message).await;
    };
    let flow = processor.flows.flow(&event.flow);
    let work = Work { processor, message, event: &event, deadline, board: board(processor).await };
    // A pause that it cannot see must hold all the same.
    if !work.board.is_known() {
        let (event, flow, trace_id) = work.ids();
        info!(event, flow, trace_id, "the switchboard was never read here; the message comes back in a minute");
        processor.metrics.put(&Fact::StoodStill);
        return MessageFate::RedeliverAfter(STANDSTILL);
    }
    let never = flow.is_some_and(|flow| work.misfit(flow).is_some());
    if !never && !work.has_time(flow) {
        return MessageFate::RedeliverAfter(Duration::ZERO);
    }
    let fate = claim(&work, flow).await;
    let (replay, trace_id) = (event.replay, event.trace.id());
    info!(event = %event.id, flow = event.flow, replay, ?fate, trace_id, "the message was processed");
    fate
}

/// The delay of a message while a container stands still: others may work on it meanwhile. A shorter one would use up
/// the receives of the message before the switchboard is back.
const STANDSTILL: Duration = Duration::from_secs(60);

/// The switchboard in force. Each problem of the newest one is reported once.
async fn board(processor: &Processor) -> Arc<InForce> {
    let (board, problems) = processor.switchboard.at(&processor.flows, processor.clock.now()).await;
    for problem in problems {
        warn!(%problem, "the stored switchboard cannot be used; the last good one stays in force");
        processor.metrics.put(&Fact::BadSwitchboard);
    }
    board
}
