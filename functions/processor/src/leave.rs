//! Leaving the queue: the event waits in the ledger, and is woken.

use std::time::Duration;

use shared::base::errors::{Unavailable, WriteError};
use shared::base::time::Timestamp;
use shared::ledger::{Lease, Line, Wait, WaitsFor};
use shared::limits::pressure::DeferralReason;
use shared::operate::metric::Fact;
use shared::operate::switchboard::change_waits;
use tracing::{debug, error, warn};

use crate::ended::Ended;
use crate::work::Work;

/// Lets the event leave the queue, if every container knows by the flow's mark that it must look for it. Otherwise the
/// mark is set, and the lease is given back: the event comes again in a moment.
///
/// The event joins its entity's line behind all others, whatever its container's clock says; an event that waits again
/// keeps its place. The row, the payload and the place are one write; then the message is deleted. If the ledger never
/// takes that write, or does not answer now, the event waits on the queue, and the row keeps what is done.
pub(crate) async fn leave(
    work: &Work<'_>,
    flow: &str,
    lease: Lease,
    on: &WaitsFor,
    why: DeferralReason,
    until: Option<Timestamp>,
) -> Result<Leaving, WriteError> {
    let now = work.now();
    let mark = work.board.board().waits().get(flow);
    let is_set = mark.is_some_and(|mark| mark.stands_for(on, now)) || mark_flow(work, flow, on, now).await;
    if !mark.is_some_and(|mark| mark.lets_leave(on, now)) {
        return Ok(if is_set { Leaving::NotYet(lease) } else { Leaving::NotNow(lease) });
    }
    let place = match lease.row().place {
        Some(place) => place,
        None => match place_behind_all(work, now).await {
            Ok(place) => place,
            Err(error) if error.is_lasting() => return Err(error.into()),
            Err(error) => return Ok(not_now(work, lease, &error)),
        },
    };
    let (event, _, trace_id) = work.ids();
    debug!(event, flow, trace_id, why = why.as_str(), %on, "the event leaves the queue to wait");
    let (why_told, group) = (why.as_str().to_owned(), work.event.group.clone());
    let wait = Wait { on: on.clone(), why: why_told, group, since: now, until, woken_at: None };
    let closed = lease.clone().wait(wait, place, now);
    match work.processor.lines.wait(&closed, work.event).await {
        Ok(()) => {
            work.ends(Ended::with("waiting", Some(why.as_str()), closed.row()));
            work.count(Fact::Waits(flow, why));
            Ok(Leaving::Left)
        }
        Err(WriteError::Unavailable(error)) if error.is_lasting() => {
            tell_not_kept(work, &error, "it waits on the queue");
            Ok(Leaving::Never(lease))
        }
        // It may have landed, or may land yet. What is written instead wins over it in either case.
        Err(WriteError::Unavailable(error)) => Ok(not_now(work, lease.after(&closed), &error)),
        Err(error) => Err(error),
    }
}

/// Whether an event has left the queue.
pub(crate) enum Leaving {
    /// It waits in the ledger. Its message may be deleted.
    Left,
    /// It may leave as soon as every container knows its flow's mark.
    NotYet(Lease),
    /// The mark could not be set, or the ledger did not answer.
    NotNow(Lease),
    /// The ledger does not take its payload.
    Never(Lease),
}

fn not_now(work: &Work<'_>, lease: Lease, error: &Unavailable) -> Leaving {
    let (event, flow, trace_id) = work.ids();
    warn!(event, flow, trace_id, %error, "the event could not leave the queue; it waits there, and tries again later");
    Leaving::NotNow(lease)
}

/// Tells once, and counts, that the ledger does not take the event's payload.
pub(crate) fn tell_not_kept(work: &Work<'_>, error: &Unavailable, so: &str) {
    if work.processor.told.is_new(&work.event.id) {
        let (event, flow, trace_id) = work.ids();
        error!(event, flow, trace_id, %error, so, "the ledger does not take the payload of an event");
        work.count(Fact::NotKept);
    }
}

async fn place_behind_all(work: &Work<'_>, now: Timestamp) -> Result<Timestamp, Unavailable> {
    let last = work.processor.lines.last(&Line::of(work.event)).await?;
    Ok(last.map_or(now, |last| now.max(last.place + Duration::from_millis(1))))
}

/// Marks the flow, and says whether it is marked. If not, the event stays on the queue, and the next one tries it again.
async fn mark_flow(work: &Work<'_>, flow: &str, on: &WaitsFor, now: Timestamp) -> bool {
    let marked = change_waits(&*work.processor.boards, |board| board.with_waits(flow, on, now)).await;
    if let Err(error) = &marked {
        let (event, flow, trace_id) = work.ids();
        warn!(event, flow, trace_id, %error, "the flow's mark was not set; its events wait on the queue meanwhile");
    }
    marked.is_ok()
}
