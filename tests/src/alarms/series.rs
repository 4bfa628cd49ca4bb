//! What CloudWatch keeps: samples of metrics, by the minute.

use std::collections::BTreeMap;

/// The namespace of our metrics in the tests.
pub(super) const OURS: &str = "Ledgerline/ledgerline";

/// A metric, as its dimensions make it: each set of them is another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AlarmMetric {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) dimensions: BTreeMap<String, String>,
}

/// The samples of all metrics, by minute.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Store(BTreeMap<AlarmMetric, BTreeMap<i64, Vec<f64>>>);

impl AlarmMetric {
    /// Reads `AWS/SQS Name{Key=value,…}`, or `Name{Key=value}` for one of ours.
    pub(crate) fn parse(text: &str) -> Self {
        let (namespace, rest) = text.split_once(' ').filter(|(first, _)| first.contains('/')).unwrap_or((OURS, text));
        let (name, dimensions) = rest.split_once('{').unwrap_or((rest, ""));
        let pairs =
            dimensions.strip_suffix('}').unwrap_or(dimensions).split(',').filter_map(|pair| pair.split_once('='));
        let dimensions = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        AlarmMetric { namespace: namespace.to_owned(), name: name.to_owned(), dimensions }
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.namespace == OURS
    }
}

impl Store {
    pub(super) fn put(&mut self, metric: AlarmMetric, minute: i64, samples: impl IntoIterator<Item = f64>) {
        self.0.entry(metric).or_default().entry(minute).or_default().extend(samples);
    }

    pub(super) fn merge(&mut self, other: Store) {
        for (metric, minutes) in other.0 {
            for (minute, samples) in minutes {
                self.put(metric.clone(), minute, samples);
            }
        }
    }

    /// The samples of a metric from one minute to another, that one excluded.
    pub(super) fn samples(&self, metric: &AlarmMetric, from: i64, to: i64) -> Vec<f64> {
        let minutes = self.0.get(metric).into_iter().flat_map(|minutes| minutes.range(from..to));
        minutes.flat_map(|(_, samples)| samples.iter().copied()).collect()
    }

    /// Every metric that has ever had a sample.
    pub(super) fn metrics(&self) -> impl Iterator<Item = &AlarmMetric> {
        self.0.keys()
    }
}
