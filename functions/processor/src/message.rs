//! One message: whether it is an event, and whether the invocation has time for it.

use std::sync::Arc;
use std::time::Duration;

use shared::arrival::event::{Event, NotReadable};
use shared::base::retention::QUEUE_RETENTION;
use shared::base::time::Timestamp;
use shared::flows::Flow;
use shared::ledger::queue::Received;
use shared::operate::log::{LogScope, within};
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::switchboard::{BoardProblem, InForce};
use tracing::warn;

use crate::claim::claim;
use crate::ended::Ended;
use crate::ends::{bury_malformed, delay_without_claim, move_to_letters};
use crate::pause::pauses;
use crate::report::report;
use crate::work::{MessageFate, NEWER_FORMAT_DELAY, Processor, Work};

/// Works on one message.
pub async fn process(processor: &Processor, message: &Received, deadline: Timestamp) -> MessageFate {
    let (unit, began) = (&WorkUnit::new(&*processor.metrics), processor.clock.now());
    let event = match Event::read(&message.body) {
        Ok(event) => event,
        Err(NotReadable::Malformed) => return bury_malformed(processor, message).await,
        Err(NotReadable::NewerFormat(format)) => return leave_to_newer(processor, unit, message, format).await,
    };
    let flow = processor.flows.flow(&event.flow);
    let board = board(processor, unit, flow.filter(|_| event.wake > 0)).await;
    let (end, claim, span_ids, token_requests) = Default::default();
    let work = Work { processor, message, event: &event, deadline, board, unit, end, claim, span_ids, token_requests };
    let level = work.board.board().log_level(&event.flow, processor.clock.now());
    within(LogScope { level, ..LogScope::default() }, async {
        let fate = work_on(&work, flow).await;
        let ended = work.take_end().unwrap_or(Ended::early("left"));
        report(&work, flow, &ended);
        work.export_message(flow, &ended, began);
        fate
    })
    .await
}

async fn work_on(work: &Work<'_>, flow: Option<&Flow>) -> MessageFate {
    // A pause that it cannot see must hold all the same.
    if !work.board.is_known() {
        work.ends(Ended::early("stood_still"));
        work.count(Fact::StoodStill);
        return MessageFate::RedeliverAfter(delay_without_claim(work, STANDSTILL));
    }
    let never = flow.is_some_and(|flow| work.misfit(flow).is_some());
    if !never && !work.has_time(flow) {
        work.ends(Ended::early("no_time"));
        return MessageFate::RedeliverAfter(Duration::ZERO);
    }
    claim(work, flow).await
}

/// Leaves a message of a newer version to that version, for as long as the queue keeps it.
async fn leave_to_newer(processor: &Processor, unit: &WorkUnit<'_>, message: &Received, format: u32) -> MessageFate {
    // The fields that this version knows may be there.
    let known = serde_json::from_str::<Event>(&message.body).ok();
    let (event, flow) = (known.as_ref().map(|e| e.id.as_str()), known.as_ref().map(|e| e.flow.as_str()));
    let (message_id, trace_id) = (&message.message_id, known.as_ref().map(|e| e.trace.id()));
    let told = "a newer version sent this message; it is left on the queue for that version";
    warn!(message_id, event, flow, trace_id, format, "{told}");
    unit.count(&Fact::NewerFormat);
    if message.is_deleted_soon(QUEUE_RETENTION, processor.clock.now()) {
        return move_to_letters(processor, message).await;
    }
    MessageFate::RedeliverAfter(NEWER_FORMAT_DELAY)
}

/// The delay of a message while a container stands still: others may work on it meanwhile. A shorter one would use up
/// the receives of the message before the switchboard is back.
const STANDSTILL: Duration = Duration::from_secs(60);

/// The switchboard in force, for an event of this flow that was woken, if it was. A pause that has just ended may be on
/// the board still: then a woken event would go back to wait, so the board is read anew for it. Each problem of the
/// newest board is reported once.
async fn board(processor: &Processor, unit: &WorkUnit<'_>, woken: Option<&Flow>) -> Arc<InForce> {
    let now = processor.clock.now();
    let (mut board, mut problems) = processor.switchboard.at(&processor.flows, now).await;
    if woken.is_some_and(|flow| pauses(board.board(), flow, now)) {
        let (newest, more) = processor.switchboard.read_anew(&processor.flows, now).await;
        board = newest;
        problems.extend(more);
    }
    for problem in problems {
        match problem {
            BoardProblem::NotUnderstood { .. } => {
                warn!(%problem, "a switch is not understood; what it names is paused in this container");
            }
            _ => warn!(%problem, "the stored switchboard cannot be used; the last good one stays in force"),
        }
        unit.count(&Fact::BadSwitchboard);
    }
    board
}
