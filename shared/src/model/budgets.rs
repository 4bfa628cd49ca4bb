//! The contacts' retry budgets in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::locked;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::limits::budget::{Budget, BudgetSlots, Budgets, Spending};

/// The contacts' retry budgets in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelBudgets(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    budgets: BTreeMap<String, BudgetSlots>,
    asked: usize,
    down: bool,
}

impl ModelBudgets {
    /// The number of reads and writes that were tried.
    pub fn asked(&self) -> usize {
        locked(&self.0).asked
    }

    /// Takes the table down, or brings it back.
    pub fn down(&self, down: bool) {
        locked(&self.0).down = down;
    }
}

#[async_trait]
impl Budgets for ModelBudgets {
    async fn spend(&self, key: &str, budget: &Budget, now: Timestamp) -> Result<Spending, Unavailable> {
        let mut table = locked(&self.0);
        table.asked += 1;
        if table.down {
            return Err(Unavailable { port: "the budgets", why: "down".into() });
        }
        let slots = table.budgets.entry(key.to_owned()).or_default();
        match budget.free(slots, now) {
            Ok(slot) => {
                slots.insert(slot, budget.until(now));
                Ok(Spending::Allowed { left: budget.left(slots, now) })
            }
            Err(until) => Ok(Spending::Exhausted { until }),
        }
    }
}
