//! What does not answer for hours, and is no partner's call: a secret, a table of ours, a question. No attempt is spent on
//! it, no receive is wasted, and the event goes on when it is over.

use std::time::Duration;

use async_trait::async_trait;
use replay::handle;
use serde_json::json;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::format::FORMAT;
use shared::base::id::EventId;
use shared::base::machine::Clock as _;
use shared::base::time::Timestamp;
use shared::ledger::{Claim, Claims, Closed, Lease, NotClaimed, Reason, State, WaitsFor};
use shared::model::{ModelClock, ModelLedger, Script};
use shared::operate::switchboard::change_waits;

use super::effects::{CONTACT, with_contact};
use super::not_kept::{LedgerFault, spoil};
use super::world::{World, flows_with, flows_without_breaker};
use crate::fixtures::{by_ada, lead, lead_of};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// The receives of a message after which SQS gives it up.
const MAX_RECEIVES: usize = 1000;

/// Lets so much time pass: what can be received is worked on, and events are woken each minute. Says how often the queue
/// delivered something.
async fn live(world: &World, time: Duration) -> usize {
    let (until, mut polls) = (world.clock.now() + time, 0);
    let mut next_wake = world.clock.now();
    while world.clock.now() < until {
        if world.clock.now() >= next_wake {
            world.wake().await;
            next_wake = world.clock.now() + MINUTE;
        }
        while world.events.next_receipt() == Some(world.clock.now()) {
            world.poll().await;
            polls += 1;
        }
        let next = world.events.next_receipt().unwrap_or(next_wake).min(next_wake).min(until);
        world.clock.advance(next.since(world.clock.now()).max(Duration::from_millis(1)));
    }
    polls
}

async fn post(world: &World) -> EventId {
    world.post(&lead()).await.expect("a good lead").id
}

#[tokio::test]
async fn a_missing_secret_makes_events_wait_and_buries_none() {
    for guarantee in ["native", "none"] {
        let world = World::with(flows_with(|yaml| yaml.replace("native", guarantee)));
        world.secrets.remove("integrations/crm");
        let id = post(&world).await;
        let other = world.post(&lead_of("evt_2", "b@example.com")).await.expect("a good lead").id;
        live(&world, 6 * HOUR).await;
        for id in [&id, &other] {
            let row = world.row(id).await;
            assert_eq!((row.state, row.effects.len()), (State::Waiting, 0), "{guarantee}: {:?}", row.history);
        }
        let story = world.story(&id).await;
        assert_eq!(story.iter().filter(|what| what.contains("there is no secret for `crm`")).count(), 1, "{story:?}");
        assert!(story.iter().any(|what| what.ends_with("no secret")), "{story:?}");
        assert!(world.partners.calls().is_empty() && world.metrics.sum("CredentialsRejected{crm}") > 0);
        let asked = world.metrics.sum("CredentialsRejected{crm}");
        assert!(asked <= 6 * 120 + 2, "one each half minute asks for it, not {asked}");

        world.secrets.put("integrations/crm", "token");
        live(&world, 10 * MINUTE).await;
        for id in [&id, &other] {
            assert_eq!(world.row(id).await.state, State::Succeeded, "{guarantee}");
        }
        assert_eq!(world.partners.calls().len(), 2);
    }
}

#[tokio::test]
async fn a_missing_secret_holds_enrichments_and_lookups_up_and_nothing_dies_of_it() {
    let enrich = "enrich:\n  - id: company\n    integration: crm\n    path: /companies/1\n    result: {name: /name}\n    \
        on_error: dead\n\neffects:";
    let asks_first = flows_with(|yaml| yaml.replace("effects:", enrich));
    let lookup = "guarantee: lookup\n    lookup: {after: 5s, request: {path: /leads/1}, found: /id}";
    let asks_after = flows_with(|yaml| yaml.replace("guarantee: native", lookup));
    for (flows, lost) in [(asks_first, false), (asks_after, true)] {
        let world = World::with(flows);
        let id = post(&world).await;
        if lost {
            world.partners.script([Script::Hang]);
            world.poll().await;
        }
        world.secrets.remove("integrations/crm");
        world.clock.advance(6 * MINUTE);
        live(&world, 3 * HOUR).await;
        assert_eq!(world.row(&id).await.state, State::Waiting, "{:?}", world.story(&id).await);
        world.secrets.put("integrations/crm", "token");
        live(&world, 10 * MINUTE).await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{:?}", world.story(&id).await);
        assert_eq!(world.partners.calls().len(), 2);
    }
}

/// A container that has just started knows no secret. Others that do are not held up: the breaker stays closed.
#[tokio::test]
async fn a_store_of_secrets_that_is_down_for_hours_buries_nothing() {
    let world = World::new();
    let id = post(&world).await;
    world.secrets.set_down(true);
    let polls = live(&world, 6 * HOUR).await;
    assert!(polls < MAX_RECEIVES / 4, "{polls} receives");
    let row = world.row(&id).await;
    assert_eq!((row.state, row.effects.len()), (State::Retrying, 0), "{:?}", row.history);
    assert_eq!((world.metrics.sum("BreakerOpened{crm}"), world.partners.calls().len()), (0, 0));
    world.secrets.set_down(false);
    live(&world, HOUR).await;
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Succeeded, 1));
}

