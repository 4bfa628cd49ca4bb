//! A batch of messages: groups side by side, the messages of a group in order.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures::FutureExt as _;
use futures::future::join_all;
use shared::base::time::Timestamp;
use tracing::{error, warn};

use crate::process::{Processor, Verdict, process};

/// A message as the queue handed it over.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its id, for the batch's report.
    pub message_id: String,
    /// Its receipt, to change its visibility.
    pub receipt: String,
    /// Its message group.
    pub group: String,
    /// Its body, which may be anything.
    pub body: String,
}

/// Unpacks a batch, works on it, and reports what the queue must keep.
pub async fn handle(processor: &Processor, batch: SqsEvent, deadline: Timestamp) -> SqsBatchResponse {
    let batch = batch.records.into_iter().map(received).collect();
    let mut response = SqsBatchResponse::default();
    response.batch_item_failures = process_batch(processor, batch, deadline).await.into_iter().map(failure).collect();
    response
}

/// Works on a batch. What is returned stays on the queue; the queue deletes everything else.
pub async fn process_batch(processor: &Processor, batch: Vec<Received>, deadline: Timestamp) -> Vec<String> {
    let groups = by_group(batch).into_iter().map(|group| process_group(processor, group, deadline));
    join_all(groups).await.concat()
}

/// Works on one group's messages, in order, up to the first that is not done.
///
/// The head waits out its delay. The tail becomes visible at once: the invisible head withholds it,
/// while a tail that stayed in flight would stall the group for a whole visibility timeout.
async fn process_group(processor: &Processor, group: Vec<Received>, deadline: Timestamp) -> Vec<String> {
    let mut messages = group.into_iter();
    let mut kept = Vec::new();
    for message in messages.by_ref() {
        match process_one(processor, &message, deadline).await {
            Verdict::Done => continue,
            Verdict::Again(delay) => postpone(processor, &message, delay).await,
            Verdict::Leave => (),
        }
        kept.push(message.message_id);
        break;
    }
    for message in messages {
        postpone(processor, &message, Duration::ZERO).await;
        kept.push(message.message_id);
    }
    kept
}

async fn process_one(processor: &Processor, message: &Received, deadline: Timestamp) -> Verdict {
    let work = AssertUnwindSafe(process(processor, message, deadline)).catch_unwind();
    work.await.unwrap_or_else(|_| {
        error!(message = message.message_id, "panicked");
        Verdict::Leave
    })
}

async fn postpone(processor: &Processor, message: &Received, delay: Duration) {
    if let Err(error) = processor.visibility.postpone(&message.receipt, delay).await {
        // It comes back when its visibility timeout ends, only later than it should.
        warn!(message = message.message_id, %error, "not postponed");
    }
}

/// The batch by groups, each in the order in which it came.
fn by_group(batch: Vec<Received>) -> Vec<Vec<Received>> {
    let mut groups: Vec<Vec<Received>> = Vec::new();
    for message in batch {
        match groups.iter_mut().find(|group| group[0].group == message.group) {
            Some(group) => group.push(message),
            None => groups.push(vec![message]),
        }
    }
    groups
}

fn received(message: SqsMessage) -> Received {
    let mut attributes = message.attributes;
    Received {
        message_id: message.message_id.unwrap_or_default(),
        receipt: message.receipt_handle.unwrap_or_default(),
        group: attributes.remove("MessageGroupId").unwrap_or_default(),
        body: message.body.unwrap_or_default(),
    }
}

fn failure(message_id: String) -> BatchItemFailure {
    let mut failure = BatchItemFailure::default();
    failure.item_identifier = message_id;
    failure
}
