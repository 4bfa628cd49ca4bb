//! The items of rows and payloads in DynamoDB: values of senders and partners are JSON text.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_dynamo::aws_sdk_dynamodb_1::{from_item, to_item};
use tracing::warn;

use super::ledger::PORT;
use super::{number, text, unavailable};
use crate::arrival::event::Event;
use crate::base::errors::Unavailable;
use crate::base::format::{FORMAT, UNNUMBERED};
use crate::base::id::EventId;
use crate::ledger::Row;
use crate::ledger::json_text::unquoted;

pub(super) const ROW: &str = "event";
pub(super) const PAYLOAD: &str = "payload";

/// The beginning of the sort key of rows that a later event of the same key has put aside.
pub(super) const OLDER: &str = "event#";

pub(super) type Item = HashMap<String, AttributeValue>;

pub(super) fn key(id: &EventId, sort: &str) -> Item {
    HashMap::from([("pk".into(), text(id.as_str())), ("sk".into(), text(sort))])
}

/// The item of a row. Its key takes the place of the `id`.
pub(super) fn item(row: &Row) -> Result<Item, Unavailable> {
    let mut item = attributes_of(row)?;
    item.remove("id");
    item.extend(key(&row.id, ROW));
    Ok(item)
}

/// The item of a row that a later event of its key puts aside. It is found by its key alone.
pub(super) fn older_item(row: &Row) -> Result<Item, Unavailable> {
    let mut item = item(row)?;
    item.insert("sk".into(), text(&format!("{OLDER}{}", row.queued_at.millis())));
    Ok(item)
}

/// Whether a newer version of the code wrote the item.
pub(super) fn is_newer(item: &Item) -> bool {
    format_of(item) > FORMAT
}

/// The format that an item was written in.
pub(super) fn format_of(item: &Item) -> u32 {
    let format = item.get("format").and_then(|format| format.as_n().ok()?.parse().ok());
    format.unwrap_or(UNNUMBERED)
}

/// The item of an event's payload, with the replay and wake numbers that it is kept under.
pub(super) fn payload_item(event: &Event, expires_at: i64) -> Result<Item, Unavailable> {
    let mut item = key(&event.id, PAYLOAD);
    item.insert("event".into(), text(&json(event)?));
    item.insert("replay".into(), number(event.replay));
    item.extend((event.wake > 0).then(|| ("wake".into(), number(event.wake))));
    item.insert("expires_at".into(), number(expires_at));
    Ok(item)
}

pub(super) fn attributes_of(row: &Row) -> Result<Item, Unavailable> {
    let mut attributes: Item = to_item(row).map_err(unreadable)?;
    attributes.insert("format".into(), number(FORMAT));
    Ok(attributes)
}

/// The row of an item, of this format or an older one. A newer one is read as far as this version knows its fields; the
/// writes' conditions keep it as it is.
pub(super) fn row_of(mut item: Item) -> Result<Row, Unavailable> {
    let newer = is_newer(&item);
    if let Some(id) = item.remove("pk") {
        item.insert("id".into(), id);
    }
    let newer_wrote_it = || Unavailable { port: PORT, why: Unavailable::NEWER.into() };
    from_item(item).map_err(|error| if newer { newer_wrote_it() } else { unreadable(error) })
}

/// The row of an event, unless another source sent it: DynamoDB leaves that out, and answers as if there were none.
pub(super) async fn row_from(
    client: &Client,
    table: &str,
    source: &str,
    id: &EventId,
) -> Result<Option<Row>, Unavailable> {
    let query = client.query().table_name(table).consistent_read(true);
    let query = query.key_condition_expression("pk = :id AND sk = :row").filter_expression("#source = :source");
    let query = query.expression_attribute_names("#source", "source");
    let query = query.expression_attribute_values(":id", text(id.as_str()));
    let query =
        query.expression_attribute_values(":row", text(ROW)).expression_attribute_values(":source", text(source));
    let found = query.send().await.map_err(unavailable(PORT))?.items.unwrap_or_default();
    found.into_iter().next().map(row_of).transpose()
}

