//! Properties of rates, for any schedule.

use std::time::Duration;

use proptest::prelude::*;

use super::gcra::{available, cost};
use super::{Draw, Rate, RateVerdict, Tat, decide};
use crate::base::time::Timestamp;

const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

/// Everything that [`Rate::new`] lets through, in its proportions.
fn rates() -> impl Strategy<Value = Rate> {
    let per = prop_oneof![Just(1), Just(60), Just(3600)];
    (1u32..=2000, per, 1u32..=200)
        .prop_filter_map("a good rate", |(count, secs, burst)| Rate::new(count, Duration::from_secs(secs), burst).ok())
}

/// Draws for a clock that steps by up to two seconds, now and then by minutes.
fn schedule(back: i64) -> impl Strategy<Value = Vec<(i64, u32)>> {
    let step = prop_oneof![4 => back..=20i64, 4 => back..=2000i64, 1 => back..=600_000i64];
    prop::collection::vec((step, 0u32..=20), 1..80)
}

/// The grants on this schedule: the time and the number of each.
fn granted(rate: &Rate, schedule: Vec<(i64, u32)>) -> Vec<(i64, u32)> {
    let (mut tat, mut now, mut grants) = (Tat::LONG_AGO, NOW.millis(), Vec::new());
    for (step, want) in schedule {
        now += step;
        if let RateVerdict::Granted { tat: next, tokens } = decide(tat, rate, want, Timestamp::from_millis(now)) {
            assert!(next > tat, "the number never goes back");
            assert!((1..=want.max(1)).contains(&tokens));
            tat = next;
            grants.push((now, tokens));
        }
    }
    grants
}

fn most(rate: &Rate, millis: i64) -> i64 {
    i64::from(rate.burst()) + millis * 1000 / rate.interval()
}

proptest! {
    #[test]
    fn no_window_holds_more_than_the_burst_and_its_time_s_worth(rate in rates(), schedule in schedule(0)) {
        let grants = granted(&rate, schedule);
        for (first, (start, _)) in grants.iter().enumerate() {
            let mut sum = 0;
            for (end, tokens) in &grants[first..] {
                sum += i64::from(*tokens);
                prop_assert!(sum <= most(&rate, end - start), "{sum} in {} ms", end - start);
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_gains_nothing(rate in rates(), schedule in schedule(-5000)) {
        let grants = granted(&rate, schedule);
        let sum: i64 = grants.iter().map(|(_, tokens)| i64::from(*tokens)).sum();
        let (first, last) = (grants.iter().map(|g| g.0).min(), grants.iter().map(|g| g.0).max());
        prop_assert!(sum <= most(&rate, last.unwrap_or(0) - first.unwrap_or(0)));
    }

    #[test]
    fn whoever_waits_as_told_is_granted_and_not_before(rate in rates(), taken in 1u32..=200, lag in 0i64..5000) {
        let now = Timestamp::from_millis(NOW.millis() + lag);
        let tat = Tat::at(NOW).plus(cost(&rate, taken));
        if let RateVerdict::Denied { retry_after } = decide(tat, &rate, 1, now) {
            let millis = i64::try_from(retry_after.as_micros().div_ceil(1000)).expect("a short time");
            let then = Timestamp::from_millis(now.millis() + millis);
            let granted = matches!(decide(tat, &rate, 1, then), RateVerdict::Granted { tokens: 1, .. });
            prop_assert!(granted);
            let before = Timestamp::from_millis(then.millis() - 1);
            let denied = matches!(decide(tat, &rate, 1, before), RateVerdict::Denied { .. });
            prop_assert!(denied);
        }
    }

    /// Others may have drawn since the bucket was seen. A draw that lands takes what it would have
    /// taken on the current state; one that fails was wrong about the bucket.
    #[test]
    fn a_draw_lands_only_where_the_bucket_grants_it(
        rate in rates(), want in 1u32..=20, seen in -3000i64..100_000, since in 0i64..100_000,
    ) {
        let tat = |millis: i64| Tat::at(NOW).plus(millis * 1000);
        let (seen, is) = (tat(seen), tat(seen + since));
        if let RateVerdict::Granted { tokens, .. } = decide(seen, &rate, want, NOW) {
            let verdict = decide(is, &rate, tokens, NOW);
            let enough = matches!(verdict, RateVerdict::Granted { tokens: all, .. } if all == tokens);
            for draw in [Draw::of(seen, &rate, tokens, NOW), Draw::from_rest(&rate, tokens, NOW)] {
                let guess = matches!(draw, Draw::Full { .. }) == (is <= Tat::at(NOW));
                match draw.applied_to(Some(is)) {
                    Some(tat) => prop_assert_eq!(verdict, RateVerdict::Granted { tat, tokens }),
                    None => prop_assert!(!enough || !guess),
                }
            }
        }
    }

    #[test]
    fn nothing_overflows(rate in rates(), tat: i64, now: i64, want: u32) {
        for tat in [tat, i64::MIN, i64::MAX] {
            for now in [now, i64::MIN, i64::MAX].map(Timestamp::from_millis) {
                decide(Tat::from_micros(tat), &rate, want, now);
                prop_assert!(available(Tat::from_micros(tat), &rate, now) <= rate.burst());
                let draw = Draw::of(Tat::from_micros(tat), &rate, want, now);
                draw.applied_to(Some(Tat::from_micros(tat)));
                draw.expires_at();
            }
        }
    }
}
