//! How a port fails.

use std::time::Duration;

/// A port did not answer, or not with a yes or a no. Whether it acted is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{port} is unavailable: {why}")]
pub struct Unavailable {
    /// Which port.
    pub port: &'static str,
    /// Why, without values.
    pub why: String,
}

impl Unavailable {
    /// How long what did not answer is left alone.
    pub const BACK_OFF: Duration = Duration::from_secs(5);
}

/// A write under a lease or an expectation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The row has moved on: another holder has it. Nothing was written.
    #[error("the row has moved on")]
    Fenced,
    /// Nobody knows whether it was written.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
