//! The contract of the lists and lines of waiting events.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::stream::{self, StreamExt as _};
use shared::adapters::aws::DynamoLedger;
use shared::arrival::event::Event;
use shared::base::errors::WriteError;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{
    Admissions, Claims, InLine, Lease, Line, Lines, NotClaimed, PassedOver, Records, Row, State, Wait, WaitsFor,
};
use shared::model::{ModelChance, ModelLedger};

use super::{comes, on_model_and_emulator};
use crate::fixtures::{NOW, aws, claim_of, event};

trait Ledger: Admissions + Claims + Records + Lines {}
impl<T: Admissions + Claims + Records + Lines> Ledger for T {}

fn model() -> ModelLedger {
    ModelLedger::default()
}

/// A model whose index shows a tenth of the rows as they were before their last write, others at each query.
fn lagging() -> ModelLedger {
    let ledger = ModelLedger::default();
    ledger.lag(0.1, ModelChance::seeded(17));
    ledger
}

async fn emulator() -> DynamoLedger {
    let table = std::env::var("LEDGERLINE_LEDGER_TABLE").expect("make test names the table");
    DynamoLedger::new(&aws().await, table)
}

on_model_and_emulator!(
    a_worker_that_lost_its_lease_lets_nothing_wait,
    a_woken_event_is_claimed_by_its_own_number_alone,
    who_joins_again_is_not_taken_out_of_the_line,
    ; lagging:
    what_waits_is_written_with_its_payload_and_its_place,
    those_that_are_due_are_listed_in_order,
    what_is_passed_over_hides_nothing_behind_it,
    of_many_that_are_due_at_one_moment_the_first_in_line_is_listed_first,
    pages_of_what_is_passed_over_hide_nothing_behind_them,
);

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(NOW.secs() + secs)
}

/// A name that no other test and no earlier run knows.
fn unique(name: &str) -> String {
    format!("{name}-{}", SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos())
}

async fn claimed(ledger: &impl Ledger, event: &Event, now: Timestamp) -> Lease {
    ledger.claim(&event.id, &claim_of(event, now, &[])).await.expect("an answer").expect("a won claim")
}

async fn held(ledger: &impl Ledger, name: &str, group: &str) -> (Event, Lease) {
    held_of_flow(ledger, name, group, "lead-routing").await
}

async fn held_of_flow(ledger: &impl Ledger, name: &str, group: &str, flow: &str) -> (Event, Lease) {
    let event = Event { group: group.to_owned(), flow: flow.to_owned(), ..event(&unique(name)) };
    ledger.admit(&Row::admitted(&event, NOW), NOW).await.expect("an answer");
    let lease = claimed(ledger, &event, NOW).await;
    (event, lease)
}

fn wait_for(on: &WaitsFor, group: &str) -> Wait {
    Wait { on: on.clone(), why: "a test".into(), group: group.to_owned(), since: NOW, until: None, woken_at: None }
}

async fn row(ledger: &impl Ledger, event: &Event) -> Row {
    ledger.row(&event.id).await.expect("an answer").expect("a row")
}

/// Lets the event wait from that second on.
async fn waits(ledger: &impl Ledger, event: &Event, lease: Lease, on: &WaitsFor, second: i64) {
    let closed = lease.wait(wait_for(on, &event.group), at(second), NOW);
    ledger.wait(&closed, event).await.expect("the lease is held");
}

async fn woken(ledger: &impl Ledger, event: &Event) -> Event {
    let seen = row(ledger, event).await;
    let next = seen.clone().woken(None, NOW).expect("it waits");
    ledger.replace(Some(&seen), &next).await.expect("unchanged");
    Event { wake: next.wake, ..event.clone() }
}

