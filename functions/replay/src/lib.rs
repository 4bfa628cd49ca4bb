//! The replay function: it owns everything that is parked.
//!
//! The dead letter queue feeds it, and operators ask it. A FIFO queue can be neither searched nor
//! picked from, and its retention ends; so each dead letter becomes a record, and from then on
//! operators work on records.

mod letters;
mod operations;
mod view;

use aws_lambda_events::sqs::SqsEvent;
use serde_json::Value;
use shared::ports::{Clock, Queue, Records};

pub use letters::{Letter, park_batch};
pub use operations::{Failure, Operation, Verdict, operate};

/// What the replay works with.
pub struct Replay {
    /// The ledger.
    pub records: Box<dyn Records>,
    /// The queue of events.
    pub queue: Box<dyn Queue>,
    /// The time.
    pub clock: Box<dyn Clock>,
}

/// A batch of dead letters, or an operator's request: both arrive as a plain invocation.
pub async fn handle(replay: &Replay, payload: Value) -> Value {
    match serde_json::from_value::<SqsEvent>(payload.clone()) {
        Ok(batch) => letters::handle(replay, batch).await,
        Err(_) => operations::handle(replay, payload).await,
    }
}
