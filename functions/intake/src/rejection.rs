//! Rejections of deliveries and events.

use shared::arrival::invalid::NoEvent;
use shared::arrival::key::KeyError;
use shared::arrival::signature::Rejected;
use shared::arrival::window::NotAnchored;
use shared::base::errors::Unavailable;
use shared::flows::contract::{Misfit, SchemaViolation};
use shared::limits::rates::Decision;

/// The reason why a delivery, or one event of it, was not accepted. Nothing of it was stored.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// The source is not configured.
    #[error("unknown source")]
    UnknownSource,
    /// The body is larger than the source may send.
    #[error("too large")]
    TooLarge,
    /// The content type is not taken here.
    #[error("unsupported media type")]
    UnsupportedMediaType,
    /// The delivery is not proven to come from its source.
    #[error(transparent)]
    BadSignature(#[from] Rejected),
    /// The body is not JSON, or not what its content type says.
    #[error("malformed")]
    Malformed,
    /// The batch is no array, is empty, or is too long.
    #[error("not a batch")]
    NotABatch,
    /// The source's deliveries hold several events by themselves, and it posts no batches of them.
    #[error("no batches from this source")]
    NoBatches,
    /// The lists that hold the source's events are missing, empty, or too long.
    #[error("no list of events")]
    NoEvents,
    /// A handshake does not carry the token of its source.
    #[error("the handshake was not accepted")]
    BadHandshake,
    /// No flow takes events of this type.
    #[error("no flow takes it")]
    UnknownType,
    /// The path names another type than the signed body does at this pointer.
    #[error("the path and the signed body name different types")]
    TypeMismatch(String),
    /// The flow does not know this version of its schema.
    #[error("unknown version")]
    UnknownVersion,
    /// The event breaks its schema.
    #[error("breaks the schema")]
    Invalid(Vec<SchemaViolation>),
    /// The event cannot be keyed.
    #[error(transparent)]
    Unkeyed(#[from] KeyError),
    /// The sender is over its rate.
    #[error("too many")]
    Throttled(Decision),
    /// The sender's `Idempotency-Key` was used for another payload before.
    #[error("the key was used for another payload")]
    KeyReused,
    /// There is no such receipt, as far as this caller may know.
    #[error("no such receipt")]
    NoReceipt,
    /// The caller did not prove that it may read receipts.
    #[error("not authorized")]
    Unauthorized,
    /// The ledger, the queue or the secret store did not answer. The sender should try again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<Misfit> for Rejection {
    fn from(why: Misfit) -> Self {
        match why {
            Misfit::UnknownVersion => Rejection::UnknownVersion,
            Misfit::Broken(violations) => Rejection::Invalid(violations),
        }
    }
}

impl From<NoEvent> for Rejection {
    fn from(why: NoEvent) -> Self {
        match why {
            NoEvent::Misfit(why) => why.into(),
            NoEvent::Unkeyed(why) => why.into(),
            NoEvent::Unreadable => Rejection::Malformed,
        }
    }
}

impl From<NotAnchored> for Rejection {
    fn from(not_anchored: NotAnchored) -> Self {
        match not_anchored {
            NotAnchored::Ahead => Rejection::Unkeyed(KeyError::MomentAhead),
            NotAnchored::Forgotten => Rejection::Unkeyed(KeyError::MomentForgotten),
            NotAnchored::Unavailable(unavailable) => Rejection::Unavailable(unavailable),
        }
    }
}
