//! Small documents on DynamoDB: the switchboard and the batches, one item each in the limits' table,
//! which never expire.

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;

use super::limits::client;
use super::{number, text, unavailable};
use crate::base::document::Stored;
use crate::base::errors::{Unavailable, WriteError};
use crate::ledger::batch::{BatchStore, Batches};
use crate::operate::switchboard::{Board, BoardStore, Boards};

const PORT: &str = "the switchboard and the batches";

/// No other writer has written since the version that was seen. The second half lets the SDK's repetition of a
/// write through whose first try did land.
const UNCHANGED: &str = "#version = :seen OR (#version = :next AND #text = :text)";

/// The document was never written, where no version was seen.
const ABSENT: &str = "attribute_not_exists(pk) OR (#version = :next AND #text = :text)";

const WRITE: &str = "SET #version = :next, #text = :text";

/// A document in the limits' table.
///
/// An event waits while the document is read, and can use the last good one. So a read has as little time as a limit.
#[derive(Clone, Debug)]
struct Document {
    client: Client,
    table: String,
    key: String,
}

impl Document {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).key("pk", text(&self.key)).consistent_read(true);
        let Some(item) = get.send().await.map_err(unavailable(PORT))?.item else { return Ok(None) };
        let version = item.get("version").and_then(|value| value.as_n().ok()?.parse().ok());
        let text = item.get("text").and_then(|value| value.as_s().ok().cloned());
        // A document that is not readable is a bad document, not an outage.
        Ok(Some(Stored { version: version.unwrap_or_default(), text: text.unwrap_or_default() }))
    }

    async fn put(&self, document: &str, seen: u64) -> Result<u64, WriteError> {
        let next = seen + 1;
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(&self.key))
            .update_expression(WRITE)
            .expression_attribute_names("#version", "version")
            .expression_attribute_names("#text", "text")
            .expression_attribute_values(":next", number(next))
            .expression_attribute_values(":text", text(document));
        let update = match seen {
            0 => update.condition_expression(ABSENT),
            _ => update.condition_expression(UNCHANGED).expression_attribute_values(":seen", number(seen)),
        };
        match update.send().await {
            Ok(_) => Ok(next),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Err(WriteError::Fenced),
                _ => Err(unavailable(PORT)(error).into()),
            },
        }
    }
}

/// The switchboard in the limits' table.
#[derive(Clone, Debug)]
pub struct DynamoBoard(Document);

impl DynamoBoard {
    /// The switchboard in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self::named(aws, table, "switchboard")
    }

    /// The board under another name, beside the usual one.
    pub fn named(aws: &SdkConfig, table: impl Into<String>, key: impl Into<String>) -> Self {
        Self(Document { client: client(aws), table: table.into(), key: key.into() })
    }
}

#[async_trait]
impl BoardStore for DynamoBoard {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.0.read().await
    }
}

#[async_trait]
impl Boards for DynamoBoard {
    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        self.0.put(&board.text(), seen).await
    }
}

/// The batches of replays in the limits' table.
#[derive(Clone, Debug)]
pub struct DynamoBatches(Document);

impl DynamoBatches {
    /// The batches in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self::named(aws, table, "batches")
    }

    /// The batches under another name, beside the usual ones.
    pub fn named(aws: &SdkConfig, table: impl Into<String>, key: impl Into<String>) -> Self {
        Self(Document { client: client(aws), table: table.into(), key: key.into() })
    }
}

#[async_trait]
impl BatchStore for DynamoBatches {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.0.read().await
    }

    async fn put(&self, batches: &Batches, seen: u64) -> Result<u64, WriteError> {
        self.0.put(&batches.text(), seen).await
    }
}
