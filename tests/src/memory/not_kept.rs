//! A payload or a row that the ledger never takes: told once, counted, and no event lost sight of.

use std::time::Duration;

use async_trait::async_trait;
use replay::handle;
use serde_json::json;
use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::machine::Clock as _;
use shared::base::time::Timestamp;
use shared::ledger::{
    Claim, Claims, Closed, InLine, Lease, Line, Lines, Listed, NotClaimed, PassedOver, Reason, Records, Row, Rows,
    SignOff, State, WaitsFor,
};
use shared::model::{ModelLedger, Script};
use shared::operate::switchboard::{self, Subject, Turn};

use super::flows::{cart, shipped};
use super::log::Log;
use super::world::World;
use crate::fixtures::{by_ada, lead, lead_of};

/// A ledger that takes no payload, or no more writes of one row: the item is too large, as far as it says.
#[derive(Clone)]
pub(crate) struct FaultyLedger(pub(crate) ModelLedger, pub(crate) LedgerFault);

/// What it does not take.
#[derive(Clone, PartialEq)]
pub(crate) enum LedgerFault {
    /// It does all that it is asked.
    Nothing,
    Payloads,
    RowOf(EventId),
    /// The row of an event cannot be read.
    Unreadable(EventId),
    /// A newer version wrote the row of an event, and this one cannot read it.
    Newer(EventId),
    /// The payload of an event cannot be read.
    PayloadOf(EventId),
    /// Nobody is told who stands last in a line, today.
    NoLine,
    /// Nothing that leaves the queue is answered for, today: it is not written, or it is.
    NoAnswerToWaits(bool),
    /// The payload of an event is not answered for, today.
    NoAnswerFor(EventId),
}

fn declined() -> Unavailable {
    Unavailable { port: "the ledger", why: Unavailable::DECLINED.into() }
}

fn down() -> Unavailable {
    Unavailable { port: "the ledger", why: "down".into() }
}

fn unreadable() -> Unavailable {
    Unavailable { port: "the ledger", why: format!("{}: a test", Unavailable::UNREADABLE) }
}

#[async_trait]
impl Lines for FaultyLedger {
    async fn wait(&self, closed: &Closed, event: &Event) -> Result<(), WriteError> {
        self.takes_payload()?;
        match self.1 {
            LedgerFault::NoAnswerToWaits(false) => Err(down().into()),
            LedgerFault::NoAnswerToWaits(true) => self.0.wait(closed, event).await.and(Err(down().into())),
            _ => self.0.wait(closed, event).await,
        }
    }

    async fn first(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        self.0.first(line).await
    }

    async fn last(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        if self.1 == LedgerFault::NoLine { Err(down()) } else { self.0.last(line).await }
    }

    async fn leave(&self, line: &Line, place: &InLine) -> Result<(), Unavailable> {
        self.0.leave(line, place).await
    }

    async fn listed_past(
        &self,
        passed: &PassedOver,
        on: &WaitsFor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Listed, Unavailable> {
        let mut listed = self.0.listed_past(passed, on, until, limit).await?;
        let broken = listed.rows.extract_if(.., |row| self.1 == LedgerFault::Unreadable(row.id.clone()));
        listed.unreadable = broken.map(|row| row.id).collect();
        let newer = listed.rows.extract_if(.., |row| self.1 == LedgerFault::Newer(row.id.clone()));
        listed.has_newer = newer.count() > 0;
        Ok(listed)
    }
}

#[async_trait]
impl Rows for FaultyLedger {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        match &self.1 {
            LedgerFault::Unreadable(broken) if broken == id => Err(unreadable()),
            LedgerFault::Newer(newer) if newer == id => {
                Err(Unavailable { port: "the ledger", why: Unavailable::NEWER.into() })
            }
            _ => self.0.row(id).await,
        }
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        self.0.older(id).await
    }
}

#[async_trait]
impl Records for FaultyLedger {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.0.parked(limit).await
    }

    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.0.parked_between(since, until, limit).await
    }

    async fn park(&self, seen: Option<&Row>, next: &Row, event: &Event) -> Result<(), WriteError> {
        self.takes_payload()?;
        self.takes_row(next)?;
        self.0.park(seen, next, event).await
    }

    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable> {
        self.takes_payload()?;
        self.0.keep(event, expires_at).await
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        match &self.1 {
            LedgerFault::PayloadOf(broken) if broken == id => Err(unreadable()),
            LedgerFault::NoAnswerFor(silent) if silent == id => Err(down()),
            _ => self.0.kept(id).await,
        }
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        self.0.forget(event).await
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        self.takes_row(next)?;
        self.0.replace(seen, next).await
    }
}

