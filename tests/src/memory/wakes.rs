//! Ticks that wake: a slow partner, a broken row and a long list hold up nobody behind them.

use std::time::Duration;

use async_trait::async_trait;
use replay::handle;
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::document::DocumentStore;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::format::FORMAT;
use shared::base::id::EventId;
use shared::base::machine::Clock as _;
use shared::base::time::Timestamp;
use shared::flows::{File, Flows};
use shared::ledger::queue::{Depth, Depths};
use shared::ledger::{Admissions as _, Claims as _, Lines as _, Reason, Records, Row, Rows, State, Wait, WaitsFor};
use shared::model::{ModelClock, ModelLedger};
use shared::operate::switchboard::{self, Board, change_waits};

use super::log::Log;
use super::not_kept::{FaultyLedger, LedgerFault};
use super::world::World;
use crate::fixtures::{claim_of, event, files};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The plain flow, and one like it whose partner is called once a minute.
fn quick_and_slow() -> Flows {
    let mut files = files();
    files[1].text.push_str("slow: {base_url: https://slow.example.com, timeout: 3s, rate: 1/min}\n");
    let slow = files[2].text.replace("name: lead-routing", "name: slow-mail").replace("lead.created", "lead.slow");
    let slow = slow.replace("integration: crm", "integration: slow").replace("\nttl:", "\nmax_age: 72h\nttl:");
    files.push(File { path: "flows/slow-mail.yaml".into(), text: slow });
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Events of a flow that have left the queue, each of an entity of its own, and are due then.
async fn let_wait(world: &World, flow: &str, numbers: std::ops::Range<usize>, due: Timestamp) -> Vec<EventId> {
    waiting(world, flow, numbers, due, |number| (format!("{flow}-{number}"), world.clock.now())).await
}

/// The same of one entity, in the order of their numbers.
async fn let_wait_in_line(world: &World, flow: &str, numbers: std::ops::Range<usize>, due: Timestamp) -> Vec<EventId> {
    let place = |number: usize| world.clock.now() + Duration::from_millis(number as u64);
    waiting(world, flow, numbers, due, |number| (format!("{flow}-0"), place(number))).await
}

/// Events that wait, each of a group and at a place.
async fn waiting(
    world: &World,
    flow: &str,
    numbers: std::ops::Range<usize>,
    due: Timestamp,
    stands: impl Fn(usize) -> (String, Timestamp),
) -> Vec<EventId> {
    let (now, any, on) = (world.clock.now(), event("evt_waits"), WaitsFor::Moment);
    let mut ids = Vec::new();
    for number in numbers {
        let id = EventId::named(format!("{number:04x}-{flow}"));
        let (group, place) = stands(number);
        let event = Event { id: id.clone(), flow: flow.into(), group, ..any.clone() };
        world.ledger.admit(&Row::admitted(&event, now), now).await.expect("an answer");
        let claimed = world.ledger.claim(&id, &claim_of(&event, now, &[])).await.expect("an answer");
        let (group, until) = (event.group.clone(), Some(due));
        let wait = Wait { on: on.clone(), why: "a test".into(), group, since: now, until, woken_at: None };
        let closed = claimed.expect("a won claim").wait(wait, place, now);
        world.ledger.wait(&closed, &event).await.expect("it waits");
        ids.push(id);
    }
    change_waits(&world.board, |board| board.with_waits(flow, &on, now)).await.expect("it is marked");
    ids
}

async fn states(world: &World, ids: &[EventId]) -> Vec<State> {
    let mut states = Vec::new();
    for id in ids {
        states.push(world.row(id).await.state);
    }
    states
}

#[tokio::test]
async fn a_slow_partner_hides_no_event_that_is_due_behind_its_own() {
    let world = World::with(quick_and_slow());
    let now = world.clock.now();
    let_wait(&world, "slow-mail", 0..5000, now + SECOND).await;
    let ids = let_wait(&world, "lead-routing", 0..10, now + 2 * SECOND).await;
    world.clock.advance(MINUTE);
    assert_eq!(world.wake().await, 11, "one of the slow partner, and all of the other");
    assert_eq!(states(&world, &ids).await, [State::Queued; 10]);
}

/// One a minute is what the partner's rate allows, so that nobody needs to know for how long the last one waits.
#[tokio::test]
async fn what_a_partners_rate_holds_back_is_not_overdue() {
    let world = World::with(quick_and_slow());
    let_wait(&world, "slow-mail", 0..20, world.clock.now() + SECOND).await;
    for _ in 0..20 {
        world.clock.advance(MINUTE);
        assert_eq!(world.wake().await, 1);
    }
    assert_eq!(world.metrics.values("OldestWaitingOverdue{}"), [0; 20]);
}

#[tokio::test]
async fn a_row_that_is_never_woken_takes_no_share_of_its_partner() {
    for broken in [LedgerFault::RowOf, LedgerFault::Unreadable, LedgerFault::PayloadOf] {
        let mut world = World::with(quick_and_slow());
        let now = world.clock.now();
        let ids = let_wait(&world, "slow-mail", 0..3, now + SECOND).await;
        decline(&mut world, broken(ids[0].clone()));
        for tick in 1..=2 {
            world.clock.advance(MINUTE);
            assert_eq!(world.wake().await, 1, "one a minute goes");
            let queued = states(&world, &ids[1..]).await.into_iter().filter(|state| *state == State::Queued).count();
            assert_eq!(queued, tick);
        }
    }
}

/// From now on the ledger does not do this.
fn decline(world: &mut World, what: LedgerFault) {
    let ledger = FaultyLedger(world.ledger.clone(), what);
    world.processor.lines = Box::new(ledger.clone());
    world.processor.records = Box::new(ledger.clone());
    world.replay.lines = Box::new(ledger.clone());
    world.replay.records = Box::new(ledger);
}

/// The reasons of all that is parked, each with its error.
async fn parked(world: &World) -> Vec<(Reason, String)> {
    let parked = world.ledger.parked(10).await.expect("an answer");
    let death = |row: Row| row.death.map(|death| (death.reason, death.error));
    parked.into_iter().filter_map(death).collect()
}

#[tokio::test]
async fn a_waiting_event_whose_payload_is_gone_is_parked_with_its_reason_and_told_once() {
    for is_full in [false, true] {
        let mut world = World::with(quick_and_slow());
        let now = world.clock.now();
        let ids = let_wait(&world, "lead-routing", 0..2, now + SECOND).await;
        let kept = world.ledger.payload(&ids[0]).expect("it is kept");
        world.ledger.forget(&kept).await.expect("an answer");
        if is_full {
            decline(&mut world, LedgerFault::RowOf(ids[0].clone()));
        }
        let log = Log::capture();
        for tick in 0..20 {
            world.clock.advance(MINUTE);
            let woken = world.wake().await;
            assert!(tick > 0 || woken == 1, "the other one goes at once");
        }
        let [(reason, error)] = &parked(&world).await[..] else { panic!("{:?}", parked(&world).await) };
        let expected =
            if is_full { (Reason::Unreadable, "payload is gone") } else { (Reason::NotKept, "payload no more") };
        assert!(*reason == expected.0 && error.contains(expected.1), "{reason:?}: {error}");
        let told = log.text().lines().filter(|line| line.contains("\"ERROR\"")).count();
        let counted = world.metrics.sum("PayloadsNotKept{}") + world.metrics.sum("UnreadableRows{}");
        assert_eq!((told, counted), (1, 1), "{}", log.text());
        let listed = handle(&world.replay, json!({"op": "list"})).await;
        assert_eq!(listed["matching"], 1, "{listed}");
    }
}

#[tokio::test]
async fn a_payload_that_is_not_answered_for_holds_up_no_other_event() {
    let mut world = World::with(quick_and_slow());
    let now = world.clock.now();
    let ids = let_wait(&world, "lead-routing", 0..30, now + SECOND).await;
    decline(&mut world, LedgerFault::NoAnswerFor(ids[0].clone()));
    world.clock.advance(MINUTE);
    assert_eq!(world.wake().await, 29);
    decline(&mut world, LedgerFault::Nothing);
    for _ in 0..3 {
        world.poll().await;
    }
    world.clock.advance(10 * MINUTE);
    assert_eq!(world.wake().await, 1, "it is sent when it is answered for");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_stood_in_for_with_its_payload_and_counted_once() {
    let mut world = World::with(quick_and_slow());
    let now = world.clock.now();
    let ids = let_wait(&world, "lead-routing", 0..2, now + SECOND).await;
    decline(&mut world, LedgerFault::Unreadable(ids[0].clone()));
    for _ in 0..5 {
        world.clock.advance(MINUTE);
        world.wake().await;
    }
    assert_eq!(world.metrics.sum("UnreadableRows{}"), 1);
    let [row] = &world.ledger.parked(10).await.expect("an answer")[..] else { panic!("one is parked") };
    let kept = world.ledger.payload(&row.id).expect("its payload");
    assert!(kept.payload.as_str().is_some_and(|text| text.contains("evt_waits")), "the whole message is kept");
    assert!(row.death.as_ref().is_some_and(|death| death.error.contains(ids[0].as_str())));
}

/// Nobody reads a list any more when its flow's mark is gone: what cannot be read is seen to before, though it is not due.
#[tokio::test]
async fn a_row_that_cannot_be_read_is_stood_in_for_before_its_mark_is_gone() {
    let mut world = World::with(quick_and_slow());
    let now = world.clock.now();
    let ids = let_wait(&world, "lead-routing", 0..1, now + 600 * MINUTE).await;
    decline(&mut world, LedgerFault::Unreadable(ids[0].clone()));
    for _ in 0..3 {
        world.clock.advance(60 * MINUTE);
        world.wake().await;
    }
    assert_eq!((parked(&world).await.len(), world.metrics.sum("UnreadableRows{}")), (1, 1));
}

/// That version wakes it, and looks only where a mark is.
#[tokio::test]
async fn a_mark_stays_while_a_row_of_a_newer_version_waits() {
    let mut world = World::with(quick_and_slow());
    let now = world.clock.now();
    let ids = let_wait(&world, "lead-routing", 0..1, now + 600 * MINUTE).await;
    decline(&mut world, LedgerFault::Newer(ids[0].clone()));
    for _ in 0..5 {
        world.clock.advance(60 * MINUTE);
        world.wake().await;
    }
    let (board, _) = switchboard::look(&world.board).await.expect("the board");
    assert!(board.waits().contains_key("lead-routing") && parked(&world).await.is_empty());
    assert!(world.metrics.sum("NewerFormat{}") > 0);
}

/// An operator turns a switch of a newer version, and rolls back.
#[tokio::test]
async fn a_switch_that_is_not_understood_stops_no_wakes_of_other_flows() {
    let world = World::with(quick_and_slow());
    let now = world.clock.now();
    let ids = let_wait(&world, "lead-routing", 0..3, now + 40 * MINUTE).await;
    let stored = DocumentStore::<Board>::read(&world.board).await.expect("an answer").expect("it is marked");
    let mut board: Value = serde_json::from_str(&stored.text).expect("JSON");
    board["flows"] = json!({"slow-mail": {"half_speed": true}});
    world.board.in_format(FORMAT + 1).scribble(stored.version + 1, &board.to_string());
    world.clock.advance(41 * MINUTE);
    assert_eq!(world.wake().await, 3, "though their mark cannot be renewed");
    assert_eq!(states(&world, &ids).await, [State::Queued; 3]);
    let listed = handle(&world.replay, json!({"op": "list", "only": {"state": "waiting"}})).await;
    assert_eq!(listed["error"], Value::Null, "{listed}");
}

/// A queue of so many messages.
struct LongQueue(usize);

#[async_trait]
impl Depths for LongQueue {
    async fn depth(&self) -> Result<Depth, Unavailable> {
        Ok(Depth { queued: self.0, in_flight: 1 })
    }
}

/// SQS counts the tail of an entity whose head is in flight as available. Others must not wait for it.
#[tokio::test]
async fn a_long_queue_makes_wakes_few_and_only_a_full_one_stops_them() {
    for (queued, woken) in [(5000, 700), (5001, 600), (60_000, 600), (60_001, 0)] {
        let mut world = World::with(quick_and_slow());
        let now = world.clock.now();
        let_wait(&world, "lead-routing", 0..700, now + SECOND).await;
        world.replay.depths = Box::new(LongQueue(queued));
        world.clock.advance(MINUTE);
        assert_eq!(world.wake().await, woken, "behind {queued}");
    }
}

/// More are due with the first of an entity than a tick takes, and the index has them in any order.
#[tokio::test]
async fn the_first_of_an_entity_is_woken_before_any_number_that_wait_behind_it() {
    let mut files = files();
    files[1].text.push_str("slow: {base_url: https://slow.example.com, timeout: 3s, rate: 1/min}\n");
    files[2].text = files[2].text.replace("integration: crm", "integration: slow");
    let mut world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    let due = world.clock.now() + SECOND;
    world.replay.depths = Box::new(LongQueue(5001));
    let ids = let_wait_in_line(&world, "lead-routing", 0..1000, due).await;
    for woken in &ids[..3] {
        world.clock.advance(MINUTE);
        assert_eq!(world.wake().await, 1, "one a minute goes");
        assert_eq!(world.row(woken).await.state, State::Queued, "the first in line");
    }
}

/// A ledger in which every write takes its time.
struct Slow(ModelLedger, ModelClock);

#[async_trait]
impl Rows for Slow {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        self.0.row(id).await
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        self.0.older(id).await
    }
}

#[async_trait]
impl Records for Slow {
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
        self.1.advance(Duration::from_millis(100));
        self.0.replace(seen, next).await
    }
}

#[tokio::test]
async fn a_long_list_leaves_time_for_the_others() {
    let mut world = World::with(quick_and_slow());
    let now = world.clock.now();
    let_wait(&world, "lead-routing", 0..400, now + SECOND).await;
    let crm = WaitsFor::Integration("crm".into());
    let ids = let_wait(&world, "slow-mail", 0..1, now + SECOND).await;
    let row = world.row(&ids[0]).await;
    let wait = row.wait.clone().map(|wait| Wait { on: crm.clone(), until: None, ..wait });
    world.ledger.overwrite(&Row { wait, listed: Some("i0/crm".into()), ..row });
    change_waits(&world.board, |board| board.with_waits("slow-mail", &crm, now)).await.expect("it is marked");
    world.replay.records = Box::new(Slow(world.ledger.clone(), world.clock.clone()));
    world.clock.advance(MINUTE);
    let began = world.clock.now();
    let woken = world.wake().await;
    assert_eq!(states(&world, &ids).await, [State::Queued], "{woken} were woken");
    assert!(world.clock.now().since(began) < Duration::from_secs(25) && woken < 400, "{woken} were woken");
}
