//! The contacts' retry budgets on DynamoDB: one item each, one attribute for each slot.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure as OnFailure};

use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::limits::budget::{Budget, BudgetSlots, Budgets, Spending};

use super::{number, refused_update, unavailable};

const PORT: &str = "the budgets";

/// The slot was never taken, or its window is over. [`Budget::free`] says the same.
const FREE: &str = "attribute_not_exists(#slot) OR #slot <= :now";
const TAKE: &str = "SET #slot = :until, expires_at = :expires_at";

/// The prefix of the slots' attributes: `slot0`, `slot1` and so on.
const SLOT: &str = "slot";

type Item = HashMap<String, AttributeValue>;

/// The budgets in the limits' table.
#[derive(Clone, Debug)]
pub struct DynamoBudgets {
    client: Client,
    table: String,
}

impl DynamoBudgets {
    /// The budgets in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self { client: Client::new(aws), table: table.into() }
    }

    /// Takes one slot. Returns all slots afterwards, or, where the condition failed, all slots as they are.
    async fn take(
        &self,
        key: &str,
        slot: u32,
        budget: &Budget,
        now: Timestamp,
    ) -> Result<Result<BudgetSlots, BudgetSlots>, Unavailable> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(key.to_owned()))
            .update_expression(TAKE)
            .condition_expression(FREE)
            .expression_attribute_names("#slot", format!("{SLOT}{slot}"))
            .expression_attribute_values(":now", number(now.millis()))
            .expression_attribute_values(":until", number(budget.until(now).millis()))
            .expression_attribute_values(":expires_at", number(budget.expires_at(now)))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        match update.send().await {
            Ok(taken) => Ok(Ok(slots(&taken.attributes.unwrap_or_default()))),
            Err(error) => match refused_update(&error) {
                Some(taken) => Ok(Err(taken.as_ref().map(slots).unwrap_or_default())),
                None => Err(unavailable(PORT)(error)),
            },
        }
    }
}

#[async_trait]
impl Budgets for DynamoBudgets {
    async fn spend(&self, key: &str, budget: &Budget, now: Timestamp) -> Result<Spending, Unavailable> {
        let mut slot = budget.guess(now);
        // A slot whose condition failed is taken for good, as far as `now` goes. So each failure leaves one slot
        // less to try, and the last one finds them all taken.
        for _ in 0..=budget.count {
            match self.take(key, slot, budget, now).await? {
                Ok(slots) => return Ok(Spending::Allowed { left: budget.left(&slots, now) }),
                Err(slots) => match budget.free(&slots, now) {
                    Ok(free) => slot = free,
                    Err(until) => return Ok(Spending::Exhausted { until }),
                },
            }
        }
        Err(Unavailable { port: PORT, why: "slots are taken and free at once".into() })
    }
}

fn slots(item: &Item) -> BudgetSlots {
    let slot = |(name, value): (&String, &AttributeValue)| {
        let until = value.as_n().ok()?.parse().ok()?;
        Some((name.strip_prefix(SLOT)?.parse().ok()?, Timestamp::from_millis(until)))
    };
    item.iter().filter_map(slot).collect()
}
