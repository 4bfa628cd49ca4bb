//! The contacts on DynamoDB: one item each, one write for each upsert.
//!
//! A field is an attribute of its own name, and its stamp one of the same name behind `@`, which no field's name has.
//! `updated_at` is of items that were written before there were stamps; no write changes it any more.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure as OnFailure};

use crate::base::errors::Unavailable;
use crate::base::id::EventId;
use crate::base::time::Timestamp;
use crate::effects::contact::{Contact, ContactId, ContactUpsert, Contacts, FieldStamp, Fields, Scalar, Upserted};
use crate::flows::RESERVED_FIELDS;

use super::{number, refused_update, text, unavailable};

const PORT: &str = "the contacts";

/// The attributes that every upsert sets: the same for the same event, however often it is written.
const SET: &str = "SET #tenant = :tenant, #email = :email, \
    #created_at = if_not_exists(#created_at, :at), #created_by = if_not_exists(#created_by, :by)";

/// No change without a stamp is newer.
const NOT_CHANGED_UNSTAMPED: &str = "(attribute_not_exists(#updated_at) OR #updated_at <= :at)";

/// How often an upsert is written without the fields that were overtaken meanwhile.
const MAX_WRITES: u32 = 5;

/// The attribute of an operator's sign-off.
const SIGNED_OFF: &str = "@signed_off@";

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

    /// Writes an upsert where no field of it was overtaken, or else returns the contact as it is.
    async fn write(&self, change: &Change<'_>) -> Result<Result<Contact, Contact>, Unavailable> {
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(change.upsert.id().as_str()))
            .update_expression(change.expression())
            .set_condition_expression(change.condition())
            .set_expression_attribute_names(Some(change.names()))
            .set_expression_attribute_values(Some(change.values()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        match update.send().await {
            Ok(written) => Ok(Ok(contact(written.attributes.unwrap_or_default())?)),
            Err(error) => match refused_update(&error) {
                Some(known) => Ok(Err(contact(known.unwrap_or_default())?)),
                None => Err(unavailable(PORT)(error)),
            },
        }
    }
}

#[async_trait]
impl Contacts for DynamoContacts {
    async fn upsert(&self, upsert: &ContactUpsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable> {
        let stamp = FieldStamp::of(by, at);
        let id = upsert.id().clone();
        let upserted = |contact: Contact, overtaken| {
            let created = contact.created_by == *by;
            Upserted { id: id.clone(), created, fields: contact.fields, overtaken }
        };
        let mut rest = upsert.clone();
        let mut overtaken = BTreeSet::new();
        for round in 0..MAX_WRITES {
            let change = Change { upsert: &rest, by, at, stamp: &stamp, is_first: round == 0 };
            let known = match self.write(&change).await? {
                Ok(written) => return Ok(upserted(written, overtaken)),
                Err(known) => known,
            };
            // A stamp never goes back, so that what was overtaken stays so.
            overtaken = known.overtaken(upsert, &stamp);
            rest = upsert.clone().without(&overtaken);
            if rest.changes().next().is_none() {
                return Ok(upserted(known, overtaken));
            }
        }
        Err(Unavailable { port: PORT, why: "others changed the contact all the time".into() })
    }

    async fn read(&self, id: &ContactId) -> Result<Option<Contact>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).key("pk", text(id.as_str())).consistent_read(true);
        let found = get.send().await.map_err(unavailable(PORT))?.item;
        found.map(contact).transpose()
    }
}

/// One write of an upsert. Its placeholders are numbers, because many plain names are reserved words, and an
/// expression has at most 4 KB.
struct Change<'c> {
    upsert: &'c ContactUpsert,
    by: &'c EventId,
    at: Timestamp,
    stamp: &'c FieldStamp,
    /// Whether the contact was not seen yet. Then one that has a newer change without a stamp is not written, and so
    /// is seen.
    is_first: bool,
}

