//! A port that does not answer once: nothing that is known is lost, and nothing is asked or done that should not be.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use replay::park_batch;
use serde_json::json;
use shared::arrival::event::Event;
use shared::base::document::{DocumentStore, Stored};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::machine::Clock;
use shared::base::time::Timestamp;
use shared::effects::cap::{Caps, Count, CountError, Counter};
use shared::flows::Flows;
use shared::ledger::queue::Received;
use shared::ledger::{Claim, Claims, Closed, Lease, NotClaimed, Reason, Records, Row, Rows, State};
use shared::model::ModelLedger;
use shared::operate::stale_guard::Latest;
use shared::operate::switchboard::{Board, Switchboard};

use super::flows::{cart, shipped};
use super::world::{World, flows_with};
use crate::fixtures::{files, lead, lead_of};

/// A port whose call of this number, from 1, gets no answer.
struct Silent<P> {
    port: P,
    at: usize,
    calls: AtomicUsize,
}

impl<P> Silent<P> {
    fn at(at: usize, port: P) -> Box<Self> {
        Box::new(Silent { port, at, calls: AtomicUsize::new(0) })
    }

    fn answers(&self) -> Result<&P, Unavailable> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if call == self.at { Err(Unavailable { port: "the port", why: "down".into() }) } else { Ok(&self.port) }
    }
}

#[async_trait]
impl Latest for Silent<Box<dyn Latest>> {
    async fn applied(&self, key: &str) -> Result<Option<Timestamp>, Unavailable> {
        self.port.applied(key).await
    }

    async fn apply(&self, key: &str, at: Timestamp, expires_at: i64) -> Result<Option<Timestamp>, Unavailable> {
        self.answers()?.apply(key, at, expires_at).await
    }
}

#[async_trait]
impl Caps for Silent<Box<dyn Caps>> {
    async fn read(&self, key: &str) -> Result<Counter, Unavailable> {
        self.answers()?.read(key).await
    }

    async fn record(&self, lease: &Lease, counts: &[Count]) -> Result<(), CountError> {
        self.port.record(lease, counts).await
    }
}

#[async_trait]
impl DocumentStore<Board> for Silent<Box<dyn DocumentStore<Board>>> {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.answers()?.read().await
    }

    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        self.port.put(board, seen).await
    }
}

#[async_trait]
impl Rows for Silent<Box<dyn Records>> {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        self.port.row(id).await
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        self.port.older(id).await
    }
}

#[async_trait]
impl Records for Silent<Box<dyn Records>> {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.port.parked(limit).await
    }

    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.port.parked_between(since, until, limit).await
    }

    async fn park(&self, seen: Option<&Row>, next: &Row, event: &Event) -> Result<(), WriteError> {
        self.port.park(seen, next, event).await
    }

    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable> {
        self.answers()?.keep(event, expires_at).await
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        self.port.kept(id).await
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        self.port.forget(event).await
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        self.port.replace(seen, next).await
    }
}

/// The shipped flow for leads with these lines more.
fn world_with(more: &str) -> World {
    World::with(flows_with(|yaml| yaml.replace("\nttl:", &format!("\n{more}\nttl:"))))
}

#[tokio::test]
async fn what_is_done_stays_done_when_what_was_applied_last_is_not_noted() {
    let mut world = world_with("latest_wins: true");
    world.processor.latest = Silent::at(1, world.processor.latest);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.poll().await;
    let row = world.row(&id).await;
    assert_eq!((row.state, row.effects["crm"].progress.as_str()), (State::Retrying, "done"));
    world.drain().await;
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Succeeded, 1));
}

