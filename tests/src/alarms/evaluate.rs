//! The state of an alarm, minute by minute, as CloudWatch documents its evaluation.
//!
//! CloudWatch looks at more data points than an alarm's periods, and how many is not said: `further` is how many more.
//! If as many real ones are there as the alarm has periods, the newest of them decide, and how missing data is treated
//! does not matter. If there are fewer, all of them count, and what is missing is filled in, as little as possible.

use super::definition::{Alarm, MissingData, QuerySource};
use super::insights::{self, InsightsQuery};
use super::math::{self, MathOperand};
use super::series::Store;
use super::statistic;

/// The state of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlarmState {
    Ok,
    Alarm,
    InsufficientData,
}

/// What `FILL` does with a metric of which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    IsFilled,
    IsNotFilled,
}

/// What the documentation leaves open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interpretation {
    pub(super) further: usize,
    pub(super) unknown: Unknown,
}

/// Every interpretation that an alarm has to work under.
pub(super) const INTERPRETATIONS: [Interpretation; 4] = [
    Interpretation { further: 0, unknown: Unknown::IsFilled },
    Interpretation { further: 2, unknown: Unknown::IsFilled },
    Interpretation { further: 2, unknown: Unknown::IsNotFilled },
    Interpretation { further: 4, unknown: Unknown::IsNotFilled },
];

/// The states of an alarm at the end of each minute, from the first on: one that takes silence for an alarm may stand then.
pub(super) fn states(alarm: &Alarm, store: &Store, minutes: i64, interpretation: Interpretation) -> Vec<AlarmState> {
    let mut state = AlarmState::Ok;
    let mut states = Vec::new();
    for now in 1..=minutes {
        state = next(alarm, &points(alarm, store, now, interpretation), state);
        states.push(state);
    }
    states
}

/// How many minutes pass until an alarm that takes silence for trouble could have heard something.
pub(super) fn deaf(alarm: &Alarm, interpretation: Interpretation) -> usize {
    let looked_at = alarm.periods + interpretation.further;
    if alarm.missing == MissingData::Breaching { looked_at * (alarm.period / 60) as usize - 1 } else { 0 }
}

/// The data points that an alarm looks at, the newest first.
fn points(alarm: &Alarm, store: &Store, now: i64, interpretation: Interpretation) -> Vec<Option<f64>> {
    match operand(alarm, &alarm.queries[0].id, store, now, interpretation) {
        MathOperand::Series(points) => points,
        other => panic!("an alarm compares one series, and not {other:?}"),
    }
}

fn operand(alarm: &Alarm, id: &str, store: &Store, now: i64, interpretation: Interpretation) -> MathOperand {
    let query = alarm.queries.iter().find(|query| query.id == id).unwrap_or_else(|| panic!("there is no query {id}"));
    let minutes = (alarm.period / 60) as i64;
    let windows =
        (0..(alarm.periods + interpretation.further) as i64).map(|k| (now - (k + 1) * minutes, now - k * minutes));
    match &query.of {
        QuerySource::Stat(metric, stat) => MathOperand::Series(
            windows.map(|(from, to)| statistic::of(&store.samples(metric, from, to), stat)).collect(),
        ),
        QuerySource::Expression(text) if insights::is_query(text) => {
            groups(&InsightsQuery::parse(text), store, windows)
        }
        QuerySource::Expression(text) => {
            math::value(text, interpretation.unknown, &|id| operand(alarm, id, store, now, interpretation))
        }
    }
}

/// The series of each group of a query; one series where it has no groups.
fn groups(query: &InsightsQuery, store: &Store, windows: impl Iterator<Item = (i64, i64)>) -> MathOperand {
    let windows: Vec<_> = windows.map(|(from, to)| query.values(store, from, to)).collect();
    let series = |group: &str| windows.iter().map(|values| values.get(group).copied()).collect();
    if !query.is_grouped() {
        return MathOperand::Series(series(""));
    }
    let names: std::collections::BTreeSet<&String> = windows.iter().flat_map(|values| values.keys()).collect();
    let mut several: Vec<_> = names.into_iter().map(|group| series(group)).collect();
    // A query that finds nothing has no series: the function around it has no data points.
    if several.is_empty() {
        several.push(vec![None; windows.len()]);
    }
    MathOperand::Several(several)
}

/// The state that follows from data points, the newest first.
fn next(alarm: &Alarm, points: &[Option<f64>], before: AlarmState) -> AlarmState {
    let breaches: Vec<Option<bool>> = points.iter().map(|point| point.map(|value| alarm.breaches(value))).collect();
    let real: Vec<bool> = breaches.iter().flatten().copied().take(alarm.periods).collect();
    let breaching = real.iter().filter(|breaches| **breaches).count();
    let filled = alarm.periods - real.len();
    let is = |alarms: bool| if alarms { AlarmState::Alarm } else { AlarmState::Ok };
    match alarm.missing {
        MissingData::Breaching => is(breaching + filled >= alarm.to_alarm),
        MissingData::NotBreaching => is(breaching >= alarm.to_alarm),
        _ if filled == 0 || breaching >= alarm.to_alarm || breaching < real.len() => is(breaching >= alarm.to_alarm),
        MissingData::Ignore => before,
        MissingData::Missing if real.is_empty() => AlarmState::InsufficientData,
        // Only breaching and missing ones: the oldest alarms once it is as old as the alarm wants data points.
        MissingData::Missing => {
            let oldest = breaches.iter().rposition(Option::is_some).map_or(0, |k| k + 1);
            is(oldest >= alarm.to_alarm)
        }
    }
}

/// The tables of CloudWatch's documentation (“How alarm state is evaluated when data is missing”): three periods, five
/// data points looked at, the newest on the right.
#[cfg(test)]
mod documented {
    use super::*;

    const RETAINED: AlarmState = AlarmState::InsufficientData;

    fn alarm(to_alarm: usize, missing: MissingData) -> Alarm {
        let comparison = "GreaterThanOrEqualToThreshold".to_owned();
        Alarm { queries: Vec::new(), period: 300, comparison, threshold: 1.0, periods: 3, to_alarm, missing }
    }

    fn assert_row(to_alarm: usize, row: &str, expected: [AlarmState; 4]) {
        let point = |c: &str| (c != "-").then(|| f64::from(u8::from(c == "X")));
        let points: Vec<Option<f64>> = row.split(' ').rev().map(point).collect();
        let ways = [MissingData::Missing, MissingData::Ignore, MissingData::Breaching, MissingData::NotBreaching];
        let found = ways.map(|missing| next(&alarm(to_alarm, missing), &points, RETAINED));
        assert_eq!(found, expected, "{to_alarm} of 3: {row}");
    }

    #[test]
    fn missing_data_is_treated_as_documented() {
        use AlarmState::{Alarm as A, InsufficientData as I, Ok as O};
        assert_row(3, "0 - X - X", [O, O, O, O]);
        assert_row(3, "0 - - - -", [O, O, O, O]);
        assert_row(3, "- - - - -", [I, RETAINED, A, O]);
        assert_row(3, "0 X X - X", [A, A, A, A]);
        assert_row(3, "- - X - -", [A, RETAINED, A, O]);
        assert_row(2, "0 - X - X", [A, A, A, A]);
        assert_row(2, "0 0 X 0 X", [A, A, A, A]);
        assert_row(2, "0 - X - -", [O, O, A, O]);
        assert_row(2, "- - - - 0", [O, O, A, O]);
        assert_row(2, "- - - X -", [A, RETAINED, A, O]);
    }
}
