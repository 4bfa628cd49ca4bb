//! Waking events side by side, and what becomes of those that can never be woken.

use futures::future::join_all;
use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{InLine, Line, Row};
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::span::export_sent;
use tracing::{error, warn};

use crate::Replay;
use crate::letters::{Lost, park_for_lost_payload, stand_in_for_waiting};

/// What became of an event that was to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeFate {
    /// Its message is sent.
    Sent,
    /// It was not woken, or is sent again later.
    NotNow,
    /// It never will be: it is parked, or another one stands in for it.
    Parked,
}

/// Wakes events side by side, and sends them in order. What the queue did not take is sent again later. A row that is not
/// answered for, or takes no more, holds up no other: it is woken later, or another one stands in for it.
pub(super) async fn wake_and_send(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    rows: &[&Row],
    now: Timestamp,
) -> Vec<WakeFate> {
    let woken = join_all(rows.iter().map(|row| woken(replay, unit, row, now))).await;
    let events: Vec<Event> = woken.iter().filter_map(|woken| woken.as_ref().ok().cloned()).collect();
    let mut sent = replay.queue.send_all(&events).await.into_iter();
    let outcome = |woken: Result<Event, WakeFate>| match woken {
        Ok(event) => told_if_unsent(&event, sent.next()),
        Err(outcome) => outcome,
    };
    woken.into_iter().map(outcome).collect()
}

fn told_if_unsent(event: &Event, sent: Option<Result<(), Unavailable>>) -> WakeFate {
    let Some(Err(error)) = sent else { return WakeFate::Sent };
    let (event, flow, trace_id) = (event.id.as_str(), &event.flow, event.trace.id());
    warn!(event, flow, trace_id, %error, "the message of a woken event was not sent; it is sent again in minutes");
    WakeFate::NotNow
}

/// The message of an event that this tick has woken. The index may lag: the row may have changed since, and then it is
/// not woken.
async fn woken(replay: &Replay, unit: &WorkUnit<'_>, row: &Row, now: Timestamp) -> Result<Event, WakeFate> {
    let next = row.clone().woken(None, now).map_err(|_| WakeFate::NotNow)?;
    match replay.records.replace(Some(row), &next).await {
        Ok(()) => {
            export_sent(&*replay.spans, &next, now, replay.clock.now());
            message_of(replay, unit, &next, now).await
        }
        Err(WriteError::Fenced) => Err(WakeFate::NotNow),
        // What a newer version wrote, a container of that version wakes.
        Err(WriteError::NewerFormat) => {
            unit.count(&Fact::NewerFormat);
            Err(WakeFate::NotNow)
        }
        Err(WriteError::Unavailable(error)) if error.is_lasting() => {
            Err(stand_in(replay, unit, Broken::Full(row), &error, now).await)
        }
        Err(WriteError::Unavailable(error)) => Err(not_now(row, &error)),
    }
}

/// The message of a woken row. Its payload may be gone: then the event can never go on, and is parked.
async fn message_of(replay: &Replay, unit: &WorkUnit<'_>, row: &Row, now: Timestamp) -> Result<Event, WakeFate> {
    let kept = match payload_of(replay, &row.id).await {
        Ok(Some(kept)) => return Ok(kept.again(row.replay, row.wake)),
        Ok(None) => park_for_lost_payload(replay, unit, row, now).await,
        Err(error) => Err(error),
    };
    match kept {
        Ok(true) => {
            let (event, flow, trace_id) = (row.id.as_str(), &row.flow, row.trace.id());
            error!(
                event,
                flow, trace_id, "the payload of a waiting event is gone, or not readable; the event is parked"
            );
            Err(WakeFate::Parked)
        }
        // A worker that had the message of an earlier wake has claimed the event since.
        Ok(false) => Err(WakeFate::NotNow),
        Err(error) => Err(not_now(row, &error)),
    }
}

fn not_now(row: &Row, error: &Unavailable) -> WakeFate {
    let (event, flow, trace_id) = (row.id.as_str(), &row.flow, row.trace.id());
    warn!(event, flow, trace_id, %error, "a waiting event was not woken; it is tried again with the next wakes");
    WakeFate::NotNow
}

/// The payload that is kept of an event, if it is there and can be read.
async fn payload_of(replay: &Replay, id: &EventId) -> Result<Option<Event>, Unavailable> {
    match replay.records.kept(id).await {
        Err(error) if error.is_lasting() => Ok(None),
        kept => kept,
    }
}

/// A waiting event whose row is broken for good.
#[derive(Clone, Copy)]
enum Broken<'r> {
    /// Its row takes no more writes.
    Full(&'r Row),
    /// Its row cannot be read.
    Unreadable(&'r EventId),
}

/// Lets others stand in for waiting events whose rows cannot be read, each once.
pub(super) async fn stand_in_for_unreadable(replay: &Replay, unit: &WorkUnit<'_>, id: &EventId, now: Timestamp) {
    match replay.records.row(id).await {
        Err(error) if error.is_lasting() => {
            stand_in(replay, unit, Broken::Unreadable(id), &error, now).await;
        }
        // It was mended, or has changed: the index lags.
        Ok(_) => (),
        Err(error) => warn!(event = id.as_str(), %error, "a row that could not be read was not looked at again"),
    }
}

/// Parks an event beside its broken row, once, and takes that out of the line of its entity: nobody waits behind it.
async fn stand_in(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    broken: Broken<'_>,
    why: &Unavailable,
    now: Timestamp,
) -> WakeFate {
    let (id, row) = match broken {
        Broken::Full(row) => (&row.id, Some(row)),
        Broken::Unreadable(id) => (id, None),
    };
    let parked = async {
        let lost = Lost { id, row, kept: payload_of(replay, id).await? };
        let is_new = stand_in_for_waiting(replay, unit, &lost, now).await?;
        leave_line(replay, &lost).await?;
        Ok::<_, Unavailable>((is_new, lost.kept.is_some()))
    };
    let (event, flow) = (id.as_str(), row.map(|row| row.flow.as_str()));
    let trace_id = row.map(|row| row.trace.id());
    match parked.await {
        Ok((true, is_whole)) => {
            let told = "the row of a waiting event cannot be read, or takes no more; its event is parked beside it";
            error!(event, flow, trace_id, is_whole, error = %why, "{told}");
            unit.count(&Fact::Unreadable);
        }
        Ok((false, _)) => (),
        Err(error) => {
            let told = "nothing stands in yet for a waiting event whose row is broken; it is tried again";
            warn!(event, flow, trace_id, %error, "{told}");
            return WakeFate::NotNow;
        }
    }
    WakeFate::Parked
}

/// Takes a broken row out of the line of its entity. Where it cannot be read, only the first place in the line tells its.
async fn leave_line(replay: &Replay, lost: &Lost<'_>) -> Result<(), Unavailable> {
    let line = Line::of(&lost.event());
    let place = match lost.row {
        Some(row) => row.in_line(),
        None => replay.lines.first(&line).await?.filter(|first: &InLine| first.id == *lost.id),
    };
    match place {
        Some(place) => replay.lines.leave(&line, &place).await,
        None => Ok(()),
    }
}
