//! How hard a fleet of containers presses on a partner, and what that costs, on a virtual clock.

use std::time::Duration;

use futures::future::join_all;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::limits::pressure::{
    BATCHES_HELD, Breaker, BreakerChange, CallEnd, Deferral, DeferralReason, Gate, Permit, Pressure, SLOW_FOR, Standing,
};
use shared::limits::rates::Rate;
use shared::model::{ModelChance, ModelLimits, ModelPressure};

use crate::fixtures::NOW;

const TIMEOUT: Duration = Duration::from_secs(10);

/// When a slot or a probe is given up: the time-out, and what happens around the call.
const LAPSED: Duration = Duration::from_secs(20);

fn at(millis: u64) -> Timestamp {
    NOW + Duration::from_millis(millis)
}

fn breaker(probes: u32) -> Pressure {
    let (window, open_for) = (Duration::from_secs(30), Duration::from_secs(15));
    let breaker = Breaker { window, min_calls: 20, error_rate: 0.5, open_for, probes };
    Pressure { breaker: Some(breaker), ..Pressure::default() }
}

fn standard() -> Pressure {
    Pressure { breaker: Some(Breaker::STANDARD), ..Pressure::default() }
}

fn slots(limit: u32) -> Pressure {
    Pressure { concurrency: Some(limit), ..Pressure::default() }
}

fn rate(count: u32) -> Pressure {
    Pressure { rate: Rate::new(count, Duration::from_secs(1), count).ok(), ..Pressure::default() }
}

/// Containers with one table between them, that call one partner.
struct Fleet {
    gates: Vec<Gate>,
    limits: ModelLimits,
    table: ModelPressure,
    pressure: Pressure,
}

impl Fleet {
    fn of(containers: usize, pressure: Pressure) -> Self {
        let (limits, table, chance) = (ModelLimits::default(), ModelPressure::default(), ModelChance::seeded(7));
        let gate = |_| {
            let (slots, breakers) = (Box::new(table.clone()), Box::new(table.clone()));
            Gate::new(Box::new(limits.clone()), slots, breakers, Box::new(chance.clone()))
        };
        Fleet { gates: (0..containers).map(gate).collect(), limits, table, pressure }
    }

    async fn enter(&self, container: usize, now: Timestamp) -> Result<Permit, Deferral> {
        self.gates[container].enter("crm", &self.pressure, TIMEOUT, now).await
    }

    /// A call that ends at once.
    async fn call(&self, container: usize, ended: CallEnd, now: Timestamp) -> Result<Option<BreakerChange>, Deferral> {
        let permit = self.enter(container, now).await?;
        Ok(self.gates[container].leave(permit, ended, now).await)
    }

    /// Fails until the breaker is open, in turn in each container. Says after how many calls.
    async fn break_it(&self, now: Timestamp) -> usize {
        for n in 0..1000 {
            if self.call(n % self.gates.len(), CallEnd::Failure, now).await == Ok(Some(BreakerChange::Opened)) {
                return n + 1;
            }
        }
        panic!("it never opened");
    }

    /// Reads, and writes.
    fn cost(&self) -> (usize, usize) {
        (self.table.reads(), self.table.writes() + self.limits.writes())
    }
}

fn why<T: std::fmt::Debug>(entered: Result<T, Deferral>) -> (DeferralReason, u128) {
    let deferral = entered.expect_err("deferred");
    (deferral.why, deferral.after.as_millis())
}

#[tokio::test]
async fn an_integration_without_limits_costs_no_call() {
    let fleet = Fleet::of(3, Pressure::default());
    for n in 0..1000 {
        let ended = if n % 2 == 0 { CallEnd::Success } else { CallEnd::Failure };
        assert_eq!(fleet.call(n % 3, ended, at(n as u64)).await, Ok(None));
    }
    assert_eq!(fleet.cost(), (0, 0));
}

#[tokio::test]
async fn a_healthy_integration_with_a_breaker_costs_no_write_and_a_read_each_three_seconds() {
    let fleet = Fleet::of(2, breaker(1));
    for n in 0..6000 {
        // One in fifty fails, but for each container's first calls: there is no share of nothing.
        let ended = if n % 50 == 49 { CallEnd::Failure } else { CallEnd::Success };
        assert_eq!(fleet.call(n / 25 % 2, ended, at(n as u64 * 10)).await, Ok(None));
    }
    let (reads, writes) = fleet.cost();
    assert_eq!(writes, 0);
    assert!(reads <= 2 * 20, "{reads} reads in a minute of two containers");
}

