//! Waiting events on DynamoDB: their lists in the index, and the lines of entities as items beside the rows.

use async_trait::async_trait;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};

use super::ledger::{DynamoLedger, PORT, cancelled, names};
use super::ledger_items::{Item, payload_item, unreadable};
use super::{number, text, unavailable};
use crate::arrival::event::Event;
use crate::base::errors::{Unavailable, WriteError};
use crate::base::id::EventId;
use crate::base::time::Timestamp;
use crate::ledger::{Closed, InLine, Line, Lines, Listed, PassedOver, WaitsFor};

/// All items of a line.
const OF_LINE: &str = "pk = :line";

/// The event has not joined its line again since.
const NOT_JOINED_AGAIN: &str = "#wake <= :wake";

#[async_trait]
impl Lines for DynamoLedger {
    /// The SDK sends its repetitions under one token, so that a write whose first try did land counts as done.
    async fn wait(&self, closed: &Closed, event: &Event) -> Result<(), WriteError> {
        let row = closed.row();
        let write = self.client().transact_write_items();
        let write = write.transact_items(TransactWriteItem::builder().update(self.closing(closed)?).build());
        let write =
            write.transact_items(self.put(Put::builder().set_item(Some(payload_item(event, row.expires_at)?)))?);
        let place = row.in_line().map(|place| line_item(&Line::of(event), &place, row.expires_at));
        let write = match place {
            Some(item) => write.transact_items(self.put(Put::builder().set_item(Some(item)))?),
            None => write,
        };
        write.send().await.map(drop).map_err(cancelled)
    }

    async fn first(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        self.end_of(line, true).await
    }

    async fn last(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        self.end_of(line, false).await
    }

    async fn leave(&self, line: &Line, place: &InLine) -> Result<(), Unavailable> {
        let delete = self
            .client()
            .delete_item()
            .table_name(self.table())
            .set_key(Some(key(line, place)))
            .condition_expression(NOT_JOINED_AGAIN)
            .set_expression_attribute_names(Some(names(&[NOT_JOINED_AGAIN])))
            .expression_attribute_values(":wake", number(place.wake));
        match delete.send().await {
            Err(error) if !super::ledger::is_refused_delete(&error) => Err(unavailable(PORT)(error)),
            _ => Ok(()),
        }
    }

    async fn listed_past(
        &self,
        passed: &PassedOver,
        on: &WaitsFor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Listed, Unavailable> {
        let shards = on.shards();
        let shards: Vec<&str> = shards.iter().map(String::as_str).collect();
        self.within(&shards, passed, Timestamp::from_secs(0), until, limit).await
    }
}

impl DynamoLedger {
    async fn end_of(&self, line: &Line, first: bool) -> Result<Option<InLine>, Unavailable> {
        let query = self
            .client()
            .query()
            .table_name(self.table())
            .key_condition_expression(OF_LINE)
            .expression_attribute_values(":line", text(line.as_str()))
            .consistent_read(true)
            .scan_index_forward(first)
            .limit(1);
        let found = query.send().await.map_err(unavailable(PORT))?;
        found.items.unwrap_or_default().into_iter().next().map(|item| in_line(&item)).transpose()
    }
}

/// The key of an event in its line. Milliseconds of one length, so that they sort as numbers do.
fn key(line: &Line, place: &InLine) -> Item {
    let sort = format!("{:015}/{}", place.place.millis(), place.id);
    Item::from([("pk".into(), text(line.as_str())), ("sk".into(), text(&sort))])
}

fn line_item(line: &Line, place: &InLine, expires_at: i64) -> Item {
    let mut item = key(line, place);
    item.insert("wake".into(), number(place.wake));
    item.insert("expires_at".into(), number(expires_at));
    item
}

fn in_line(item: &Item) -> Result<InLine, Unavailable> {
    let sort = item.get("sk").and_then(|sort| sort.as_s().ok()).and_then(|sort| sort.split_once('/'));
    let wake = item.get("wake").and_then(|wake| wake.as_n().ok()).and_then(|wake| wake.parse().ok());
    let read = sort.zip(wake).and_then(|((place, id), wake)| {
        Some(InLine { place: Timestamp::from_millis(place.parse().ok()?), id: EventId::named(id), wake })
    });
    read.ok_or_else(|| unreadable("an item of a line"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of this format never change: older versions wrote them.
    #[test]
    fn a_place_in_a_line_is_stored_as_it_always_was() {
        let text = include_str!("../../../../tests/formats/format-2/line-item.json");
        let stored: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let stored: Item = serde_dynamo::aws_sdk_dynamodb_1::to_item(stored).expect("an item");
        let place = InLine { place: Timestamp::from_millis(1_794_819_600_700), id: EventId::named("ab12"), wake: 3 };
        let (flow, group) = ("lead-routing".into(), "lead-routing-1".into());
        let event = Event { flow, group, ..Event::malformed("m", "", Timestamp::from_secs(1)) };
        assert_eq!(line_item(&Line::of(&event), &place, 1_802_595_600), stored);
        assert_eq!(in_line(&stored), Ok(place));
    }

    #[test]
    fn a_place_in_a_line_round_trips() {
        let place = InLine { place: Timestamp::from_secs(1_794_819_600), id: EventId::named("ab12"), wake: 3 };
        let event = Event::malformed("m", "", Timestamp::from_secs(1));
        assert_eq!(in_line(&line_item(&Line::of(&event), &place, 1)), Ok(place));
    }
}
