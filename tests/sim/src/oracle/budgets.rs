//! Retries that a contact's events share.

use shared::base::errors::Unavailable;
use shared::base::time::Timestamp;
use shared::limits::budget::{self, Budget, Spending};

use super::{CLOCKS, Oracle, RETRY_BUDGET, violated};
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;

/// What was spent of one budget.
#[derive(Default)]
pub(super) struct BudgetUse {
    allowed: Vec<Timestamp>,
    /// Retries that were made because nobody could be asked, as the product says that it does.
    unbudgeted: u32,
    retries: u32,
}

impl BudgetUse {
    /// The last retry was none: its partner refused our credentials.
    pub(super) fn take_back(&mut self) {
        self.retries = self.retries.saturating_sub(1);
    }
}

impl Oracle {
    /// The budget answered to a question of `now`, which may have been long under way.
    pub(crate) fn spent(
        &self,
        key: &str,
        budget: &Budget,
        spending: &Result<Spending, Unavailable>,
        now: Timestamp,
        scheduler: &Scheduler,
    ) {
        if self.blind {
            return;
        }
        let Ok(Spending::Allowed { .. }) = spending else { return };
        let mut seen = self.seen();
        let spent = seen.budgets.entry(key.to_owned()).or_default();
        spent.allowed.push(now);
        let window = budget.window.saturating_sub(CLOCKS);
        // A question may be older than others that were answered before it, so every stretch of time is judged.
        spent.allowed.sort_unstable();
        let too_many = budget.count as usize + 1;
        if spent.allowed.windows(too_many).any(|near| near[too_many - 1].since(near[0]) < window) {
            scheduler.violated(violated(RETRY_BUDGET, format!("{key}: {too_many} in {window:?}")));
        }
    }

    /// Nobody could be asked.
    pub(crate) fn unbudgeted(&self, key: &str) {
        if self.blind {
            return;
        }
        self.seen().budgets.entry(key.to_owned()).or_default().unbudgeted += 1;
    }

    /// An effect is called again. Its budget must have been asked, or its last worker was lost.
    pub(super) fn retried(&self, flow: &str, group: &str) -> Result<(), BrokenInvariant> {
        if self.flows(flow).all(|flow| flow.retry.budget_per_contact.is_none()) {
            return Ok(());
        }
        let mut seen = self.seen();
        let of_group = seen.events.values().filter(|known| known.group == group);
        let lost: u32 = of_group.map(|known| known.takeovers_ever).sum();
        let spent = seen.budgets.entry(budget::key(flow, group)).or_default();
        spent.retries += 1;
        let allowed = u32::try_from(spent.allowed.len()).unwrap_or(u32::MAX) + spent.unbudgeted + lost;
        match spent.retries {
            retries if retries <= allowed => Ok(()),
            retries => Err(violated(RETRY_BUDGET, format!("{group}: {retries} retries, {allowed} allowed"))),
        }
    }
}
