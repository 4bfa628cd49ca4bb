//! A batch of messages: groups side by side, the messages of a group in order.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use futures::FutureExt as _;
use futures::future::join_all;
use shared::adapters::lambda::{keep, received};
use shared::arrival::event::Event;
use shared::base::time::Timestamp;
use shared::ledger::queue::Received;
use shared::operate::metric::{Fact, WorkUnit};
use tracing::{error, warn};

use crate::message::process;
use crate::spans::BatchSpan;
use crate::work::{MessageFate, Processor};

/// Unpacks a batch, works on it, and reports the messages that the queue must keep.
pub async fn handle(processor: &Processor, batch: SqsEvent, deadline: Timestamp) -> SqsBatchResponse {
    let batch = received(batch);
    let span = BatchSpan::begin(processor, &batch);
    let kept = process_batch(processor, batch, deadline).await;
    span.end();
    keep(kept)
}

/// Works on a batch. Returns the ids of the messages that stay on the queue; the queue deletes the others.
pub async fn process_batch(processor: &Processor, batch: Vec<Received>, deadline: Timestamp) -> Vec<String> {
    let groups = by_group(batch).into_iter().map(|group| process_group(processor, group, deadline));
    join_all(groups).await.concat()
}

/// Works on one group's messages, in order, up to the first that is not done.
///
/// The first message that is not done waits out its delay. Those behind it become visible at once: the invisible one
/// withholds them, while messages that stayed in flight would stall the group for a whole visibility timeout.
async fn process_group(processor: &Processor, group: Vec<Received>, deadline: Timestamp) -> Vec<String> {
    let mut messages = group.into_iter();
    let mut kept = Vec::new();
    for message in messages.by_ref() {
        match process_one(processor, &message, deadline).await {
            MessageFate::Done => continue,
            MessageFate::RedeliverAfter(delay) => postpone(processor, &message, delay).await,
            MessageFate::LeaveToRedeliver => (),
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

async fn process_one(processor: &Processor, message: &Received, deadline: Timestamp) -> MessageFate {
    let work = AssertUnwindSafe(process(processor, message, deadline)).catch_unwind();
    work.await.unwrap_or_else(|_| {
        let event = event_of(message);
        let (event, flow, trace_id) = ids(&event);
        let message_id = &message.message_id;
        error!(message_id, event, flow, trace_id, "the worker panicked; the message is left for redelivery");
        WorkUnit::new(&*processor.metrics).count(&Fact::Panicked);
        MessageFate::LeaveToRedeliver
    })
}

async fn postpone(processor: &Processor, message: &Received, delay: Duration) {
    if let Err(error) = processor.visibility.postpone(&message.receipt, delay).await {
        let event = event_of(message);
        let (event, flow, trace_id) = ids(&event);
        let message_id = &message.message_id;
        let told = "the message's visibility was not changed; it comes back later, when its visibility timeout ends";
        warn!(message_id, event, flow, trace_id, %error, "{told}");
    }
}

/// The event of a message, for the log.
fn event_of(message: &Received) -> Option<Event> {
    serde_json::from_str(&message.body).ok()
}

fn ids(event: &Option<Event>) -> (Option<&str>, Option<&str>, Option<String>) {
    let event = event.as_ref();
    (event.map(|e| e.id.as_str()), event.map(|e| e.flow.as_str()), event.map(|e| e.trace.id()))
}

/// The messages by group, each group in the order in which it came.
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
