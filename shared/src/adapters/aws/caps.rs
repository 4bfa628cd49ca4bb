//! The counters of frequency caps on DynamoDB: one item each in the limits' table, written in one
//! transaction with the ledger's row.

use async_trait::async_trait;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use serde_dynamo::aws_sdk_dynamodb_1::{from_attribute_value, to_attribute_value};

use crate::base::errors::{Unavailable, WriteError};
use crate::effects::cap::{Caps, Count, CountError, Counter};
use crate::ledger::Lease;

use super::{DynamoLedger, ledger, number, text, unavailable};

const PORT: &str = "the caps";

/// No other worker has written the counter since the version that was seen.
const UNCHANGED: &str = "#version = :seen";

/// The counter was never written, where none was seen.
const ABSENT: &str = "attribute_not_exists(pk)";

/// The counters in the limits' table, beside the ledger.
#[derive(Clone, Debug)]
pub struct DynamoCaps {
    ledger: DynamoLedger,
    table: String,
}

impl DynamoCaps {
    /// The counters in this table, beside this ledger.
    pub fn new(ledger: DynamoLedger, limits: impl Into<String>) -> Self {
        Self { ledger, table: limits.into() }
    }

    fn counting(&self, count: &Count) -> Result<Put, Unavailable> {
        let seen = count.counter.version - 1;
        let places = to_attribute_value(&count.counter.places).map_err(unreadable)?;
        let put = Put::builder()
            .table_name(&self.table)
            .item("pk", text(&count.key))
            .item("version", number(count.counter.version))
            .item("places", places)
            .item("expires_at", number(count.expires_at));
        let put = match seen {
            0 => put.condition_expression(ABSENT),
            _ => put
                .condition_expression(UNCHANGED)
                .expression_attribute_names("#version", "version")
                .expression_attribute_values(":seen", number(seen)),
        };
        put.build().map_err(|error| Unavailable { port: PORT, why: error.to_string() })
    }
}

#[async_trait]
impl Caps for DynamoCaps {
    async fn read(&self, key: &str) -> Result<Counter, Unavailable> {
        let get = self.ledger.client().get_item().table_name(&self.table).key("pk", text(key)).consistent_read(true);
        let Some(mut item) = get.send().await.map_err(unavailable(PORT))?.item else { return Ok(Counter::default()) };
        let version = item.get("version").and_then(|value| value.as_n().ok()?.parse().ok()).unwrap_or_default();
        let places = item.remove("places").unwrap_or(AttributeValue::L(Vec::new()));
        Ok(Counter { version, places: from_attribute_value(places).map_err(unreadable)? })
    }

    /// The SDK sends its repetitions under one token, so that a write whose first try did land counts as done.
    async fn record(&self, lease: &Lease, counts: &[Count]) -> Result<(), CountError> {
        let row = self.ledger.recording(lease).map_err(WriteError::from)?;
        let mut items = vec![TransactWriteItem::builder().update(row).build()];
        for count in counts {
            let put = self.counting(count).map_err(WriteError::from)?;
            items.push(TransactWriteItem::builder().put(put).build());
        }
        let written = self.ledger.client().transact_write_items().set_transact_items(Some(items)).send().await;
        written.map(drop).map_err(refused)
    }
}

/// The error of a cancelled transaction. The first reason is the row's, the others are the counters'.
fn refused<R>(error: SdkError<TransactWriteItemsError, R>) -> CountError
where
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
        return WriteError::Unavailable(unavailable(PORT)(error)).into();
    };
    if let Some(row) = ledger::refused_row(&error) {
        return ledger::refused(&row).into();
    }
    let codes: Vec<&str> = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
    if codes.iter().any(|code| matches!(*code, "ConditionalCheckFailed" | "TransactionConflict")) {
        CountError::Moved
    } else {
        WriteError::Unavailable(unavailable(PORT)(error)).into()
    }
}

fn unreadable(error: serde_dynamo::Error) -> Unavailable {
    Unavailable { port: PORT, why: format!("a counter is not readable: {error}") }
}
