//! The slots' and the breakers' contract.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use shared::adapters::aws::DynamoPressure;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::limits::pressure::{
    BreakerState, Breakers, FailureRun, Phase, SlotLeases, Slots, Swapped, TakeSlot, Taken,
};
use shared::model::ModelPressure;

use super::on_model_and_emulator;
use crate::fixtures::{NOW, aws};

fn model() -> ModelPressure {
    ModelPressure::default()
}

async fn emulator() -> DynamoPressure {
    let table = std::env::var("LEDGERLINE_LIMITS_TABLE").expect("make test names the table");
    DynamoPressure::new(&aws().await, table)
}

on_model_and_emulator!(
    the_first_take_makes_the_item,
    a_slot_is_taken_while_there_is_room,
    a_take_that_lands_twice_takes_one_slot,
    a_slot_that_is_given_back_is_free,
    giving_back_what_one_does_not_have_changes_nothing,
    the_leases_of_the_crashed_are_cleared_away_once,
    of_many_takers_at_once_no_more_win_than_there_are_slots,
    a_hundred_leases_lapse_at_once,
    a_breaker_that_nobody_wrote_is_unknown,
    a_breaker_comes_back_as_it_was_written,
    a_swap_of_a_breaker_that_moved_on_is_refused_and_shows_it,
    a_swap_that_lands_twice_is_written,
    of_many_swaps_at_once_one_lands,
);

/// A key that no other test and no earlier run knows.
fn fresh(name: &str) -> String {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    format!("contract/{name}-{unique}")
}

fn at(secs: u64) -> Timestamp {
    NOW + Duration::from_secs(secs)
}

fn leases(held: &[(&str, u64)]) -> SlotLeases {
    held.iter().map(|(holder, secs)| ((*holder).to_owned(), at(*secs))).collect()
}

fn blind(holder: &str, secs: u64, limit: u32) -> TakeSlot {
    TakeSlot::blind(holder.into(), at(secs), limit)
}

fn first(holder: &str, secs: u64) -> TakeSlot {
    blind(holder, secs, 1).knowing(None, 1, NOW).expect("there is room")
}

/// Slots of which these are taken.
async fn taken(slots: &impl Slots, name: &str, held: &[(&str, u64)]) -> String {
    let key = fresh(name);
    for (n, (holder, secs)) in held.iter().enumerate() {
        let take = if n == 0 { first(holder, *secs) } else { blind(holder, *secs, 1000) };
        assert_eq!(slots.take(&key, &take).await, Ok(Taken::Yours), "{holder}");
    }
    key
}

async fn the_first_take_makes_the_item(slots: impl Slots) {
    let key = fresh("first");
    assert_eq!(slots.take(&key, &blind("a", 30, 2)).await, Ok(Taken::Moved(None)), "and nothing is written");
    assert_eq!(slots.take(&key, &first("a", 30)).await, Ok(Taken::Yours));
    assert_eq!(slots.take(&key, &first("b", 30)).await, Ok(Taken::Moved(Some(leases(&[("a", 30)])))));
}

async fn a_slot_is_taken_while_there_is_room(slots: impl Slots) {
    let key = taken(&slots, "room", &[("a", 30)]).await;
    assert_eq!(slots.take(&key, &blind("b", 31, 2)).await, Ok(Taken::Yours));
    let full = leases(&[("a", 30), ("b", 31)]);
    assert_eq!(slots.take(&key, &blind("c", 32, 2)).await, Ok(Taken::Moved(Some(full))));
    assert_eq!(slots.take(&key, &blind("c", 32, 3)).await, Ok(Taken::Yours), "under a raised limit");
}

async fn a_take_that_lands_twice_takes_one_slot(slots: impl Slots) {
    let key = taken(&slots, "twice", &[("a", 30)]).await;
    assert_eq!(slots.take(&key, &first("a", 30)).await, Ok(Taken::Yours));
    assert_eq!(slots.take(&key, &blind("b", 30, 3)).await, Ok(Taken::Yours));
    assert_eq!(slots.take(&key, &blind("b", 30, 3)).await, Ok(Taken::Yours));
    assert_eq!(slots.take(&key, &blind("c", 30, 3)).await, Ok(Taken::Yours), "one was left");
}

async fn a_slot_that_is_given_back_is_free(slots: impl Slots) {
    let key = taken(&slots, "back", &[("a", 30)]).await;
    assert_eq!(slots.take(&key, &blind("b", 30, 1)).await, Ok(Taken::Moved(Some(leases(&[("a", 30)])))));
    assert_eq!(slots.give(&key, "a").await, Ok(()));
    assert_eq!(slots.take(&key, &blind("b", 30, 1)).await, Ok(Taken::Yours));
}

async fn giving_back_what_one_does_not_have_changes_nothing(slots: impl Slots) {
    assert_eq!(slots.give(&fresh("nothing"), "a").await, Ok(()));
    let key = taken(&slots, "others", &[("a", 30)]).await;
    assert_eq!(slots.give(&key, "b").await, Ok(()));
    assert_eq!(slots.take(&key, &blind("b", 30, 1)).await, Ok(Taken::Moved(Some(leases(&[("a", 30)])))));
}