/// Two caps on one channel: at most one an hour and two a day.
const TWO_CAPS: &str = "guards:
  - cap: {channel: email, entity: \"{{ event.data.email }}\", limit: 1, per: 1h}
  - cap: {channel: email, entity: \"{{ event.data.email }}\", limit: 2, per: 24h}";

#[tokio::test]
async fn what_is_done_stays_done_when_the_caps_of_the_next_effect_are_not_read() {
    let mut files = files();
    let second = "  - id: again\n    integration: crm\n    request: {method: POST, path: /again}\n\nretry:";
    files[2].text =
        files[2].text.replace("\nttl:", &format!("\n{TWO_CAPS}\nttl:")).replacen("\nretry:", &format!("\n{second}"), 1);
    let mut world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    world.processor.caps = Silent::at(2, world.processor.caps);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.poll().await;
    let row = world.row(&id).await;
    let progress: Vec<&str> = row.effects.values().map(|entry| entry.progress.as_str()).collect();
    assert_eq!((row.state, progress), (State::Retrying, vec!["done"]));
    world.drain().await;
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Succeeded, 2));
}

#[tokio::test]
async fn two_caps_on_one_channel_hold_each_for_its_own_time() {
    let world = world_with(TWO_CAPS);
    let mut states = Vec::new();
    for (n, hours) in [(1, 0), (2, 0), (3, 2), (4, 4), (5, 21)] {
        world.clock.advance(Duration::from_secs(3600 * hours));
        let lead = lead_of(&format!("evt_{n}"), "ada@example.com");
        let id = world.post(&lead).await.expect("a good lead").id;
        world.drain().await;
        states.push(world.row(&id).await.state);
    }
    use State::{Noop, Succeeded};
    assert_eq!(states, [Succeeded, Noop, Succeeded, Noop, Succeeded], "one an hour, and two a day");
}

#[tokio::test]
async fn a_question_whose_payload_was_not_kept_once_is_posted_all_the_same() {
    let mut world = shipped().await;
    world.processor.records = Silent::at(1, world.processor.records);
    let id = cart(&world, json!({"discount_percent": 40})).await;
    world.poll().await;
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Retrying, 0));
    world.drain().await;
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::AwaitingApproval, 1));
    let story = world.story(&id).await;
    assert!(story.contains(&"awaiting approval: asked in Slack".to_owned()), "{story:?}");
}

#[tokio::test]
async fn a_container_that_never_read_the_switchboard_stands_still() {
    let mut world = World::new();
    let store: Box<dyn DocumentStore<Board>> = Box::new(world.board.clone());
    world.processor.switchboard = Switchboard::new(Silent::at(1, store));
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.poll().await;
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Queued, 0), "it is not claimed");
    assert_eq!(world.metrics.sum("StoodStill{}"), 1);
    world.drain().await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

/// Who may invoke the replay function can say that anything is a dead letter.
#[tokio::test]
async fn a_letter_that_was_made_up_changes_nothing() {
    let world = World::new();
    let id = world.post(&lead()).await.expect("a good lead").id;
    let sent = world.events.receive(1).remove(0);
    let event: Event = serde_json::from_str(&sent.body).expect("an event");
    let before = world.row(&id).await;
    let mut payload = event.payload.clone();
    payload["data"]["email"] = json!("mallory@example.com");
    for fingerprint in [None, event.fingerprint.clone()] {
        let made_up = Event { payload: payload.clone(), fingerprint, ..event.clone() };
        let body = serde_json::to_string(&made_up).expect("an event");
        let (message_id, receipt, group) = ("m".to_owned(), "r".to_owned(), sent.group.clone());
        let (sent_at, first_received_at) = (None, None);
        let letter = Received { message_id, receipt, group, body, sent_at, first_received_at };
        let kept = park_batch(&world.replay, vec![letter]).await;
        assert_eq!((kept, world.row(&id).await), (Vec::new(), before.clone()));
        assert_eq!(world.ledger.payload(&id), None, "no payload is kept");
    }
    // The queue's own letter is.
    let letter = Received { message_id: "m".into(), receipt: "r".into(), ..sent.received() };
    park_batch(&world.replay, vec![letter]).await;
    assert_eq!(world.row(&id).await.death.map(|death| death.reason), Some(Reason::Undelivered));
}

/// A ledger that has a row which it cannot read.
struct Scribbled<P>(P, EventId);

/// From now on nobody can read this event's row.
pub(crate) fn scribble_row(world: &mut World, id: EventId) {
    let claims: Box<dyn Claims> = Box::new(world.ledger.clone());
    world.processor.ledger = Box::new(Scribbled(claims, id.clone()));
    world.replay.records = Box::new(Scribbled(world.ledger.clone(), id));
}

