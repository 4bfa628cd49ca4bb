//! The errors of ports.

use std::time::Duration;

/// A port's failure to answer, or to answer clearly. Whether it acted is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{port} did not answer: {why}")]
pub struct Unavailable {
    /// The port's name, as the subject of a sentence: "the ledger", "the limits".
    pub port: &'static str,
    /// The cause, without values.
    pub why: String,
}

impl Unavailable {
    /// How long a port that did not answer is left alone.
    pub const BACK_OFF: Duration = Duration::from_secs(5);

    /// The cause where something stored cannot be read: another version wrote it, or nobody of ours.
    pub const UNREADABLE: &str = "a row is not readable";

    /// The cause where a newer version of the code has stored something that this one cannot read. That version goes on with
    /// it: it is no fault.
    pub const NEWER: &str = "a newer version of Ledgerline wrote it";

    /// The cause where a table declines what it is given: it is too large, or breaks another rule of the table's.
    pub const DECLINED: &str = "ValidationException";

    /// Whether a newer version of the code has stored what cannot be read.
    pub fn is_newer(&self) -> bool {
        self.why == Self::NEWER
    }

    /// Whether asking again gets the same answer, until somebody mends it.
    pub fn is_lasting(&self) -> bool {
        self.why.starts_with(Self::UNREADABLE) || self.why == Self::DECLINED
    }
}

/// The reason why a conditional write was not made, or may not have been.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The row has changed: another writer has it. Nothing was written.
    #[error("another writer has changed the row meanwhile; nothing was written")]
    Fenced,
    /// A newer version of the code wrote what is there. Nothing was written: fields that this version does not know would
    /// be lost.
    #[error("it was written by a newer version of Ledgerline; nothing was written")]
    NewerFormat,
    /// The port did not answer: whether it wrote is unknown.
    #[error(transparent)]
    Unavailable(Unavailable),
}

impl From<Unavailable> for WriteError {
    fn from(unavailable: Unavailable) -> Self {
        if unavailable.is_newer() { WriteError::NewerFormat } else { WriteError::Unavailable(unavailable) }
    }
}
