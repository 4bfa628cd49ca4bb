//! Figures of the last hours, as CloudWatch has counted them: what the console draws, and what `status` tells.
//!
//! They are read when somebody looks, and once a minute at most: each series that is asked for has its price. A page does
//! not fail for want of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::errors::Unavailable;
use shared::base::time::Timestamp;
use shared::operate::metric::{Metric, MetricHistory, MetricPoints, MetricQuery, MetricStatistic, MetricWindow};

/// How long what was read is shown.
const FRESH: Duration = Duration::from_secs(60);

/// How far `status` looks back.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

const HOUR: Duration = Duration::from_secs(3600);

/// What was counted, and what was read of it last.
pub struct Figures {
    history: Box<dyn MetricHistory>,
    drawn: Mutex<Option<LastRead>>,
}

/// The series of a chart page, or that there are none now.
type Read = Result<Arc<Vec<MetricPoints>>, Unavailable>;

struct LastRead {
    at: Timestamp,
    queries: usize,
    read: Read,
}

impl Figures {
    /// Figures of this history.
    pub fn new(history: Box<dyn MetricHistory>) -> Self {
        Figures { history, drawn: Mutex::default() }
    }

    /// The series of all charts, which are always the same. What was read within a minute is not read again; nor is what
    /// did not answer.
    pub(crate) async fn series(&self, queries: &[MetricQuery], window: MetricWindow, now: Timestamp) -> Read {
        if let Some(last) = &*self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
            && last.queries == queries.len()
            && now.since(last.at) < FRESH
        {
            return last.read.clone();
        }
        let read = self.history.read(queries, window).await.map(Arc::new);
        let last = LastRead { at: now, queries: queries.len(), read: read.clone() };
        *self.drawn.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        read
    }

    /// The five figures by which the system is judged, of the last day; or that they cannot be read now.
    pub(crate) async fn north_star(&self, now: Timestamp) -> Value {
        match self.day(now).await {
            Ok(day) => day.as_json(),
            Err(unavailable) => json!({"unavailable": unavailable.to_string()}),
        }
    }

    async fn day(&self, now: Timestamp) -> Result<Day, Unavailable> {
        let counts = COUNTED.map(MetricQuery::sum);
        let counts = self.history.read(&counts, MetricWindow::until(now, A_DAY, HOUR)).await?;
        let percentiles =
            MEASURED.map(|(metric, percent)| MetricQuery::of(metric, MetricStatistic::Percentile(percent)));
        // The whole day as one stretch: percentiles of shorter ones cannot be added up.
        let minute = Duration::from_secs(60);
        let until = now.floor(minute) + minute;
        let day = MetricWindow { from: until - A_DAY, until, period: A_DAY };
        let percentiles = self.history.read(&percentiles, day).await?;
        let sum = |points: &MetricPoints| points.iter().map(|(_, value)| value).sum();
        // The day may lie in two of CloudWatch's: the true one is not above the higher.
        let highest = |points: &MetricPoints| points.iter().map(|(_, value)| *value).reduce(f64::max);
        Ok(Day { counts: counts.iter().map(sum).collect(), percentiles: percentiles.iter().map(highest).collect() })
    }
}

/// What is counted for the five figures, in the order of [`Day`].
const COUNTED: [Metric; 7] = [
    Metric::ProtectedEffects,
    Metric::Effects,
    Metric::ReplayedWithinADay,
    Metric::ReplayedLater,
    Metric::ReplaysDead,
    Metric::Duplicates,
    Metric::Accepted,
];

/// What is measured for them.
const MEASURED: [(Metric, u8); 4] =
    [(Metric::TimeToSignal, 50), (Metric::TimeToSignal, 95), (Metric::Attempts, 50), (Metric::Attempts, 95)];

/// The counts and percentiles of one day.
struct Day {
    counts: Vec<f64>,
    percentiles: Vec<Option<f64>>,
}

impl Day {
    fn as_json(&self) -> Value {
        let [protected, effects, within, later, again, duplicates, accepted] = self.counts[..] else {
            return Value::Null;
        };
        let [signal, signal95, attempts, attempts95] = self.percentiles[..] else { return Value::Null };
        json!({
            "hours": 24,
            "time_to_signal_seconds": {"p50": signal, "p95": signal95},
            "protected_effects_percent": share(protected, effects),
            "replays_within_a_day_percent": share(within, within + later + again),
            "duplicates_percent": share(duplicates, duplicates + accepted),
            "attempts": {"p50": attempts, "p95": attempts95},
        })
    }
}

/// A share in percent; none of nothing.
fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| (1000.0 * part / whole).round() / 10.0)
}
