//! The span in which an event is sent through the queue again.

use serde::Deserialize;

use super::*;
use crate::base::id::EventId;
use crate::base::span_ids::SpanIds;
use crate::ledger::queue::Received;
use crate::ledger::timeline::EventTimeline;
use crate::ledger::{Row, State};
use crate::operate::log;

/// Exports the span in which an event was put on the queue under the numbers that its row has now: replayed, approved or
/// woken. It is a part of the event's trace, and has a link to the invocation's own.
pub fn export_sent(spans: &dyn Spans, row: &Row, began: Timestamp, now: Timestamp) {
    if row.state != State::Queued || !spans.takes(&row.trace) {
        return;
    }
    let sent = SpanIds::of(&row.trace, &row.id).sent(row.replay, row.wake);
    for mut span in of_timeline(&EventTimeline::unquoted(row, now), now).into_iter().filter(|span| span.id == sent) {
        (span.began, span.ended) = (began.min(span.began), now);
        let invocation = log::scope(|scope| scope.invocation.clone());
        span.links.extend(invocation.map(SpanLink));
        spans.put(span);
    }
}

/// What a message says of the span that sent it.
#[derive(Deserialize)]
struct Sent {
    id: EventId,
    trace: Trace,
    #[serde(default)]
    replay: u32,
    #[serde(default)]
    wake: u32,
}

/// A link to the span that sent a message, if the message is an event.
pub fn link_to(message: &Received) -> Option<SpanLink> {
    let Sent { id, trace, replay, wake } = serde_json::from_str(&message.body).ok()?;
    let sent = SpanIds::of(&trace, &id).sent(replay, wake);
    Some(SpanLink(trace.child(sent)))
}
