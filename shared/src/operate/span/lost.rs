//! The spans of a worker that was lost, by the word of whoever finds its row.

use super::*;
use crate::base::span_ids::SpanIds;
use crate::ledger::timeline::EventTimeline;
use crate::ledger::{LostAttempt, Row};

/// Exports the spans of the worker before the row's epoch, which was lost: its own, and those of the calls that it may have
/// made, or that were found with its own.
pub fn export_lost(spans: &dyn Spans, row: &Row, attempts: &[LostAttempt], now: Timestamp) {
    if !spans.takes(&row.trace) {
        return;
    }
    let ids = SpanIds::of(&row.trace, &row.id);
    let lost = attempts.iter().map(|attempt| attempt.claim).chain([row.epoch.saturating_sub(1)]);
    let lost: Vec<SpanId> = lost.map(|claim| ids.worked(claim)).collect();
    for mut span in rebuilt(&EventTimeline::unquoted(row, now), now) {
        let own = lost.contains(&span.id) || span.parent.is_some_and(|parent| lost.contains(&parent));
        let attempt = attempts.iter().find(|lost| ids.called(lost.claim, &lost.effect) == span.id);
        attempt.into_iter().for_each(|lost| (span.began, span.ended) = (lost.began, lost.until));
        if own && span.is_unknown() {
            spans.put(span);
        }
    }
}
