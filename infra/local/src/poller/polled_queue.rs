//! The queue behind a mapping.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::in_flight::InFlightLimit;
use super::mapping::Mapping;
use crate::aws::Endpoint;
use crate::queues;

const LONG_POLL_SECONDS: u32 = 5;

/// The pause of a queue that has as many messages in flight as it may.
const FULL_PAUSE: Duration = Duration::from_millis(500);

/// A queue and the mapping that reads from it.
#[derive(Clone, Debug)]
pub(super) struct PolledQueue {
    endpoint: Endpoint,
    pub(super) mapping: Mapping,
    url: String,
    /// How long a received batch is ours.
    pub(super) visibility: Duration,
    limit: Option<InFlightLimit>,
}

impl PolledQueue {
    pub(super) async fn open(endpoint: &Endpoint, mapping: Mapping, in_flight_limit: Option<usize>) -> Result<Self> {
        let named = json!({"QueueName": mapping.queue_name()});
        let found = endpoint.act("sqs", "AmazonSQS.GetQueueUrl", named).await?;
        let url = found["QueueUrl"]
            .as_str()
            .with_context(|| format!("the emulator has no URL for the queue {}", mapping.queue_name()))?
            .to_owned();
        let asked = json!({"QueueUrl": url, "AttributeNames": ["VisibilityTimeout"]});
        let found = endpoint.act("sqs", "AmazonSQS.GetQueueAttributes", asked).await?;
        let seconds = found["Attributes"]["VisibilityTimeout"].as_str().and_then(|s| s.parse().ok());
        let visibility = Duration::from_secs(seconds.unwrap_or(30));
        let limit = in_flight_limit.map(InFlightLimit::new);
        Ok(Self { endpoint: endpoint.clone(), mapping, url, visibility, limit })
    }

    /// Receives a batch. Where as many messages are in flight as may be, it is empty, and nothing says why.
    pub(super) async fn receive(&self) -> Result<Vec<Value>> {
        let wanted = self.mapping.batch_size.min(10);
        let Some(limit) = &self.limit else { return self.receive_up_to(wanted).await };
        let free = limit.take(queues::in_flight(&self.endpoint, &self.url).await?, wanted);
        if free.count() == 0 {
            tokio::time::sleep(FULL_PAUSE).await;
            return Ok(Vec::new());
        }
        self.receive_up_to(free.count()).await
    }

    async fn receive_up_to(&self, most: usize) -> Result<Vec<Value>> {
        let input = json!({
            "QueueUrl": self.url,
            "MaxNumberOfMessages": most,
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

    pub(super) async fn delete(&self, done: &[&Value]) -> Result<()> {
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
