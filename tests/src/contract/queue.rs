//! The queues' contract: what of SQS FIFO the protocol leans on.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use shared::adapters::aws::{SqsDeadLetters, SqsEvents};
use shared::arrival::event::Event;
use shared::base::machine::Clock as _;
use shared::base::time::Timestamp;
use shared::ledger::queue::{DeadLetter, DeadLetters, Depth, Depths, Queue, Visibility};
use shared::ledger::{Death, Reason};
use shared::model::{Delivered, ModelClock, ModelQueue};

use super::{comes, on_model_and_emulator};
use crate::fixtures::{NOW, aws, event};

/// Longer than any test takes: what was received stays in flight.
const VISIBILITY: Duration = Duration::from_secs(60);
/// For the tests that wait until a message comes back.
const BRIEF: Duration = Duration::from_secs(2);
const MAX_RECEIVES: usize = 3;

/// A pair of queues under test: our ports, and the consumer's side that Lambda plays in AWS.
#[async_trait]
pub(super) trait Queues: Send + Sync {
    /// Another pair, whose messages come back soon.
    async fn brief(&self) -> Self
    where
        Self: Sized;
    fn events(&self) -> &dyn Queue;
    fn visibility(&self) -> &dyn Visibility;
    fn dead_letters(&self) -> &dyn DeadLetters;
    fn depths(&self) -> &dyn Depths;
    async fn receive(&self) -> Vec<Delivered>;
    async fn receive_dead(&self) -> Vec<Delivered>;
    async fn delete(&self, receipt: &str);
    async fn pass(&self, time: Duration);
}

on_model_and_emulator!(
    a_repeated_message_is_swallowed_even_after_its_delivery,
    a_replay_is_not_swallowed,
    deduplication_is_per_group,
    a_group_comes_in_order_and_groups_mix_in_a_batch,
    a_group_is_withheld_while_its_head_is_in_flight,
    a_postponed_head_withholds_its_visible_tail,
    a_message_comes_back_after_its_visibility_timeout,
    an_old_receipt_deletes_nothing,
    a_message_that_is_received_too_often_is_moved_as_it_is,
    a_dead_letter_brings_its_context,
    what_waits_and_what_is_in_flight_are_counted,
);

/// What the emulator does not do as AWS does, and the model does as AWS documents it.
mod limits {
    use shared::model::{BadCharacters, QueueLimits};

    use super::*;

    fn queue(limits: QueueLimits) -> (ModelClock, ModelQueue) {
        let clock = ModelClock::at(NOW);
        (clock.clone(), ModelQueue::new(clock, VISIBILITY).with_limits(limits))
    }

    fn put(queue: &ModelQueue, group: &str, body: &str) -> Result<(), String> {
        let sent = queue.put(group, &format!("{group}-{}", body.len()), body, BTreeMap::new());
        sent.map_err(|error| error.why)
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let (_, queue) = queue(QueueLimits::REAL);
        assert_eq!(put(&queue, "a", &"x".repeat(256 * 1024)), Ok(()));
        assert_eq!(put(&queue, "a", &"x".repeat(256 * 1024 + 1)), Err("InvalidParameterValue".into()));
        assert_eq!(put(&queue, "a", ""), Err("InvalidParameterValue".into()));
        assert_eq!(put(&queue, &"g".repeat(129), "x"), Err("InvalidParameterValue".into()));
        assert_eq!(put(&queue, "no spaces", "x"), Err("InvalidParameterValue".into()));
        let attributes = BTreeMap::from([("error".to_owned(), "x".repeat(1024))]);
        assert!(queue.put("a", "with", &"x".repeat(256 * 1024 - 512), attributes).is_err(), "attributes count");
        assert_eq!(queue.depth(), 1);
    }

    #[test]
    fn characters_that_are_not_taken_are_refused_or_replaced() {
        for bad in ["\u{0}", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
            let (_, queue) = queue(QueueLimits::REAL);
            assert_eq!(put(&queue, "a", bad), Err("InvalidMessageContents".into()), "{bad:?}");
        }
        let (_, queue) = queue(QueueLimits { characters: BadCharacters::Replaced, ..QueueLimits::REAL });
        assert_eq!(put(&queue, "a", "a\u{ffff}\tb"), Ok(()));
        assert_eq!(queue.receive(1)[0].body, "a\u{fffd}\tb");
    }

