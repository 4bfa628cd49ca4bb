//! Deliveries with several events, and events of several flows: what goes wrong in the middle of them harms none, and all is
//! there once the sender has sent it again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::errors::Unavailable;
use shared::base::time::Timestamp;
use shared::flows::{File, Flows};
use shared::ledger::queue::{Queue, lanes};
use shared::ledger::{Admission, Admissions, Row, State};
use shared::model::{ModelLedger, ModelQueue};

use super::faults::FaultyQueue;
use super::http::HttpAnswer;
use super::shapes::{flow, posted, unchanged, world};
use super::world::World;

/// The two flows of an event, under names in either order, with what the second has in its file.
fn both_orders(first: &str, second: &str) -> [Vec<(&'static str, String)>; 2] {
    let named = |names: [&'static str; 2]| vec![(names[0], first.to_owned()), (names[1], second.to_owned())];
    [named(["a", "b"]), named(["b", "a"])]
}

fn paid() -> String {
    flow("stripe", "paid")
}

async fn pay(world: &World, body: &Value, key: Option<&str>) -> HttpAnswer {
    let request = posted(world, "stripe", None, body.to_string().as_bytes());
    let request = key.into_iter().fold(request, |request, key| request.with("idempotency-key", key));
    request.send(world).await
}

fn event(note: &str) -> Value {
    json!({"id": "evt_1", "type": "paid", "note": note})
}

fn keyed_by_header() -> String {
    paid().replace("key: {version: 1, fields: [id]}", "key: {version: 1, header: required}")
}

#[tokio::test]
async fn a_key_of_another_payload_is_rejected_before_any_flow_gets_the_event() {
    for flows in both_orders(&paid(), &keyed_by_header()) {
        let world = world(&[("stripe", "")], &flows);
        assert_eq!(pay(&world, &json!({"id": "evt_0", "type": "paid"}), Some("k")).await.status, 202);
        world.drain().await;
        let rows = world.ledger.rows().len();
        for _ in 0..2 {
            let refused = pay(&world, &event("x"), Some("k")).await;
            assert_eq!((refused.status, refused.problem()), (422, "key-reused"), "{}", refused.body);
            assert!(refused.body["flows"].is_null(), "no flow has it: {}", refused.body);
            assert_eq!((world.ledger.rows().len(), world.events.depth()), (rows, 0));
        }
        assert_eq!(pay(&world, &event("x"), Some("l")).await.status, 202);
    }
}

/// Only where the flows remember the key for different times can one of them know it for another payload, and one not.
#[tokio::test]
async fn what_one_flow_got_before_another_rejected_it_is_sent_and_told() {
    let (short, long) = (keyed_by_header().replace("ttl: 24h", "ttl: 1h"), keyed_by_header());
    for flows in both_orders(&short, &long) {
        let short = flows[0].0;
        let world = world(&[("stripe", "")], &flows);
        assert_eq!(pay(&world, &event("x"), Some("k")).await.status, 202);
        world.drain().await;
        world.clock.advance(Duration::from_secs(2 * 3600));
        for again in [false, true] {
            let calls = world.partners.calls().len();
            let answer = pay(&world, &event("y"), Some("k")).await;
            assert_eq!((answer.status, answer.problem()), (422, "key-reused"), "{}", answer.body);
            world.drain().await;
            if answer.body["flows"].is_null() {
                // The flow that rejects it was asked first: none has it.
                assert_eq!((short, world.partners.calls().len()), ("b", calls));
                continue;
            }
            assert_eq!(answer.body["flows"][short]["replayed"], again, "{}", answer.body);
            assert_eq!(
                world.partners.calls().len(),
                calls + usize::from(!again),
                "what is told to be accepted is done"
            );
        }
        assert!(world.ledger.rows().iter().all(|row| row.state == State::Succeeded));
    }
}

fn windowed() -> String {
    paid()
        .replace("note: {type: string}", "note: {type: string}, at: {type: string}")
        .replace("required: [id]", "required: [id, at]")
        .replace("fields: [id]", "fields: [id], window: {field: at, within: 5m}")
}

#[tokio::test]
async fn a_moment_that_is_no_ones_is_rejected_before_any_flow_gets_the_event() {
    for flows in both_orders(&paid(), &windowed()) {
        let world = world(&[("stripe", "")], &flows);
        let at = |hours: i64| Timestamp::from_secs(crate::fixtures::NOW.secs() + hours * 3600).to_string();
        let of = |hours: i64| json!({"id": "evt_1", "type": "paid", "at": at(hours)});
        let ahead = pay(&world, &of(48), None).await;
        assert_eq!((ahead.status, ahead.problem()), (422, "moment-ahead"));
        unchanged(&world);
        assert_eq!(world.windows.writes(), 0);
        for hours in -70..-4 {
            assert_eq!(pay(&world, &of(hours), None).await.status, 202);
        }
        let rows = world.ledger.rows().len();
        world.drain().await;
        let other = json!({"id": "evt_1", "type": "paid", "at": at(-68)});
        let forgotten = pay(&world, &other, None).await;
        assert_eq!((forgotten.status, forgotten.problem()), (422, "moment-forgotten"), "{}", forgotten.body);
        assert_eq!((world.ledger.rows().len(), world.events.depth()), (rows, 0));
    }
}

/// A ledger that does not answer to some admissions, by their number from 0, or is slow in all.
struct FaultyLedger {
    ledger: ModelLedger,
    refused: Vec<usize>,
    takes: Duration,
    asked: AtomicUsize,
}

impl FaultyLedger {
    fn refusing(ledger: &ModelLedger, refused: impl IntoIterator<Item = usize>) -> Box<Self> {
        let refused = refused.into_iter().collect();
        Box::new(Self { ledger: ledger.clone(), refused, takes: Duration::ZERO, asked: AtomicUsize::new(0) })
    }

    fn slow(ledger: &ModelLedger, takes: Duration) -> Box<Self> {
        Box::new(Self { takes, ..*Self::refusing(ledger, []) })
    }
}

#[async_trait]
impl Admissions for FaultyLedger {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        tokio::time::sleep(self.takes).await;
        if self.refused.contains(&self.asked.fetch_add(1, Ordering::SeqCst)) {
            return Err(Unavailable { port: "the ledger", why: "it is down".into() });
        }
        self.ledger.admit(row, now).await
    }

    async fn admit_parked(&self, row: &Row, event: &Event, now: Timestamp) -> Result<bool, Unavailable> {
        self.ledger.admit_parked(row, event, now).await
    }
}

#[tokio::test]
async fn a_ledger_that_fails_between_two_flows_loses_nothing() {
    for flows in both_orders(&paid(), &paid()) {
        let mut world = world(&[("stripe", "")], &flows);
        world.intake.ledger = FaultyLedger::refusing(&world.ledger, [1]);
        let failed = pay(&world, &event("x"), None).await;
        assert_eq!((failed.status, failed.problem()), (503, "unavailable"), "{}", failed.body);
        assert_eq!(failed.header("retry-after"), Some("5"));
        assert_eq!(failed.body["flows"]["a"]["status"], "accepted", "{}", failed.body);
        world.drain().await;
        assert_eq!(
            world.partners.calls().len(),
            1,
            "what was admitted goes on, though its sender may never come again"
        );
        let again = pay(&world, &event("x"), None).await;
        assert_eq!(again.status, 202, "{}", again.body);
        world.drain().await;
        assert_eq!(world.partners.calls().len(), 2, "each flow once");
    }
}

fn bounces(number: usize) -> Value {
    (0..number).map(|id| json!({"event": "bounce", "id": id})).collect()
}

async fn mail(world: &World, body: &Value) -> HttpAnswer {
    posted(world, "sendgrid", None, body.to_string().as_bytes()).send(world).await
}

fn mailing(more: &str) -> World {
    world(&[("sendgrid", more)], &[("bounces", flow("sendgrid", "bounce"))])
}

/// All of a delivery, once each.
async fn each_once(world: &World, number: usize) {
    world.drain().await;
    assert_eq!(world.partners.calls().len(), number);
    assert_eq!(world.ledger.rows().iter().filter(|row| row.state == State::Succeeded).count(), number);
}

/// A sender of such deliveries cannot send a part of one: a rate below their size would keep the rest out for ever.
#[tokio::test]
async fn a_delivery_is_let_in_by_its_rate_as_a_whole_and_counted_as_a_whole() {
    let world = mailing(", rate: 10/s");
    let first = mail(&world, &bounces(40)).await;
    assert_eq!(first.status, 202, "{}", first.body);
    each_once(&world, 40).await;
    let over = mail(&world, &bounces(41)).await;
    assert_eq!((over.status, over.problem()), (429, "too-many"), "the 40 were counted: {}", over.body);
    assert!(over.header("retry-after").is_some());
    assert_eq!(world.ledger.rows().len(), 40);
    world.clock.advance(Duration::from_secs(5));
    let again = mail(&world, &bounces(41)).await;
    assert_eq!((again.status, again.body["results"][39]["replayed"].as_bool()), (202, Some(true)), "{}", again.body);
    each_once(&world, 41).await;
}

#[tokio::test]
async fn a_part_that_was_not_sent_is_sent_on_the_retry() {
    for refused in [vec![0], vec![2], vec![0, 1, 2, 3, 4]] {
        let mut world = mailing("");
        world.intake.queue = Box::new(FaultyQueue::refusing(world.events.clone(), &refused));
        let failed = mail(&world, &bounces(5)).await;
        assert_eq!((failed.status, failed.problem()), (503, "unavailable"), "{}", failed.body);
        assert_eq!(world.events.depth(), 5 - refused.len());
        world.drain().await;
        assert_eq!(mail(&world, &bounces(5)).await.status, 202);
        each_once(&world, 5).await;
    }
}

#[tokio::test]
async fn a_part_that_was_not_admitted_is_admitted_on_the_retry() {
    for refused in [0, 2, 4] {
        let mut world = mailing("");
        world.intake.ledger = FaultyLedger::refusing(&world.ledger, [refused]);
        let failed = mail(&world, &bounces(5)).await;
        assert_eq!((failed.status, failed.problem()), (503, "unavailable"), "{}", failed.body);
        world.drain().await;
        assert_eq!(world.partners.calls().len(), 4);
        assert_eq!(mail(&world, &bounces(5)).await.status, 202);
        each_once(&world, 5).await;
    }
}

/// A queue at which the container stops for ever, at a message.
struct Stops {
    queue: ModelQueue,
    at: usize,
    sent: Mutex<usize>,
}

#[async_trait]
impl Queue for Stops {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        let number = {
            let mut sent = self.sent.lock().expect("no panic");
            *sent += 1;
            *sent - 1
        };
        if number >= self.at {
            std::future::pending::<()>().await;
        }
        self.queue.send(event).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_two_parts_loses_none() {
    for at in 0..5 {
        let mut world = mailing("");
        world.intake.queue = Box::new(Stops { queue: world.events.clone(), at, sent: Mutex::new(0) });
        let never = tokio::time::timeout(Duration::from_secs(1), mail(&world, &bounces(5))).await;
        assert!(never.is_err(), "the container is gone");
        world.intake.queue = Box::new(world.events.clone());
        world.drain().await;
        assert_eq!(world.partners.calls().len(), at);
        assert_eq!(mail(&world, &bounces(5)).await.status, 202);
        each_once(&world, 5).await;
    }
}

/// A queue that takes this long for a batch, as the adapter sends them.
struct SlowQueue {
    queue: ModelQueue,
    takes: Duration,
}

#[async_trait]
impl Queue for SlowQueue {
    async fn send(&self, event: &Event) -> Result<(), Unavailable> {
        tokio::time::sleep(self.takes).await;
        self.queue.send(event).await
    }

    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>> {
        let sizes: Vec<(&str, usize)> = events.iter().map(|event| (event.group.as_str(), 1000)).collect();
        let rounds = lanes(&sizes).iter().map(Vec::len).max().unwrap_or_default();
        tokio::time::sleep(self.takes * u32::try_from(rounds).expect("few")).await;
        self.queue.send_all(events).await
    }
}

/// The largest delivery that a sender makes, on tables and queues that are slow, in the time that senders wait.
#[tokio::test(start_paused = true)]
async fn a_thousand_events_in_one_delivery_have_their_time() {
    let mut world = mailing("");
    world.intake.ledger = FaultyLedger::slow(&world.ledger, Duration::from_millis(30));
    world.intake.queue = Box::new(SlowQueue { queue: world.events.clone(), takes: Duration::from_millis(60) });
    let began = tokio::time::Instant::now();
    let answer = mail(&world, &bounces(1000)).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!(world.ledger.rows().len(), 1000);
    assert!(began.elapsed() < Duration::from_millis(2200), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_delivery_that_is_split_may_be_larger_than_one_event() {
    let world = mailing("");
    let large = |bytes: usize| posted(&world, "sendgrid", None, &vec![b' '; bytes]);
    assert_eq!(large(64 * 1024 + 1).send(&world).await.status, 413, "as its source says");
    let sources = |split: &str, size: &str| {
        let text = format!("s: {{scheme: github, max_body: {size}, rate: 10/s, type_at: type{split}}}");
        Flows::parse(&[File { path: "sources.yaml".into(), text }]).is_ok()
    };
    assert!(sources(", split: \"[*]\"", "2MiB") && !sources(", split: \"[*]\"", "3MiB"));
    assert!(sources("", "256KiB") && !sources("", "257KiB"));
}
