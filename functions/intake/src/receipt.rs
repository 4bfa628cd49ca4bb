//! The answer to an accepted event, and what is left to do before it is given.

use serde_json::Value;
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::limits::rates::Decision;

/// The answer to an accepted event.
#[derive(Clone, PartialEq)]
pub struct Receipt {
    /// The event's id.
    pub id: EventId,
    /// Whether the event had been accepted before.
    pub replayed: bool,
    /// The results of the event's effects, once all are done.
    pub result: Option<Value>,
    /// The sender's standing under its rate, if the limits answered.
    pub standing: Option<Decision>,
}

shared::base::masked::prints_only!(Receipt as "Receipt", id, replayed, standing);

/// An admitted event, and the message that the queue may not have yet.
pub(crate) struct Admitted {
    pub(crate) receipt: Receipt,
    pub(crate) unsent: Option<Event>,
}