#[tokio::test]
async fn calls_at_once_share_one_read() {
    let fleet = Fleet::of(1, breaker(1));
    let entered = join_all((0..10).map(|_| fleet.enter(0, NOW))).await;
    assert!(entered.iter().all(Result::is_ok));
    assert_eq!(fleet.cost(), (1, 0));
}

#[tokio::test]
async fn a_slot_costs_a_write_to_take_and_one_to_give_back() {
    let fleet = Fleet::of(2, slots(3));
    assert_eq!(fleet.call(0, CallEnd::Success, NOW).await, Ok(None));
    assert_eq!(fleet.cost(), (0, 3), "the first one makes the item");
    for n in 0..100 {
        assert_eq!(fleet.call(n % 2, CallEnd::Success, at(n as u64)).await, Ok(None));
    }
    assert_eq!(fleet.cost(), (0, 3 + 200));
}

#[tokio::test]
async fn the_fleet_s_failures_open_it_for_everybody_at_once_the_volume_is_there() {
    for containers in [1, 2, 19, 40] {
        let fleet = Fleet::of(containers, breaker(1));
        assert_eq!(fleet.break_it(NOW).await, 20, "{containers} containers");
        let (_, writes) = fleet.cost();
        assert!(writes <= 40, "{containers} containers: {writes} writes");
        let later = at(3000);
        for container in 0..containers {
            assert_eq!(why(fleet.enter(container, later).await), (DeferralReason::BreakerOpen, 12_000));
        }
        let cost = fleet.cost();
        for n in 0..1000 {
            assert!(fleet.enter(n % containers, at(3000 + n as u64)).await.is_err());
        }
        assert_eq!(fleet.cost(), cost, "what is known to be open is not asked");
    }
}

/// A tenth of the containers fail each call, which is a tenth of all calls: not bad enough.
#[tokio::test]
async fn the_successes_of_the_others_keep_it_closed() {
    let fleet = Fleet::of(10, breaker(1));
    for n in 0..3000 {
        let ended = if n % 10 == 0 { CallEnd::Failure } else { CallEnd::Success };
        assert_eq!(fleet.call(n % 10, ended, at(n as u64 * 20)).await, Ok(None), "call {n}");
    }
    let (_, writes) = fleet.cost();
    assert!(writes <= 1000, "{writes} writes for 300 failures, and nine that report each second of sixty");
}

/// A failure that comes first in a window looks bad to its container, until the others have spoken.
#[tokio::test]
async fn a_failure_among_many_calls_costs_each_container_a_report_at_most() {
    let fleet = Fleet::of(10, breaker(1));
    for n in 0..3000 {
        let ended = if n == 0 { CallEnd::Failure } else { CallEnd::Success };
        assert_eq!(fleet.call(n % 10, ended, at(n as u64 * 9)).await, Ok(None));
    }
    let (_, writes) = fleet.cost();
    assert!(writes <= 20, "{writes} writes: each report at most refused once");
}

#[tokio::test]
async fn few_failures_among_answers_never_open_it() {
    let fleet = Fleet::of(3, breaker(1));
    for n in 0..190 {
        // 18 failures in each window of 30 seconds, and then an answer.
        let ended = if n % 19 == 18 { CallEnd::Success } else { CallEnd::Failure };
        let now = at(n as u64 / 19 * 30_000 + n as u64 % 19 * 1000);
        assert_eq!(fleet.call(n % 3, ended, now).await, Ok(None), "call {n}");
    }
}

/// Below the fewest calls of a window, failures in a row show it, over all containers.
#[tokio::test]
async fn few_failures_in_a_row_open_it_after_a_minute() {
    for (containers, every) in [(1, 20), (3, 20), (3, 600), (10, 3000)] {
        let fleet = Fleet::of(containers, standard());
        let mut opened = Vec::new();
        for n in 0..10_u64 {
            let now = at(n * every * 1000);
            if fleet.call(n as usize % containers, CallEnd::Failure, now).await == Ok(Some(BreakerChange::Opened)) {
                opened.push(n * every);
            }
        }
        let first = if every < 60 { 60 } else { 2 * every };
        assert_eq!(opened.first(), Some(&first), "{containers} containers, a failure each {every} s");
    }
}