    #[test]
    fn a_full_queue_is_silent_and_looks_no_further_than_it_may() {
        let (clock, queue) = queue(QueueLimits { in_flight: 2, searched: 3, ..QueueLimits::REAL });
        for (group, body) in [("a", "1"), ("a", "22"), ("a", "333"), ("b", "4444")] {
            put(&queue, group, body).expect("it is taken");
        }
        let received = queue.receive(10);
        assert_eq!(received.len(), 2, "two in flight");
        assert_eq!((queue.receive(10), queue.next_receipt()), (vec![], Some(clock.now() + VISIBILITY)));
        // One is deleted. The other one still withholds its group, and the free one is among the first three now.
        queue.delete(&received[0].receipt);
        let groups: Vec<String> = queue.receive(10).into_iter().map(|message| message.group).collect();
        assert_eq!(groups, ["b"]);
    }

    #[test]
    fn what_is_too_old_is_gone_in_flight_or_not() {
        let (clock, queue) = queue(QueueLimits { retention: Duration::from_secs(60), ..QueueLimits::REAL });
        put(&queue, "a", "1").expect("it is taken");
        put(&queue, "b", "22").expect("it is taken");
        clock.advance(Duration::from_secs(58));
        assert_eq!(queue.receive(1).len(), 1);
        assert_eq!(queue.take_expired(), []);
        clock.advance(Duration::from_secs(2));
        assert_eq!((queue.receive(10), queue.depth(), queue.take_expired().len()), (vec![], 0, 2));
    }
}

fn of_group(id: &str, group: &str) -> Event {
    Event { group: group.into(), ..event(id) }
}

async fn send(queues: &impl Queues, events: &[(&str, &str)]) {
    for (id, group) in events {
        queues.events().send(&of_group(id, group)).await.expect("the queue answers");
    }
}

/// Receives until so many messages have come, or none comes any more: a poll may bring fewer than there are.
async fn received(count: usize, receive: impl AsyncFn() -> Vec<Delivered>) -> Vec<Delivered> {
    let (mut all, mut in_vain) = (receive().await, 0);
    while all.len() < count && in_vain < 3 {
        let more = receive().await;
        in_vain += usize::from(more.is_empty());
        all.extend(more);
    }
    all
}

async fn some(queues: &impl Queues, count: usize) -> Vec<Delivered> {
    received(count, async || queues.receive().await).await
}

async fn some_dead(queues: &impl Queues, count: usize) -> Vec<Delivered> {
    received(count, async || queues.receive_dead().await).await
}

/// The event's ids, by the provider's name for them.
fn ids(batch: &[Delivered]) -> Vec<String> {
    let event = |delivered: &Delivered| serde_json::from_str::<Event>(&delivered.body).expect("an event");
    batch
        .iter()
        .map(|delivered| event(delivered).payload["data"]["event_id"].as_str().unwrap_or("?").to_owned())
        .collect()
}

async fn a_repeated_message_is_swallowed_even_after_its_delivery(queues: impl Queues) {
    send(&queues, &[("one", "a"), ("one", "a")]).await;
    let batch = some(&queues, 1).await;
    assert_eq!(ids(&batch), ["one"]);
    queues.delete(&batch[0].receipt).await;
    send(&queues, &[("one", "a")]).await;
    assert_eq!(queues.receive().await, []);
}

async fn a_replay_is_not_swallowed(queues: impl Queues) {
    send(&queues, &[("one", "a")]).await;
    let first = some(&queues, 1).await;
    queues.delete(&first[0].receipt).await;
    let replay = Event { replay: 1, ..of_group("one", "a") };
    queues.events().send(&replay).await.expect("the queue answers");
    queues.events().send(&replay).await.expect("the queue answers");
    assert_eq!(ids(&some(&queues, 1).await), ["one"]);
}

