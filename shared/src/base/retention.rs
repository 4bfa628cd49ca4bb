//! How long things are remembered.

use std::time::Duration;

/// A row of an event that is not settled outlives every place where its message can wait: the queue
/// keeps it for 4 days, the dead letter queue for 14 more, and an operator takes the rest.
pub const UNSETTLED_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long a queue remembers that it was sent a message, by its deduplication id.
pub const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(300);
