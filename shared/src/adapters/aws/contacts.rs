//! The contacts on DynamoDB: one item each, one write for each upsert.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};

use crate::base::errors::Unavailable;
use crate::base::id::EventId;
use crate::base::time::Timestamp;
use crate::effects::contact::{ContactId, ContactUpsert, Contacts, Fields, Scalar, Upserted};
use crate::flows::RESERVED_FIELDS;

use super::{text, unavailable};

const PORT: &str = "the contacts";

/// The attributes that every upsert sets: the same for the same event, however often it is written.
const SET: &str = "SET #tenant = :tenant, #email = :email, #updated_at = :at, \
    #created_at = if_not_exists(#created_at, :at), #created_by = if_not_exists(#created_by, :by)";

type Item = HashMap<String, AttributeValue>;

/// The contacts' table.
#[derive(Clone, Debug)]
pub struct DynamoContacts {
    client: Client,
    table: String,
}

impl DynamoContacts {
    /// The contacts in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self { client: Client::new(aws), table: table.into() }
    }
}

#[async_trait]
impl Contacts for DynamoContacts {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(upsert.id().as_str()))
            .update_expression(expression(upsert))
            .set_expression_attribute_names(Some(names(upsert)))
            .set_expression_attribute_values(Some(values(upsert, by, at)))
            .return_values(ReturnValue::AllNew);
        let item = update.send().await.map_err(unavailable(PORT))?.attributes.unwrap_or_default();
        let created = item.get("created_by") == Some(&text(by.as_str()));
        Ok(Upserted { id: upsert.id().clone(), created, fields: fields(item)? })
    }

    async fn find(&self, id: &ContactId) -> Result<Option<Fields>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).key("pk", text(id.as_str())).consistent_read(true);
        let found = get.send().await.map_err(unavailable(PORT))?.item;
        found.map(fields).transpose()
    }
}

fn expression(upsert: &ContactUpsert) -> String {
    let (set, removed): (Vec<_>, Vec<_>) = upsert.changes().partition(|(_, value)| value.is_some());
    let set: String = set.iter().map(|(name, _)| format!(", #{name} = :{name}_")).collect();
    let removed: Vec<String> = removed.iter().map(|(name, _)| format!("#{name}")).collect();
    let remove = if removed.is_empty() { String::new() } else { format!(" REMOVE {}", removed.join(", ")) };
    format!("{SET}{set}{remove}")
}

/// The placeholders of names, for many plain ones are reserved words.
fn names(upsert: &ContactUpsert) -> HashMap<String, String> {
    let ours = ["tenant", "email", "updated_at", "created_at", "created_by"];
    let theirs = upsert.changes().map(|(name, _)| name);
    ours.into_iter().chain(theirs).map(|name| (format!("#{name}"), name.to_owned())).collect()
}

/// The placeholders of values. A field's value ends with `_`, so that a field `at` or `by` is not taken for ours.
fn values(upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Item {
    let ours = [
        (":tenant".to_owned(), text(upsert.tenant())),
        (":email".to_owned(), text(upsert.email())),
        (":by".to_owned(), text(by.as_str())),
        (":at".to_owned(), AttributeValue::N(at.millis().to_string())),
    ];
    let theirs = upsert.changes().filter_map(|(name, value)| Some((format!(":{name}_"), attribute(value?))));
    ours.into_iter().chain(theirs).collect()
}

fn attribute(value: &Scalar) -> AttributeValue {
    match value {
        Scalar::Text(value) => text(value),
        Scalar::Number(value) => AttributeValue::N(value.to_string()),
        Scalar::Bool(value) => AttributeValue::Bool(*value),
    }
}

fn fields(item: Item) -> Result<Fields, Unavailable> {
    let theirs = item.into_iter().filter(|(name, _)| !RESERVED_FIELDS.contains(&name.as_str()));
    theirs.map(|(name, value)| Ok((name, scalar(value).ok_or_else(unreadable)?))).collect()
}

fn scalar(value: AttributeValue) -> Option<Scalar> {
    match value {
        AttributeValue::S(text) => Some(Scalar::Text(text)),
        AttributeValue::N(number) => Some(Scalar::Number(number.parse().ok()?)),
        AttributeValue::Bool(value) => Some(Scalar::Bool(value)),
        _ => None,
    }
}

fn unreadable() -> Unavailable {
    Unavailable { port: PORT, why: "a contact is not readable".into() }
}
