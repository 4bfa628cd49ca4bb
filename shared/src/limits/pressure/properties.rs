//! Properties of breakers and slots, for any schedule.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::breaker::BreakerEntry;
use super::{Breaker, CallEnd, Phase, SlotLeases, TakeSlot};
use crate::base::time::Timestamp;

const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

const HOLD: Duration = Duration::from_secs(20);

fn breaker(probes: u32) -> Breaker {
    Breaker {
        window: Duration::from_secs(30),
        min_calls: 4,
        error_rate: 0.5,
        open_for: Duration::from_secs(15),
        probes,
    }
}

/// A half-open breaker, the probes that are out, and what has happened since it opened.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Trial {
    phase: String,
    out: Vec<(u64, i64)>,
    millis: i64,
}

/// Every order in which probes can be sent, come back, crash and outlive their round, to this depth.
fn explore(phase: &Phase, out: &[(u64, i64)], millis: i64, depth: u32, seen: &mut BTreeSet<Trial>) {
    let trial = Trial { phase: format!("{phase:?}"), out: out.to_vec(), millis };
    if depth == 0 || phase.is_closed() || !seen.insert(trial) {
        return;
    }
    let (breaker, now) = (breaker(2), Timestamp::from_millis(NOW.millis() + millis));
    // Those that are still believed to be at work. A crashed one is not, once its time is over.
    let at_work = out.iter().filter(|(_, until)| *until > millis).count();
    match phase.entry(&breaker, HOLD, seen.len() as u64, now) {
        BreakerEntry::Free => panic!("it is not closed"),
        BreakerEntry::Probe(next) => {
            assert!(at_work < 2, "{phase:?} sends a third while {out:?} are out, at {millis}");
            let Phase::HalfOpen { round, sent, .. } = next else { panic!("a probe makes it half-open") };
            assert!(sent <= 2);
            let more = [out, &[(round, millis + 20_000)]].concat();
            explore(&next, &more, millis, depth - 1, seen);
        }
        BreakerEntry::Wait(wait) => assert!(wait > Duration::ZERO && wait <= breaker.open_for),
    }
    for (n, (round, _)) in out.iter().enumerate() {
        let mut rest = [&out[..n], &out[n + 1..]].concat();
        for ended in [CallEnd::Success, CallEnd::Neutral, CallEnd::Failure] {
            let next = phase.probed(*round, ended, &breaker, now).unwrap_or_else(|| phase.clone());
            if matches!(next, Phase::Open { .. }) {
                // The others of a round that failed are what calls in flight are when it first opens.
                rest.iter_mut().for_each(|(_, until)| *until = millis);
            }
            explore(&next, &rest, millis, depth - 1, seen);
        }
    }
    for step in [7_000, 15_000] {
        explore(phase, out, millis + step, depth - 1, seen);
    }
}

#[test]
fn a_half_open_breaker_never_has_more_probes_out_than_it_may() {
    let mut seen = BTreeSet::new();
    explore(&Phase::Open { until: NOW + Duration::from_secs(15), lost: 0 }, &[], 0, 9, &mut seen);
    assert!(seen.len() > 1000, "{} states", seen.len());
}

#[test]
fn as_many_successes_as_probes_close_it_and_one_failure_opens_it_again() {
    let (two, later) = (breaker(2), NOW + Duration::from_secs(20));
    let send = |phase: &Phase| match phase.entry(&two, HOLD, 7, later) {
        BreakerEntry::Probe(next) => next,
        other => panic!("{other:?}"),
    };
    let both = send(&send(&Phase::Open { until: later, lost: 0 }));
    assert_eq!(both.entry(&two, HOLD, 8, later), BreakerEntry::Wait(Duration::from_secs(3)));
    let one = both.probed(7, CallEnd::Success, &two, later).expect("it is of this round");
    assert!(!one.is_closed());
    assert_eq!(one.probed(7, CallEnd::Success, &two, later), Some(Phase::healthy()));
    let again = Phase::Open { until: later + two.open_for, lost: 0 };
    assert_eq!(one.probed(7, CallEnd::Failure, &two, later), Some(again.clone()));
    assert_eq!(again.probed(7, CallEnd::Success, &two, later), None, "the round is over");
    let spare = one.probed(7, CallEnd::Neutral, &two, later).expect("it is of this round");
    assert!(matches!(spare.entry(&two, HOLD, 8, later), BreakerEntry::Probe(_)), "another goes in its place");
}

