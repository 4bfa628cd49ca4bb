//! The switchboard on DynamoDB: one item in the limits' table, which never expires.

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;

use super::limits::client;
use super::{number, text, unavailable};
use crate::ports::{BoardStore, Boards, Unavailable, WriteError};
use crate::switchboard::{Board, Stored};

const PORT: &str = "the switchboard";

/// Nobody has written since the version that was seen. The second half lets the SDK's repetition of a
/// write through whose first try did land.
const UNCHANGED: &str = "#version = :seen OR (#version = :next AND #board = :board)";

/// The same, where no version was seen.
const ABSENT: &str = "attribute_not_exists(pk) OR (#version = :next AND #board = :board)";

const WRITE: &str = "SET #version = :next, #board = :board";

/// The switchboard in the limits' table.
///
/// An event waits while it is read, and can go by the last good one. So it has as little time as a limit.
#[derive(Clone, Debug)]
pub struct DynamoBoard {
    client: Client,
    table: String,
    key: String,
}

impl DynamoBoard {
    /// The switchboard in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self::named(aws, table, "switchboard")
    }

    /// The board of another name, beside it.
    pub fn named(aws: &SdkConfig, table: impl Into<String>, key: impl Into<String>) -> Self {
        Self { client: client(aws), table: table.into(), key: key.into() }
    }
}

#[async_trait]
impl BoardStore for DynamoBoard {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).key("pk", text(&self.key)).consistent_read(true);
        let Some(item) = get.send().await.map_err(unavailable(PORT))?.item else { return Ok(None) };
        let version = item.get("version").and_then(|value| value.as_n().ok()?.parse().ok());
        let board = item.get("board").and_then(|value| value.as_s().ok().cloned());
        // What is not readable is a bad board, not an outage.
        Ok(Some(Stored { version: version.unwrap_or_default(), text: board.unwrap_or_default() }))
    }
}

#[async_trait]
impl Boards for DynamoBoard {
    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        let next = seen + 1;
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(&self.key))
            .update_expression(WRITE)
            .expression_attribute_names("#version", "version")
            .expression_attribute_names("#board", "board")
            .expression_attribute_values(":next", number(next))
            .expression_attribute_values(":board", text(&board.text()));
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
