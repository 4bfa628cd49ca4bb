//! The anchors on DynamoDB: one item for each key with a window, beside the rows in the ledger's table.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure as OnFailure};

use super::ledger::names;
use super::ledger_items::Item;
use super::{number, refused_update, text, unavailable};
use crate::arrival::window::{Anchors, MAX_ANCHORS, Sighting, Windows};
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

const PORT: &str = "the window";

/// The sighting comes behind all anchors, and there is room for it. [`Anchors::end_before`] says the same.
const BEHIND_ALL: &str = "attribute_not_exists(pk) OR (#newest < :from AND size(#moments) < :most)";
const APPEND: &str = "SET #moments = list_append(if_not_exists(#moments, :none), :moments), #newest = :newest, \
    #expires_at = :expires_at ADD #version :one";

/// No other delivery has written the anchors since they were seen.
const UNCHANGED: &str = "#version = :seen";
const REPLACE: &str = "SET #moments = :moments, #newest = :newest, #version = :version, #expires_at = :expires_at";
const REPLACE_AND_FORGET: &str = "SET #moments = :moments, #newest = :newest, #version = :version, \
    #expires_at = :expires_at, #forgotten = :forgotten";

/// The anchors in the ledger's table.
#[derive(Clone, Debug)]
pub struct DynamoWindows {
    client: Client,
    table: String,
}

impl DynamoWindows {
    /// The anchors in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self { client: Client::new(aws), table: table.into() }
    }

    /// The write of some moments behind the others, or in their place.
    fn update(&self, sighting: &Sighting, moments: &[Timestamp]) -> UpdateItemFluentBuilder {
        let newest = moments.last().unwrap_or(&sighting.moment);
        self.client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key(sighting)))
            .expression_attribute_values(":moments", list(moments))
            .expression_attribute_values(":newest", number(newest.millis()))
            .expression_attribute_values(":expires_at", number(sighting.expires_at))
            .return_values_on_condition_check_failure(OnFailure::AllOld)
    }
}

#[async_trait]
impl Windows for DynamoWindows {
    async fn append(&self, sighting: &Sighting) -> Result<Result<(), Anchors>, Unavailable> {
        let update = self
            .update(sighting, &[sighting.moment])
            .update_expression(APPEND)
            .condition_expression(BEHIND_ALL)
            .set_expression_attribute_names(Some(names(&[APPEND, BEHIND_ALL])))
            .expression_attribute_values(":none", list(&[]))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":from", number(sighting.from().millis()))
            .expression_attribute_values(":most", number(MAX_ANCHORS));
        written(update).await
    }

    async fn replace(&self, sighting: &Sighting, next: &Anchors) -> Result<Result<(), Anchors>, Unavailable> {
        let change = if next.forgotten.is_some() { REPLACE_AND_FORGET } else { REPLACE };
        let update = self
            .update(sighting, &next.moments)
            .update_expression(change)
            .condition_expression(UNCHANGED)
            .set_expression_attribute_names(Some(names(&[change, UNCHANGED])))
            .expression_attribute_values(":version", number(next.version))
            .expression_attribute_values(":seen", number(next.version.saturating_sub(1)));
        written(match next.forgotten {
            Some(forgotten) => update.expression_attribute_values(":forgotten", number(forgotten.millis())),
            None => update,
        })
        .await
    }
}

/// The item's key. The intake's role may update the items of this prefix, and no row.
fn key(sighting: &Sighting) -> Item {
    HashMap::from([("pk".into(), text(&format!("window/{}", sighting.key))), ("sk".into(), text("window"))])
}

/// Sends a write, and returns the anchors that are there if its condition failed.
async fn written(update: UpdateItemFluentBuilder) -> Result<Result<(), Anchors>, Unavailable> {
    match update.send().await {
        Ok(_) => Ok(Ok(())),
        Err(error) => match refused_update(&error) {
            Some(Some(item)) => Ok(Err(anchors(&item).ok_or_else(unreadable)?)),
            // DynamoDB has just deleted what was there.
            Some(None) => Ok(Err(Anchors::default())),
            None => Err(unavailable(PORT)(error)),
        },
    }
}

fn list(moments: &[Timestamp]) -> AttributeValue {
    AttributeValue::L(moments.iter().map(|moment| number(moment.millis())).collect())
}

fn anchors(item: &Item) -> Option<Anchors> {
    let moments = item.get("moments")?.as_l().ok()?.iter().map(moment).collect::<Option<_>>()?;
    let forgotten = item.get("forgotten").map(|value| moment(value).ok_or(())).transpose().ok()?;
    let version = item.get("version")?.as_n().ok()?.parse().ok()?;
    Some(Anchors { moments, forgotten, version })
}

fn moment(value: &AttributeValue) -> Option<Timestamp> {
    value.as_n().ok()?.parse().ok().map(Timestamp::from_millis)
}

fn unreadable() -> Unavailable {
    Unavailable { port: PORT, why: "its item is not readable".into() }
}