async fn deduplication_is_per_group(queues: impl Queues) {
    send(&queues, &[("one", "a"), ("one", "b")]).await;
    assert_eq!(ids(&some(&queues, 2).await), ["one", "one"]);
}

async fn a_group_comes_in_order_and_groups_mix_in_a_batch(queues: impl Queues) {
    send(&queues, &[("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a")]).await;
    let batch = some(&queues, 5).await;
    let of = |group: &str| -> Vec<String> { ids(&batch).into_iter().filter(|id| id.starts_with(group)).collect() };
    assert_eq!(of("a"), ["a1", "a2", "a3"]);
    assert_eq!(of("b"), ["b1", "b2"]);
}

async fn a_group_is_withheld_while_its_head_is_in_flight(queues: impl Queues) {
    send(&queues, &[("a1", "a")]).await;
    let head = some(&queues, 1).await;
    send(&queues, &[("a2", "a"), ("b1", "b")]).await;
    assert_eq!(ids(&some(&queues, 1).await), ["b1"]);
    queues.delete(&head[0].receipt).await;
    assert_eq!(ids(&some(&queues, 1).await), ["a2"]);
}

async fn a_postponed_head_withholds_its_visible_tail(queues: impl Queues) {
    let (queues, batch) = with_a_postponed_head(&queues).await;
    // Past the queue's own visibility timeout, and before the head's time.
    queues.pass(BRIEF + Duration::from_millis(500)).await;
    assert_eq!(queues.receive().await, []);
    queues.visibility().postpone(&batch[0].receipt, Duration::from_secs(1)).await.expect("the queue answers");
    queues.pass(Duration::from_millis(1500)).await;
    assert_eq!(ids(&some(&queues, 2).await), ["a1", "a2"]);
}

/// Brief queues with a group of two in flight, of which the first comes back late and the second could come at once.
/// Where the machine took so long that they came back by themselves, there are others.
async fn with_a_postponed_head<Q: Queues>(queues: &Q) -> (Q, Vec<Delivered>) {
    loop {
        let queues = queues.brief().await;
        send(&queues, &[("a1", "a"), ("a2", "a")]).await;
        let began = Instant::now();
        let batch = some(&queues, 2).await;
        assert_eq!(ids(&batch), ["a1", "a2"]);
        let head = queues.visibility().postpone(&batch[0].receipt, VISIBILITY).await;
        let tail = queues.visibility().postpone(&batch[1].receipt, Duration::ZERO).await;
        if began.elapsed() < BRIEF {
            assert_eq!((head, tail), (Ok(()), Ok(())));
            return (queues, batch);
        }
    }
}

async fn a_message_comes_back_after_its_visibility_timeout(queues: impl Queues) {
    send(&queues, &[("one", "a")]).await;
    assert_eq!(ids(&some(&queues, 1).await), ["one"]);
    assert_eq!(queues.receive().await, [], "it is in flight");
    let queues = queues.brief().await;
    send(&queues, &[("one", "a")]).await;
    let first = some(&queues, 1).await;
    queues.pass(BRIEF + Duration::from_millis(300)).await;
    let second = some(&queues, 1).await;
    assert_eq!((first[0].receives, second[0].receives), (1, 2));
    assert_eq!(first[0].message_id, second[0].message_id);
}

async fn an_old_receipt_deletes_nothing(queues: impl Queues) {
    let queues = queues.brief().await;
    send(&queues, &[("one", "a")]).await;
    let first = some(&queues, 1).await;
    queues.pass(BRIEF + Duration::from_millis(300)).await;
    some(&queues, 1).await;
    queues.delete(&first[0].receipt).await;
    queues.pass(BRIEF + Duration::from_millis(300)).await;
    assert_eq!(ids(&some(&queues, 1).await), ["one"]);
}

