//! The line of an entity: an event goes on only if no other event of its entity waits before it.

use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::ledger::{InLine, Line, Row};
use shared::limits::pressure::{Deferral, DeferralReason};
use shared::operate::metric::Fact;
use tracing::warn;

use crate::ends::Stop;
use crate::hindrance::Hindrance;
use crate::work::{NEWER_FORMAT_DELAY, Run, Work};

/// The most events without a right to their place that one event clears away. Each is left over from a crash.
const MAX_LEFT_OVER: usize = 20;

/// Checks whether another event of the entity goes first. Where the flow's mark is not set, nothing waits, and nothing
/// is asked. An event that may go on leaves its own place.
pub(crate) async fn stand_in_line<'r>(run: &Run<'r>) -> Result<Option<Stop<'r>>, WriteError> {
    let Run { work, flow, lease, .. } = run;
    if !work.may_wait(flow) {
        return Ok(None);
    }
    let (lines, line) = (&work.processor.lines, Line::of(work.event));
    for _ in 0..MAX_LEFT_OVER {
        let (row, first) = (lease.row(), lines.first(&line).await?);
        let Some(first) = first.filter(|first| first.is_before(row) || first.is_left_over_of(row)) else { break };
        match head(work, &first).await {
            Err(error) if error.is_newer() => return Ok(Some(Stop::Defer(behind_newer(work, &first)))),
            Err(error) => return Err(error.into()),
            // It may be this event itself, if another worker has had it meanwhile.
            Ok(Some(head)) if head.stands_in_line() && head.place == Some(first.place) => {
                return Ok(Some(Stop::Defer(Hindrance::behind(&head, work.now()))));
            }
            // It was dropped or replayed, or a worker has it: then its message is before this one, if it has one.
            _ => lines.leave(&line, &first).await?,
        }
    }
    if work.event.wake > 0
        && let Err(unavailable) = clear_away(work, &line, run).await
    {
        let (event, flow, trace_id) = work.ids();
        let told = "the payload of a woken event, or its place in line, was not deleted; it is passed over from now on";
        warn!(event, flow, trace_id, %unavailable, "{told}");
    }
    Ok(None)
}

/// The hindrance by another event whose row a newer version wrote. What becomes of it, only that version knows.
fn behind_newer(work: &Work<'_>, first: &InLine) -> Hindrance {
    let ((event, flow, trace_id), before) = (work.ids(), first.id.as_str());
    let told = "a newer version wrote the row of an event that waits before this one; this one waits behind it";
    warn!(event, flow, trace_id, before, "{told}");
    work.count(Fact::NewerFormat);
    Hindrance::passing(Deferral { after: NEWER_FORMAT_DELAY, why: DeferralReason::BehindAnother })
}

/// The row of the first in line. One that cannot be read stands in nobody's way: another one will be parked in its stead.
async fn head(work: &Work<'_>, first: &InLine) -> Result<Option<Row>, Unavailable> {
    match work.processor.records.row(&first.id).await {
        Err(error) if error.is_lasting() => {
            let (event, flow, trace_id) = work.ids();
            let before = first.id.as_str();
            let told = "the row of an event that waits before this one cannot be read; this one goes on without it";
            warn!(event, flow, trace_id, before, %error, "{told}");
            Ok(None)
        }
        row => row,
    }
}

/// Deletes what was kept of a woken event while it waited: under the number before its own.
async fn clear_away(work: &Work<'_>, line: &Line, run: &Run<'_>) -> Result<(), Unavailable> {
    let wake = work.event.wake - 1;
    if let Some(mut place) = run.lease.row().in_line() {
        place.wake = wake;
        work.processor.lines.leave(line, &place).await?;
    }
    work.processor.records.forget(&Event { wake, ..work.event.clone() }).await
}
