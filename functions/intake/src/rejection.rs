//! Why something was not accepted.

use shared::arrival::key::KeyError;
use shared::arrival::signature::Rejected;
use shared::base::errors::Unavailable;
use shared::flows::contract::SchemaViolation;
use shared::limits::rates::Decision;

/// Why a delivery, or one event of it, was not accepted. Nothing of it was stored.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// No such sender.
    #[error("unknown source")]
    UnknownSource,
    /// More than the sender may send.
    #[error("too large")]
    TooLarge,
    /// In a form that is not taken here.
    #[error("unsupported media type")]
    UnsupportedMediaType,
    /// Not proven to come from its source.
    #[error(transparent)]
    BadSignature(#[from] Rejected),
    /// Not JSON, or not what its content type says.
    #[error("malformed")]
    Malformed,
    /// A batch that is no array, is empty, or is too long.
    #[error("not a batch")]
    NotABatch,
    /// No flow takes events of this type.
    #[error("no flow takes it")]
    UnknownType,
    /// The flow does not know this version of its schema.
    #[error("unknown version")]
    UnknownVersion,
    /// It breaks its contract.
    #[error("breaks the schema")]
    Invalid(Vec<SchemaViolation>),
    /// It cannot be keyed.
    #[error(transparent)]
    Unkeyed(#[from] KeyError),
    /// The sender is over its rate.
    #[error("too many")]
    Throttled(Decision),
    /// The sender's `Idempotency-Key` was used for something else before.
    #[error("the key was used for another payload")]
    KeyReused,
    /// No such receipt, as far as this caller may know.
    #[error("no such receipt")]
    NoReceipt,
    /// The caller did not prove that it may read receipts.
    #[error("not authorized")]
    Unauthorized,
    /// The ledger, the queue or the secret store did not answer. The sender should try again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
