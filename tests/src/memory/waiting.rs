//! Waiting: long waits leave the queue, and nobody is overtaken, forgotten or held up by them.

use std::collections::BTreeMap;
use std::time::Duration;

use ::replay::handle;
use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::machine::Clock as _;
use shared::flows::{File, Flows};
use shared::ledger::queue::Depths;
use shared::ledger::{SignOff, State};
use shared::operate::switchboard::{self, Subject, Turn};

use super::world::{World, flows_with};
use crate::fixtures::{by_ada, files, lead_of};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

async fn operate(world: &World, operation: Value) -> Value {
    handle(&world.replay, operation).await
}

async fn switch(world: &World, op: &str) -> Value {
    operate(world, by_ada(json!({"op": op, "flow": "lead-routing"}))).await
}

/// The plain flow, and one like it that nobody hears of at night. The CRM bears so many calls.
fn day_and_night() -> Flows {
    let mut files = files();
    let night = files[2].text.replace("name: lead-routing", "name: night-mail").replace("lead.created", "lead.night");
    let guards = "contact: {tenant: \"{{ event.data.tenant }}\", email: \"{{ event.data.email }}\"}\n\
        guards:\n  - quiet_hours: {from: \"21:00\", to: \"08:00\", zone: Europe/Berlin}\n\neffects:";
    let night = night.replace("effects:", guards).replace("\nttl:", "\nmax_age: 24h\nttl:");
    files.push(File { path: "flows/night-mail.yaml".into(), text: night });
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

async fn post(world: &World, kind: &str, number: usize, person: usize) -> EventId {
    let mut lead = lead_of(&format!("{kind}_{number}"), &format!("{person}@example.com"));
    lead["type"] = kind.into();
    world.post(&lead).await.expect("a good lead").id
}

/// Works off what can be received now.
async fn work(world: &World) {
    while world.events.next_receipt() == Some(world.clock.now()) {
        world.poll().await;
    }
}

async fn in_flight(world: &World) -> usize {
    Depths::depth(&world.events).await.expect("the model answers").in_flight
}

/// The calls to the partner, by entity, in order: the numbers of the events, each once.
fn numbers(world: &World, people: usize) -> BTreeMap<usize, Vec<usize>> {
    let mut numbers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (_, call) in world.partners.calls() {
        let number: usize = call.path.rsplit('_').next().and_then(|n| n.parse().ok()).expect("a number");
        let of_person = numbers.entry(number % people).or_default();
        if of_person.last() != Some(&number) {
            of_person.push(number);
        }
    }
    numbers
}

fn assert_in_order(world: &World, people: usize) {
    for (person, numbers) in numbers(world, people) {
        assert!(numbers.is_sorted(), "{person}: {numbers:?}");
    }
}

fn states(world: &World, flow: &str) -> BTreeMap<&'static str, usize> {
    let mut states = BTreeMap::new();
    for row in world.ledger.rows().iter().filter(|row| row.flow == flow) {
        *states.entry(row.state.as_str()).or_default() += 1;
    }
    states
}

const AT_NIGHT: usize = 5000;
const PEOPLE: usize = 500;

/// How long each event of the other flow took, by the virtual clock, from the evening to the morning.
async fn a_night(events: usize) -> (World, Vec<Duration>, usize) {
    let mut world = World::with(day_and_night());
    world.limit_queue(500);
    // 22:00 in UTC: it is night in Berlin, until 07:00.
    world.clock.advance(13 * 60 * MINUTE);
    let (mut took, mut most, mut posted) = (Vec::new(), 0, 0);
    for second in 0..9 * 3600_usize {
        let evening = second < 400;
        if !evening && second % 60 != 0 {
            world.clock.advance(SECOND);
            continue;
        }
        for _ in 0..20 {
            if posted < events {
                post(&world, "lead.night", posted, posted % PEOPLE).await;
                posted += 1;
            }
        }
        if second % 60 == 0 {
            world.wake().await;
            let id = post(&world, "lead.created", second, 100_000 + second).await;
            let began = world.clock.now();
            work(&world).await;
            most = most.max(in_flight(&world).await);
            assert_eq!(world.row(&id).await.state, State::Succeeded, "{second} s");
            took.push(world.clock.now().since(began));
        }
        work(&world).await;
        most = most.max(in_flight(&world).await);
        world.clock.advance(SECOND);
    }
    (world, took, most)
}

#[tokio::test]
async fn five_thousand_wait_for_the_morning_and_hold_nobody_up() {
    let (_, alone, _) = a_night(0).await;
    let (world, took, most) = a_night(AT_NIGHT).await;
    assert_eq!(took, alone, "the other flow does not notice");
    assert!(most <= 250, "{most} were in flight at once");
    assert_eq!(states(&world, "night-mail"), BTreeMap::from([("waiting", AT_NIGHT)]));
    assert_eq!(world.events.depth(), 0, "the queue is empty");

    for _ in 0..10 {
        world.wake().await;
        work(&world).await;
        world.clock.advance(MINUTE);
    }
    assert_eq!(states(&world, "night-mail"), BTreeMap::from([("succeeded", AT_NIGHT)]), "the morning comes");
    let night = |number: &usize| *number < AT_NIGHT;
    let calls = world.partners.calls().iter().filter(|(_, call)| call.path.contains("night")).count();
    assert_eq!(calls, AT_NIGHT, "once each");
    for (person, numbers) in numbers_of(&world, "night") {
        assert!(numbers.is_sorted() && numbers.iter().all(night), "{person}: {numbers:?}");
    }
}

