//! A payload that the ledger never takes: told once, counted, and no event lost sight of.

use std::time::Duration;

use async_trait::async_trait;
use replay::handle;
use serde_json::json;
use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{Closed, InLine, Line, Lines, Reason, Records, Row, Rows, State, WaitsFor};
use shared::model::{ModelLedger, Script};

use super::flows::{cart, shipped};
use super::log::Log;
use super::world::World;
use crate::fixtures::{by_ada, lead, lead_of};

/// A ledger that takes no payload: the item is too large, as far as it says.
#[derive(Clone)]
struct TakesNoPayload(ModelLedger);

fn declined() -> Unavailable {
    Unavailable { port: "the ledger", why: Unavailable::DECLINED.into() }
}

#[async_trait]
impl Lines for TakesNoPayload {
    async fn wait(&self, _: &Closed, _: &Event) -> Result<(), WriteError> {
        Err(declined().into())
    }

    async fn first(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        self.0.first(line).await
    }

    async fn last(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        self.0.last(line).await
    }

    async fn leave(&self, line: &Line, place: &InLine) -> Result<(), Unavailable> {
        self.0.leave(line, place).await
    }

    async fn listed(&self, on: &WaitsFor, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.0.listed(on, until, limit).await
    }
}

#[async_trait]
impl Rows for TakesNoPayload {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        self.0.row(id).await
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        self.0.older(id).await
    }
}

#[async_trait]
impl Records for TakesNoPayload {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.0.parked(limit).await
    }

    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.0.parked_between(since, until, limit).await
    }

    async fn park(&self, _: Option<&Row>, _: &Row, _: &Event) -> Result<(), WriteError> {
        Err(declined().into())
    }

    async fn keep(&self, _: &Event, _: i64) -> Result<(), Unavailable> {
        Err(declined())
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

fn takes_no_payload(mut world: World) -> World {
    let ledger = TakesNoPayload(world.ledger.clone());
    world.processor.lines = Box::new(ledger.clone());
    world.processor.records = Box::new(ledger.clone());
    world.replay.records = Box::new(ledger);
    world
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