impl FaultyLedger {
    fn takes_payload(&self) -> Result<(), Unavailable> {
        if self.1 == LedgerFault::Payloads { Err(declined()) } else { Ok(()) }
    }

    fn takes_row(&self, row: &Row) -> Result<(), Unavailable> {
        if self.1 == LedgerFault::RowOf(row.id.clone()) { Err(declined()) } else { Ok(()) }
    }
}

fn takes_no_payload(mut world: World) -> World {
    take_no_payload(&mut world);
    world
}

/// From now on the ledger takes no payload.
pub(crate) fn take_no_payload(world: &mut World) {
    let ledger = FaultyLedger(world.ledger.clone(), LedgerFault::Payloads);
    world.processor.lines = Box::new(ledger.clone());
    world.processor.records = Box::new(ledger.clone());
    world.replay.records = Box::new(ledger);
}

#[tokio::test]
async fn an_event_that_cannot_leave_the_queue_waits_on_it() {
    let world = takes_no_payload(World::new());
    handle(&world.replay, by_ada(json!({"op": "pause", "flow": "lead-routing"}))).await;
    let log = Log::capture();
    let id = world.post(&lead()).await.expect("a good lead").id;
    for _ in 0..40 {
        world.poll().await;
        world.clock.advance(Duration::from_secs(60));
    }
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Retrying, 0));
    assert_eq!(world.metrics.sum("PayloadsNotKept{}"), 1, "not with each redelivery");
    assert_eq!(log.text().matches("does not take the payload of an event").count(), 1);
    handle(&world.replay, by_ada(json!({"op": "resume", "flow": "lead-routing"}))).await;
    world.drain().await;
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Succeeded, 1));
}

#[tokio::test]
async fn a_question_whose_payload_can_never_be_kept_is_not_asked_and_parked_with_its_reason() {
    let world = takes_no_payload(shipped().await);
    let id = cart(&world, json!({"discount_percent": 40})).await;
    world.drain().await;
    assert_eq!(world.partners.calls().len(), 0, "nobody is asked what he could not answer");
    assert_eq!(world.row(&id).await.death.map(|death| death.reason), Some(Reason::NotKept));
    world.park().await;
    let list = handle(&world.replay, json!({"op": "list"})).await;
    assert_eq!((&list["parked"][0]["id"], &list["parked"][0]["reason"]), (&json!(id), &json!("not_kept")), "{list}");
    assert_eq!(world.dead_letters.depth(), 0);
}

