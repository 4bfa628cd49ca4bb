//! Replays of events that broke their flow's schema: checked again by the flow of today, each becomes the event that it
//! stands for, under that event's own id.

use shared::arrival::event::Event;
use shared::arrival::invalid::InvalidBody;
use shared::arrival::key::{KeyError, fingerprint};
use shared::arrival::window::{self, NotAnchored, Sighting};
use shared::base::errors::Unavailable;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{Declined, Row, State};
use shared::operate::requeue::{Record, RequeueError};

use crate::Replay;

/// The event that an invalid one stands for, and the row that the ledger has under its id.
pub(crate) struct StandsFor {
    pub(crate) event: Event,
    row: Option<Row>,
}

impl StandsFor {
    /// The reason why a replay would settle the invalid event, and do no more: its sender has sent the event again
    /// since.
    pub(crate) fn known_as(&self, now: Timestamp) -> Option<String> {
        let row = self.row.as_ref().filter(|row| row.state != State::Queued && !row.forgotten(now))?;
        let state = row.state.as_str();
        Some(format!("it was sent again as {}, which is {state}: `replay` only settles this one", row.id))
    }
}

/// The event that an invalid one stands for, as far as a look tells. Declined while the flow does not take it.
///
/// Where the key has a window, the event may belong to another one that is close in time: only a replay asks for that,
/// because asking leaves an anchor behind.
pub(crate) async fn stands_for(
    replay: &Replay,
    row: &Row,
    kept: Option<&Event>,
) -> Result<Result<StandsFor, Declined>, Unavailable> {
    match fitted(replay, row, kept) {
        Ok((event, _)) => known(replay, &row.id, event).await,
        Err(declined) => Ok(Err(declined)),
    }
}

/// The event of an invalid one by the flow of today, and its place in time.
fn fitted(replay: &Replay, row: &Row, kept: Option<&Event>) -> Result<(Event, Option<Sighting>), Declined> {
    let (id, flow) = (&row.id, &row.flow);
    let kept = kept.ok_or_else(|| {
        Declined(format!("the payload of {id} is not kept: its 90 days are over, or it was replayed"))
    })?;
    let flow = replay
        .flows
        .flow(flow)
        .ok_or_else(|| Declined(format!("the flow `{flow}` of {id} is not deployed: deploy it, then `replay`")))?;
    let still = |why| {
        Declined(format!("{id} is still invalid: {why}; correct and deploy the flow, then `replay`, or `drop` it"))
    };
    let (event, sighting) = InvalidBody::fitted(kept, flow).map_err(still)?;
    // It has lost its place, and newer events may have overtaken it: it goes as a replay from the start.
    Ok((Event { replay: 1, ..event }, sighting))
}

/// The event with what the ledger knows of it.
async fn known(replay: &Replay, id: &EventId, event: Event) -> Result<Result<StandsFor, Declined>, Unavailable> {
    match replay.records.row(&event.id).await? {
        // The ledger knows it by another payload, which may not have been sent yet.
        Some(row) if row.state == State::Queued && row.fingerprint != fingerprint(&event.payload) => Ok(Err(Declined(
            format!("{id} is {} with another payload, which is queued: try again once that is settled", row.id),
        ))),
        row => Ok(Ok(StandsFor { event, row })),
    }
}

/// The event that an invalid one stands for, in its window, where its key has one. This leaves an anchor behind.
pub(crate) async fn placed(
    replay: &Replay,
    row: &Row,
    kept: Option<&Event>,
) -> Result<Result<StandsFor, Declined>, Unavailable> {
    let (event, sighting) = match fitted(replay, row, kept) {
        Ok(fitted) => fitted,
        Err(declined) => return Ok(Err(declined)),
    };
    let Some(sighting) = sighting else { return known(replay, &row.id, event).await };
    let now = replay.clock.now();
    // The anchors outlive the row that this replay writes.
    let waited = i64::try_from(now.since(event.received_at).as_secs()).unwrap_or_default();
    let sighting = Sighting { expires_at: sighting.expires_at + waited, ..sighting };
    match window::anchor(&*replay.windows, &sighting, now).await {
        Ok(anchor) => known(replay, &row.id, Event { id: sighting.id_at(anchor), ..event }).await,
        Err(NotAnchored::Ahead) => Ok(Err(Declined(format!("{}; wait, or `drop` it", KeyError::MomentAhead)))),
        Err(NotAnchored::Forgotten) => {
            let why = KeyError::MomentForgotten;
            Ok(Err(Declined(format!("{why}; it may have been done before: `drop` it"))))
        }
        Err(NotAnchored::Unavailable(unavailable)) => Err(unavailable),
    }
}

/// Replays an invalid event, as the row that `next` makes of it.
///
/// The row of the event that it stands for is written first, then its message, then the invalid one is settled. A crash
/// on the way leaves the invalid one parked. The same request goes on: it finds the row, sends the message again if the
/// row is still queued, and a second copy does no harm.
pub(crate) async fn send(
    replay: &Replay,
    Record { row, event: kept }: Record,
    next: impl FnOnce(Row) -> Result<Row, Declined>,
) -> Result<Row, RequeueError> {
    let now = replay.clock.now();
    let StandsFor { event, row: known } = placed(replay, &row, kept.as_ref()).await??;
    let replayed = next(row.clone())?;
    let row_of_event = match known {
        Some(known) if !known.forgotten(now) => known,
        known => {
            let new = Row::admitted_by_replay(&event, &replayed);
            replay.records.replace(known.as_ref(), &new).await?;
            new
        }
    };
    if row_of_event.state == State::Queued {
        replay.queue.send(&Event { replay: row_of_event.replay, ..event }).await?;
    }
    let retention = replay.flows.remembered(&row.flow);
    replay.records.replace(Some(&row), &replayed.handed_over(&row_of_event.id, retention)).await?;
    if let Some(kept) = &kept {
        replay.records.forget(kept).await?;
    }
    Ok(row_of_event)
}
