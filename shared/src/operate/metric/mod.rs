//! Metrics, for dashboards and alarms.
//!
//! The facts of one unit of work (a delivery, a message, an invocation of the replay function) are gathered in its
//! [`Tally`], which is written once, when the unit ends, however it ends. Metrics are counted at least once: they show
//! how the system is doing, and nothing is ever reconciled from them.

mod catalogue;
mod fact;
mod history;
mod tally;

pub use catalogue::{Dimension, Metric, MetricUnit, Sets};
pub use fact::{CallOutcome, Fact, Stage};
pub use history::{MAX_QUERIES, MetricHistory, MetricPoints, MetricQuery, MetricStatistic, MetricWindow};
pub use tally::{MetricValues, Metrics, Tally, TallyLine, WorkUnit};

/// The namespace of a stack's metrics in CloudWatch. The template sets it in `METRICS_NAMESPACE`.
pub fn namespace(stack: &str) -> String {
    format!("Ledgerline/{stack}")
}