async fn the_leases_of_the_crashed_are_cleared_away_once(slots: impl Slots) {
    let held = [("a", 10), ("b", 11), ("c", 40)];
    let key = taken(&slots, "crashed", &held).await;
    let over = |holder| blind(holder, 60, 3).knowing(Some(&leases(&held)), 3, at(11)).expect("two have lapsed");
    assert_eq!(slots.take(&key, &over("d")).await, Ok(Taken::Yours));
    let now = leases(&[("c", 40), ("d", 60)]);
    assert_eq!(slots.take(&key, &over("e")).await, Ok(Taken::Moved(Some(now))), "they are gone already");
    assert_eq!(slots.take(&key, &blind("e", 60, 3)).await, Ok(Taken::Yours));
}

async fn of_many_takers_at_once_no_more_win_than_there_are_slots(slots: impl Slots) {
    let key = taken(&slots, "race", &[("a", 10), ("b", 40)]).await;
    let found = leases(&[("a", 10), ("b", 40)]);
    let take = |n: u32| {
        let take = blind(&format!("taker-{n}"), 60, 5);
        // Half of them have seen that one has crashed.
        if n.is_multiple_of(2) { take } else { take.knowing(Some(&found), 5, at(20)).expect("there is room") }
    };
    let takes: Vec<TakeSlot> = (0..30).map(take).collect();
    let all = join_all(takes.iter().map(|take| slots.take(&key, take))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    let won = all.iter().filter(|taken| **taken == Ok(Taken::Yours)).count();
    let Ok(Taken::Moved(Some(leases))) = slots.take(&key, &blind("late", 60, 0)).await else { panic!("no room") };
    let crashed = usize::from(leases.held_by("a"));
    assert_eq!(leases.len(), 5, "{leases:?}");
    assert_eq!(won, 4 - crashed, "who won has a slot");
}

/// As many as an integration may have at once.
async fn a_hundred_leases_lapse_at_once(slots: impl Slots) {
    let holders: Vec<String> = (0..100).map(|n| format!("{n:016x}")).collect();
    let held: Vec<(&str, u64)> = holders.iter().map(|holder| (holder.as_str(), 10)).collect();
    let key = taken(&slots, "hundred", &held).await;
    let take = blind("late", 60, 100).knowing(Some(&leases(&held)), 100, at(10)).expect("all have lapsed");
    assert_eq!(slots.take(&key, &take).await, Ok(Taken::Yours));
    assert_eq!(slots.take(&key, &blind("x", 60, 1)).await, Ok(Taken::Moved(Some(leases(&[("late", 60)])))));
}

fn open(version: u64) -> BreakerState {
    let only = Some(EventId::named("an event"));
    let failing = Some(FailureRun { since: at(1), last: at(9), calls: 3, only });
    BreakerState {
        version,
        phase: Phase::Open { until: at(15), lost: 3 },
        slow_until: at(30),
        failing,
        answered_at: at(1),
    }
}

async fn a_breaker_that_nobody_wrote_is_unknown(breakers: impl Breakers) {
    let key = fresh("unknown");
    assert_eq!(breakers.read(&key).await, Ok(None));
    assert_eq!(breakers.swap(&key, 7, &open(8), NOW).await, Ok(Swapped::Moved(None)));
    assert_eq!(breakers.read(&key).await, Ok(None), "nothing was written");
}

async fn a_breaker_comes_back_as_it_was_written(breakers: impl Breakers) {
    let key = fresh("written");
    let phases = [
        Phase::healthy(),
        Phase::Closed { window: NOW, calls: 20, failures: 9 },
        Phase::Open { until: at(15), lost: 3 },
        Phase::HalfOpen { round: u64::MAX, sent: 3, passed: 1, until: at(30), lost: 7 },
    ];
    let mut seen = 0;
    for (phase, version) in phases.into_iter().zip([1, u64::MAX, 2, u64::MAX - 1]) {
        let next = BreakerState { version, phase, ..BreakerState::default() };
        assert_eq!(breakers.swap(&key, seen, &next, NOW).await, Ok(Swapped::Written));
        assert_eq!(breakers.read(&key).await, Ok(Some(next)));
        seen = version;
    }
}

async fn a_swap_of_a_breaker_that_moved_on_is_refused_and_shows_it(breakers: impl Breakers) {
    let key = fresh("moved-on");
    assert_eq!(breakers.swap(&key, 0, &open(1), NOW).await, Ok(Swapped::Written));
    for seen in [0, 3] {
        assert_eq!(breakers.swap(&key, seen, &open(2), NOW).await, Ok(Swapped::Moved(Some(open(1)))), "{seen}");
    }
    assert_eq!(breakers.swap(&key, 1, &open(2), NOW).await, Ok(Swapped::Written));
}

async fn a_swap_that_lands_twice_is_written(breakers: impl Breakers) {
    let key = fresh("again");
    for seen in [0, 1] {
        let next = open(seen + 1);
        assert_eq!(breakers.swap(&key, seen, &next, NOW).await, Ok(Swapped::Written));
        assert_eq!(breakers.swap(&key, seen, &next, NOW).await, Ok(Swapped::Written));
    }
}

async fn of_many_swaps_at_once_one_lands(breakers: impl Breakers) {
    let key = fresh("swaps");
    for seen in [0, 100] {
        let next: Vec<BreakerState> = (1..=20).map(|n| open(seen + n)).collect();
        let all = join_all(next.iter().map(|next| breakers.swap(&key, seen, next, NOW))).await;
        let landed: Vec<_> = all.iter().zip(&next).filter(|(swapped, _)| **swapped == Ok(Swapped::Written)).collect();
        assert_eq!(landed.len(), 1, "{all:?}");
        let is = landed[0].1;
        assert_eq!(breakers.swap(&key, is.version, &open(100), NOW).await, Ok(Swapped::Written));
    }
}