/// One event that fails again and again may be what the partner does not take: nobody else waits for it.
#[tokio::test]
async fn the_failures_of_one_event_alone_never_open_it() {
    let fleet = Fleet::of(3, standard());
    let id = EventId::named("e".repeat(64));
    for n in 0..100_u64 {
        let gate = &fleet.gates[n as usize % 3];
        let permit = fleet.enter(n as usize % 3, at(n * 60_000)).await.expect("it is closed");
        assert_eq!(gate.leave(permit.used_for(&id), CallEnd::Failure, at(n * 60_000)).await, None);
    }
}

/// How a failed call is judged: by the answers since the call before it.
#[tokio::test]
async fn a_partner_that_answers_others_is_not_silent() {
    let fleet = Fleet::of(2, standard());
    let standing = async |container: usize, tried, now| fleet.gates[container].standing("crm", tried, now).await;
    fleet.call(0, CallEnd::Failure, NOW).await.expect("it is closed");
    assert_eq!(standing(0, None, NOW).await, Standing::Silent(Duration::from_secs(60)));
    fleet.call(0, CallEnd::Failure, at(6000)).await.expect("it is closed");
    assert_eq!(standing(0, Some(NOW), at(6000)).await, Standing::Silent(Duration::from_secs(54)));
    fleet.call(0, CallEnd::Success, at(70_000)).await.expect("it is closed");
    let cost = fleet.cost();
    fleet.call(0, CallEnd::Success, at(71_000)).await.expect("it is closed");
    assert_eq!(fleet.cost().1, cost.1, "one answer is told, in a later window");
    fleet.call(1, CallEnd::Failure, at(130_000)).await.expect("it is closed");
    assert_eq!(standing(1, Some(at(6000)), at(130_000)).await, Standing::Answering, "as the other has told");
    assert_eq!(standing(1, Some(at(80_000)), at(130_000)).await, Standing::Silent(Duration::from_secs(60)));
    fleet.break_it(at(131_000)).await;
    assert_eq!(standing(0, Some(at(80_000)), at(131_000)).await, Standing::Down { answered: false });
    assert_eq!(standing(0, Some(at(69_000)), at(131_000)).await, Standing::Down { answered: true });
}

#[tokio::test]
async fn a_half_open_breaker_lets_its_probes_through_and_nobody_else() {
    for probes in [1, 3] {
        let fleet = Fleet::of(10, breaker(probes));
        fleet.break_it(NOW).await;
        let then = at(15_000);
        let entered = join_all((0..100).map(|n| fleet.enter(n % 10, then))).await;
        let (sent, held): (Vec<_>, Vec<_>) = entered.into_iter().enumerate().partition(|(_, entered)| entered.is_ok());
        assert_eq!(sent.len(), probes as usize);
        assert!(held.into_iter().all(|(_, entered)| why(entered).0 == DeferralReason::BreakerOpen));
        let mut changes = Vec::new();
        for (n, entered) in sent {
            changes.push(fleet.gates[n % 10].leave(entered.expect("it was sent"), CallEnd::Success, then).await);
        }
        assert_eq!(changes.pop(), Some(Some(BreakerChange::Closed)), "with the last one");
        assert!(changes.iter().all(Option::is_none));
        for n in 0..100 {
            assert!(fleet.enter(n % 10, at(18_000)).await.is_ok());
        }
    }
}

#[tokio::test]
async fn a_probe_that_fails_opens_it_again_and_one_that_crashes_is_replaced() {
    let fleet = Fleet::of(2, breaker(1));
    fleet.break_it(NOW).await;
    assert_eq!(fleet.call(0, CallEnd::Failure, at(15_000)).await, Ok(Some(BreakerChange::Opened)));
    assert_eq!(why(fleet.enter(1, at(16_000)).await), (DeferralReason::BreakerOpen, 14_000));
    let crashed = fleet.enter(1, at(30_000)).await.expect("a probe");
    drop(crashed);
    assert_eq!(why(fleet.enter(0, at(30_000)).await), (DeferralReason::BreakerOpen, 3000));
    assert_eq!(fleet.call(0, CallEnd::Success, at(30_000) + LAPSED).await, Ok(Some(BreakerChange::Closed)));
}

#[tokio::test]
async fn a_call_that_was_not_made_says_nothing() {
    let fleet = Fleet::of(1, breaker(1));
    for _ in 0..100 {
        assert_eq!(fleet.call(0, CallEnd::Neutral, NOW).await, Ok(None));
    }
    assert_eq!(fleet.cost(), (1, 0));
    fleet.break_it(NOW).await;
    assert_eq!(fleet.call(0, CallEnd::Neutral, at(15_000)).await, Ok(None), "a probe that was not made");
    assert_eq!(
        fleet.call(0, CallEnd::Success, at(15_000)).await,
        Ok(Some(BreakerChange::Closed)),
        "makes room for another"
    );
}

