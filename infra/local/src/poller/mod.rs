//! The event source mappings of FIFO queues, polled by ourselves.
//!
//! The emulator runs one batch at a time for a FIFO mapping. AWS runs as many as there are active
//! message groups, up to the mapping's `MaximumConcurrency`, and races between invocations are what
//! our protocol is about. So the mappings that the template made are disabled in the emulator, and
//! as many independent loops as AWS would run do their work, by AWS's rules. Groups stay in order
//! because the queue itself withholds a group while one of its messages is in flight.
//!
//! Deliberately absent: filters and batching windows (a FIFO mapping has none), and mappings of
//! anything but FIFO queues, which stay with the emulator.

mod event;
mod mapping;
mod verdict;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::aws::Endpoint;
use crate::lambda::{Lambda, Outcome};
use mapping::Mapping;

const LONG_POLL_SECONDS: u32 = 5;
const BREATHER: Duration = Duration::from_secs(1);
const THROTTLED: Duration = Duration::from_millis(250);
const THROTTLED_MOST: Duration = Duration::from_secs(5);

/// The loops. Dropping it ends them; messages in flight come back when their visibility ends.
#[derive(Debug)]
pub struct Poller {
    _loops: JoinSet<()>,
}

impl Poller {
    /// Take over the mappings of FIFO queues from the emulator.
    pub async fn start(endpoint: &Endpoint, lambda: &Lambda) -> Result<Self> {
        let mut loops = JoinSet::new();
        for mapping in mapping::list(endpoint).await? {
            mapping::disable(endpoint, &mapping).await?;
            let source = Source::open(endpoint, mapping).await?;
            for _ in 0..source.mapping.concurrency() {
                loops.spawn(poll(source.clone(), lambda.clone()));
            }
        }
        Ok(Self { _loops: loops })
    }
}

/// A queue and the mapping that reads from it.
#[derive(Clone, Debug)]
struct Source {
    endpoint: Endpoint,
    mapping: Mapping,
    url: String,
    visibility: Duration,
}

impl Source {
    async fn open(endpoint: &Endpoint, mapping: Mapping) -> Result<Self> {
        let named = json!({"QueueName": mapping.queue_name()});
        let found = endpoint.act("sqs", "AmazonSQS.GetQueueUrl", named).await?;
        let url = found["QueueUrl"].as_str().context("the queue has no URL")?.to_owned();
        let asked = json!({"QueueUrl": url, "AttributeNames": ["VisibilityTimeout"]});
        let found = endpoint.act("sqs", "AmazonSQS.GetQueueAttributes", asked).await?;
        let seconds = found["Attributes"]["VisibilityTimeout"].as_str().and_then(|s| s.parse().ok());
        let visibility = Duration::from_secs(seconds.unwrap_or(30));
        Ok(Self { endpoint: endpoint.clone(), mapping, url, visibility })
    }

    async fn receive(&self) -> Result<Vec<Value>> {
        let input = json!({
            "QueueUrl": self.url,
            "MaxNumberOfMessages": self.mapping.batch_size.min(10),
            "WaitTimeSeconds": LONG_POLL_SECONDS,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        });
        let mut answer = self.endpoint.act("sqs", "AmazonSQS.ReceiveMessage", input).await?;
        match answer["Messages"].take() {
            Value::Array(messages) => Ok(messages),
            _ => Ok(Vec::new()),
        }
    }

    async fn delete(&self, done: Vec<&Value>) -> Result<()> {
        if done.is_empty() {
            return Ok(());
        }
        let entries: Vec<Value> = done
            .iter()
            .enumerate()
            .map(|(id, message)| json!({"Id": id.to_string(), "ReceiptHandle": message["ReceiptHandle"]}))
            .collect();
        let input = json!({"QueueUrl": self.url, "Entries": entries});
        self.endpoint.act("sqs", "AmazonSQS.DeleteMessageBatch", input).await?;
        Ok(())
    }
}

async fn poll(source: Source, lambda: Lambda) {
    loop {
        // What goes wrong here is the emulator's: it is starting over, or ending before us.
        if run_batch(&source, &lambda).await.is_err() {
            tokio::time::sleep(BREATHER).await;
        }
    }
}

/// One batch, from the queue to the function and, by what it says, out of the queue.
async fn run_batch(source: &Source, lambda: &Lambda) -> Result<()> {
    let messages = source.receive().await?;
    if messages.is_empty() {
        return Ok(());
    }
    let event = event::make(&messages, &source.mapping.event_source_arn);
    let outcome = invoke(source, lambda, &event).await?;
    source.delete(verdict::done(&messages, &outcome, source.mapping.reports_failures())).await
}

/// A throttled function did not see the batch: try again for as long as the batch is ours.
async fn invoke(source: &Source, lambda: &Lambda, event: &Value) -> Result<Outcome> {
    let began = Instant::now();
    let mut pause = THROTTLED;
    loop {
        let outcome = lambda.invoke(source.mapping.function(), event).await?;
        if outcome != Outcome::Throttled || began.elapsed() + pause > source.visibility {
            return Ok(outcome);
        }
        tokio::time::sleep(pause).await;
        pause = THROTTLED_MOST.min(pause * 2);
    }
}
