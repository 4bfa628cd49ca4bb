//! The queues on SQS.

use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry};
use futures::future::join_all;

use crate::arrival::event::Event;
use crate::base::errors::Unavailable;
use crate::ledger::queue::{DeadLetter, DeadLetters, Depth, Depths, Queue, Tick, Ticks, Visibility, lanes};

use super::unavailable;

const PORT: &str = "the queue";

/// The longest time that a message is hidden. SQS allows twelve hours, counted from its receipt: the time since
/// then is taken off. A message that must wait longer comes back, finds that it is too early, and waits on.
const MAX_VISIBILITY: Duration = Duration::from_secs(12 * 3600 - 15 * 60);

/// The queue of events.
#[derive(Clone, Debug)]
pub struct SqsEvents {
    client: Client,
    url: String,
}

impl SqsEvents {
    /// The queue at this URL.
    pub fn new(aws: &SdkConfig, url: impl Into<String>) -> Self {
        Self { client: Client::new(aws), url: url.into() }
    }
}

#[async_trait]
impl Queue for SqsEvents {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        self.client
            .send_message()
            .queue_url(&self.url)
            .message_group_id(&event.group)
            .message_deduplication_id(event.deduplication_id())
            .message_body(body(event)?)
            .send()
            .await
            .map_err(unavailable(PORT))?;
        Ok(())
    }

    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>> {
        let bodies = match events.iter().map(body).collect::<Result<Vec<_>, _>>() {
            Ok(bodies) => bodies,
            Err(error) => return vec![Err(error); events.len()],
        };
        let messages: Vec<Message<'_>> = events.iter().zip(bodies).collect();
        let sizes: Vec<_> = messages.iter().map(|(event, body)| (event.group.as_str(), body.len())).collect();
        let lanes = lanes(&sizes);
        let sent = join_all(lanes.iter().map(|lane| self.send_lane(lane, &messages))).await;
        let mut answers = vec![Ok(()); events.len()];
        sent.into_iter().flatten().for_each(|(place, answer)| answers[place] = answer);
        answers
    }
}

/// An event and its body.
type Message<'m> = (&'m Event, String);

