//! Operations: switches, replays, approvals, the stale guard, metrics, logs.

pub mod approval;
pub mod log;
pub mod metric;
pub mod requeue;
pub mod stale_guard;
pub mod switchboard;
