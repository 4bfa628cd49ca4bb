//! Whole runs, watched minute by minute: when somebody is told, for how long an alarm stands, and when it ends.

use std::collections::BTreeMap;
use std::ops::Range;

use super::composite::{Composite, composites};
use super::definition::alarms;
use super::evaluate::{AlarmState, INTERPRETATIONS, Interpretation, states};
use super::runs;
use super::series::Store;

/// A deed that is done in some minutes: in each so many-th, so many times.
type Doing = (&'static str, Range<usize>, usize, u32);

/// The series of a run of so many minutes.
fn run(minutes: usize, doings: &[Doing]) -> Store {
    let deeds_of = |minute: usize| {
        let due = doings.iter().filter(|(_, when, every, _)| when.contains(&minute) && minute.is_multiple_of(*every));
        due.map(|(deed, _, _, times)| (*deed, *times)).collect()
    };
    runs::series(&(0..minutes).map(deeds_of).collect::<Vec<_>>())
}

/// The states of a composite's parts in a run.
fn parts(composite: &Composite, store: &Store, minutes: i64, how: Interpretation) -> BTreeMap<String, Vec<AlarmState>> {
    let alarms = alarms();
    let of = |part: &String| (part.clone(), states(&alarms[part], store, minutes, how));
    composite.parts().into_iter().map(of).collect()
}

/// How often somebody is told in a run, and which parts stand at its end.
fn told(name: &str, minutes: usize, doings: &[Doing]) -> Vec<(usize, Vec<String>)> {
    let (composite, store) = (&composites()[name], run(minutes, doings));
    let of = |how: &Interpretation| {
        let states = parts(composite, &store, minutes as i64, *how);
        let standing = states.iter().filter(|(_, states)| states.last() == Some(&AlarmState::Alarm));
        (composite.told(&states).len(), standing.map(|(part, _)| part.clone()).collect())
    };
    INTERPRETATIONS.iter().map(of).collect()
}

fn each(times: usize, standing: &[&str]) -> Vec<(usize, Vec<String>)> {
    let standing: Vec<String> = standing.iter().map(|part| (*part).to_owned()).collect();
    vec![(times, standing); INTERPRETATIONS.len()]
}

/// One in a hundred may die: `success` of the leads is 99 %.
#[test]
fn somebody_is_told_once_that_a_budget_burns_fast_and_the_long_window_alone_tells_nobody() {
    let leads = ("a lead", 0..120, 1, 3);
    let bad_hour = told("SloBurnsFast", 120, &[leads.clone(), ("a lead that the CRM declines", 60..105, 1, 1)]);
    assert_eq!(bad_hour, each(1, &["SloFastHour"]), "one of four dies for three quarters of an hour; then it is over");
    let bad_minutes = told("SloBurnsFast", 120, &[leads, ("a lead that the CRM declines", 110..120, 1, 2)]);
    assert_eq!(bad_minutes, each(0, &["SloFastNow"]), "ten bad minutes");
}

#[test]
fn somebody_is_told_once_that_a_budget_burns_slowly_and_the_short_window_alone_tells_nobody() {
    let leads = ("a lead", 0..400, 4, 1);
    let bad_hours = told("SloBurnsSlow", 400, &[leads.clone(), ("a lead that the CRM declines", 100..340, 20, 1)]);
    assert_eq!(bad_hours, each(1, &["SloSlowQuarter"]), "one of six dies for four hours; then it is over");
    let bad_minutes = told("SloBurnsSlow", 400, &[leads, ("a lead that the CRM declines", 380..400, 5, 1)]);
    assert_eq!(bad_minutes, each(0, &["SloSlowNow"]), "four die in twenty minutes");
}

/// What `make deploy` does first, and again when it made the schedules: here after six minutes.
const FIRST_DEPLOY: Doing = ("make deploy begins", 0..7, 6, 1);

/// A stack whose first deploy takes six minutes, an hour long: what runs by itself has run no time before.
#[test]
fn a_new_stack_tells_nobody() {
    let store = run(60, &[FIRST_DEPLOY, ("the wake runs", 7..60, 1, 1), ("the schedule runs", 16..60, 8, 1)]);
    for how in INTERPRETATIONS {
        let states: BTreeMap<_, _> =
            alarms().into_iter().map(|(id, alarm)| (id, states(&alarm, &store, 60, how))).collect();
        let composites = composites();
        let heard = |id: &String| composites.values().any(|composite| composite.parts().contains(id));
        let stands = |id: &String| states[id].contains(&AlarmState::Alarm);
        // Its parameter names a source that sends already.
        let own: Vec<_> = states.keys().filter(|id| stands(id) && !heard(id) && *id != "SourceSilent").collect();
        assert_eq!(own, ["Deploying"], "{how:?}");
        for (name, composite) in &composites {
            assert!(composite.told(&states).is_empty(), "{name}, {how:?}");
        }
        assert!(stands(&"ScheduleNotRun".into()) && stands(&"WakeNotRun".into()), "{how:?}: nothing was held back");
    }
}

#[test]
fn somebody_is_told_of_schedules_that_never_run_once_the_first_deploy_is_over() {
    let wakes = ("the wake runs", 7..60, 1, 1);
    for doings in [vec![FIRST_DEPLOY], vec![FIRST_DEPLOY, wakes]] {
        let tellings = told("SchedulesStopped", 60, &doings);
        assert!(tellings.iter().all(|(times, parts)| *times == 1 && !parts.is_empty()), "{tellings:?}");
    }
}

/// A breaker counts when it opens. For as long as no event comes for its partner, nothing else does but the wake's gauge.
#[test]
fn an_open_breaker_is_in_sight_while_no_event_comes() {
    let outage =
        [("the partners are down", 5..6, 1, 1), ("a letter", 5..7, 1, 1), ("what waits is dropped", 8..60, 1, 1)];
    let wakes = ("the wake runs", 0..90, 1, 1);
    let watched = run(90, &[outage.to_vec(), vec![wakes]].concat());
    let unwatched = run(90, &outage);
    for how in INTERPRETATIONS {
        let state = |store: &Store| states(&alarms()["BreakerOpen"], store, 90, how).pop();
        assert_eq!(state(&watched), Some(AlarmState::Alarm), "{how:?}");
        assert_eq!(state(&unwatched), Some(AlarmState::Ok), "{how:?}: without the gauge nobody would see it");
    }
}

/// `infra/docs/OPERATE.md` says what the alarm adds to `TimeToSignal`: its period is how far back it looks, and no wait.
#[test]
fn a_dead_letter_is_told_in_the_minute_after_it_was_counted() {
    let store = run(20, &[("a lead that the CRM declines", 10..11, 1, 1)]);
    for how in INTERPRETATIONS {
        let states = states(&alarms()["DeadLetters"], &store, 20, how);
        let ended: Vec<usize> = (0..20).filter(|minute| states[*minute] == AlarmState::Alarm).collect();
        assert_eq!(ended.first(), Some(&10), "{how:?}: at the end of the same minute: {ended:?}");
    }
}