fn unreadable() -> Unavailable {
    Unavailable { port: "the ledger", why: format!("{}: no such state", Unavailable::UNREADABLE) }
}

#[async_trait]
impl Claims for Scribbled<Box<dyn Claims>> {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable> {
        if *id == self.1 { Err(unreadable()) } else { self.0.claim(id, claim).await }
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.0.record(lease).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}

#[async_trait]
impl Rows for Scribbled<ModelLedger> {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        if *id == self.1 { Err(unreadable()) } else { self.0.row(id).await }
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        self.0.older(id).await
    }
}

#[async_trait]
impl Records for Scribbled<ModelLedger> {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.0.parked(limit).await
    }

    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.0.parked_between(since, until, limit).await
    }

    async fn park(&self, seen: Option<&Row>, next: &Row, event: &Event) -> Result<(), WriteError> {
        self.0.park(seen, next, event).await
    }

    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable> {
        self.0.keep(event, expires_at).await
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        self.0.kept(id).await
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        self.0.forget(event).await
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        self.0.replace(seen, next).await
    }
}

/// A fault that never heals: told once, counted, and parked with its reason. The row is not overwritten.
#[tokio::test]
async fn an_event_whose_row_cannot_be_read_is_told_once_and_parked_beside_it() {
    let mut world = World::new();
    let id = world.post(&lead()).await.expect("a good lead").id;
    let other = world.post(&lead_of("evt_2", "b@example.com")).await.expect("a good lead").id;
    let before = world.row(&id).await;
    scribble_row(&mut world, id.clone());
    world.drain().await;
    assert_eq!(world.metrics.sum("UnreadableRows{}"), 1, "not with each redelivery");
    assert_eq!(world.row(&other).await.state, State::Succeeded, "others go on");
    for _ in 0..2 {
        world.park().await;
    }
    assert_eq!(world.row(&id).await, before);
    let parked = world.ledger.parked(10).await.expect("a list");
    let deaths: Vec<_> =
        parked.iter().filter_map(|row| Some((row.death.as_ref()?.reason, row.flow.as_str()))).collect();
    assert_eq!(deaths, [(Reason::Unreadable, "lead-routing")]);
    assert!(parked[0].death.as_ref().is_some_and(|death| death.error.contains(id.as_str())), "{parked:?}");
    let kept = world.ledger.payload(&parked[0].id).expect("the message is kept");
    assert!(kept.payload.as_str().is_some_and(|body| body.contains("evt_1001")), "{kept:?}");
    assert_eq!(world.dead_letters.depth(), 0);
}

/// With more parked than the schedule reads at both ends, what lies between is come to in time.
#[tokio::test]
async fn the_schedule_comes_to_what_lies_in_the_middle() {
    let world = World::new();
    let id = world.post(&lead()).await.expect("a good lead").id;
    let sent = world.events.receive(1).remove(0);
    world.events.delete(&sent.receipt);
    let (event, row): (Event, Row) = (serde_json::from_str(&sent.body).expect("an event"), world.row(&id).await);
    let now = world.clock.now();
    for n in 0..12_000_u32 {
        let dead = Row { id: EventId::named(format!("{n:064x}")), ..row.clone() };
        world.ledger.overwrite(&dead.park(now + Duration::from_secs(u64::from(n))));
    }
    // A replay that was cut off before it sent the message.
    let middle = row.clone().park(now + Duration::from_secs(6_000));
    let replayed = middle.replayed(crate::fixtures::ADA, now + Duration::from_secs(6_000)).expect("it may be");
    world.ledger.overwrite(&replayed);
    world.ledger.keep(&event, 0).await.expect("kept");
    world.clock.advance(Duration::from_secs(13_000));
    let mut runs = 0;
    while world.events.depth() == 0 {
        let done = replay::handle(&world.replay, json!({"op": "schedule"})).await;
        assert_eq!(done["error"], json!(null), "{done}");
        runs += 1;
        assert!(runs < 40, "the schedule never comes to it");
    }
}
