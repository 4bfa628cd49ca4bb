//! Batches of messages, as Lambda delivers them and wants them reported.

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};

use crate::base::time::Timestamp;
use crate::ledger::queue::Received;

/// The messages of a batch, in its order.
pub fn received(batch: SqsEvent) -> Vec<Received> {
    batch.records.into_iter().map(message).collect()
}

/// The report that keeps these messages on the queue. The queue deletes all others.
pub fn keep(message_ids: Vec<String>) -> SqsBatchResponse {
    let mut report = SqsBatchResponse::default();
    report.batch_item_failures = message_ids.into_iter().map(failure).collect();
    report
}

fn message(message: SqsMessage) -> Received {
    let mut attributes = message.attributes;
    let mut moment = |name: &str| Some(Timestamp::from_millis(attributes.remove(name)?.parse().ok()?));
    let (sent_at, first_received_at) = (moment("SentTimestamp"), moment("ApproximateFirstReceiveTimestamp"));
    Received {
        message_id: message.message_id.unwrap_or_default(),
        receipt: message.receipt_handle.unwrap_or_default(),
        group: attributes.remove("MessageGroupId").unwrap_or_default(),
        body: message.body.unwrap_or_default(),
        sent_at,
        first_received_at,
    }
}

fn failure(message_id: String) -> BatchItemFailure {
    let mut failure = BatchItemFailure::default();
    failure.item_identifier = message_id;
    failure
}
