//! The spans of a delivery: that of its request, and one for each event that is put on the queue.

use std::borrow::Cow;

use shared::arrival::business_ids::business_ids;
use shared::arrival::event::Event;
use shared::base::time::Timestamp;
use shared::base::trace::{SpanId, Trace};
use shared::operate::log;
use shared::operate::span::{self, SpanSide, TraceSpan};

use crate::accept::Intake;

/// A request as its span tells it: with names of our own, and nothing that a sender wrote.
pub(crate) struct ServedRequest<'s> {
    pub(crate) method: &'static str,
    /// The route's key in API Gateway: the method and the path, with names in the place of what the sender put there.
    pub(crate) route: &'s str,
    pub(crate) source: &'s str,
    pub(crate) status: u16,
    /// The problem's name, where the delivery was rejected.
    pub(crate) problem: Option<&'static str>,
    pub(crate) times: (Timestamp, Timestamp),
}

/// Exports the span of a request.
pub(crate) fn export_request(intake: &Intake, trace: &Trace, above: Option<SpanId>, served: &ServedRequest<'_>) {
    if !intake.spans.takes(trace) {
        return;
    }
    let ServedRequest { method, route, source, status, problem, times } = served;
    let path = route.split_once(' ').map_or(*route, |(_, path)| path).to_owned();
    let mut served = TraceSpan::new(trace, (trace.parent(), above), route.to_string(), SpanSide::Server, *times)
        .with(span::HTTP_REQUEST_METHOD, *method)
        // API Gateway serves nothing else.
        .with(span::URL_SCHEME, "https")
        .with(span::HTTP_ROUTE, path)
        .with(span::HTTP_RESPONSE_STATUS_CODE, u64::from(*status))
        .with(span::FAAS_TRIGGER, "http")
        .with(span::SOURCE, source.to_string())
        // What a sender did wrong is no error of ours.
        .or_error(problem.filter(|_| *status >= 500).map(Cow::Borrowed));
    if let Some(request) = log::scope(|scope| scope.request_id.clone()) {
        served = served.with(span::FAAS_INVOCATION_ID, request.to_string());
    }
    if let Some(problem) = *problem {
        served = served.with(span::ERROR_TYPE, problem);
    }
    intake.spans.put(served);
}

/// Exports the span of an event that is on the queue.
pub(crate) fn export_accepted(intake: &Intake, event: &Event) {
    if !intake.spans.takes(&event.trace) {
        return;
    }
    let ids = (event.span_ids().sent(0, 0), Some(event.trace.parent()));
    let times = (event.received_at, intake.clock.now());
    let mut accepted = TraceSpan::new(&event.trace, ids, "accept events", SpanSide::Producer, times)
        .with(span::EVENT, event.id.to_string())
        .with(span::FLOW, event.flow.clone())
        .with(span::SOURCE, event.source.clone());
    accepted.attributes.extend(span::messaging(("accept", "send")));
    let ids = intake.flows.flow(&event.flow).map(|flow| business_ids(flow, &event.payload)).unwrap_or_default();
    accepted.business = ids.into_iter().map(|(name, id)| (name.to_owned(), id)).collect();
    intake.spans.put(accepted);
}
