//! Small documents on DynamoDB: the switchboard and the batches, one item each in the limits' table,
//! which never expire.

use std::marker::PhantomData;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure as OnFailure;

use super::ledger_items::format_of;
use super::limits::client;
use super::{number, refused_update, text, unavailable};
use crate::base::document::{Document, DocumentStore, Stored};
use crate::base::errors::{Unavailable, WriteError};
use crate::base::format::FORMAT;

const PORT: &str = "the switchboard and the batches";

/// No other writer has written since the version that was seen, and no newer version of the code. The second half lets the SDK's repetition of a
/// write through whose first try did land.
const UNCHANGED: &str = "(#version = :seen OR (#version = :next AND #text = :text)) \
    AND (attribute_not_exists(#format) OR #format <= :format)";

/// The document was never written, where no version was seen.
const ABSENT: &str = "attribute_not_exists(pk) OR (#version = :next AND #text = :text)";

const WRITE: &str = "SET #version = :next, #text = :text, #format = :format";

/// A document in the limits' table.
///
/// An event waits while the document is read, and can use the last good one. So a read has as little time as a limit.
#[derive(Debug)]
pub struct DynamoDocument<D> {
    client: Client,
    table: String,
    key: String,
    kind: PhantomData<fn() -> D>,
}

impl<D: Document> DynamoDocument<D> {
    /// The document in this table.
    pub fn new(aws: &SdkConfig, table: impl Into<String>) -> Self {
        Self::named(aws, table, D::NAME)
    }

    /// A document of another name, beside it.
    pub fn named(aws: &SdkConfig, table: impl Into<String>, key: impl Into<String>) -> Self {
        Self { client: client(aws), table: table.into(), key: key.into(), kind: PhantomData }
    }
}

impl<D> Clone for DynamoDocument<D> {
    fn clone(&self) -> Self {
        let Self { client, table, key, kind } = self;
        Self { client: client.clone(), table: table.clone(), key: key.clone(), kind: *kind }
    }
}

#[async_trait]
impl<D: Document> DocumentStore<D> for DynamoDocument<D> {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let get = self.client.get_item().table_name(&self.table).key("pk", text(&self.key)).consistent_read(true);
        let Some(item) = get.send().await.map_err(unavailable(PORT))?.item else { return Ok(None) };
        let version = item.get("version").and_then(|value| value.as_n().ok()?.parse().ok());
        let text = item.get("text").and_then(|value| value.as_s().ok().cloned());
        // A document that is not readable is a bad document, not an outage.
        let format = format_of(&item);
        Ok(Some(Stored { version: version.unwrap_or_default(), format, text: text.unwrap_or_default() }))
    }

    async fn put(&self, document: &D, seen: u64) -> Result<u64, WriteError> {
        let next = seen + 1;
        let update = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("pk", text(&self.key))
            .update_expression(WRITE)
            .expression_attribute_names("#version", "version")
            .expression_attribute_names("#text", "text")
            .expression_attribute_names("#format", "format")
            .expression_attribute_values(":format", number(FORMAT))
            .return_values_on_condition_check_failure(OnFailure::AllOld)
            .expression_attribute_values(":next", number(next))
            .expression_attribute_values(":text", text(&document.text()));
        let update = match seen {
            0 => update.condition_expression(ABSENT),
            _ => update.condition_expression(UNCHANGED).expression_attribute_values(":seen", number(seen)),
        };
        match update.send().await {
            Ok(_) => Ok(next),
            Err(error) => match refused_update(&error) {
                Some(Some(found)) if format_of(&found) > FORMAT => Err(WriteError::NewerFormat),
                Some(_) => Err(WriteError::Fenced),
                None => Err(unavailable(PORT)(error).into()),
            },
        }
    }
}
