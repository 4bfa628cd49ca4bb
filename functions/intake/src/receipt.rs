//! The answer to an accepted event, and what is left to do before it is given.

use serde_json::Value;
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::limits::rates::Decision;

use crate::rejection::Rejection;

/// The answer to an accepted event.
#[derive(Clone, PartialEq)]
pub struct Receipt {
    /// The event's id.
    pub id: EventId,
    /// The event's flow.
    pub flow: String,
    /// The event's business ids as JSON, as its flow lets the logs tell them.
    pub ids: Option<String>,
    /// Whether the event had been accepted before.
    pub replayed: bool,
    /// The results of the event's effects, once all are done.
    pub result: Option<Value>,
    /// The sender's standing under its rate, if the limits answered.
    pub standing: Option<Decision>,
}

shared::base::masked::prints_only!(Receipt as "Receipt", id, flow, replayed, standing);

/// What became of a delivery, or of one event of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// One flow has the event.
    Event(Receipt),
    /// Several flows take the event, each under an id of its own: their names and their receipts. At least one has it.
    ByFlow(Vec<(String, Result<Receipt, Rejection>)>),
    /// No flow takes events of this type, or the delivery held none, and the source says that this is well.
    Ignored,
    /// The delivery held several events: one result for each, in order.
    Parts(Vec<Result<Accepted, Rejection>>),
    /// It was a handshake: this is to be sent back.
    Challenge(String),
}

impl Accepted {
    /// Whether all of it was accepted: what its sender is told.
    pub fn is_success(&self) -> bool {
        self.rejections().is_empty()
    }

    /// Why some of it was not accepted.
    pub fn rejections(&self) -> Vec<&Rejection> {
        match self {
            Accepted::ByFlow(receipts) => receipts.iter().filter_map(|(_, receipt)| receipt.as_ref().err()).collect(),
            Accepted::Parts(parts) => parts.iter().flat_map(rejections).collect(),
            Accepted::Event(_) | Accepted::Ignored | Accepted::Challenge(_) => Vec::new(),
        }
    }

    /// The receipts of all events.
    pub fn receipts(&self) -> Vec<&Receipt> {
        match self {
            Accepted::Event(receipt) => vec![receipt],
            Accepted::ByFlow(receipts) => receipts.iter().filter_map(|(_, receipt)| receipt.as_ref().ok()).collect(),
            Accepted::Parts(parts) => parts.iter().flatten().flat_map(Accepted::receipts).collect(),
            Accepted::Ignored | Accepted::Challenge(_) => Vec::new(),
        }
    }

    /// The receipt of a delivery that was one event of one flow.
    pub fn into_event(self) -> Option<Receipt> {
        match self {
            Accepted::Event(receipt) => Some(receipt),
            _ => None,
        }
    }
}

/// Why an event, or some of it, was not accepted.
pub(crate) fn rejections(result: &Result<Accepted, Rejection>) -> Vec<&Rejection> {
    match result {
        Ok(accepted) => accepted.rejections(),
        Err(rejection) => vec![rejection],
    }
}

/// An event with a receipt of each of its flows, and the messages that the queue may not have yet.
pub(crate) struct AdmittedEvent {
    pub(crate) accepted: Accepted,
    pub(crate) unsent: Vec<Event>,
}

/// An admitted event of one flow, and the message that the queue may not have yet.
pub(crate) struct Admitted {
    pub(crate) receipt: Receipt,
    pub(crate) unsent: Option<Event>,
}
