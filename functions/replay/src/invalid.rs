//! Replays of events that broke their flow's schema: checked again by the flow of today, each becomes the event that it
//! stands for, under that event's own id.

use shared::arrival::event::Event;
use shared::arrival::invalid::InvalidBody;
use shared::arrival::key::fingerprint;
use shared::base::errors::Unavailable;
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

/// The event that an invalid one stands for. Declined while the flow does not take it.
pub(crate) async fn stands_for(
    replay: &Replay,
    row: &Row,
    kept: Option<&Event>,
) -> Result<Result<StandsFor, Declined>, Unavailable> {
    let (id, flow) = (&row.id, &row.flow);
    let Some(kept) = kept else {
        return Ok(Err(Declined(format!("the payload of {id} is not kept: its 90 days are over, or it was replayed"))));
    };
    let Some(flow) = replay.flows.flow(flow) else {
        return Ok(Err(Declined(format!("the flow `{flow}` of {id} is not deployed: deploy it, then `replay`"))));
    };
    let event = match InvalidBody::fitted(kept, flow) {
        // It has lost its place, and newer events may have overtaken it: it goes as a replay from the start.
        Ok(event) => Event { replay: 1, ..event },
        Err(why) => {
            return Ok(Err(Declined(format!(
                "{id} is still invalid: {why}; correct and deploy the flow, then `replay`, or `drop` it"
            ))));
        }
    };
    let known = replay.records.row(&event.id).await?;
    match known {
        // The ledger knows it by another payload, which may not have been sent yet.
        Some(row) if row.state == State::Queued && row.fingerprint != fingerprint(&event.payload) => Ok(Err(Declined(
            format!("{id} is {} with another payload, which is queued: try again once that is settled", row.id),
        ))),
        row => Ok(Ok(StandsFor { event, row })),
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
    let StandsFor { event, row: known } = stands_for(replay, &row, kept.as_ref()).await??;
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
    let ttl = replay.flows.remembered(&row.flow);
    replay.records.replace(Some(&row), &replayed.handed_over(&row_of_event.id, ttl)).await?;
    if let Some(kept) = &kept {
        replay.records.forget(kept).await?;
    }
    Ok(row_of_event)
}
