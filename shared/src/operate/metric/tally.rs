//! The tally of one unit of work: its facts, gathered into as few lines as their dimensions allow.

use std::sync::{Mutex, PoisonError};

use super::{Dimension, Fact, Metric};

/// The most values of one metric on one line: CloudWatch takes no more.
const MAX_VALUES: usize = 100;

/// The counter of facts.
pub trait Metrics: Send + Sync {
    /// Writes what a unit of work has gathered. It never waits and never fails.
    fn put(&self, tally: &Tally);
}

/// One unit of work. What it has counted is written when it ends: with an answer, with an error, with a panic, or when
/// nobody waits for it any more.
pub struct WorkUnit<'m> {
    metrics: &'m dyn Metrics,
    /// The effects of an event are called side by side, and each counts.
    tally: Mutex<Tally>,
}

impl<'m> WorkUnit<'m> {
    /// A unit of work that has counted nothing yet.
    pub fn new(metrics: &'m dyn Metrics) -> Self {
        WorkUnit { metrics, tally: Mutex::default() }
    }

    /// Counts a fact.
    pub fn count(&self, fact: &Fact<'_>) {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).count(fact);
    }
}

impl Drop for WorkUnit<'_> {
    fn drop(&mut self) {
        let tally = self.tally.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !tally.lines.is_empty() {
            self.metrics.put(tally);
        }
    }
}

/// The facts of one unit of work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    lines: Vec<TallyLine>,
}

/// Metrics that share their dimensions: no two of them have another value of the same dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TallyLine {
    dimensions: [Option<Box<str>>; Dimension::ALL.len()],
    values: Vec<(Metric, MetricValues)>,
}

/// The values of one metric.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValues {
    /// One value, or the sum of several.
    One(u64),
    /// Several values, each for itself.
    Each(Vec<u64>),
}

impl Tally {
    /// Adds a fact.
    pub fn count(&mut self, fact: &Fact<'_>) {
        let dimensions = fact.dimensions();
        fact.measure(|metric, value| {
            let said = dimensions.iter().flatten();
            let takes =
                |line: &TallyLine| said.clone().all(|(name, value)| line.allows(*name, value)) && line.has_room(metric);
            let line = match self.lines.iter().position(takes) {
                Some(at) => &mut self.lines[at],
                None => {
                    self.lines.push(TallyLine::default());
                    self.lines.last_mut().expect("it was pushed")
                }
            };
            said.for_each(|(name, value)| line.name(*name, value));
            line.add(metric, value);
        });
    }

    /// The lines, each to be written by itself.
    pub fn lines(&self) -> &[TallyLine] {
        &self.lines
    }
}

