//! The spans of the work on a message. None is made where no collector wants it.
//!
//! ```text
//! accepted, replayed, or woken           by the intake or the replay function
//! └─ process events                      a message, under the claim that it won
//!    ├─ claim
//!    ├─ guard …                          each guard that was asked
//!    ├─ ask …                            each question that belongs to no effect
//!    ├─ token …                          each request for a token
//!    ├─ call …                           each effect that was tried
//!    └─ look up …                        each question whether a call happened
//! process events                         an invocation, in Lambda's own trace, with links to its messages
//! ```

use shared::arrival::business_ids::business_ids;
use shared::base::time::Timestamp;
use shared::base::trace::{SpanId, Trace};
use shared::flows::Flow;
use shared::ledger::queue::Received;
use shared::ledger::{LostAttempt, Row};
use shared::operate::log;
use shared::operate::span::{self, AttributeValue, SpanSide, TraceSpan, link_to};

use crate::ended::Ended;
use crate::work::{Processor, Work};

/// The span of an invocation, with a link to each of its messages. It is part of the invocation's own trace, or of a new
/// one where Lambda tells none: its messages may come from many. It is exported when the work has ended, also where that
/// was cut off.
pub(crate) struct BatchSpan<'p>(Option<(&'p Processor, TraceSpan)>);

impl<'p> BatchSpan<'p> {
    /// The span of this batch from here on, if it is exported.
    pub(crate) fn begin(processor: &'p Processor, batch: &[Received]) -> Self {
        let draw = || processor.chance.bits();
        let above = log::scope(|scope| scope.invocation.clone());
        let parent = above.as_ref().and_then(|lambdas| processor.spans.parent_of_lambda(lambdas));
        let trace = above.unwrap_or_else(|| Trace::start(draw(), draw(), draw()));
        let is_exported = processor.spans.share_has(&trace) == Some(true);
        BatchSpan(is_exported.then(|| {
            let ids = (SpanId::new(draw()), parent);
            (processor, batch_span(&trace, ids, processor.clock.now(), batch))
        }))
    }

    /// The work has ended by itself.
    pub(crate) fn end(mut self) {
        self.export(|span| span);
    }

    fn export(&mut self, finish: impl FnOnce(TraceSpan) -> TraceSpan) {
        if let Some((processor, mut span)) = self.0.take() {
            span.ended = processor.clock.now().max(span.began);
            processor.spans.put(finish(span));
        }
    }
}

impl Drop for BatchSpan<'_> {
    fn drop(&mut self) {
        self.export(|span| span.with(span::ERROR_TYPE, "cut_off").or_error(Some("cut_off")));
    }
}

fn batch_span(trace: &Trace, ids: (SpanId, Option<SpanId>), now: Timestamp, batch: &[Received]) -> TraceSpan {
    let mut span = TraceSpan::new(trace, ids, "process events", SpanSide::Consumer, (now, now))
        .with(span::MESSAGING_BATCH_MESSAGE_COUNT, batch.len() as u64)
        .with(span::FAAS_TRIGGER, "pubsub");
    span.attributes.extend(span::messaging(("process", "process")));
    if let Some(request) = log::scope(|scope| scope.request_id.clone()) {
        span = span.with(span::FAAS_INVOCATION_ID, request.to_string());
    }
    span.links = batch.iter().filter_map(link_to).collect();
    span
}

impl Work<'_> {
    /// Exports a span, if a collector wants those of the event's trace.
    pub(crate) fn export(&self, make: impl FnOnce() -> Option<TraceSpan>) {
        if self.processor.spans.takes(&self.event.trace) {
            make().into_iter().for_each(|span| self.processor.spans.put(span));
        }
    }

    pub(crate) fn span(
        &self,
        (id, parent): (SpanId, SpanId),
        name: impl Into<std::borrow::Cow<'static, str>>,
        side: SpanSide,
        began: Timestamp,
    ) -> TraceSpan {
        TraceSpan::new(&self.event.trace, (id, Some(parent)), name, side, (began, self.now()))
            .with(span::EVENT, self.event.id.to_string())
            .with(span::FLOW, self.event.flow.clone())
    }

    /// The span that is the parent of whatever has none of its own: that of the work under the claim.
    pub(crate) fn own_span(&self) -> SpanId {
        self.claim.get().map_or(self.event.trace.parent(), |claim| self.span_ids().worked(*claim))
    }

    /// The number of the claim; nought before one is won.
    pub(crate) fn claim_number(&self) -> u64 {
        self.claim.get().copied().unwrap_or_default()
    }

    /// Exports the span of the whole message.
    pub(crate) fn export_message(&self, flow: Option<&Flow>, ended: &Ended, began: Timestamp) {
        self.export(|| {
            let (ids, event) = (self.span_ids(), self.event);
            // A message that won no claim has a span that nobody else knows.
            let id =
                self.claim.get().map_or_else(|| SpanId::new(self.processor.chance.bits()), |claim| ids.worked(*claim));
            let parent = ids.sent(event.replay, event.wake);
            let mut worked = self
                .span((id, parent), "process events", SpanSide::Consumer, began)
                .with(span::FAAS_TRIGGER, "pubsub")
                .with(span::MESSAGING_MESSAGE_ID, self.message.message_id.clone())
                .with(span::END, ended.outcome);
            worked.attributes.extend(span::messaging(("process", "process")));
            let request = log::scope(|scope| scope.request_id.clone());
            worked.attributes.extend(request.map(|id| (span::FAAS_INVOCATION_ID, id.to_string().into())));
            let reason = ended.reason.clone().map(|reason| (span::SAID, reason.into()));
            worked.attributes.extend(reason);
            worked.attributes.extend(self.claim.get().map(|claim| (span::CLAIM, (*claim).into())));
            worked.attributes.extend(numbered(span::ATTEMPT, ended.attempt));
            worked.attributes.extend(numbered(span::REPLAY, event.replay));
            worked.attributes.extend(numbered(span::WAKE, event.wake));
            let ids = flow.map(|flow| business_ids(flow, &event.payload)).unwrap_or_default();
            worked.business = ids.into_iter().map(|(name, id)| (name.to_owned(), id)).collect();
            Some(worked.or_error((ended.outcome == "dead").then(|| ended.reason.clone()).flatten()))
        });
    }

    /// Exports the span of a claim that was won.
    pub(crate) fn export_claim(&self, claim: u64, began: Timestamp) {
        self.export(|| {
            let ids = self.span_ids();
            let ids = (ids.claimed(claim), ids.worked(claim));
            Some(self.span(ids, "claim", SpanSide::Internal, began).with(span::CLAIM, claim))
        });
    }

    /// Exports the spans of a worker that was lost: its own, and those of the calls that it may have made.
    pub(crate) fn export_lost(&self, row: &Row, attempts: &[LostAttempt]) {
        span::export_lost(&*self.processor.spans, row, attempts, self.now());
    }

    /// Exports the span of a guard that was asked, by its place in the flow.
    pub(crate) fn export_guard(&self, row: &Row, place: usize, guard: &str, end: &'static str, began: Timestamp) {
        self.export(|| {
            let ids = self.span_ids();
            let ids = (ids.guarded(row.epoch, place), ids.worked(row.epoch));
            let guarded = self.span(ids, format!("guard {guard}"), SpanSide::Internal, began);
            Some(guarded.with(span::GUARD, guard.to_owned()).with(span::END, end))
        });
    }
}

fn numbered(name: &'static str, number: u32) -> Option<(&'static str, AttributeValue)> {
    (number > 0).then(|| (name, u64::from(number).into()))
}
