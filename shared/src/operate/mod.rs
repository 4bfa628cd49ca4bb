//! What operators do and see.

pub mod approval;
pub mod metric;
pub mod requeue;
pub mod stale;
pub mod switchboard;
