//! Operations: switches, replays, approvals, the stale guard, metrics.

pub mod approval;
pub mod metric;
pub mod requeue;
pub mod stale_guard;
pub mod switchboard;