/// A row of a list, or why it is left out.
#[derive(Debug, PartialEq)]
pub(super) enum ListedItem {
    Row(Box<Row>),
    Unreadable(EventId),
    /// A newer version wrote it, and this one cannot read it.
    Newer,
}

/// A row of a list. A row that cannot be read must not hide all the others.
pub(super) fn listed_item(item: Item) -> ListedItem {
    let (newer, id) = (is_newer(&item), item.get("pk").and_then(|id| id.as_s().ok()).cloned());
    match row_of(item) {
        Ok(row) => ListedItem::Row(Box::new(row)),
        Err(error) => {
            warn!(event = id, %error, "a row of the ledger cannot be read; it is left out of the list");
            if newer { ListedItem::Newer } else { ListedItem::Unreadable(EventId::named(id.unwrap_or_default())) }
        }
    }
}

/// A row for people, if it can be read.
pub(super) fn readable(item: Item) -> Option<Row> {
    match listed_item(item) {
        ListedItem::Row(row) => Some(*row),
        ListedItem::Unreadable(_) | ListedItem::Newer => None,
    }
}

pub(super) fn json(value: &impl Serialize) -> Result<String, Unavailable> {
    serde_json::to_string(value).map_err(|error| unreadable(unquoted(&error)))
}

pub(super) fn from_json<T: DeserializeOwned>(text: Option<&AttributeValue>) -> Result<T, Unavailable> {
    let text = text.and_then(|text| text.as_s().ok()).map_or("", String::as_str);
    serde_json::from_str(text).map_err(|error| unreadable(unquoted(&error)))
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> Unavailable {
    Unavailable { port: PORT, why: format!("{}: {error}", Unavailable::UNREADABLE) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Timestamp;

    #[test]
    fn a_row_of_tomorrow_is_left_out_of_a_list_and_an_error_alone() {
        let row = Row::admitted(&Event::malformed("m", "", Timestamp::from_secs(1)), Timestamp::from_secs(1));
        let mut stored = item(&row).expect("an item");
        assert_eq!(readable(stored.clone()), Some(row));
        stored.insert("state".into(), text("a state of tomorrow"));
        assert_eq!(readable(stored.clone()), None);
        assert!(row_of(stored.clone()).is_err_and(|error| error.is_lasting() && !error.is_newer()));
        assert_eq!(listed_item(stored.clone()), ListedItem::Unreadable(EventId::named("m")), "it is told of by its id");
        stored.insert("format".into(), number(FORMAT + 1));
        assert!(row_of(stored.clone()).is_err_and(|error| error.is_newer() && !error.is_lasting()), "it is no fault");
        assert_eq!(listed_item(stored), ListedItem::Newer, "a newer version goes on with it");
    }

    /// Files of this format never change: older versions wrote them.
    #[test]
    fn a_row_that_is_put_aside_is_stored_as_it_always_was() {
        let text = include_str!("../../../../tests/formats/format-2/older-row.json");
        let stored: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let stored: Item = to_item(stored).expect("an item");
        let row = row_of(stored.clone()).expect("a row");
        assert!(row.state.is_settled() && row.id.as_str() == stored["pk"].as_s().expect("a text"));
        assert_eq!(older_item(&row).expect("an item"), stored);
    }

    #[test]
    fn an_error_quotes_nothing_of_what_is_stored() {
        let stored = text(r#""ada@example.com""#);
        let error = from_json::<Vec<u8>>(Some(&stored)).expect_err("it is no list");
        assert!(!error.to_string().contains("example.com"), "{error}");
        let row = Row::admitted(&Event::malformed("m", "", Timestamp::from_secs(1)), Timestamp::from_secs(1));
        let mut spoiled = item(&row).expect("an item");
        spoiled.insert("effects".into(), stored);
        let error = row_of(spoiled).expect_err("it has no effects");
        assert!(!error.to_string().contains("example.com"), "{error}");
    }
}