/// The table of contacts is no partner, and its silence no answer.
#[tokio::test]
async fn an_upsert_waits_for_the_table_of_contacts() {
    let world = World::with(with_contact(CONTACT, "{fields: {first_name: '{{ event.data.first_name }}'}}"));
    world.contacts.down(true);
    let id = post(&world).await;
    live(&world, 3 * HOUR).await;
    let row = world.row(&id).await;
    assert_eq!((row.state, row.effects.len()), (State::Retrying, 0), "{:?}", row.history);
    world.contacts.down(false);
    live(&world, HOUR).await;
    assert_eq!((world.row(&id).await.state, world.contacts.count()), (State::Succeeded, 1));
}

/// A ledger that cannot be claimed from until a moment.
struct DownUntil(Box<dyn Claims>, ModelClock, Timestamp);

#[async_trait]
impl Claims for DownUntil {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable> {
        if self.1.now() < self.2 {
            return Err(Unavailable { port: "the ledger", why: "down".into() });
        }
        self.0.claim(id, claim).await
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.0.record(lease).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}

#[tokio::test]
async fn a_ledger_that_is_down_for_hours_uses_up_no_receives() {
    let mut world = World::new();
    let ledger: ModelLedger = world.ledger.clone();
    let until = world.clock.now() + 6 * HOUR;
    world.processor.ledger = Box::new(DownUntil(Box::new(ledger), world.clock.clone(), until));
    let id = post(&world).await;
    let polls = live(&world, 6 * HOUR).await;
    assert!(polls < MAX_RECEIVES / 4, "{polls} receives");
    live(&world, HOUR).await;
    assert_eq!((world.row(&id).await.state, world.dead_letters.depth()), (State::Succeeded, 0));
}

#[tokio::test]
async fn a_woken_event_that_cannot_be_claimed_for_hours_uses_up_no_receives() {
    let mut world = World::new();
    handle(&world.replay, by_ada(json!({"op": "pause", "flow": "lead-routing", "for": "10m"}))).await;
    let id = post(&world).await;
    live(&world, 5 * MINUTE).await;
    assert_eq!(world.row(&id).await.state, State::Waiting);
    let until = world.clock.now() + 3 * HOUR;
    let ledger: ModelLedger = world.ledger.clone();
    world.processor.ledger = Box::new(DownUntil(Box::new(ledger), world.clock.clone(), until));
    let polls = live(&world, 3 * HOUR).await;
    assert_eq!(world.row(&id).await.wake, 1, "it is woken when the pause is over");
    assert!(polls < MAX_RECEIVES / 4, "{polls} receives");
    live(&world, HOUR).await;
    assert_eq!((world.row(&id).await.state, world.dead_letters.depth()), (State::Succeeded, 0));
}

#[tokio::test]
async fn a_switchboard_that_is_down_for_days_uses_up_no_receives() {
    let world = World::with(flows_with(|yaml| yaml.replace("\nttl:", "\nmax_age: 72h\nttl:")));
    world.board.down(true);
    let id = post(&world).await;
    let mut polls = 0;
    for _ in 0..40 {
        let until = world.clock.now() + HOUR;
        while let Some(at) = world.events.next_receipt().filter(|at| *at < until) {
            world.clock.advance(at.since(world.clock.now()));
            world.poll().await;
            polls += 1;
        }
        world.clock.advance(until.since(world.clock.now()));
    }
    assert!(polls < MAX_RECEIVES / 4, "{polls} receives");
    world.board.down(false);
    live(&world, HOUR).await;
    assert_eq!((world.row(&id).await.state, world.dead_letters.depth()), (State::Succeeded, 0));
}

/// A newer version has written the switchboard: this one goes by it, and can set no mark on it.
#[tokio::test]
async fn a_mark_that_cannot_be_set_for_days_uses_up_no_receives() {
    let world = World::with(flows_with(|yaml| yaml.replace("\nttl:", "\nmax_age: 72h\nttl:")));
    let newer = world.board.in_format(FORMAT + 1);
    newer.scribble(1, r#"{"flows": {"lead-routing": {"paused": {"since": 0, "by": "ada", "why": "a test"}}}}"#);
    let id = post(&world).await;
    let polls = live(&world, 40 * HOUR).await;
    assert!(polls < MAX_RECEIVES / 4, "{polls} receives");
    assert_eq!(world.row(&id).await.state, State::Retrying, "{:?}", world.story(&id).await);
    newer.scribble(2, "{}");
    live(&world, HOUR).await;
    assert_eq!((world.row(&id).await.state, world.dead_letters.depth()), (State::Succeeded, 0));
}

/// Nobody could ask the partner whether it happened: what it answered is written down, whatever else does not answer.
#[tokio::test]
async fn what_is_known_is_kept_when_the_event_cannot_leave_the_queue() {
    use LedgerFault::{NoAnswerToWaits, NoLine};
    for fault in [NoLine, NoAnswerToWaits(false), NoAnswerToWaits(true)] {
        let mut world = World::with(flows_with(|yaml| yaml.replace("native", "none")));
        let (on, now) = (WaitsFor::Moment, world.clock.now());
        change_waits(&world.board, |board| board.with_waits("lead-routing", &on, now)).await.expect("it is marked");
        world.clock.advance(10 * Duration::from_secs(1));
        spoil(&mut world, fault);
        let id = post(&world).await;
        world.partners.script([Script::RetryAfter(429, "3600")]);
        world.poll().await;
        let row = world.row(&id).await;
        assert!(row.state == State::Retrying && !row.in_doubt(), "{:?}", row.history);
        assert!(row.retry_at.is_some_and(|at| at >= world.clock.now() + HOUR), "it is not tried before");
        spoil(&mut world, LedgerFault::Nothing);
        live(&world, 2 * HOUR).await;
        assert_eq!(world.row(&id).await.state, State::Succeeded, "{:?}", world.story(&id).await);
        assert_eq!((world.partners.calls().len(), world.dead_letters.depth()), (2, 0));
    }
}

/// A ledger that records nothing between a claim and its end.
struct NoRecords(ModelLedger);

#[async_trait]
impl Claims for NoRecords {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable> {
        self.0.claim(id, claim).await
    }

    async fn record(&self, _: &Lease) -> Result<(), WriteError> {
        Err(Unavailable { port: "the ledger", why: "down".into() }.into())
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}

#[tokio::test]
async fn what_one_effect_did_is_kept_when_the_record_of_another_is_not_answered() {
    let side_by_side = |yaml: String| {
        let effect = |id: &str| {
            format!(
                "  - {{id: {id}, needs: [], integration: crm, guarantee: none, request: {{method: POST, path: /{id}}}}}\n"
            )
        };
        let (head, rest) = yaml.split_once("effects:\n").expect("a flow has effects");
        let (_, tail) = rest.split_once("\nretry:").expect("a flow has a policy");
        format!("{head}effects:\n{}{}\nretry:{tail}", effect("a"), effect("b"))
    };
    let mut world = World::with(flows_with(side_by_side));
    world.processor.ledger = Box::new(NoRecords(world.ledger.clone()));
    let id = post(&world).await;
    world.poll().await;
    let row = world.row(&id).await;
    assert_eq!((row.state, world.partners.calls().len()), (State::Succeeded, 2), "{:?}", row.history);
}

/// Claims that take a second each.
struct SlowClaims(Box<dyn Claims>, ModelClock);

#[async_trait]
impl Claims for SlowClaims {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable> {
        self.1.advance(Duration::from_secs(1));
        self.0.claim(id, claim).await
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.0.record(lease).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.0.close(closed).await
    }
}

/// A call just fits into an invocation. As soon as our tables are slow, there is no time left for it.
#[tokio::test]
async fn an_event_without_time_for_its_call_does_not_come_back_at_once() {
    let mut world = World::new();
    world.processor.timeout = Duration::from_secs(4);
    world.processor.ledger = Box::new(SlowClaims(Box::new(world.ledger.clone()), world.clock.clone()));
    let id = post(&world).await;
    let polls = live(&world, HOUR).await;
    assert!(polls < 120, "{polls} receives in an hour");
    assert_eq!((world.row(&id).await.state, world.partners.calls().len()), (State::Retrying, 0));
    world.processor.ledger = Box::new(world.ledger.clone());
    live(&world, HOUR).await;
    assert_eq!(world.row(&id).await.state, State::Succeeded);
}

/// Others are answered, this event's question never: it dies of its age, and not of its receives.
#[tokio::test]
async fn a_question_that_is_never_answered_is_asked_more_and_more_seldom() {
    let enrich = "enrich:\n  - id: company\n    integration: crm\n    path: /companies/1\n    result: {name: /name}\n    \
        on_error: retry\n\neffects:";
    let asks_first = flows_without_breaker(|yaml| yaml.replace("effects:", enrich));
    let lookup = "guarantee: lookup\n    lookup: {after: 2s, request: {path: /companies/1}, found: /id}";
    let asks_after = flows_without_breaker(|yaml| yaml.replace("guarantee: native", lookup));
    for (flows, reason) in [(asks_first, Reason::Expired), (asks_after, Reason::UnknownOutcome)] {
        let max_age = flows.all().map(|flow| flow.max_age).max().expect("a flow");
        let world = World::with(flows);
        world.partners.never_take("/companies/1");
        world.partners.never_take("/leads/evt_1001");
        let id = post(&world).await;
        let polls = live(&world, max_age + HOUR).await;
        assert!(polls < MAX_RECEIVES / 2, "{reason:?}: {polls} receives");
        world.park().await;
        let row = world.row(&id).await;
        assert_eq!(row.death.as_ref().map(|death| death.reason), Some(reason), "{:?}", row.history);
        let calls = world.partners.calls().len();
        assert!((20..300).contains(&calls), "{reason:?}: {calls} questions");
    }
}
