//! The spans of a timeline.

use super::*;
use crate::ledger::timeline::{EventTimeline, SpanEnd, SpanKind, TimelineSpan};
use crate::ledger::unquoted;

/// The spans of a timeline for who did not see them happen: its worker was lost, or the trace is forgotten.
pub fn rebuilt(timeline: &EventTimeline, now: Timestamp) -> Vec<TraceSpan> {
    of_timeline(timeline, now).into_iter().map(|span| span.with(REBUILT, true)).collect()
}

/// The spans of a timeline, in our own words alone: a collector has readers whom the ledger does not know. What goes on
/// ends now.
pub fn of_timeline(timeline: &EventTimeline, now: Timestamp) -> Vec<TraceSpan> {
    let Ok(trace_id) = u128::from_str_radix(&timeline.trace_id, 16) else { return Vec::new() };
    let mut spans: Vec<TraceSpan> = timeline.spans.iter().map(|span| of(timeline, trace_id, span, now)).collect();
    if let Some(gap) = &timeline.gap {
        let before = spans.iter_mut().take_while(|span| span.began <= gap.after).last();
        before.into_iter().for_each(|span| span.attributes.push((MISSING_LINES, u64::from(gap.lines).into())));
    }
    spans
}

fn of(timeline: &EventTimeline, trace_id: u128, span: &TimelineSpan, now: Timestamp) -> TraceSpan {
    let TimelineSpan { id, parent, kind, began, began_later, ended, end, said } = span;
    let (name, side) = name(kind);
    let mut attributes = vec![
        (EVENT, timeline.event.to_string().into()),
        (FLOW, timeline.flow.clone().into()),
        (END, end.as_str().into()),
    ];
    attributes.extend(began_later.then_some((BEGAN_LATER, true.into())));
    attributes.extend((!said.is_empty()).then(|| (SAID, unquoted(said).into())));
    attributes.extend(of_kind(kind));
    attributes.extend(operation(kind).into_iter().flat_map(messaging));
    let error = match end {
        SpanEnd::Failed => Some("failed".into()),
        SpanEnd::Unknown => Some("unknown".into()),
        SpanEnd::Done | SpanEnd::Open => None,
    };
    let ended = ended.unwrap_or(now).max(*began);
    TraceSpan {
        trace_id,
        id: *id,
        parent: Some(*parent),
        name,
        side,
        began: *began,
        ended,
        attributes,
        business: Vec::new(),
        links: Vec::new(),
        error,
    }
}

/// The operation on the queue that a span is of, if it is of one: its name, and its type.
fn operation(kind: &SpanKind) -> Option<(&'static str, &'static str)> {
    match kind {
        SpanKind::Accepted => Some(("accept", "send")),
        SpanKind::Replayed { .. } => Some(("replay", "send")),
        SpanKind::Approved { .. } => Some(("approve", "send")),
        SpanKind::Woken { .. } => Some(("wake", "send")),
        SpanKind::Worked { .. } => Some(("process", "process")),
        SpanKind::Waited { .. } | SpanKind::Called { .. } | SpanKind::LookedUp { .. } | SpanKind::Ended => None,
    }
}

/// The name of a span, which is the same where it is exported by who did it, and its side.
fn name(kind: &SpanKind) -> (Cow<'static, str>, SpanSide) {
    match kind {
        SpanKind::Accepted => ("accept events".into(), SpanSide::Producer),
        SpanKind::Replayed { .. } => ("replay events".into(), SpanSide::Producer),
        SpanKind::Approved { .. } => ("approve events".into(), SpanSide::Producer),
        SpanKind::Woken { .. } => ("wake events".into(), SpanSide::Producer),
        SpanKind::Waited { .. } => ("wait".into(), SpanSide::Internal),
        SpanKind::Worked { .. } => ("process events".into(), SpanSide::Consumer),
        SpanKind::Called { effect, .. } => (format!("call {effect}").into(), SpanSide::Client),
        SpanKind::LookedUp { effect } => (format!("look up {effect}").into(), SpanSide::Client),
        SpanKind::Ended => ("end".into(), SpanSide::Internal),
    }
}

fn of_kind(kind: &SpanKind) -> Vec<(&'static str, AttributeValue)> {
    match kind {
        SpanKind::Accepted | SpanKind::Ended => Vec::new(),
        SpanKind::Waited { waited_for } => vec![(WAITED_FOR, unquoted(waited_for).into())],
        SpanKind::Worked { claim } => vec![(CLAIM, (*claim).into())],
        SpanKind::Called { effect, attempt } => {
            vec![(EFFECT, effect.clone().into()), (ATTEMPT, u64::from(*attempt).into())]
        }
        SpanKind::LookedUp { effect } => vec![(EFFECT, effect.clone().into())],
        SpanKind::Replayed { replay, .. } | SpanKind::Approved { replay, .. } => {
            vec![(REPLAY, u64::from(*replay).into())]
        }
        SpanKind::Woken { wake, .. } => vec![(WAKE, u64::from(*wake).into())],
    }
}
