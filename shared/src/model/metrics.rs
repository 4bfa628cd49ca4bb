//! Metrics in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::locked;
use crate::operate::metric::{Metrics, Tally};

/// The values of metrics, by name and dimensions: `DeadLetters{lead-routing,terminal}`, and `DeadLetters{}` for all of
/// them.
#[derive(Clone, Debug, Default)]
pub struct ModelMetrics(Arc<Mutex<BTreeMap<String, Vec<u64>>>>);

impl ModelMetrics {
    /// The sum of a metric, zero where it was never counted.
    pub fn sum(&self, name: &str) -> u64 {
        self.values(name).iter().sum()
    }

    /// Every value of a metric, in the order of their units of work.
    pub fn values(&self, name: &str) -> Vec<u64> {
        locked(&self.0).get(name).cloned().unwrap_or_default()
    }

    /// The names of all metrics that were counted, with their dimensions.
    pub fn names(&self) -> Vec<String> {
        locked(&self.0).keys().cloned().collect()
    }
}

impl Metrics for ModelMetrics {
    fn put(&self, tally: &Tally) {
        for line in tally.lines() {
            for (metric, values) in line.values() {
                for set in metric.sets() {
                    let named: Vec<&str> = set.iter().filter_map(|name| line.dimension(*name)).collect();
                    let name = format!("{}{{{}}}", metric.name(), named.join(","));
                    locked(&self.0).entry(name).or_default().extend(values.as_slice());
                }
            }
        }
    }
}