impl SqsEvents {
    /// Batch after batch, not side by side: events of one group must arrive in order.
    async fn send_lane(&self, lane: &[Vec<usize>], messages: &[Message<'_>]) -> Vec<(usize, Result<(), Unavailable>)> {
        let mut sent = Vec::new();
        for batch in lane {
            let answers = self.send_batch(batch, messages).await;
            let answers = answers.unwrap_or_else(|error| vec![Err(error); batch.len()]);
            sent.extend(batch.iter().copied().zip(answers));
        }
        sent
    }

    /// One `SendMessageBatch`. SQS answers for each entry by the name that we gave it.
    async fn send_batch(
        &self,
        batch: &[usize],
        messages: &[Message<'_>],
    ) -> Result<Vec<Result<(), Unavailable>>, Unavailable> {
        let entries: Vec<_> = batch.iter().map(|place| entry(*place, &messages[*place])).collect::<Result<_, _>>()?;
        let send = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
        let failed = send.send().await.map_err(unavailable(PORT))?.failed;
        let why = |place: &usize| failed.iter().find(|failed| failed.id == place.to_string());
        let answer = |place: &usize| why(place).map_or(Ok(()), |failed| Err(unavailable_because(failed.code.clone())));
        Ok(batch.iter().map(answer).collect())
    }
}

fn entry(place: usize, (event, body): &Message<'_>) -> Result<SendMessageBatchRequestEntry, Unavailable> {
    SendMessageBatchRequestEntry::builder()
        .id(place.to_string())
        .message_group_id(&event.group)
        .message_deduplication_id(event.deduplication_id())
        .message_body(body)
        .build()
        .map_err(|error| unavailable_because(error.to_string()))
}

fn body(event: &Event) -> Result<String, Unavailable> {
    serde_json::to_string(event).map_err(|error| unavailable_because(error.to_string()))
}

#[async_trait]
impl Depths for SqsEvents {
    async fn depth(&self) -> Result<Depth, Unavailable> {
        const QUEUED: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessages;
        const IN_FLIGHT: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
        let get = self.client.get_queue_attributes().queue_url(&self.url);
        let found = get.attribute_names(QUEUED).attribute_names(IN_FLIGHT).send().await.map_err(unavailable(PORT))?;
        let counts = found.attributes.unwrap_or_default();
        let count = |name| counts.get(&name).and_then(|count| count.parse().ok()).unwrap_or_default();
        Ok(Depth { queued: count(QUEUED), in_flight: count(IN_FLIGHT) })
    }
}

#[async_trait]
impl Visibility for SqsEvents {
    async fn postpone(&self, receipt: &str, delay: Duration) -> Result<(), Unavailable> {
        postpone(&self.client, &self.url, receipt, delay).await
    }
}

async fn postpone(client: &Client, url: &str, receipt: &str, delay: Duration) -> Result<(), Unavailable> {
    let change = client.change_message_visibility().queue_url(url).receipt_handle(receipt);
    change.visibility_timeout(whole_seconds(delay)).send().await.map_err(unavailable(PORT))?;
    Ok(())
}

/// The queue of dead letters.
#[derive(Clone, Debug)]
pub struct SqsDeadLetters {
    client: Client,
    url: String,
}

impl SqsDeadLetters {
    /// The queue at this URL.
    pub fn new(aws: &SdkConfig, url: impl Into<String>) -> Self {
        Self { client: Client::new(aws), url: url.into() }
    }
}

#[async_trait]
impl DeadLetters for SqsDeadLetters {
    async fn bury(&self, letter: &DeadLetter) -> Result<(), Unavailable> {
        let death = &letter.death;
        let mut send = self
            .client
            .send_message()
            .queue_url(&self.url)
            .message_group_id(&letter.group)
            .message_deduplication_id(&letter.deduplication_id)
            .message_body(&letter.body)
            .message_attributes("reason", attribute(death.reason.as_str())?)
            .message_attributes("error", attribute(&death.error)?)
            .message_attributes("attempts", attribute(&death.attempts.to_string())?)
            .message_attributes("died_at", attribute(&death.at.to_string())?);
        if let Some(effect) = &death.effect {
            send = send.message_attributes("effect", attribute(effect)?);
        }
        send.send().await.map_err(unavailable(PORT))?;
        Ok(())
    }
}

#[async_trait]
impl Visibility for SqsDeadLetters {
    async fn postpone(&self, receipt: &str, delay: Duration) -> Result<(), Unavailable> {
        postpone(&self.client, &self.url, receipt, delay).await
    }
}

#[async_trait]
impl Ticks for SqsDeadLetters {
    async fn send(&self, tick: &Tick) -> Result<(), Unavailable> {
        let body = serde_json::to_string(tick).map_err(|error| unavailable_because(error.to_string()))?;
        let send = self.client.send_message().queue_url(&self.url).message_group_id(LANE).message_body(body);
        let id = format!("tick-{}", tick.batch);
        send.message_deduplication_id(id).send().await.map_err(unavailable(PORT))?;
        Ok(())
    }
}

/// The lane's message group: one container works on it at a time.
const LANE: &str = "lane";

fn attribute(value: &str) -> Result<MessageAttributeValue, Unavailable> {
    // SQS rejects an empty text.
    let value = if value.is_empty() { "-" } else { value };
    let built = MessageAttributeValue::builder().data_type("String").string_value(value).build();
    built.map_err(|error| unavailable_because(error.to_string()))
}

/// The delay in whole seconds, as SQS counts. Rounding up keeps a message from coming before its time.
fn whole_seconds(delay: Duration) -> i32 {
    let delay = delay.min(MAX_VISIBILITY);
    let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn unavailable_because(why: String) -> Unavailable {
    Unavailable { port: PORT, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_never_comes_before_its_time() {
        assert_eq!(whole_seconds(Duration::ZERO), 0);
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_millis(2000)), 2);
        assert_eq!(whole_seconds(Duration::from_millis(2001)), 3);
        assert_eq!(whole_seconds(Duration::MAX), 42_300, "a function runs for a quarter of an hour at most");
    }
}
