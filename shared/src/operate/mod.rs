//! Operations: switches, replays, approvals, the stale guard, metrics, logs, spans.

pub mod approval;
pub mod aws_console;
pub mod log;
pub mod log_query;
pub mod metric;
pub mod requeue;
pub mod span;
pub mod stale_guard;
pub mod switchboard;
