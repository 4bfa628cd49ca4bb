//! Metrics in memory: counted, and read back as CloudWatch does it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::{ModelClock, locked};
use crate::base::errors::Unavailable;
use crate::base::machine::Clock as _;
use crate::base::time::Timestamp;
use crate::operate::metric::{
    Metric, MetricHistory, MetricPoints, MetricQuery, MetricStatistic, MetricWindow, Metrics, Tally,
};

/// The values of metrics, by name and dimensions: `DeadLetters{lead-routing,terminal}`, and `DeadLetters{}` for all of
/// them.
#[derive(Clone, Debug, Default)]
pub struct ModelMetrics {
    clock: Option<ModelClock>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    values: BTreeMap<String, Vec<(Timestamp, u64)>>,
    reads: usize,
    down: bool,
}

impl ModelMetrics {
    /// Metrics that know when they were counted.
    pub fn at(clock: ModelClock) -> Self {
        ModelMetrics { clock: Some(clock), state: Arc::default() }
    }

    /// The sum of a metric, zero where it was never counted.
    pub fn sum(&self, name: &str) -> u64 {
        self.values(name).iter().sum()
    }

    /// Every value of a metric, in the order of their units of work.
    pub fn values(&self, name: &str) -> Vec<u64> {
        let state = locked(&self.state);
        state.values.get(name).into_iter().flatten().map(|(_, value)| *value).collect()
    }

    /// The names of all metrics that were counted, with their dimensions.
    pub fn names(&self) -> Vec<String> {
        locked(&self.state).values.keys().cloned().collect()
    }

    /// How often they were read back.
    pub fn reads(&self) -> usize {
        locked(&self.state).reads
    }

    /// Lets nobody read them back, or everybody again.
    pub fn down(&self, down: bool) {
        locked(&self.state).down = down;
    }
}

fn named<'v>(metric: Metric, values: impl Iterator<Item = &'v str>) -> String {
    format!("{}{{{}}}", metric.name(), values.collect::<Vec<_>>().join(","))
}

impl Metrics for ModelMetrics {
    fn put(&self, tally: &Tally) {
        let now = self.clock.as_ref().map_or(Timestamp::from_secs(0), |clock| clock.now());
        let mut state = locked(&self.state);
        for line in tally.lines() {
            for (metric, values) in line.values() {
                for set in metric.sets() {
                    let name = named(*metric, set.iter().filter_map(|name| line.dimension(*name)));
                    let values = values.as_slice().iter().map(|value| (now, *value));
                    state.values.entry(name).or_default().extend(values);
                }
            }
        }
    }
}

#[async_trait]
impl MetricHistory for ModelMetrics {
    async fn read(&self, queries: &[MetricQuery], window: MetricWindow) -> Result<Vec<MetricPoints>, Unavailable> {
        let mut state = locked(&self.state);
        state.reads += 1;
        if state.down {
            return Err(Unavailable { port: "the metrics", why: "they are down".into() });
        }
        Ok(queries.iter().map(|query| state.points(query, window)).collect())
    }
}

impl State {
    fn points(&self, query: &MetricQuery, window: MetricWindow) -> MetricPoints {
        let name = named(query.metric, query.dimensions.iter().map(|(_, value)| value.as_str()));
        let mut periods: BTreeMap<Timestamp, Vec<u64>> = BTreeMap::new();
        let counted = self.values.get(&name).into_iter().flatten();
        for (at, value) in counted.filter(|(at, _)| (window.from..window.until).contains(at)) {
            periods.entry(at.floor(window.period)).or_default().push(*value);
        }
        periods.into_iter().map(|(at, values)| (at, statistic(values, query.statistic))).collect()
    }
}

fn statistic(mut values: Vec<u64>, statistic: MetricStatistic) -> f64 {
    values.sort_unstable();
    let value = match statistic {
        MetricStatistic::Sum => values.iter().sum(),
        MetricStatistic::Maximum => values.last().copied().unwrap_or_default(),
        MetricStatistic::Percentile(percent) => {
            let rank = (values.len() * usize::from(percent)).div_ceil(100).max(1);
            values[rank - 1]
        }
    };
    value as f64
}