/// The same of calls whose path has this word.
fn numbers_of(world: &World, word: &str) -> BTreeMap<usize, Vec<usize>> {
    let mut numbers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (_, call) in world.partners.calls().iter().filter(|(_, call)| call.path.contains(word)) {
        let number: usize = call.path.rsplit('_').next().and_then(|n| n.parse().ok()).expect("a number");
        numbers.entry(number % PEOPLE).or_default().push(number);
    }
    numbers
}

#[tokio::test]
async fn a_resume_in_the_night_wakes_at_once_and_in_order() {
    let world = World::with(flows_with(|yaml| yaml));
    switch(&world, "pause").await;
    for number in 0..2000 {
        post(&world, "lead.created", number, number % 20).await;
        work(&world).await;
        world.clock.advance(SECOND);
    }
    world.clock.advance(60 * MINUTE);
    world.wake().await;
    work(&world).await;
    assert_eq!(states(&world, "lead-routing"), BTreeMap::from([("waiting", 2000)]));
    let answer = switch(&world, "resume").await;
    assert_eq!(answer["woken"], 2000, "{answer}");
    work(&world).await;
    assert_eq!(states(&world, "lead-routing"), BTreeMap::from([("succeeded", 2000)]), "in the same second");
    assert_in_order(&world, 20);
}

#[tokio::test]
async fn a_wake_by_resume_is_not_held_back_by_a_board_from_just_before_it() {
    let world = World::with(flows_with(|yaml| yaml));
    let id = wait_on_pause(&world).await;
    // The container reads the board for another event, and an operator resumes the flow within the same second.
    world.clock.advance(9 * SECOND);
    post(&world, "lead.created", 2, 2).await;
    work(&world).await;
    world.clock.advance(Duration::from_millis(300));
    switch(&world, "resume").await;
    work(&world).await;
    assert_eq!((world.row(&id).await.state, world.row(&id).await.wake), (State::Succeeded, 1));
}

/// One tick wakes 3,000 at most: the next one wakes the others, behind them.
#[tokio::test]
async fn a_resume_wakes_as_many_as_one_tick_may_and_the_next_the_others() {
    let world = World::with(flows_with(|yaml| yaml));
    switch(&world, "pause").await;
    for number in 0..AT_NIGHT {
        post(&world, "lead.created", number, number % PEOPLE).await;
        if number % 10 == 9 {
            work(&world).await;
            world.clock.advance(SECOND);
        }
    }
    for _ in 0..10 {
        world.clock.advance(10 * SECOND);
        work(&world).await;
    }
    assert_eq!(states(&world, "lead-routing"), BTreeMap::from([("waiting", AT_NIGHT)]));
    assert_eq!(switch(&world, "resume").await["woken"], 3000);
    work(&world).await;
    let in_between = BTreeMap::from([("succeeded", 3000), ("waiting", AT_NIGHT - 3000)]);
    assert_eq!(states(&world, "lead-routing"), in_between);
    world.clock.advance(MINUTE);
    assert_eq!(world.wake().await, 2000);
    work(&world).await;
    assert_eq!(states(&world, "lead-routing"), BTreeMap::from([("succeeded", AT_NIGHT)]));
    assert_eq!(world.partners.calls().len(), AT_NIGHT, "once each");
    assert_in_order(&world, PEOPLE);
}

#[tokio::test]
async fn a_wake_is_not_swallowed_within_five_minutes_of_the_last() {
    let world = World::new();
    let id = post(&world, "lead.created", 1, 1).await;
    for _ in 0..3 {
        switch(&world, "pause").await;
        world.clock.advance(6 * SECOND);
        for _ in 0..3 {
            work(&world).await;
            world.clock.advance(9 * SECOND);
        }
        assert_eq!(world.row(&id).await.state, State::Waiting);
        switchboard::turn(
            &world.board,
            &[(Subject::Flow("lead-routing".into()), Turn::Pause { until: Some(world.clock.now() + SECOND) })],
            SignOff { by: "ada", why: "a second more" },
            &world.replay.flows,
            world.clock.now(),
        )
        .await
        .expect("it is turned");
        assert_eq!(operate(&world, by_ada(json!({"op": "replay", "id": id}))).await["state"], "queued");
    }
    switch(&world, "resume").await;
    work(&world).await;
    assert_eq!((world.row(&id).await.state, world.row(&id).await.wake), (State::Succeeded, 3));
    assert_eq!(world.partners.calls().len(), 1);
}

/// An event that waits, and the flow that is free again, though nothing was woken yet.
async fn with_a_waiting_head() -> (World, EventId) {
    let world = World::new();
    let head = wait_on_pause(&world).await;
    turn_on(&world).await;
    (world, head)
}