async fn a_message_that_is_received_too_often_is_moved_as_it_is(queues: impl Queues) {
    send(&queues, &[("one", "a"), ("two", "a")]).await;
    for receives in 1..=MAX_RECEIVES {
        let batch = some(&queues, 2).await;
        assert_eq!((ids(&batch), batch[0].receives), (vec!["one".into(), "two".into()], receives));
        queues.visibility().postpone(&batch[1].receipt, Duration::ZERO).await.expect("the queue answers");
        queues.visibility().postpone(&batch[0].receipt, Duration::ZERO).await.expect("the queue answers");
    }
    let left = queues.receive().await;
    let dead = some_dead(&queues, 2).await;
    assert_eq!(ids(&dead), ["one", "two"], "left: {left:?}");
    assert_eq!(dead[0].group, "a");
    assert!(dead[0].attributes.is_empty(), "the queue adds no context");
}

async fn a_dead_letter_brings_its_context(queues: impl Queues) {
    let death = Death {
        reason: Reason::Terminal,
        effect: Some("crm".into()),
        error: "answered 400".into(),
        attempts: 2,
        at: NOW,
    };
    let letter = DeadLetter { body: "{}".into(), group: "a".into(), deduplication_id: "d".into(), death };
    queues.dead_letters().bury(&letter).await.expect("the queue answers");
    queues.dead_letters().bury(&letter).await.expect("the queue answers");
    let dead = some_dead(&queues, 1).await;
    let context: Vec<(&str, &str)> = dead[0].attributes.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let died_at = NOW.to_string();
    let expected = [
        ("attempts", "2"),
        ("died_at", &died_at),
        ("effect", "crm"),
        ("error", "answered 400"),
        ("reason", "terminal"),
    ];
    assert_eq!(context, expected);
    assert_eq!(dead.len(), 1);
}

async fn what_waits_and_what_is_in_flight_are_counted(queues: impl Queues) {
    let depth = async || queues.depths().depth().await;
    comes(Ok(Depth { queued: 0, in_flight: 0 }), &depth).await;
    send(&queues, &[("1", "a"), ("2", "b"), ("3", "b")]).await;
    comes(Ok(Depth { queued: 3, in_flight: 0 }), &depth).await;
    let delivered = some(&queues, 1).await;
    let in_flight = delivered.len();
    comes(Ok(Depth { queued: 3 - in_flight, in_flight }), &depth).await;
    queues.delete(&delivered[0].receipt).await;
    comes(Ok(Depth { queued: 3 - in_flight, in_flight: in_flight - 1 }), &depth).await;
}

struct Model {
    clock: ModelClock,
    events: ModelQueue,
    dead: ModelQueue,
}

fn model() -> Model {
    model_with(VISIBILITY)
}

fn model_with(visibility: Duration) -> Model {
    let clock = ModelClock::at(NOW);
    let dead = ModelQueue::new(clock.clone(), visibility);
    let events = ModelQueue::new(clock.clone(), visibility).redrive_to(dead.clone(), MAX_RECEIVES);
    Model { clock, events, dead }
}

#[async_trait]
impl Queues for Model {
    async fn brief(&self) -> Self {
        model_with(BRIEF)
    }
    fn events(&self) -> &dyn Queue {
        &self.events
    }
    fn visibility(&self) -> &dyn Visibility {
        &self.events
    }
    fn dead_letters(&self) -> &dyn DeadLetters {
        &self.dead
    }
    fn depths(&self) -> &dyn Depths {
        &self.events
    }
    async fn receive(&self) -> Vec<Delivered> {
        self.events.receive(10)
    }
    async fn receive_dead(&self) -> Vec<Delivered> {
        self.dead.receive(10)
    }
    async fn delete(&self, receipt: &str) {
        self.events.delete(receipt);
    }
    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

pub(super) struct EmulatedQueues {
    client: Client,
    events_url: String,
    dead_url: String,
    events: SqsEvents,
    dead: SqsDeadLetters,
}

pub(super) async fn emulator() -> EmulatedQueues {
    emulator_with(VISIBILITY).await
}

async fn emulator_with(visibility: Duration) -> EmulatedQueues {
    let aws = aws().await;
    let client = Client::new(&aws);
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    // Who runs the suite on AWS deletes the queues by the start of their names.
    let prefix = std::env::var("LEDGERLINE_CONTRACT_PREFIX").unwrap_or_else(|_| "contract".into());
    let visibility = (QueueAttributeName::VisibilityTimeout, visibility.as_secs().to_string());
    let dead_url = create(&client, &format!("{prefix}-{unique}-dlq.fifo"), HashMap::from([visibility.clone()])).await;
    let arn = client.get_queue_attributes().queue_url(&dead_url).attribute_names(QueueAttributeName::QueueArn);
    let arn =
        arn.send().await.expect("an answer").attributes.expect("attributes")[&QueueAttributeName::QueueArn].clone();
    let redrive = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"{MAX_RECEIVES}"}}"#);
    let attributes = HashMap::from([visibility, (QueueAttributeName::RedrivePolicy, redrive)]);
    let events_url = create(&client, &format!("{prefix}-{unique}.fifo"), attributes).await;
    let (events, dead) = (SqsEvents::new(&aws, &events_url), SqsDeadLetters::new(&aws, &dead_url));
    EmulatedQueues { client, events_url, dead_url, events, dead }
}

