//! Retention: how long rows and deduplication ids are kept.

use std::time::Duration;

/// How long the row of an unsettled event is kept. It outlives every place where its message can wait: the queue
/// keeps it for 4 days, the dead letter queue for 14 more, and an operator takes the rest.
pub const UNSETTLED_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long the queue keeps a message. The template says the same.
pub const QUEUE_RETENTION: Duration = Duration::from_secs(4 * 24 * 3600);

/// How long the dead letter queue keeps a message. The template says the same.
pub const DEAD_LETTER_RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);

/// How long the queue remembers a message's deduplication id.
pub const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(300);

/// How long a settled event is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledRetention {
    /// How long a delivery with the same key is a duplicate: the flow's `ttl`.
    pub key: Duration,
    /// How long people can see the row: the flow's `keep`, or its `ttl` where that is longer.
    pub row: Duration,
}

impl From<Duration> for SettledRetention {
    /// The row lives as long as its key.
    fn from(ttl: Duration) -> Self {
        SettledRetention { key: ttl, row: ttl }
    }
}