impl Change<'_> {
    fn expression(&self) -> String {
        let mut set = SET.to_owned();
        let mut removed = Vec::new();
        for (n, (_, value)) in self.upsert.changes().enumerate() {
            set += &format!(", #s{n} = :stamp");
            match value {
                Some(_) => set += &format!(", #f{n} = :f{n}"),
                None => removed.push(format!("#f{n}")),
            }
        }
        if self.upsert.sign_off().is_some() {
            set += ", #signed_off = :signed_off";
        }
        if removed.is_empty() { set } else { format!("{set} REMOVE {}", removed.join(", ")) }
    }

    /// No field has a newer change.
    fn condition(&self) -> Option<String> {
        let fields = 0..self.upsert.changes().count();
        let not_newer = fields.map(|n| format!("(attribute_not_exists(#s{n}) OR #s{n} <= :stamp)"));
        let first = self.is_first.then(|| NOT_CHANGED_UNSTAMPED.to_owned());
        let all: Vec<String> = first.into_iter().chain(not_newer).collect();
        (!all.is_empty()).then(|| all.join(" AND "))
    }

    fn names(&self) -> HashMap<String, String> {
        let ours = ["tenant", "email", "created_at", "created_by"].map(|name| (format!("#{name}"), name.to_owned()));
        let updated = self.is_first.then(|| ("#updated_at".to_owned(), "updated_at".to_owned()));
        let signed = self.upsert.sign_off().map(|_| ("#signed_off".to_owned(), SIGNED_OFF.to_owned()));
        let fields = self.upsert.changes().enumerate();
        let theirs = fields
            .flat_map(|(n, (name, _))| [(format!("#f{n}"), name.to_owned()), (format!("#s{n}"), stamp_name(name))]);
        ours.into_iter().chain(updated).chain(signed).chain(theirs).collect()
    }

    fn values(&self) -> Item {
        let ours = [
            (":tenant".to_owned(), text(self.upsert.tenant())),
            (":email".to_owned(), text(self.upsert.email())),
            (":by".to_owned(), text(self.by.as_str())),
            (":at".to_owned(), number(self.at.millis())),
        ];
        let signed = self.upsert.sign_off().map(|sign_off| (":signed_off".to_owned(), text(sign_off)));
        let fields = self.upsert.changes().enumerate();
        let theirs = fields.filter_map(|(n, (_, value))| Some((format!(":f{n}"), attribute(value?))));
        let stamp = self.upsert.changes().next().map(|_| (":stamp".to_owned(), text(self.stamp.as_str())));
        ours.into_iter().chain(signed).chain(stamp).chain(theirs).collect()
    }
}

fn stamp_name(field: &str) -> String {
    format!("@{field}")
}

fn attribute(value: &Scalar) -> AttributeValue {
    match value {
        Scalar::Text(value) => text(value),
        Scalar::Number(value) => number(value),
        Scalar::Bool(value) => AttributeValue::Bool(*value),
    }
}

fn contact(mut item: Item) -> Result<Contact, Unavailable> {
    let signed_off = item.remove(SIGNED_OFF).and_then(|value| value.as_s().ok().cloned());
    let created_by = item.get("created_by").and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
    let unstamped_at = item.get("updated_at").and_then(|value| value.as_n().ok()?.parse().ok());
    let (stamps, fields): (Item, Item) = item.into_iter().partition(|(name, _)| name.starts_with('@'));
    let stamps = stamps.into_iter().map(|(name, value)| {
        let stamp = value.as_s().ok().and_then(|text| FieldStamp::parse(text)).ok_or_else(unreadable)?;
        Ok((name.trim_start_matches('@').to_owned(), stamp))
    });
    Ok(Contact {
        created_by: EventId::named(created_by),
        stamps: stamps.collect::<Result<_, Unavailable>>()?,
        fields: set_fields(fields)?,
        unstamped_at: unstamped_at.map(Timestamp::from_millis),
        signed_off,
    })
}

fn set_fields(item: Item) -> Result<Fields, Unavailable> {
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

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    /// DynamoDB takes 4 KB of an expression, and 300 operators in one.
    #[test]
    fn the_largest_upsert_fits_into_its_expressions() {
        let fields: Map<String, Value> = (0..32).map(|n| (format!("f{n:063}"), json!("x"))).collect();
        let upsert =
            ContactUpsert::new("acme", "ada@example.com", &fields).expect("the most fields of the longest names");
        let (by, at) = (EventId::named("evt_1"), Timestamp::from_secs(1));
        let change = Change { upsert: &upsert, by: &by, at, stamp: &FieldStamp::of(&by, at), is_first: true };
        let condition = change.condition().expect("a condition");
        assert!(change.expression().len() < 4096 && condition.len() < 4096);
        let operators =
            [" OR ", " AND ", "<=", "attribute_not_exists"].map(|operator| condition.matches(operator).count());
        assert!(operators.iter().sum::<usize>() < 300, "{operators:?}");
    }

    #[test]
    fn an_item_from_before_there_were_stamps_is_read() {
        let item = [
            ("pk", text("c1")),
            ("tenant", text("acme")),
            ("email", text("ada@example.com")),
            ("created_by", text("evt_1")),
            ("created_at", number(4000)),
            ("updated_at", number(5000)),
            ("consent_email", AttributeValue::Bool(false)),
        ];
        let known = contact(item.map(|(name, value)| (name.to_owned(), value)).into()).expect("a contact");
        assert_eq!(known.fields.keys().collect::<Vec<_>>(), ["consent_email"]);
        assert_eq!(known.changed_at("consent_email"), Some(Timestamp::from_secs(5)));
        assert_eq!((known.changed_at("first_name"), known.stamps.len()), (None, 0));
    }
}