async fn create(client: &Client, name: &str, more: HashMap<QueueAttributeName, String>) -> String {
    let mut attributes = HashMap::from([
        (QueueAttributeName::FifoQueue, "true".to_owned()),
        (QueueAttributeName::DeduplicationScope, "messageGroup".to_owned()),
        (QueueAttributeName::FifoThroughputLimit, "perMessageGroupId".to_owned()),
    ]);
    attributes.extend(more);
    let created = client.create_queue().queue_name(name).set_attributes(Some(attributes)).send().await;
    created.expect("the emulator makes a queue").queue_url.expect("a URL")
}

impl EmulatedQueues {
    pub(super) fn dead_letters_url(&self) -> &str {
        &self.dead_url
    }

    pub(super) fn events_url(&self) -> &str {
        &self.events_url
    }

    async fn receive_from(&self, url: &str) -> Vec<Delivered> {
        let received = self
            .client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(10)
            // A short poll asks some servers only, and may find nothing where something is.
            .wait_time_seconds(1)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await
            .expect("an answer");
        received.messages.unwrap_or_default().into_iter().map(delivered).collect()
    }
}

fn delivered(message: aws_sdk_sqs::types::Message) -> Delivered {
    let system = message.attributes.unwrap_or_default();
    let moment = |name| Some(Timestamp::from_millis(system.get(&name)?.parse().ok()?));
    let attributes = message.message_attributes.unwrap_or_default();
    let attributes: BTreeMap<String, String> =
        attributes.into_iter().map(|(name, value)| (name, value.string_value.unwrap_or_default())).collect();
    Delivered {
        message_id: message.message_id.unwrap_or_default(),
        receipt: message.receipt_handle.unwrap_or_default(),
        group: system[&MessageSystemAttributeName::MessageGroupId].clone(),
        body: message.body.unwrap_or_default(),
        attributes,
        receives: system[&MessageSystemAttributeName::ApproximateReceiveCount].parse().expect("a number"),
        sent_at: moment(MessageSystemAttributeName::SentTimestamp),
        first_received_at: moment(MessageSystemAttributeName::ApproximateFirstReceiveTimestamp),
    }
}

#[async_trait]
impl Queues for EmulatedQueues {
    async fn brief(&self) -> Self {
        emulator_with(BRIEF).await
    }
    fn events(&self) -> &dyn Queue {
        &self.events
    }
    fn visibility(&self) -> &dyn Visibility {
        &self.events
    }
    fn dead_letters(&self) -> &dyn DeadLetters {
        &self.dead
    }
    fn depths(&self) -> &dyn Depths {
        &self.events
    }
    async fn receive(&self) -> Vec<Delivered> {
        self.receive_from(&self.events_url).await
    }
    async fn receive_dead(&self) -> Vec<Delivered> {
        self.receive_from(&self.dead_url).await
    }
    async fn delete(&self, receipt: &str) {
        // A receipt that is too old may be an error, and must not delete.
        let _ = self.client.delete_message().queue_url(&self.events_url).receipt_handle(receipt).send().await;
    }
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
