//! Taking dead letters in.

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use serde_json::Value;
use shared::arrival::event::Event;
use shared::base::errors::WriteError;
use shared::base::retention::UNSETTLED_RETENTION;
use shared::base::time::Timestamp;
use shared::ledger::queue::Tick;
use shared::ledger::{Reason, Row, State};
use tracing::{info, warn};

use crate::{Replay, lane};

/// A dead letter, as the queue handed it over.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The message's id, for the batch's report.
    pub message_id: String,
    /// Its receipt, to change its visibility.
    pub receipt: String,
    /// Its body: an event, unless it is the very reason why it is here.
    pub body: String,
}

pub(crate) async fn handle(replay: &Replay, batch: SqsEvent) -> Value {
    let letters = batch.records.into_iter().map(letter).collect();
    let mut response = SqsBatchResponse::default();
    response.batch_item_failures = park_batch(replay, letters).await.into_iter().map(failure).collect();
    serde_json::to_value(response).unwrap_or_default()
}

/// Makes a record of each letter. What is returned stays on the queue.
pub async fn park_batch(replay: &Replay, letters: Vec<Letter>) -> Vec<String> {
    let mut kept = Vec::new();
    let (ticks, letters): (Vec<_>, Vec<_>) =
        letters.into_iter().partition(|letter| serde_json::from_str::<Tick>(&letter.body).is_ok());
    for letter in letters {
        let now = replay.clock.now();
        let (event, otherwise) = event_of(&letter, now);
        match park(replay, &event, otherwise, now).await {
            Ok(parked) => info!(event = %event.id, flow = event.flow, parked, "dead letter"),
            Err(error) => {
                warn!(event = %event.id, %error, "not parked");
                kept.push(letter.message_id);
            }
        }
    }
    // The dead first: the lane has time. One tick drives it, and the others go.
    if let Some(letter) = ticks.into_iter().next() {
        kept.extend(tick(replay, letter).await);
    }
    kept
}

/// Works on the lane. A tick that is kept comes back when the lane has rested.
async fn tick(replay: &Replay, letter: Letter) -> Option<String> {
    let rest = lane::tick(replay).await?;
    if let Err(error) = replay.visibility.postpone(&letter.receipt, rest).await {
        warn!(%error, "the lane comes back later than it should");
    }
    Some(letter.message_id)
}

/// Makes a record of one event: its payload first, then its row, so that what is listed can be
/// replayed. Doing it twice changes nothing. A letter without a row is dead for the reason `otherwise`.
async fn park(replay: &Replay, event: &Event, otherwise: Reason, now: Timestamp) -> Result<bool, WriteError> {
    let seen = replay.records.row(&event.id).await?;
    let next = match &seen {
        None => Row::unaccounted(event, otherwise, now).park(now),
        Some(row) if has_moved_on(row, event) => return Ok(false),
        // The queue gave up on it while a worker still holds it. The lease ends before the letter
        // comes back.
        Some(row) if row.state != State::Dead && !row.claimable(now) => return Err(WriteError::Fenced),
        Some(row) => row.clone().park(now),
    };
    let event = &Event { replay: next.replay, ..event.clone() };
    replay.records.keep(event, (now + UNSETTLED_RETENTION).secs()).await?;
    replay.records.replace(seen.as_ref(), &next).await?;
    Ok(true)
}

/// Whether the letter is a copy: of an event that is settled, parked already, or replayed since.
///
/// What died after a replay is parked by any letter, an older one too. The message from before the
/// replay may have claimed it, and the queue drops the letter of the later one as a copy.
fn has_moved_on(row: &Row, event: &Event) -> bool {
    match row.state {
        State::Succeeded | State::Noop | State::AwaitingApproval | State::Dropped => true,
        State::Dead => row.parked.is_some(),
        State::Queued | State::Running | State::Retrying => event.replay < row.replay,
    }
}

fn event_of(letter: &Letter, now: Timestamp) -> (Event, Reason) {
    match serde_json::from_str(&letter.body) {
        Ok(event) => (event, Reason::Orphaned),
        Err(_) => (Event::malformed(&letter.message_id, &letter.body, now), Reason::Malformed),
    }
}

fn letter(message: SqsMessage) -> Letter {
    Letter {
        message_id: message.message_id.unwrap_or_default(),
        receipt: message.receipt_handle.unwrap_or_default(),
        body: message.body.unwrap_or_default(),
    }
}

fn failure(message_id: String) -> BatchItemFailure {
    let mut failure = BatchItemFailure::default();
    failure.item_identifier = message_id;
    failure
}
