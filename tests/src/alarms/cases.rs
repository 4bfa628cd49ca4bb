//! The cases of `cases.yaml`: for each alarm, what must fire it, and what comes near and must not.
//!
//! What is counted by us comes from a run of the functions in which something is done (`deeds.rs`): how often, by the
//! minute. AWS's own metrics come from series. Both are texts of runs: `0x10 3x5` is ten minutes with 0, then five with 3;
//! `-` is a minute without, and `(1 -x9)x3` three times one and then nine minutes without. Of a series, `a|b` are two
//! samples of one minute, and `a^9` is nine of them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::definition::{Alarm, alarms};
use super::evaluate::{AlarmState, INTERPRETATIONS, Interpretation, deaf, states};
use super::mutants;
use super::runs;
use super::series::{AlarmMetric, Store};

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

/// The text of each series, by metric of AWS, and of each deed.
pub(super) type Case = BTreeMap<String, String>;

/// The cases of one alarm, with the series that came of each.
pub(super) struct Recorded {
    fires: Vec<Recording>,
    stays: Vec<Recording>,
}

struct Recording {
    what: String,
    store: Store,
    minutes: i64,
}

pub(super) fn cases() -> BTreeMap<String, Cases> {
    serde_saphyr::from_str(include_str!("cases.yaml")).expect("the cases are YAML")
}

impl Cases {
    fn recorded(&self) -> Recorded {
        let record = |cases: &BTreeMap<String, Case>| cases.iter().map(|(what, case)| recorded(what, case)).collect();
        Recorded { fires: record(&self.fires), stays: record(&self.stays) }
    }

    fn all(&self) -> impl Iterator<Item = (&String, &Case)> {
        self.fires.iter().chain(&self.stays)
    }
}

impl Recorded {
    /// Whether every case comes out as it says, under every interpretation; and if not, which one.
    pub(super) fn judge(&self, alarm: &Alarm) -> Result<(), String> {
        for interpretation in INTERPRETATIONS {
            let wrong = |recordings: &[Recording], expected| {
                let found = recordings.iter().find(|recording| recording.fires(alarm, interpretation) != expected);
                found.map(|recording| format!("{} ({interpretation:?})", recording.what))
            };
            if let Some(case) = wrong(&self.fires, true) {
                return Err(format!("does not fire: {case}"));
            }
            if let Some(case) = wrong(&self.stays, false) {
                return Err(format!("fires: {case}"));
            }
        }
        Ok(())
    }

    /// The cases that fire, and after which it does not end.
    fn endless(&self, alarm: &Alarm) -> Vec<String> {
        let ends = |recording: &Recording, interpretation: Interpretation| {
            let after = (alarm.period / 60) as i64 * (alarm.periods + interpretation.further) as i64;
            let last = states(alarm, &recording.store, recording.minutes + after + 1, interpretation).pop();
            last == Some(AlarmState::Ok)
        };
        let endless = |recording: &&Recording| INTERPRETATIONS.iter().any(|here| !ends(recording, *here));
        self.fires.iter().filter(endless).map(|recording| recording.what.clone()).collect()
    }
}

impl Recording {
    /// Whether an alarm fires while it lasts. What one says of a stack that is new is in `lasting.rs`.
    fn fires(&self, alarm: &Alarm, interpretation: Interpretation) -> bool {
        let states = states(alarm, &self.store, self.minutes, interpretation);
        states.into_iter().skip(deaf(alarm, interpretation)).any(|state| state == AlarmState::Alarm)
    }
}

/// The series of a case.
fn recorded(what: &str, case: &Case) -> Recording {
    let (series, deeds): (Vec<_>, Vec<_>) = case.iter().partition(|(name, _)| name.starts_with("AWS/"));
    let mut store = if deeds.is_empty() { Store::default() } else { runs::series(&by_minute(&deeds)) };
    let mut longest = deeds.iter().map(|(_, runs)| minutes(runs).len()).max().unwrap_or(0);
    for (metric, runs) in series {
        let minutes = minutes(runs);
        longest = longest.max(minutes.len());
        for (minute, samples) in minutes.into_iter().enumerate().filter(|(_, samples)| !samples.is_empty()) {
            store.put(AlarmMetric::parse(metric), minute as i64, samples);
        }
    }
    Recording { what: what.to_owned(), store, minutes: longest as i64 }
}

/// What is done in each minute, and how often.
fn by_minute<'c>(deeds: &[(&'c String, &'c String)]) -> Vec<Vec<(&'c str, u32)>> {
    let mut all: Vec<Vec<(&str, u32)>> = Vec::new();
    for (deed, runs) in deeds {
        for (minute, times) in minutes(runs).into_iter().enumerate() {
            all.resize(all.len().max(minute + 1), Vec::new());
            all[minute].extend(times.first().map(|times| (deed.as_str(), *times as u32)));
        }
    }
    all
}

/// The samples of each minute.
fn minutes(runs: &str) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    let mut rest = runs.trim();
    while !rest.is_empty() {
        let (part, times, after) = next_run(rest);
        let part = if let Some(group) = part.strip_prefix('(') { minutes(group) } else { vec![minute(part)] };
        (0..times).for_each(|_| all.extend(part.iter().cloned()));
        rest = after.trim_start();
    }
    all
}

/// The first run of a text or the inside of its first group, how often it is there, and what follows.
fn next_run(runs: &str) -> (&str, usize, &str) {
    let end = if runs.starts_with('(') {
        runs.find(')').expect("a group ends")
    } else {
        runs.find(' ').unwrap_or(runs.len())
    };
    let (part, rest) = runs.split_at(end);
    let (part, times, rest) = match rest.strip_prefix(')') {
        Some(rest) => {
            let (times, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            (part, times.strip_prefix('x'), rest)
        }
        None => part.split_once('x').map_or((part, None, rest), |(part, times)| (part, Some(times), rest)),
    };
    (part, times.map_or(1, |times| times.parse().expect("how many times")), rest)
}

fn minute(samples: &str) -> Vec<f64> {
    samples.split('|').flat_map(self::samples).collect()
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
    assert_eq!(minutes("5 (1 -x2)x2 3"), [vec![5.0], vec![1.0], vec![], vec![], vec![1.0], vec![], vec![], vec![3.0]]);
}

/// One test for all that is asked of the recordings: to make them takes longer than to look at them.
fn assert_cases(of: impl Fn(&str) -> bool) {
    let (alarms, mut wrong) = (alarms(), Vec::new());
    for (name, cases) in cases().iter().filter(|(name, _)| of(name)) {
        let alarm = alarms.get(name).unwrap_or_else(|| panic!("the cases name {name}, and no alarm is called so"));
        let recorded = cases.recorded();
        wrong.extend(recorded.judge(alarm).err().map(|why| format!("{name} {why}")));
        wrong.extend(
            mutants::survivors(name, alarm, &recorded).into_iter().map(|how| format!("{name}: no case sees {how}")),
        );
        if !SILENCE.contains(&name.as_str()) {
            wrong.extend(recorded.endless(alarm).into_iter().map(|what| format!("{name} does not end after {what}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn alarms_fire_when_they_should_and_end_and_no_change_of_them_goes_unseen() {
    assert_cases(|name| !is_of_levels(name));
}

#[test]
fn alarms_on_service_levels_fire_when_they_should_and_end_and_no_change_of_them_goes_unseen() {
    assert_cases(is_of_levels);
}

fn is_of_levels(name: &str) -> bool {
    name.starts_with("Slo")
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
        let theirs = cases.all().flat_map(|(_, case)| case.keys()).any(|name| name.starts_with("AWS/"));
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
