//! Retry budgets: the retries that all events of one contact share.
//!
//! Each retry that a budget allows takes one of its `count` slots, for a whole window. A slot is taken
//! by one conditional write on it alone, so it is never taken twice in one window. The guarantee, for any
//! number of containers and any schedule: **in any stretch of time as long as the window, wherever it
//! begins, at most `count` retries are allowed.** A counter for each full hour would be one number
//! instead of `count`, but allows twice as many around the hour.
//!
//! A write that lands twice takes two slots, and so does a worker that crashed before it recorded its
//! retry: fewer retries than there should be, never more. A clock that goes back finds slots taken,
//! never free. A budget that is changed at run time holds in full one old window later.
//!
//! Deliberately absent: a read before the write, and giving a slot back.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::base::errors::Unavailable;
use crate::base::time::{DurationText, Timestamp};
use crate::base::wrong::Wrong;

/// A contact's retry budget: at most `count` retries in any stretch of time as long as the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// How many retries one contact has within the window.
    pub count: u32,
    /// How long a retry counts.
    #[serde(with = "DurationText")]
    pub window: Duration,
}

/// A budget's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// The retry is allowed.
    Allowed {
        /// The number of retries that are still allowed now.
        left: u32,
    },
    /// The contact's retries are spent.
    Exhausted {
        /// The moment when the next retry is allowed.
        until: Timestamp,
    },
}

/// The slots of one contact's budget: until when each was last taken.
pub type BudgetSlots = BTreeMap<u32, Timestamp>;

/// The name of a contact's budget. The contact is a hash, such as the event's group or a
/// [`ContactId`](crate::effects::contact::ContactId): names are visible in the table's metrics.
pub fn key(flow: &str, contact: &str) -> String {
    format!("budget/{flow}/{contact}")
}

impl Budget {
    /// The mistakes in the budget's configuration.
    pub fn check(&self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        if !(1..=MAX_COUNT).contains(&self.count) {
            let what = format!("retry.budget_per_contact.count must be from 1 to {MAX_COUNT}");
            wrong.push(Wrong::at("/count", what));
        }
        if !(MIN_WINDOW..=MAX_WINDOW).contains(&self.window) {
            wrong.push(Wrong::at("/window", "retry.budget_per_contact.window must be from 1s to 168h"));
        }
        wrong
    }

    /// The slot to try first, when nothing is known: another one from millisecond to millisecond, so
    /// that a contact's second retry seldom tries the slot of its first.
    pub fn guess(&self, now: Timestamp) -> u32 {
        let count = i64::from(self.count.max(1));
        u32::try_from(now.millis().rem_euclid(count)).unwrap_or_default()
    }

    /// A slot that is free, or the moment when the first one will be.
    pub fn free(&self, slots: &BudgetSlots, now: Timestamp) -> Result<u32, Timestamp> {
        let free = (0..self.count).find(|slot| is_free(slots, *slot, now));
        free.ok_or_else(|| slots.range(..self.count).map(|(_, until)| *until).min().unwrap_or(now))
    }

    /// The number of slots that are free.
    pub fn left(&self, slots: &BudgetSlots, now: Timestamp) -> u32 {
        (0..self.count).map(|slot| u32::from(is_free(slots, slot, now))).sum()
    }

    /// The end of a slot that is taken now.
    pub fn until(&self, now: Timestamp) -> Timestamp {
        now + self.window
    }

    /// The moment from which on the slots may be forgotten, in seconds since the Unix epoch: by then they are free
    /// on every clock.
    pub fn expires_at(&self, now: Timestamp) -> i64 {
        (self.until(now) + CLOCK_SLACK).secs()
    }
}

/// Whether a slot is free: it was never taken, or its window is over. The adapters' conditions say the same.
fn is_free(slots: &BudgetSlots, slot: u32, now: Timestamp) -> bool {
    slots.get(&slot).is_none_or(|until| *until <= now)
}

/// The largest `count`: all slots are one item, which stays under 1 KB.
const MAX_COUNT: u32 = 50;

const MIN_WINDOW: Duration = Duration::from_secs(1);
const MAX_WINDOW: Duration = Duration::from_secs(7 * 24 * 3600);

/// The largest difference between two containers' clocks.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// The store of retry budgets.
#[async_trait]
pub trait Budgets: Send + Sync {
    /// Takes one retry from the budget at this key, if there is one. Conditional writes, no read: one
    /// as a rule, and one more for each slot that another worker took first.
    ///
    /// A write that lands twice takes two: fewer retries than there should be, never more.
    async fn spend(&self, key: &str, budget: &Budget, now: Timestamp) -> Result<Spending, Unavailable>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    fn budget(count: u32, secs: u64) -> Budget {
        Budget { count, window: Duration::from_secs(secs) }
    }

    fn after(secs: u64) -> Timestamp {
        NOW + Duration::from_secs(secs)
    }

    #[test]
    fn a_slot_is_free_again_when_its_window_is_over() {
        let budget = budget(2, 60);
        let mut slots = BudgetSlots::from([(0, after(60))]);
        assert_eq!((budget.free(&slots, NOW), budget.left(&slots, NOW)), (Ok(1), 1));
        slots.insert(1, after(70));
        assert_eq!((budget.free(&slots, after(59)), budget.left(&slots, after(59))), (Err(after(60)), 0));
        assert_eq!((budget.free(&slots, after(60)), budget.left(&slots, after(60))), (Ok(0), 1));
    }

    #[test]
    fn slots_beyond_a_smaller_budget_are_not_looked_at() {
        let slots = BudgetSlots::from([(0, after(60)), (4, after(10))]);
        assert_eq!(budget(1, 60).free(&slots, NOW), Err(after(60)));
    }

    #[test]
    fn slots_are_kept_until_they_are_free_on_every_clock() {
        assert_eq!(budget(5, 3600).expires_at(NOW), NOW.secs() + 3660);
    }

    #[test]
    fn a_budget_without_bounds_is_refused() {
        assert_eq!(budget(5, 3600).check(), []);
        for bad in [budget(0, 60), budget(51, 60), budget(5, 0), budget(5, 8 * 24 * 3600)] {
            assert_eq!(bad.check().len(), 1, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_stretch_as_long_as_the_window_sees_more(count in 1u32..6, steps in prop::collection::vec(0u64..40, 1..80)) {
            let budget = budget(count, 60);
            let (mut slots, mut allowed, mut at) = (BudgetSlots::new(), Vec::new(), 0);
            for step in steps {
                at += step;
                if let Ok(slot) = budget.free(&slots, after(at)) {
                    slots.insert(slot, budget.until(after(at)));
                    allowed.push(at);
                }
            }
            for start in &allowed {
                let within = allowed.iter().filter(|at| (*start..start + 60).contains(*at)).count();
                prop_assert!(within <= count as usize);
            }
        }
    }
}