async fn what_waits_is_written_with_its_payload_and_its_place(ledger: impl Ledger) {
    let (event, lease) = held(&ledger, "waits", &unique("group")).await;
    let (line, flow) = (Line::of(&event), WaitsFor::Flow(unique("flow")));
    assert_eq!((ledger.first(&line).await, ledger.last(&line).await), (Ok(None), Ok(None)));
    waits(&ledger, &event, lease, &flow, 3).await;
    let written = row(&ledger, &event).await;
    assert_eq!((written.state, written.place), (State::Waiting, Some(at(3))));
    assert_eq!(ledger.kept(&event.id).await, Ok(Some(event.clone())));
    let place = InLine { place: at(3), id: event.id.clone(), wake: 0 };
    assert_eq!(ledger.first(&line).await, Ok(Some(place.clone())));
    assert_eq!(ledger.last(&line).await, Ok(Some(place)));
    comes(vec![written], async || ledger.listed(&flow, at(60), 10).await.expect("an answer")).await;
}

async fn a_worker_that_lost_its_lease_lets_nothing_wait(ledger: impl Ledger) {
    let (event, lost) = held(&ledger, "lost", &unique("group")).await;
    claimed(&ledger, &event, at(120)).await;
    let closed = lost.wait(wait_for(&WaitsFor::Moment, &event.group), at(1), NOW);
    assert_eq!(ledger.wait(&closed, &event).await, Err(WriteError::Fenced));
    assert_eq!(ledger.kept(&event.id).await, Ok(None));
    assert_eq!(ledger.first(&Line::of(&event)).await, Ok(None));
}

async fn a_woken_event_is_claimed_by_its_own_number_alone(ledger: impl Ledger) {
    let (event, lease) = held(&ledger, "woken", &unique("group")).await;
    waits(&ledger, &event, lease, &WaitsFor::Flow(unique("flow")), 1).await;
    let claim = |event: &Event| claim_of(event, NOW, &[]);
    assert_eq!(ledger.claim(&event.id, &claim(&event)).await, Ok(Err(NotClaimed::Settled)), "it has left the queue");
    let again = woken(&ledger, &event).await;
    assert_eq!(ledger.claim(&event.id, &claim(&event)).await, Ok(Err(NotClaimed::Superseded)));
    let lease = claimed(&ledger, &again, NOW).await;
    assert_eq!((lease.row().wake, &lease.row().listed), (1, &None));
    ledger.forget(&again).await.expect("an answer");
    assert!(ledger.kept(&event.id).await.expect("an answer").is_some(), "it is kept under the number before");
    ledger.forget(&event).await.expect("an answer");
    assert_eq!(ledger.kept(&event.id).await, Ok(None));
}

async fn who_joins_again_is_not_taken_out_of_the_line(ledger: impl Ledger) {
    let (event, lease) = held(&ledger, "again", &unique("group")).await;
    let (line, flow) = (Line::of(&event), WaitsFor::Flow(unique("flow")));
    waits(&ledger, &event, lease, &flow, 1).await;
    let before = ledger.first(&line).await.expect("an answer").expect("it is in line");
    let again = woken(&ledger, &event).await;
    let lease = claimed(&ledger, &again, NOW).await;
    waits(&ledger, &again, lease, &flow, 1).await;
    ledger.leave(&line, &before).await.expect("an answer");
    let place = InLine { wake: 1, ..before };
    assert_eq!(ledger.first(&line).await, Ok(Some(place.clone())));
    ledger.leave(&line, &place).await.expect("an answer");
    assert_eq!(ledger.first(&line).await, Ok(None));
}

