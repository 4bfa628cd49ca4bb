//! The cases of `cases.yaml`: for each alarm, series that must fire it, and series that come near and must not.
//!
//! A series is a text of runs, by the minute: `0x10 3x5` is ten times 0, then five times 3. `-` is no sample, `a|b` are two
//! of one minute, and `a^9` is nine of them. Series of our metrics go through the lines that a function prints.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::definition::{Alarm, alarms};
use super::emf;
use super::evaluate::{AlarmState, INTERPRETATIONS, Interpretation, states};
use super::series::{AlarmMetric, OURS, Store};

/// The cases of one alarm.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cases {
    /// Where the shape of AWS's own metrics is known from.
    #[serde(default)]
    source: String,
    fires: BTreeMap<String, Case>,
    stays: BTreeMap<String, Case>,
}

/// The text of each series, by metric.
pub(super) type Case = BTreeMap<String, String>;

pub(super) fn cases() -> BTreeMap<String, Cases> {
    serde_saphyr::from_str(include_str!("cases.yaml")).expect("the cases are YAML")
}

impl Cases {
    /// Whether every case comes out as it says, under every interpretation; and if not, which one.
    pub(super) fn judge(&self, alarm: &Alarm) -> Result<(), String> {
        for interpretation in INTERPRETATIONS {
            for (what, case) in &self.fires {
                (fires(alarm, case, interpretation))
                    .then_some(())
                    .ok_or(format!("does not fire: {what} ({interpretation:?})"))?;
            }
            for (what, case) in &self.stays {
                (!fires(alarm, case, interpretation))
                    .then_some(())
                    .ok_or(format!("fires: {what} ({interpretation:?})"))?;
            }
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = (&String, &Case)> {
        self.fires.iter().chain(&self.stays)
    }
}

/// Whether an alarm fires while these series last.
fn fires(alarm: &Alarm, case: &Case, interpretation: Interpretation) -> bool {
    let (store, minutes) = recorded(case);
    states(alarm, &store, minutes, interpretation).contains(&AlarmState::Alarm)
}

/// The series of a case, and how many minutes they last.
fn recorded(case: &Case) -> (Store, i64) {
    let (mut store, mut longest) = (Store::default(), 0);
    for (metric, runs) in case {
        let metric = AlarmMetric::parse(metric);
        let minutes = minutes(runs);
        longest = longest.max(minutes.len() as i64);
        for (minute, samples) in minutes.into_iter().enumerate() {
            if metric.namespace == OURS {
                let lines = emf::lines(&metric, minute as i64, &samples);
                store.merge(emf::store(lines.iter().map(String::as_str)));
            } else if !samples.is_empty() {
                store.put(metric.clone(), minute as i64, samples);
            }
        }
    }
    (store, longest)
}

/// The samples of each minute.
fn minutes(runs: &str) -> Vec<Vec<f64>> {
    let run = |run: &str| {
        let (samples, times) = run.split_once('x').unwrap_or((run, "1"));
        vec![samples.split('|').flat_map(self::samples).collect(); times.parse().expect("how many minutes")]
    };
    runs.split_whitespace().flat_map(run).collect::<Vec<Vec<f64>>>()
}

fn samples(text: &str) -> Vec<f64> {
    let (value, times) = text.split_once('^').unwrap_or((text, "1"));
    match value {
        "-" => Vec::new(),
        value => vec![value.parse().expect("a sample"); times.parse().expect("how many samples")],
    }
}

#[test]
fn series_are_read_as_they_are_written() {
    assert_eq!(minutes("0x2 - 2^3|7"), [vec![0.0], vec![0.0], vec![], vec![2.0, 2.0, 2.0, 7.0]]);
}

#[test]
fn every_alarm_fires_when_it_should_and_stays_when_it_should_not() {
    let (alarms, mut wrong) = (alarms(), Vec::new());
    for (name, cases) in cases() {
        let alarm = alarms.get(&name).unwrap_or_else(|| panic!("the cases name {name}, and no alarm is called so"));
        wrong.extend(cases.judge(alarm).err().map(|why| format!("{name} {why}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_alarm_has_a_case_of_each_kind() {
    let cases = cases();
    for name in alarms().keys() {
        let cases = cases.get(name).unwrap_or_else(|| panic!("{name} has no cases"));
        assert!(
            !cases.fires.is_empty() && !cases.stays.is_empty(),
            "{name} lacks a case that fires, or one that stays"
        );
        let theirs =
            cases.all().flat_map(|(_, case)| case.keys()).any(|metric| AlarmMetric::parse(metric).namespace != OURS);
        assert_eq!(theirs, !cases.source.is_empty(), "{name}: a source is for AWS's own metrics, and has to be named");
    }
}

/// The alarms that take silence for trouble.
const SILENCE: [&str; 3] = ["ScheduleNotRun", "SourceSilent", "WakeNotRun"];

#[test]
fn silence_fires_only_those_alarms_that_are_about_it() {
    for (name, alarm) in alarms() {
        let expected = if SILENCE.contains(&name.as_str()) { AlarmState::Alarm } else { AlarmState::Ok };
        for interpretation in INTERPRETATIONS {
            let minutes = (alarm.period / 60) as i64 * (alarm.periods + interpretation.further) as i64;
            let last = states(&alarm, &Store::default(), minutes + 1, interpretation).pop();
            assert_eq!(last, Some(expected), "{name}, {interpretation:?}");
        }
    }
}

#[test]
fn every_alarm_ends_when_its_cause_does() {
    let alarms = alarms();
    for (name, cases) in cases().iter().filter(|(name, _)| !SILENCE.contains(&name.as_str())) {
        let alarm = &alarms[name];
        for (interpretation, (what, case)) in
            INTERPRETATIONS.iter().flat_map(|interpretation| cases.fires.iter().map(move |case| (interpretation, case)))
        {
            let (store, minutes) = recorded(case);
            let after = (alarm.period / 60) as i64 * (alarm.periods + interpretation.further) as i64;
            let last = states(alarm, &store, minutes + after + 1, *interpretation).pop();
            assert_eq!(last, Some(AlarmState::Ok), "{name}: {what}, {interpretation:?}");
        }
    }
}
