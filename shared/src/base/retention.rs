//! Retention: how long rows and deduplication ids are kept.

use std::time::Duration;

/// How long the row of an unsettled event is kept. It outlives every place where its message can wait: the queue
/// keeps it for 4 days, the dead letter queue for 14 more, and an operator takes the rest.
pub const UNSETTLED_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);

/// How long the queue keeps a message. The template says the same.
pub const QUEUE_RETENTION: Duration = Duration::from_secs(4 * 24 * 3600);

/// How long the queue remembers a message's deduplication id.
pub const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(300);
