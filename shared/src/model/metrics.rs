//! Metrics in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::locked;
use crate::operate::metric::{Fact, Metrics};

/// The sums of metrics, by name and dimensions: `DeadLetters{lead-routing,terminal}`.
#[derive(Clone, Debug, Default)]
pub struct ModelMetrics(Arc<Mutex<BTreeMap<String, u64>>>);

impl ModelMetrics {
    /// The sum of a metric, zero where it was never counted.
    pub fn sum(&self, name: &str) -> u64 {
        locked(&self.0).get(name).copied().unwrap_or_default()
    }
}

impl Metrics for ModelMetrics {
    fn put(&self, fact: &Fact<'_>) {
        let dimensions: Vec<&str> = fact.dimensions().into_iter().map(|(_, value)| value).collect();
        for measure in fact.measures() {
            let name = format!("{}{{{}}}", measure.name, dimensions.join(","));
            *locked(&self.0).entry(name).or_default() += measure.value;
        }
    }
}
