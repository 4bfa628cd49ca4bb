//! The contract of the contacts' retry budgets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use shared::adapters::aws::DynamoBudgets;
use shared::base::time::Timestamp;
use shared::limits::budget::{Budget, Budgets, Spending, key};
use shared::model::ModelBudgets;

use super::on_model_and_emulator;
use crate::fixtures::{NOW, aws};

fn model() -> ModelBudgets {
    ModelBudgets::default()
}

async fn emulator() -> DynamoBudgets {
    let table = std::env::var("LEDGERLINE_LIMITS_TABLE").expect("make test names the table");
    DynamoBudgets::new(&aws().await, table)
}

on_model_and_emulator!(
    a_budget_is_spent_one_by_one,
    what_was_spent_comes_back_a_window_later,
    around_a_full_hour_there_is_no_second_budget,
    a_clock_that_goes_back_gains_nothing,
    of_many_at_once_no_more_are_allowed_than_the_budget_has,
    of_many_at_different_moments_no_more_are_allowed_either,
    contacts_do_not_know_of_one_another,
    a_larger_budget_holds_at_once,
);

/// Five an hour, as the story has it.
const BUDGET: Budget = Budget { count: 5, window: Duration::from_secs(3600) };

fn after(secs: u64) -> Timestamp {
    NOW + Duration::from_secs(secs)
}

/// A contact that no other test and no earlier run knows.
fn fresh(name: &str) -> String {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    key("cart-recovery", &format!("{name}-{unique}"))
}

async fn spend(budgets: &impl Budgets, contact: &str, secs: u64) -> Spending {
    budgets.spend(contact, &BUDGET, after(secs)).await.expect("an answer")
}

async fn a_budget_is_spent_one_by_one(budgets: impl Budgets) {
    let contact = fresh("one-by-one");
    for left in (0..5).rev() {
        assert_eq!(spend(&budgets, &contact, 0).await, Spending::Allowed { left });
    }
    assert_eq!(spend(&budgets, &contact, 0).await, Spending::Exhausted { until: after(3600) });
}

async fn what_was_spent_comes_back_a_window_later(budgets: impl Budgets) {
    let contact = fresh("comes-back");
    for (secs, left) in [(0, 4), (600, 3), (600, 2), (1200, 1), (1800, 0)] {
        assert_eq!(spend(&budgets, &contact, secs).await, Spending::Allowed { left }, "{secs}");
    }
    assert_eq!(spend(&budgets, &contact, 3599).await, Spending::Exhausted { until: after(3600) });
    assert_eq!(spend(&budgets, &contact, 3600).await, Spending::Allowed { left: 0 });
    assert_eq!(spend(&budgets, &contact, 3600).await, Spending::Exhausted { until: after(4200) });
    assert_eq!(spend(&budgets, &contact, 4200).await, Spending::Allowed { left: 1 });
}

async fn around_a_full_hour_there_is_no_second_budget(budgets: impl Budgets) {
    let contact = fresh("full-hour");
    let hour = 3600 - u64::try_from(NOW.secs() % 3600).expect("after 1970");
    for _ in 0..5 {
        assert!(matches!(spend(&budgets, &contact, hour - 1).await, Spending::Allowed { .. }));
    }
    assert_eq!(spend(&budgets, &contact, hour + 1).await, Spending::Exhausted { until: after(hour - 1 + 3600) });
}

async fn a_clock_that_goes_back_gains_nothing(budgets: impl Budgets) {
    let contact = fresh("goes-back");
    for _ in 0..5 {
        spend(&budgets, &contact, 60).await;
    }
    assert_eq!(spend(&budgets, &contact, 0).await, Spending::Exhausted { until: after(3660) });
}

async fn of_many_at_once_no_more_are_allowed_than_the_budget_has(budgets: impl Budgets) {
    let contact = fresh("race");
    let mut left = allowed(&budgets, &contact, |_| NOW).await;
    left.sort_unstable();
    assert_eq!(left, [0, 1, 2, 3, 4], "each knows what it left");
    assert!(matches!(spend(&budgets, &contact, 0).await, Spending::Exhausted { .. }));
}

/// Their clocks differ, so they try different slots first.
async fn of_many_at_different_moments_no_more_are_allowed_either(budgets: impl Budgets) {
    let contact = fresh("clocks");
    let moments = |n| NOW + Duration::from_millis(n);
    assert_eq!(allowed(&budgets, &contact, moments).await.len(), 5);
}

async fn contacts_do_not_know_of_one_another(budgets: impl Budgets) {
    let (one, other) = (fresh("one"), fresh("other"));
    for _ in 0..6 {
        spend(&budgets, &one, 0).await;
    }
    assert_eq!(spend(&budgets, &other, 0).await, Spending::Allowed { left: 4 });
}

async fn a_larger_budget_holds_at_once(budgets: impl Budgets) {
    let contact = fresh("larger");
    for _ in 0..6 {
        spend(&budgets, &contact, 0).await;
    }
    let larger = Budget { count: 7, ..BUDGET };
    assert_eq!(budgets.spend(&contact, &larger, NOW).await, Ok(Spending::Allowed { left: 1 }));
}

/// Fifty spend at once: what was left behind each that was allowed.
async fn allowed(budgets: &impl Budgets, contact: &str, moment: impl Fn(u64) -> Timestamp) -> Vec<u32> {
    let spent = join_all((0..50).map(|n| budgets.spend(contact, &BUDGET, moment(n)))).await;
    let left = |spending| match spending {
        Spending::Allowed { left } => Some(left),
        Spending::Exhausted { .. } => None,
    };
    spent.into_iter().filter_map(|spending| left(spending.expect("an answer"))).collect()
}