#[tokio::test]
async fn slots_are_never_more_than_the_limit_and_come_back_after_a_crash() {
    let fleet = Fleet::of(4, slots(5));
    let entered = join_all((0..50).map(|n| fleet.enter(n % 4, NOW))).await;
    assert_eq!(entered.iter().filter(|entered| entered.is_ok()).count(), 5);
    let (_, writes) = fleet.cost();
    assert!(writes <= 6 + 4, "{writes}: a container that found none is quiet");
    drop(entered);
    for millis in [500, 19_999] {
        assert_eq!(why(fleet.enter(0, at(millis)).await), (DeferralReason::ConcurrencyFull, 1000));
    }
    let after = at(500) + LAPSED;
    let entered = join_all((0..50).map(|n| fleet.enter(n % 4, after))).await;
    assert_eq!(entered.iter().filter(|entered| entered.is_ok()).count(), 5, "the crashed made room");
}

#[tokio::test]
async fn who_gives_a_slot_back_may_take_it_again_at_once() {
    let fleet = Fleet::of(1, slots(1));
    let permit = fleet.enter(0, NOW).await.expect("the slot");
    assert_eq!(why(fleet.enter(0, NOW).await), (DeferralReason::ConcurrencyFull, 1000));
    fleet.gates[0].leave(permit, CallEnd::Success, at(10)).await;
    assert!(fleet.enter(0, at(10)).await.is_ok());
}

/// Every container learns of a slow partner from the breaker, and no more of them wait for it than its share.
#[tokio::test]
async fn a_slow_partner_holds_no_more_batches_than_its_share() {
    let fleet = Fleet::of(6, breaker(1));
    assert!(fleet.enter(0, NOW).await.is_ok(), "a quick partner needs no share");
    assert_eq!(fleet.cost(), (1, 0));
    fleet.gates[0].learn_slow("crm", &fleet.pressure, at(2000)).await;
    let entered = join_all((0..6).map(|container| fleet.enter(container, at(6000)))).await;
    assert_eq!(entered.iter().filter(|entered| entered.is_ok()).count(), BATCHES_HELD as usize);
    let exceeds = entered.into_iter().find(Result::is_err).expect("three too many");
    assert_eq!(why(exceeds), (DeferralReason::PartnerSlow, 5000));
    let again = at(2000) + SLOW_FOR;
    let entered = join_all((0..6).map(|container| fleet.enter(container, again))).await;
    assert!(entered.iter().all(Result::is_ok), "it was not slow lately");
}

/// Calls that began before anybody knew: as many batches as the share allows wait on, and the others are told to let go.
#[tokio::test]
async fn of_the_batches_that_a_partner_holds_when_it_begins_to_hang_the_share_waits_on() {
    let fleet = Fleet::of(6, Pressure::default());
    let timeout = Duration::from_secs(10);
    let stays = |container: usize, now| fleet.gates[container].stay("crm", timeout, now);
    let stayed = join_all((0..6).map(|container| stays(container, at(2000)))).await;
    assert_eq!(stayed.iter().filter(|stayed| **stayed == Ok(true)).count(), BATCHES_HELD as usize);
    let exceeds = stayed.iter().copied().find(Result::is_err).expect("three too many");
    assert_eq!(why(exceeds), (DeferralReason::PartnerSlow, 5000));
    assert_eq!(stays(0, at(2500)).await, Ok(true), "another group of the same batch");
    for _ in 0..2 {
        fleet.gates[0].go("crm", at(9000)).await;
    }
    assert_eq!(stays(5, at(9000)).await, Ok(true), "one batch has returned");
    fleet.table.down(true);
    assert_eq!(stays(4, at(9000)).await, Ok(false), "nobody can say that it is too much");
}