/// The first event of a contact, which waits because its flow is paused.
async fn wait_on_pause(world: &World) -> EventId {
    switch(world, "pause").await;
    let id = post(world, "lead.created", 1, 1).await;
    work(world).await;
    world.clock.advance(9 * SECOND);
    work(world).await;
    assert_eq!(world.row(&id).await.state, State::Waiting);
    id
}

/// The flow is free again, and nothing is woken yet.
async fn turn_on(world: &World) {
    let free = [(Subject::Flow("lead-routing".into()), Turn::Resume)];
    let sign_off = SignOff { by: "ada", why: "it is free" };
    switchboard::turn(&world.board, &free, sign_off, &world.replay.flows, world.clock.now()).await.expect("turned");
    world.clock.advance(6 * SECOND);
}

#[tokio::test]
async fn a_successor_does_not_overtake_a_waiting_head() {
    let (world, head) = with_a_waiting_head().await;
    let successor = post(&world, "lead.created", 2, 1).await;
    let other = post(&world, "lead.created", 3, 3).await;
    work(&world).await;
    assert_eq!(world.row(&successor).await.state, State::Waiting, "behind the other one");
    assert_eq!(world.row(&other).await.state, State::Succeeded, "another entity");
    world.wake().await;
    work(&world).await;
    assert_eq!((world.row(&head).await.state, world.row(&successor).await.state), (State::Succeeded, State::Succeeded));
    let paths: Vec<String> = world.partners.calls().into_iter().map(|(_, call)| call.path).collect();
    assert_eq!(paths, ["/leads/lead.created_3", "/leads/lead.created_1", "/leads/lead.created_2"]);
    assert!(world.ledger.payload(&head).is_none() && world.ledger.payload(&successor).is_none(), "nothing is kept");
}

#[tokio::test]
async fn a_place_from_before_a_replay_hides_nobody_who_waits_now() {
    let world = World::with(flows_with(|yaml| yaml.replace("\nttl:", "\nmax_age: 1h\nttl:")));
    switch(&world, "pause").await;
    let (head, successor) = (post(&world, "lead.created", 1, 1).await, post(&world, "lead.created", 2, 1).await);
    work(&world).await;
    world.clock.advance(9 * SECOND);
    work(&world).await;
    // Both expire while they wait: nobody takes their places out of the line.
    world.clock.advance(120 * MINUTE);
    switch(&world, "resume").await;
    world.drain().await;
    assert_eq!(states(&world, "lead-routing"), BTreeMap::from([("dead", 2)]));

    switch(&world, "pause").await;
    world.clock.advance(9 * SECOND);
    operate(&world, by_ada(json!({"op": "replay", "id": head}))).await;
    work(&world).await;
    world.clock.advance(9 * SECOND);
    work(&world).await;
    assert_eq!(world.row(&head).await.state, State::Waiting);
    turn_on(&world).await;
    operate(&world, by_ada(json!({"op": "replay", "id": successor}))).await;
    work(&world).await;
    assert_eq!(world.row(&successor).await.state, State::Waiting, "behind the other one");
}

#[tokio::test]
async fn who_waits_is_listed_shown_and_may_be_dropped() {
    let (world, head) = with_a_waiting_head().await;
    let list = operate(&world, json!({"op": "list", "only": {"state": "waiting"}})).await;
    let waits = &list["parked"][0]["waits"];
    assert_eq!((&waits["for"], &waits["why"]), (&json!("flow lead-routing"), &json!("paused")), "{list}");
    let status = operate(&world, json!({"op": "status"})).await;
    assert_eq!(status["waiting"][0]["count"], 1, "{status}");
    assert_eq!(operate(&world, json!({"op": "list"})).await["matching"], 0, "it is not parked");
    let dropped = operate(&world, by_ada(json!({"op": "drop", "id": head}))).await;
    assert_eq!(dropped["state"], "dropped");
    let successor = post(&world, "lead.created", 2, 1).await;
    work(&world).await;
    assert_eq!(world.row(&successor).await.state, State::Succeeded, "it waits for nobody");
    assert_eq!(world.wake().await, 0);
}

#[tokio::test]
async fn a_wake_whose_message_was_lost_is_sent_again() {
    let (world, head) = with_a_waiting_head().await;
    world.wake().await;
    for message in world.events.receive(10) {
        world.events.delete(&message.receipt);
    }
    assert_eq!(world.wake().await, 0, "it may be on its way");
    world.clock.advance(7 * MINUTE);
    assert_eq!(world.wake().await, 1);
    work(&world).await;
    assert_eq!((world.row(&head).await.state, world.row(&head).await.wake), (State::Succeeded, 1));
}

#[tokio::test]
async fn a_tick_reads_one_document_when_nothing_waits() {
    let world = World::new();
    post(&world, "lead.created", 1, 1).await;
    work(&world).await;
    let writes = world.ledger.writes();
    assert_eq!(operate(&world, json!({"op": "wake"})).await, json!({"woken": 0}));
    assert_eq!(world.ledger.writes(), writes);
}