#[test]
fn a_probe_that_crashed_is_waited_for_and_then_replaced() {
    let one = breaker(1);
    let BreakerEntry::Probe(sent) = (Phase::Open { until: NOW, lost: 0 }).entry(&one, HOLD, 7, NOW) else {
        panic!("it is time")
    };
    let just_before = Timestamp::from_millis((NOW + HOLD).millis() - 1);
    assert_eq!(sent.entry(&one, HOLD, 8, just_before), BreakerEntry::Wait(Duration::from_millis(1)));
    let BreakerEntry::Probe(next) = sent.entry(&one, HOLD, 8, NOW + HOLD) else { panic!("it has crashed") };
    assert_eq!(next.probed(7, CallEnd::Failure, &one, NOW + HOLD), None, "what it says is history");
}

/// Reports of some calls and failures, each so many milliseconds after the one before.
fn reports() -> impl Strategy<Value = Vec<(i64, u32, u32)>> {
    prop::collection::vec((0i64..20_000, 0u32..4, 0u32..4), 1..60)
}

proptest! {
    #[test]
    fn it_opens_when_a_window_holds_enough_calls_and_failures_and_not_before(reports in reports()) {
        let breaker = breaker(1);
        let (mut phase, mut millis, mut window, mut counted) = (Phase::healthy(), NOW.millis(), NOW, (0, 0));
        for (step, successes, failures) in reports {
            millis += step;
            let now = Timestamp::from_millis(millis);
            if window != now.floor(breaker.window) {
                (window, counted) = (now.floor(breaker.window), (0, 0));
            }
            counted = (counted.0 + successes + failures, counted.1 + failures);
            phase = phase.counted(window, (successes + failures, failures), &breaker, now).expect("it is closed");
            let enough = counted.0 >= 4 && counted.1 * 2 >= counted.0;
            prop_assert_eq!(!phase.is_closed(), enough, "{:?}", counted);
            if enough {
                prop_assert_eq!(phase.counted(window, (9, 9), &breaker, now), None, "what comes late is history");
                break;
            }
        }
    }

    #[test]
    fn what_a_slow_clock_reports_is_history(behind in 1u64..100) {
        let breaker = breaker(1);
        let phase = Phase::Closed { window: NOW.floor(breaker.window), calls: 3, failures: 1 };
        let window = Timestamp::from_millis(NOW.millis() - 30_000 * i64::try_from(behind).expect("a small number"));
        prop_assert_eq!(phase.counted(window.floor(breaker.window), (9, 9), &breaker, NOW), None);
    }

    /// Takers that act on leases that they saw at any time before, holders that give back or crash, and
    /// limits that change.
    #[test]
    fn slots_never_exceed_the_limit_and_the_crashed_come_back(
        moves in prop::collection::vec((0u8..4, 0usize..8, 0u64..9, 1u32..=4), 1..120),
    ) {
        let (mut leases, mut now) = (None::<SlotLeases>, NOW);
        let mut seen: Vec<Option<SlotLeases>> = vec![None];
        let mut at_work: Vec<(String, Timestamp)> = Vec::new();
        for (n, (act, which, secs, limit)) in moves.into_iter().enumerate() {
            match act {
                0 => now = now + Duration::from_secs(secs),
                1 if !at_work.is_empty() => {
                    let (holder, _) = at_work.swap_remove(which % at_work.len());
                    leases.as_mut().map(|leases| leases.give(&holder));
                }
                _ => {
                    let blind = TakeSlot::blind(format!("{n}"), now + HOLD, limit);
                    let known = &seen[seen.len() - 1 - which % seen.len()];
                    let take = if act == 2 { Some(blind) } else { blind.knowing(known.as_ref(), limit, now) };
                    if let Some(next) = take.as_ref().and_then(|take| take.applied_to(leases.as_ref())) {
                        leases = Some(next);
                        at_work.push((format!("{n}"), now + HOLD));
                        let working = at_work.iter().filter(|(_, until)| *until > now).count();
                        prop_assert!(working <= limit as usize, "{} of {}", working, limit);
                    }
                }
            }
            seen.push(leases.clone());
        }
        // All holders crash: the next one finds room.
        now = now + HOLD;
        let take = TakeSlot::blind("last".into(), now + HOLD, 1).knowing(leases.as_ref(), 1, now).expect("there is room");
        prop_assert!(take.applied_to(leases.as_ref()).is_some_and(|leases| leases.len() == 1));
    }
}