/// The groups of a batch wait side by side. Who comes after them would hold the batch for longer.
#[tokio::test]
async fn a_batch_waits_for_a_slow_partner_once() {
    let fleet = Fleet::of(1, Pressure::default());
    fleet.gates[0].learn_slow("crm", &fleet.pressure, NOW).await;
    let round = [fleet.enter(0, at(10)).await, fleet.enter(0, at(500)).await];
    assert_eq!(why(fleet.enter(0, at(1500)).await), (DeferralReason::PartnerSlow, 5000));
    for permit in round {
        fleet.gates[0].leave(permit.expect("one round"), CallEnd::Failure, at(10_000)).await;
    }
    assert_eq!(why(fleet.enter(0, at(10_900)).await), (DeferralReason::PartnerSlow, 5000));
    assert!(fleet.enter(0, at(11_000)).await.is_ok(), "that batch is over");
    assert_eq!(fleet.cost(), (0, 1 + 1 + 1 + 1), "the first share ever, its end, and another");
}

#[tokio::test]
async fn a_spent_rate_says_when_there_is_more() {
    let fleet = Fleet::of(1, rate(2));
    assert_eq!(fleet.call(0, CallEnd::Success, NOW).await, Ok(None));
    assert_eq!(fleet.call(0, CallEnd::Success, NOW).await, Ok(None));
    assert_eq!(why(fleet.enter(0, NOW).await), (DeferralReason::RateSpent, 500));
    assert!(fleet.enter(0, at(500)).await.is_ok());
}

/// With a slot, a token and a probe to get, whoever does not get the probe gives the slot back.
#[tokio::test]
async fn who_does_not_become_a_probe_holds_no_slot() {
    let all = Pressure { breaker: breaker(1).breaker, concurrency: Some(3), ..rate(1000) };
    let fleet = Fleet::of(3, all);
    fleet.break_it(NOW).await;
    let entered = join_all((0..3).map(|container| fleet.enter(container, at(15_000)))).await;
    assert_eq!(entered.iter().filter(|entered| entered.is_ok()).count(), 1);
    let closed = Fleet { pressure: slots(3), ..fleet };
    let free = join_all((0..3).map(|container| closed.enter(container, at(16_000)))).await;
    assert_eq!(free.iter().filter(|entered| entered.is_ok()).count(), 2, "the probe holds the third");
}

#[tokio::test]
async fn without_the_table_limits_defer_for_a_while_and_do_not_ask_meanwhile() {
    for pressure in [slots(5), rate(5)] {
        let fleet = Fleet::of(1, pressure);
        fleet.table.down(true);
        fleet.limits.down(true);
        assert_eq!(why(fleet.enter(0, NOW).await), (DeferralReason::LimitsUnavailable, 5000));
        let cost = fleet.cost();
        assert_eq!(why(fleet.enter(0, at(100)).await).0, DeferralReason::LimitsUnavailable);
        assert_eq!(fleet.cost(), cost);
        fleet.table.down(false);
        fleet.limits.down(false);
        assert!(fleet.enter(0, at(5000)).await.is_ok());
    }
}

#[tokio::test]
async fn without_the_table_each_container_has_a_breaker_of_its_own() {
    let fleet = Fleet::of(2, breaker(1));
    fleet.table.down(true);
    for _ in 0..19 {
        assert_eq!(fleet.call(0, CallEnd::Failure, NOW).await, Ok(None));
    }
    assert_eq!(fleet.call(0, CallEnd::Failure, NOW).await, Ok(Some(BreakerChange::Opened)));
    assert_eq!(why(fleet.enter(0, at(1000)).await), (DeferralReason::BreakerOpen, 14_000));
    assert_eq!(fleet.call(1, CallEnd::Success, at(1000)).await, Ok(None), "the other knows nothing of it");
    assert_eq!(
        fleet.call(0, CallEnd::Success, at(15_000)).await,
        Ok(Some(BreakerChange::Closed)),
        "and nothing stops for ever"
    );
}

#[tokio::test]
async fn when_the_table_is_back_it_knows_better() {
    let fleet = Fleet::of(2, breaker(1));
    assert_eq!(fleet.call(0, CallEnd::Success, NOW).await, Ok(None));
    fleet.break_it(NOW).await;
    fleet.table.down(true);
    assert_eq!(fleet.call(0, CallEnd::Success, at(15_000)).await, Ok(Some(BreakerChange::Closed)), "by itself");
    fleet.table.down(false);
    let probe = fleet.enter(1, at(16_000)).await.expect("a probe");
    assert_eq!(why(fleet.enter(0, at(20_000)).await).0, DeferralReason::BreakerOpen, "the probe is still out");
    assert_eq!(fleet.gates[1].leave(probe, CallEnd::Success, at(21_000)).await, Some(BreakerChange::Closed));
    assert!(fleet.enter(0, at(23_000)).await.is_ok());
}