async fn those_that_are_due_are_listed_in_order(ledger: impl Ledger) {
    let (flow, group) = (WaitsFor::Flow(unique("flow")), unique("group"));
    let mut ids = Vec::new();
    for second in [4, 2, 9, 3] {
        let (event, lease) = held(&ledger, "due", &group).await;
        waits(&ledger, &event, lease, &flow, second).await;
        ids.push((second, event.id));
    }
    ids.sort();
    let listed = async |until: i64, limit: usize| {
        let rows = ledger.listed(&flow, at(until), limit).await.expect("an answer");
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let all: Vec<_> = ids.iter().map(|(_, id)| id.clone()).collect();
    comes(all.clone(), async || listed(60, 10).await).await;
    comes(all[..3].to_vec(), async || listed(4, 10).await).await;
    comes(all[..2].to_vec(), async || listed(60, 2).await).await;
    let line = Line::of(&Event { group, ..event("any") });
    let first = ledger.first(&line).await.expect("an answer").map(|first| first.id);
    let last = ledger.last(&line).await.expect("an answer").map(|last| last.id);
    assert_eq!((first.as_ref(), last.as_ref()), (all.first(), all.last()));
}

/// Lets so many events of a flow wait for one moment, the first of them at the last place in their line.
async fn wait_for_one_moment(ledger: &impl Ledger, list: &WaitsFor, flow: &str, count: usize) -> Vec<EventId> {
    let group = unique("group");
    let waiting = (0..count).map(async |number| {
        let (event, lease) = held_of_flow(ledger, &format!("{number}-{flow}"), &group, flow).await;
        let wait = Wait { until: Some(at(5)), ..wait_for(list, &group) };
        let place = at(2) + Duration::from_millis((count - number) as u64);
        ledger.wait(&lease.wait(wait, place, NOW), &event).await.expect("the lease is held");
        event.id
    });
    stream::iter(waiting).buffered(20).collect().await
}

/// DynamoDB has the rows of one moment in any order. More of them than a page has wait behind the first of their entity.
async fn of_many_that_are_due_at_one_moment_the_first_in_line_is_listed_first(ledger: impl Ledger) {
    let list = WaitsFor::Flow(unique("flow"));
    let ids = wait_for_one_moment(&ledger, &list, "lead-routing", 120).await;
    for few in [1, 5] {
        let first_in_line: Vec<EventId> = ids.iter().rev().take(few).cloned().collect();
        let listed = async || ledger.listed(&list, at(60), few).await.expect("an answer");
        comes(first_in_line, async || listed().await.into_iter().map(|row| row.id).collect()).await;
    }
}

/// A page that has nothing but what is passed over is read past.
async fn pages_of_what_is_passed_over_hide_nothing_behind_them(ledger: impl Ledger) {
    let list = WaitsFor::Flow(unique("flow"));
    let slow = wait_for_one_moment(&ledger, &list, "slow", 120).await;
    let (quick, lease) = held_of_flow(&ledger, "quick", &unique("group"), "quick").await;
    waits(&ledger, &quick, lease, &list, 30).await;
    let passed = PassedOver { events: slow.into_iter().collect(), ..PassedOver::default() };
    let listed = async || ledger.listed_past(&passed, &list, at(60), 1).await.expect("an answer");
    comes(vec![quick.id], async || listed().await.rows.into_iter().map(|row| row.id).collect()).await;
}

async fn what_is_passed_over_hides_nothing_behind_it(ledger: impl Ledger) {
    let (list, group) = (WaitsFor::Flow(unique("flow")), unique("group"));
    let mut ids = Vec::new();
    for second in 1..=8 {
        let flow = if second <= 5 { "slow" } else { "quick" };
        let (event, lease) = held_of_flow(&ledger, "passed", &group, flow).await;
        waits(&ledger, &event, lease, &list, second).await;
        ids.push(event.id);
    }
    let mut passed = PassedOver { flows: ["slow", "none"].map(str::to_owned).into(), ..PassedOver::default() };
    for quick in &ids[5..] {
        let listed = async || ledger.listed_past(&passed, &list, at(60), 1).await.expect("an answer");
        comes(vec![quick.clone()], async || listed().await.rows.into_iter().map(|row| row.id).collect()).await;
        let listed = listed().await;
        assert!(listed.unreadable.is_empty() && !listed.has_newer);
        passed.events.insert(quick.clone());
    }
    comes(Vec::new(), async || ledger.listed_past(&passed, &list, at(60), 1).await.expect("an answer").rows).await;
}