impl TallyLine {
    /// The line's dimensions.
    pub fn dimensions(&self) -> impl Iterator<Item = (Dimension, &str)> {
        Dimension::ALL.into_iter().zip(&self.dimensions).filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// The value of one dimension.
    pub fn dimension(&self, name: Dimension) -> Option<&str> {
        self.dimensions[name as usize].as_deref()
    }

    /// The line's metrics, each with its values.
    pub fn values(&self) -> &[(Metric, MetricValues)] {
        &self.values
    }

    fn allows(&self, name: Dimension, value: &str) -> bool {
        self.dimension(name).is_none_or(|here| here == value)
    }

    fn has_room(&self, metric: Metric) -> bool {
        let full = |values: &MetricValues| matches!(values, MetricValues::Each(values) if values.len() >= MAX_VALUES);
        !self.values.iter().any(|(here, values)| *here == metric && full(values))
    }

    fn name(&mut self, name: Dimension, value: &str) {
        self.dimensions[name as usize].get_or_insert_with(|| value.into());
    }

    fn add(&mut self, metric: Metric, value: u64) {
        let Some((_, values)) = self.values.iter_mut().find(|(here, _)| *here == metric) else {
            self.values.push((metric, MetricValues::One(value)));
            return;
        };
        match values {
            MetricValues::One(sum) if metric.is_sum() => *sum += value,
            MetricValues::One(first) => *values = MetricValues::Each(vec![*first, value]),
            MetricValues::Each(values) => values.push(value),
        }
    }
}

impl MetricValues {
    /// All of the values.
    pub fn as_slice(&self) -> &[u64] {
        match self {
            MetricValues::One(value) => std::slice::from_ref(value),
            MetricValues::Each(values) => values,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::super::fact::tests::examples;
    use super::super::{CallOutcome, Stage};
    use super::*;
    use crate::ledger::{Reason, State};

    fn tally(facts: &[Fact<'_>]) -> Tally {
        let mut tally = Tally::default();
        facts.iter().for_each(|fact| tally.count(fact));
        tally
    }

    fn called(integration: &str, millis: u64) -> Fact<'_> {
        Fact::Called(integration, CallOutcome::Done, Some(Duration::from_millis(millis)))
    }

    #[test]
    fn the_facts_of_one_event_are_one_line() {
        let settled = Fact::Settled("leads", State::Succeeded, Some(Duration::from_secs(1)));
        let of_one =
            tally(&[called("crm", 80), Fact::EffectEnded("leads", true), Fact::Attempted("leads", 1), settled]);
        assert_eq!(of_one.lines().len(), 1, "{of_one:?}");
        let named: Vec<_> = of_one.lines()[0].dimensions().map(|(_, value)| value).collect();
        assert_eq!(named, ["leads", "crm", "succeeded", "done"]);
    }

    #[test]
    fn only_another_value_of_the_same_dimension_begins_another_line() {
        let two = tally(&[called("crm", 80), called("mail", 90), called("crm", 70), Fact::Retried("leads")]);
        let [crm, mail] = two.lines() else { panic!("{two:?}") };
        assert_eq!(crm.dimension(Dimension::Integration), Some("crm"));
        let latency = |line: &TallyLine| {
            let found = line.values().iter().find(|(metric, _)| *metric == Metric::PartnerLatency);
            found.map(|(_, values)| values.as_slice().to_vec())
        };
        assert_eq!((latency(crm), latency(mail)), (Some(vec![80, 70]), Some(vec![90])));
        assert_eq!(mail.dimension(Dimension::Flow), None);
    }

    #[test]
    fn counts_are_added_up_and_times_are_kept_apart() {
        let took = |millis| Fact::Took(Stage::Admit, Duration::from_millis(millis));
        let batch = tally(&[Fact::Accepted("web"), Fact::Accepted("web"), took(5), took(7)]);
        let expected = [(Metric::Accepted, MetricValues::One(2)), (Metric::AdmitTime, MetricValues::Each(vec![5, 7]))];
        assert_eq!(batch.lines()[0].values(), expected);
    }

    #[test]
    fn a_line_holds_no_more_values_than_cloudwatch_takes() {
        let facts: Vec<_> = (0..250).map(|millis| Fact::Took(Stage::Rate, Duration::from_millis(millis))).collect();
        let lines: Vec<usize> = tally(&facts).lines().iter().map(|line| line.values()[0].1.as_slice().len()).collect();
        assert_eq!(lines, [100, 100, 50]);
    }

    /// Whatever is counted together, each metric keeps the dimensions that were said with it.
    #[test]
    fn no_fact_gets_the_dimensions_of_another() {
        for one in examples() {
            for other in examples() {
                for line in tally(&[one.clone(), other.clone()]).lines() {
                    for (metric, _) in line.values() {
                        let mut of = [&one, &other].into_iter().filter(|fact| {
                            let mut mine = false;
                            fact.measure(|counted, _| mine |= counted == *metric);
                            mine
                        });
                        let said = |fact: &Fact<'_>| {
                            let mut said = fact.dimensions().into_iter().flatten();
                            said.all(|(name, value)| line.dimension(name) == Some(value))
                        };
                        assert!(of.any(said), "{metric:?} of {one:?} and {other:?}: {line:?}");
                    }
                }
            }
        }
    }

    #[derive(Default)]
    struct Kept(Mutex<Vec<Tally>>);

    impl Metrics for Kept {
        fn put(&self, tally: &Tally) {
            self.0.lock().expect("not poisoned").push(tally.clone());
        }
    }

    #[test]
    fn a_unit_that_panics_writes_what_it_has_counted() {
        let kept = Kept::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let unit = WorkUnit::new(&kept);
            unit.count(&Fact::Dead("leads", Reason::Terminal));
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(*kept.0.lock().expect("not poisoned"), [tally(&[Fact::Dead("leads", Reason::Terminal)])]);
    }

    #[test]
    fn a_unit_that_counted_nothing_writes_nothing() {
        let kept = Kept::default();
        drop(WorkUnit::new(&kept));
        assert_eq!(kept.0.lock().expect("not poisoned").len(), 0);
    }
}
