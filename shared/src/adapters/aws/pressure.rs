//! Slots and breakers on DynamoDB: one item each, one conditional write for each change.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure as OnFailure};
use serde_dynamo::aws_sdk_dynamodb_1::{from_item, to_attribute_value};

use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::limits::pressure::{BreakerState, Breakers, SlotLeases, Slots, Swapped, TakeSlot, Taken};

use super::{limits::client, number, refused_update, unavailable};

const PORT: &str = "the limits";

/// The item was never written. [`TakeSlot::applied_to`] says the same.
const UNKNOWN: &str = "attribute_not_exists(pk)";
const FIRST: &str = "SET leases = :leases, expires_at = :expires_at";

/// There is room, and the holder has no slot yet: a write that is repeated takes one slot. For each lapsed lease, a
/// part is added that it is still the same. [`TakeSlot::applied_to`] says the same.
const ROOM: &str = "attribute_exists(pk) AND size(leases) < :below AND attribute_not_exists(leases.#holder)";
const TAKE: &str = "SET leases.#holder = :until, expires_at = :expires_at";

/// The holder still has its slot.
const HELD: &str = "attribute_exists(leases.#holder)";
const GIVE: &str = "REMOVE leases.#holder";

/// The breaker is the version that was seen. Zero was [`UNKNOWN`].
const SEEN: &str = "version = :seen";
const SWAP: &str = "SET version = :version, phase = :phase, slow_until = :slow_until, failing = :failing, \
    answered_at = :answered_at, expires_at = :expires_at";

/// How long an unused item is kept: by then every lease has lapsed, and no breaker is open.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Slots and breakers, in the limits' table.
#[derive(Clone, Debug)]
pub struct DynamoPressure {
    client: Client,
    table: String,
}

type Item = HashMap<String, AttributeValue>;

impl DynamoPressure {
    /// The slots and breakers in this table, with the same timeouts as its buckets.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self { client: client(aws), table: table.into() }
    }

    fn update(&self, key: &str) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(key.to_owned()))
            .return_values_on_condition_check_failure(OnFailure::AllOld)
    }
}

#[async_trait]
impl Slots for DynamoPressure {
    async fn take(&self, slots: &str, take: &TakeSlot) -> Result<Taken, Unavailable> {
        let update = self.update(slots).expression_attribute_values(":expires_at", expires_at(take.until));
        let update = match take.below {
            None => first(update, take),
            Some(below) => within(update, take, below),
        };
        let Some(found) = refused(update.send().await)? else { return Ok(Taken::Yours) };
        match found.map(leases).transpose()? {
            Some(leases) if leases.held_by(&take.holder) => Ok(Taken::Yours),
            leases => Ok(Taken::Moved(leases)),
        }
    }

    async fn give(&self, slots: &str, holder: &str) -> Result<(), Unavailable> {
        let update = self.update(slots).update_expression(GIVE).condition_expression(HELD);
        refused(update.expression_attribute_names("#holder", holder).send().await)?;
        Ok(())
    }
}

fn first(update: UpdateItemFluentBuilder, take: &TakeSlot) -> UpdateItemFluentBuilder {
    let leases = HashMap::from([(take.holder.clone(), number(take.until.millis()))]);
    update
        .update_expression(FIRST)
        .condition_expression(UNKNOWN)
        .expression_attribute_values(":leases", AttributeValue::M(leases))
}

fn within(mut update: UpdateItemFluentBuilder, take: &TakeSlot, below: usize) -> UpdateItemFluentBuilder {
    let (mut condition, mut removed) = (ROOM.to_owned(), Vec::new());
    for (n, (holder, until)) in take.lapsed.iter().enumerate() {
        condition.push_str(&format!(" AND leases.#l{n} = :l{n}"));
        removed.push(format!("leases.#l{n}"));
        update = update
            .expression_attribute_names(format!("#l{n}"), holder)
            .expression_attribute_values(format!(":l{n}"), number(until.millis()));
    }
    let remove = if removed.is_empty() { String::new() } else { format!(" REMOVE {}", removed.join(", ")) };
    update
        .update_expression(format!("{TAKE}{remove}"))
        .condition_expression(condition)
        .expression_attribute_names("#holder", &take.holder)
        .expression_attribute_values(":until", number(take.until.millis()))
        .expression_attribute_values(":below", number(below))
}

#[async_trait]
impl Breakers for DynamoPressure {
    async fn read(&self, breaker: &str) -> Result<Option<BreakerState>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).key("pk", AttributeValue::S(breaker.to_owned()));
        let got = get.send().await.map_err(unavailable(PORT))?;
        got.item.map(state).transpose()
    }

    async fn swap(
        &self,
        breaker: &str,
        seen: u64,
        next: &BreakerState,
        now: Timestamp,
    ) -> Result<Swapped, Unavailable> {
        let phase = to_attribute_value(&next.phase).map_err(|_| unreadable())?;
        let failing = to_attribute_value(&next.failing).map_err(|_| unreadable())?;
        let update = self
            .update(breaker)
            .update_expression(SWAP)
            .expression_attribute_values(":version", number(next.version))
            .expression_attribute_values(":phase", phase)
            .expression_attribute_values(":slow_until", number(next.slow_until.millis()))
            .expression_attribute_values(":failing", failing)
            .expression_attribute_values(":answered_at", number(next.answered_at.millis()))
            .expression_attribute_values(":expires_at", expires_at(now));
        let update = match seen {
            0 => update.condition_expression(UNKNOWN),
            _ => update.condition_expression(SEEN).expression_attribute_values(":seen", number(seen)),
        };
        let Some(found) = refused(update.send().await)? else { return Ok(Swapped::Written) };
        match found.map(state).transpose()? {
            Some(found) if found.version == next.version => Ok(Swapped::Written),
            found => Ok(Swapped::Moved(found)),
        }
    }
}

/// The stored item, if an update's condition failed; there may be none.
fn refused<T, R>(updated: Result<T, SdkError<UpdateItemError, R>>) -> Result<Option<Option<Item>>, Unavailable>
where
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let Err(error) = updated else { return Ok(None) };
    match refused_update(&error) {
        Some(item) => Ok(Some(item)),
        None => Err(unavailable(PORT)(error)),
    }
}

fn leases(item: Item) -> Result<SlotLeases, Unavailable> {
    let leases = item.get("leases").and_then(|leases| leases.as_m().ok()).ok_or_else(unreadable)?;
    let lease = |(holder, until): (&String, &AttributeValue)| {
        let millis = until.as_n().ok()?.parse().ok()?;
        Some((holder.clone(), Timestamp::from_millis(millis)))
    };
    leases.iter().map(lease).collect::<Option<_>>().ok_or_else(unreadable)
}

fn state(item: Item) -> Result<BreakerState, Unavailable> {
    from_item(item).map_err(|_| unreadable())
}

fn expires_at(used: Timestamp) -> AttributeValue {
    number((used + KEPT).secs())
}

fn unreadable() -> Unavailable {
    Unavailable { port: PORT, why: "a slot or a breaker is not readable".into() }
}