/// The event is seen with what it died of. Only its payload is gone.
#[tokio::test]
async fn a_letter_whose_payload_can_never_be_kept_is_parked_without_it() {
    let world = takes_no_payload(World::new());
    world.partners.script([Script::Status(400)]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    let other = world.post(&lead_of("evt_2", "b@example.com")).await.expect("a good lead").id;
    world.drain().await;
    for _ in 0..2 {
        world.park().await;
    }
    assert_eq!((world.dead_letters.depth(), world.metrics.sum("PayloadsNotKept{}")), (0, 1));
    assert_eq!(world.row(&other).await.state, State::Succeeded);
    let row = world.row(&id).await;
    assert!(row.is_parked() && world.ledger.payload(&id).is_none());
    let death = row.death.expect("dead");
    assert_eq!((death.reason, &*death.error), (Reason::Terminal, "answered 400; its payload could not be kept"));
    let replayed = handle(&world.replay, by_ada(json!({"op": "replay", "id": id}))).await;
    assert!(replayed["error"].as_str().is_some_and(|error| error.contains("payload is not kept")), "{replayed}");
    assert_eq!(handle(&world.replay, by_ada(json!({"op": "drop", "id": id}))).await["state"], "dropped");
}

/// One row that takes no more must not keep the others from being woken, those behind it in the same tick included.
#[tokio::test]
async fn a_waiting_event_whose_row_takes_no_more_holds_up_no_other_and_is_parked_beside_it() {
    let mut world = World::new();
    handle(&world.replay, by_ada(json!({"op": "pause", "flow": "lead-routing"}))).await;
    let mut ids = Vec::new();
    for number in 0..4 {
        let lead = lead_of(&format!("evt_{number}"), &format!("{number}@example.com"));
        ids.push(world.post(&lead).await.expect("a good lead").id);
    }
    for _ in 0..20 {
        world.poll().await;
        world.clock.advance(Duration::from_secs(10));
    }
    let log = Log::capture();
    world.replay.records = Box::new(FaultyLedger(world.ledger.clone(), LedgerFault::RowOf(ids[1].clone())));
    handle(&world.replay, by_ada(json!({"op": "resume", "flow": "lead-routing"}))).await;
    for _ in 0..10 {
        world.poll().await;
        world.wake().await;
        world.clock.advance(Duration::from_secs(60));
    }
    let mut states = Vec::new();
    for id in &ids {
        states.push(world.row(id).await.state);
    }
    assert_eq!(states, [State::Succeeded, State::Waiting, State::Succeeded, State::Succeeded]);
    let list = handle(&world.replay, json!({"op": "list"})).await;
    assert_eq!((&list["matching"], &list["parked"][0]["reason"]), (&json!(1), &json!("unreadable")), "{list}");
    assert_eq!(
        log.text().matches("the row of a waiting event cannot be read, or takes no more").count(),
        1,
        "told once"
    );
}

/// Two events of one entity that wait because their flow is paused, and the flow that is free again.
async fn two_of_one_entity() -> (World, [EventId; 2]) {
    let world = World::new();
    handle(&world.replay, by_ada(json!({"op": "pause", "flow": "lead-routing"}))).await;
    let head = world.post(&lead_of("evt_1", "ada@example.com")).await.expect("a good lead").id;
    let next = world.post(&lead_of("evt_2", "ada@example.com")).await.expect("a good lead").id;
    for _ in 0..20 {
        world.poll().await;
        world.clock.advance(Duration::from_secs(10));
    }
    assert_eq!((world.row(&head).await.state, world.row(&next).await.state), (State::Waiting, State::Waiting));
    (world, [head, next])
}

async fn free(world: &World) {
    let free = [(Subject::Flow("lead-routing".into()), Turn::Resume)];
    let sign_off = SignOff { by: "ada", why: "it is free" };
    switchboard::turn(&world.board, &free, sign_off, &world.replay.flows, world.clock.now()).await.expect("turned");
    world.clock.advance(Duration::from_secs(6));
}

pub(crate) fn spoil(world: &mut World, what: LedgerFault) {
    let ledger = FaultyLedger(world.ledger.clone(), what);
    world.processor.lines = Box::new(ledger.clone());
    world.processor.records = Box::new(ledger.clone());
    world.replay.lines = Box::new(ledger.clone());
    world.replay.records = Box::new(ledger);
}

/// Who is stood in for stands before nobody any more.
#[tokio::test]
async fn a_broken_head_holds_up_no_other_event_of_its_entity() {
    for broken in [LedgerFault::RowOf, LedgerFault::Unreadable] {
        let (mut world, [head, next]) = two_of_one_entity().await;
        spoil(&mut world, broken(head.clone()));
        free(&world).await;
        for _ in 0..3 {
            world.wake().await;
            world.poll().await;
            world.clock.advance(Duration::from_secs(60));
        }
        assert_eq!(
            (world.ledger.get(&head).expect("a row").state, world.row(&next).await.state),
            (State::Waiting, State::Succeeded)
        );
        let line = Line::of(&world.ledger.payload(&head).expect("it is kept"));
        assert_eq!(world.ledger.line(&line), [], "nobody is left in the line");
    }
}

/// Nobody has woken anything yet, and no lease is left open.
#[tokio::test]
async fn an_event_behind_a_head_that_cannot_be_read_goes_on_at_once() {
    let (mut world, [head, _]) = two_of_one_entity().await;
    let newest = world.post(&lead_of("evt_3", "ada@example.com")).await.expect("a good lead").id;
    free(&world).await;
    spoil(&mut world, LedgerFault::Unreadable(head));
    let log = Log::capture();
    world.poll().await;
    assert_eq!(world.row(&newest).await.state, State::Waiting, "behind the one that can be read");
    assert!(!log.text().contains("ledger write failed"), "{}", log.text());
}

/// A newer version knows what becomes of it: it is neither passed over nor taken out of its line.
#[tokio::test]
async fn a_head_that_a_newer_version_wrote_is_not_overtaken() {
    let (mut world, [head, next]) = two_of_one_entity().await;
    spoil(&mut world, LedgerFault::Newer(head.clone()));
    free(&world).await;
    world.wake().await;
    world.poll().await;
    let line = Line::of(&world.ledger.payload(&head).expect("it is kept"));
    assert_eq!(world.ledger.line(&line).first().map(|first| first.id.clone()), Some(head.clone()));
    assert_eq!((world.row(&next).await.state, world.partners.calls().len()), (State::Retrying, 0));
    spoil(&mut world, LedgerFault::Nothing);
    world.wake().await;
    world.drain().await;
    let paths: Vec<String> = world.partners.calls().into_iter().map(|(_, call)| call.path).collect();
    assert_eq!(paths, ["/leads/evt_1", "/leads/evt_2"], "in their order");
}

#[tokio::test]
async fn a_letter_whose_row_a_newer_version_wrote_is_left_to_it() {
    let mut world = World::new();
    world.partners.script([Script::Status(400)]);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.drain().await;
    spoil(&mut world, LedgerFault::Newer(id.clone()));
    for _ in 0..3 {
        assert_eq!(world.park().await.len(), 1, "the letter stays on its queue");
        world.clock.advance(Duration::from_secs(200));
    }
    assert_eq!((world.ledger.parked(10).await, world.dead_letters.depth()), (Ok(vec![]), 1));
    spoil(&mut world, LedgerFault::Nothing);
    world.park().await;
    assert!(world.row(&id).await.is_parked() && world.dead_letters.depth() == 0);
}

/// Its payload cannot be kept, and its flow is paused until it is too old.
#[tokio::test]
async fn an_event_that_can_never_leave_the_queue_dies_of_that() {
    let world = takes_no_payload(World::new());
    handle(&world.replay, by_ada(json!({"op": "pause", "flow": "lead-routing"}))).await;
    let id = world.post(&lead()).await.expect("a good lead").id;
    let max_age = world.processor.flows.flow("lead-routing").expect("the flow").max_age;
    let until = world.clock.now() + max_age + Duration::from_secs(3600);
    let mut polls = 0;
    while let Some(at) = world.events.next_receipt().filter(|at| *at < until) {
        world.clock.advance(at.since(world.clock.now()));
        world.poll().await;
        polls += 1;
    }
    let death = world.row(&id).await.death.expect("it is dead");
    assert_eq!(death.reason, Reason::NotKept, "{}", death.error);
    assert!(death.error.contains("does not take its payload") && death.error.contains("(paused)"), "{}", death.error);
    assert!(polls < 500, "{polls} receives");
    assert_eq!(
        (world.events.depth(), world.dead_letters.depth()),
        (0, 1),
        "its letter is sent, and nothing is in flight"
    );
    world.park().await;
    assert!(world.row(&id).await.is_parked() && world.partners.calls().is_empty());
    assert_eq!(world.metrics.sum("PayloadsNotKept{}"), 2, "once as it could not leave, once as it was parked");
}

/// A ledger whose row of an event cannot be read by any claim.
struct Unclaimable;

#[async_trait]
impl Claims for Unclaimable {
    async fn claim(&self, _: &EventId, _: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable> {
        Err(unreadable())
    }

    async fn record(&self, _: &Lease) -> Result<(), WriteError> {
        Err(unreadable().into())
    }

    async fn close(&self, _: &Closed) -> Result<(), WriteError> {
        Err(unreadable().into())
    }
}

/// The patience counts from the fault, and not from the event's acceptance: a deploy has its time to mend the row.
#[tokio::test]
async fn an_old_event_whose_row_cannot_be_read_is_waited_for_as_long_as_a_young_one() {
    let mut world = World::new();
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.clock.advance(Duration::from_secs(30 * 3600));
    world.processor.ledger = Box::new(Unclaimable);
    for hour in 0..24 {
        world.poll().await;
        assert_eq!((world.events.depth(), world.dead_letters.depth()), (1, 0), "after {hour} hours");
        world.clock.advance(Duration::from_secs(3600));
    }
    world.poll().await;
    assert_eq!((world.events.depth(), world.dead_letters.depth()), (0, 1), "it is a letter in time");
    assert_eq!((world.row(&id).await.state, world.metrics.sum("UnreadableRows{}")), (State::Queued, 1));
}
