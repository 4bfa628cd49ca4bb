//! The queues of a local cloud: how many messages they have, their visibility, and waiting until they are empty.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;
use tokio::time::sleep;

use crate::aws::Endpoint;

const COUNTS: [&str; 3] =
    ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"];

/// How often in a row the queues have to be empty, and how far apart. The counts are of one moment: a message may be
/// between two queues.
const EMPTY_LOOKS: usize = 3;
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Longer than any visibility timeout, lease or delay here: what does not move for so long is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(120);

/// Sets how soon a message comes back after its function was killed.
///
/// What a function does in its time-out is cut short by nothing but kills here, so an earlier second delivery is only
/// more of the same.
pub async fn set_visibility(endpoint: &Endpoint, url: &str, visibility: Duration) -> Result<()> {
    let attributes = json!({"VisibilityTimeout": visibility.as_secs().to_string()});
    let input = json!({"QueueUrl": url, "Attributes": attributes});
    endpoint.act("sqs", "AmazonSQS.SetQueueAttributes", input).await?;
    Ok(())
}

/// Waits until these queues are empty; returns whether they are, or messages are stuck in them.
pub(crate) async fn drain(endpoint: &Endpoint, urls: [&str; 2], watch: impl Fn(u64)) -> Result<bool> {
    let (mut empty, mut least, mut moved) = (0, u64::MAX, Instant::now());
    while empty < EMPTY_LOOKS {
        let depth = depth(endpoint, urls[0]).await? + depth(endpoint, urls[1]).await?;
        watch(depth);
        empty = if depth == 0 { empty + 1 } else { 0 };
        if depth < least {
            (least, moved) = (depth, Instant::now());
        }
        if depth > 0 && moved.elapsed() > STUCK_AFTER {
            return Ok(false);
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(true)
}

/// How many messages of a queue are in flight: received, and not visible again yet.
pub(crate) async fn in_flight(endpoint: &Endpoint, url: &str) -> Result<u64> {
    Ok(counts(endpoint, url).await?[1])
}

/// How many messages a queue has, in flight and delayed ones included.
pub async fn depth(endpoint: &Endpoint, url: &str) -> Result<u64> {
    Ok(counts(endpoint, url).await?.into_iter().sum())
}

async fn counts(endpoint: &Endpoint, url: &str) -> Result<[u64; 3]> {
    let asked = json!({"QueueUrl": url, "AttributeNames": COUNTS});
    let found = endpoint.act("sqs", "AmazonSQS.GetQueueAttributes", asked).await?;
    let count = |name: &str| found["Attributes"][name].as_str().and_then(|count| count.parse::<u64>().ok());
    Ok(COUNTS.map(|name| count(name).unwrap_or_default()))
}
