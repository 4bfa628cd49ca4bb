//! What was counted until now: the values of metrics over some hours, as CloudWatch keeps them.

use std::time::Duration;

use async_trait::async_trait;

use super::{Dimension, Metric};
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

/// A series that is asked for: a metric under these values of one of its sets of dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricQuery {
    /// The metric.
    pub metric: Metric,
    /// The values of the dimensions, none for the sum of all.
    pub dimensions: Vec<(Dimension, String)>,
    /// What is asked of the values of a period.
    pub statistic: MetricStatistic,
}

/// What is asked of the values of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricStatistic {
    /// Their sum.
    Sum,
    /// The largest.
    Maximum,
    /// The one that so many percent of them do not exceed.
    Percentile(u8),
}

/// A stretch of time in periods of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricWindow {
    /// Where it begins.
    pub from: Timestamp,
    /// Where it ends.
    pub until: Timestamp,
    /// How long a period is: whole minutes.
    pub period: Duration,
}

/// The value of each period in which there was one, by the period's beginning, in order.
pub type MetricPoints = Vec<(Timestamp, f64)>;

/// The most series that are asked for at once: CloudWatch's own limit.
pub const MAX_QUERIES: usize = 500;

/// What was counted.
#[async_trait]
pub trait MetricHistory: Send + Sync {
    /// The points of each query, in their order.
    async fn read(&self, queries: &[MetricQuery], window: MetricWindow) -> Result<Vec<MetricPoints>, Unavailable>;
}

impl MetricQuery {
    /// The sum of a metric, whatever its dimensions.
    pub fn sum(metric: Metric) -> Self {
        Self::of(metric, MetricStatistic::Sum)
    }

    /// A statistic of a metric, whatever its dimensions.
    pub fn of(metric: Metric, statistic: MetricStatistic) -> Self {
        MetricQuery { metric, dimensions: Vec::new(), statistic }
    }

    /// The same for one value of a dimension.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, value: impl Into<String>) -> Self {
        self.dimensions.push((dimension, value.into()));
        self
    }
}

impl MetricStatistic {
    /// The statistic's name in CloudWatch.
    pub fn name(self) -> String {
        match self {
            MetricStatistic::Sum => "Sum".into(),
            MetricStatistic::Maximum => "Maximum".into(),
            MetricStatistic::Percentile(percent) => format!("p{percent}"),
        }
    }
}

impl MetricWindow {
    /// The last hours up to this moment, in whole periods: the one that this moment is in is the last.
    pub fn until(now: Timestamp, length: Duration, period: Duration) -> Self {
        let until = now.floor(period) + period;
        MetricWindow { from: Timestamp::from_millis(until.millis() - length.as_millis() as i64), until, period }
    }

    /// The number of periods.
    pub fn periods(&self) -> usize {
        (self.until.since(self.from).as_secs() / self.period.as_secs().max(1)) as usize
    }

    /// The number of the period in which a moment lies.
    pub fn period_of(&self, at: Timestamp) -> usize {
        (at.since(self.from).as_secs() / self.period.as_secs().max(1)) as usize
    }
}
