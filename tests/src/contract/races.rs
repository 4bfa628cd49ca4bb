//! Containers against each other and against a crash, over the real ledger and the real queue, in real
//! time: for each guarantee the partner's log shows what it promises.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join;
use processor::{MessageFate, Processor, process, process_batch};
use replay::{Figures, Operation, Replay, operate, park_batch};
use serde_json::{Value, json};
use shared::adapters::aws::{
    DynamoBudgets, DynamoCaps, DynamoContacts, DynamoDocument, DynamoLatest, DynamoLedger, DynamoLimits,
    DynamoPressure, DynamoTokens, DynamoWindows, LambdaFunctions, SqsDeadLetters, SqsEvents,
};
use shared::adapters::machine::{SystemChance, SystemClock};
use shared::adapters::{AwsLcCrypto, LazyPool};
use shared::arrival::event::Event;
use shared::arrival::key::Names;
use shared::arrival::secrets::CachedSecrets;
use shared::base::machine::Clock;
use shared::base::trace::Trace;
use shared::effects::body::RequestBody;
use shared::effects::enrichment::Findings;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::effects::token::Tokens;
use shared::flows::{Flows, PartnerAnswer};
use shared::ledger::queue::Queue;
use shared::ledger::queue::Received;
use shared::ledger::{Admissions, Reason, Row, Rows, State};
use shared::limits::pressure::Gate;
use shared::limits::rates::Limiter;
use shared::model::{Delivered, ModelMetrics, ModelSecrets};
use shared::operate::switchboard::Switchboard;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::queue::{EmulatedQueues, Queues, emulator};
use crate::fixtures::{aws, lead_of};
use crate::memory::{flows_without_breaker, replace_effects};

/// A lease that runs out under a live worker: the slow partner answers when another one is done.
const SHORT_LEASE: Duration = Duration::from_secs(1);

/// A lease that ends in no test.
const LEASE: Duration = Duration::from_secs(60);

/// One effect under each guarantee, with what the partner's log shows after a crash or a lost lease:
/// calls that change something, what was applied, and where the event ends.
const GUARANTEES: [(&str, &str, usize, State); 3] = [
    ("native", "guarantee: native", 2, State::Succeeded),
    (
        "lookup",
        "guarantee: lookup, lookup: {after: 100ms, request: {path: '/find/{{ event.data.event_id }}'}, found: /id}",
        1,
        State::Succeeded,
    ),
    ("none", "guarantee: none", 1, State::Dead),
];

/// A partner that honours keys, can be asked, and is slow or broken where it is told.
#[derive(Clone, Default)]
struct Partner(Arc<Mutex<Desk>>);

#[derive(Default)]
struct Desk {
    /// What was asked, in order: method and path, with the event's id.
    log: Vec<String>,
    applied: BTreeMap<String, usize>,
    /// What the answer to the first call waits for. It is applied at once.
    held: Option<Arc<Notify>>,
    /// Calls whose path or body has this fail.
    broken: Vec<&'static str>,
}

impl Partner {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.0.lock().expect("no test panicked in here")
    }

    /// How many calls there were that change something.
    fn changes(&self) -> usize {
        self.desk().log.iter().filter(|call| !call.starts_with("GET")).count()
    }

    fn applied(&self) -> usize {
        self.desk().applied.values().sum()
    }

    /// Holds the answer to the first call until it is told.
    fn hold_first(&self) -> Arc<Notify> {
        let told = Arc::new(Notify::new());
        self.desk().held = Some(Arc::clone(&told));
        told
    }

    async fn until_called(&self) {
        while self.changes() == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[async_trait]
impl Partners for Partner {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let (answer, held) = self.desk().take(&request);
        if let Some(told) = held {
            told.notified().await;
        }
        Ok(answer)
    }
}

impl Desk {
    fn take(&mut self, request: &PartnerRequest) -> (PartnerAnswer, Option<Arc<Notify>>) {
        let body = request.body.as_ref().map_or("null".into(), RequestBody::text);
        let what = format!("{} {} {body}", request.method, request.path);
        self.log.push(what.clone());
        let answer = |status, body: Value| PartnerAnswer { status, body: Some(body), ..PartnerAnswer::default() };
        if request.method == "GET" {
            let found = if self.applied.is_empty() { answer(404, json!({})) } else { answer(200, json!({"id": 1})) };
            return (found, None);
        }
        if self.broken.iter().any(|broken| what.contains(broken)) {
            return (answer(500, json!({})), None);
        }
        let key = request.headers.iter().find(|(name, _)| name == "Idempotency-Key").map(|(_, key)| key.clone());
        // The key is honoured, so that a second effect is one under another key or none.
        self.applied.entry(key.unwrap_or_default()).or_insert(1);
        (answer(200, json!({"id": "p_1"})), self.held.take())
    }
}

/// The tables and a pair of queues of the emulator, with a partner.
struct Arena {
    queues: EmulatedQueues,
    ledger: DynamoLedger,
    partner: Partner,
    flows: Flows,
}

impl Arena {
    async fn with(flows: Flows) -> Self {
        let ledger = DynamoLedger::new(&aws().await, table("LEDGER"));
        Arena { queues: emulator().await, ledger, partner: Partner::default(), flows }
    }

    /// A container of its own: nothing is shared but the tables and the queues.
    async fn container(&self) -> Processor {
        self.container_with(LEASE).await
    }

    async fn container_with(&self, lease: Duration) -> Processor {
        let aws = aws().await;
        let pressure = DynamoPressure::new(&aws, table("LIMITS"));
        let secrets = ModelSecrets::default();
        secrets.put("integrations/crm", "token");
        Processor {
            flows: self.flows.clone(),
            lease,
            timeout: Duration::from_secs(900),
            ledger: Box::new(self.ledger.clone()),
            visibility: Box::new(SqsEvents::new(&aws, self.queues.events_url())),
            dead_letters: Box::new(SqsDeadLetters::new(&aws, self.queues.dead_letters_url())),
            switchboard: Switchboard::new(Box::new(DynamoDocument::named(&aws, table("LIMITS"), "nobody's"))),
            budgets: Box::new(DynamoBudgets::new(&aws, table("LIMITS"))),
            gate: Gate::new(
                Box::new(DynamoLimits::new(&aws, table("LIMITS"))),
                Box::new(pressure.clone()),
                Box::new(pressure),
                Box::new(SystemChance),
            ),
            secrets: Box::new(CachedSecrets::new(secrets, SystemClock)),
            partners: Box::new(self.partner.clone()),
            functions: Box::new(LambdaFunctions::new(&aws, LazyPool::default())),
            boards: Box::new(DynamoDocument::named(&aws, table("LIMITS"), "nobody's")),
            caps: Box::new(DynamoCaps::new(DynamoLedger::new(&aws, table("LEDGER")), table("LIMITS"))),
            records: Box::new(self.ledger.clone()),
            lines: Box::new(self.ledger.clone()),
            queue: Box::new(SqsEvents::new(&aws, self.queues.events_url())),
            told: Default::default(),
            found: Findings::default(),
            tokens: Tokens::new(Box::new(DynamoTokens::new(&aws, table("LIMITS"))), Box::new(AwsLcCrypto)),
            places: None,
            contacts: Box::new(DynamoContacts::new(&aws, table("CONTACTS"))),
            metrics: Box::new(ModelMetrics::default()),
            sampling: shared::operate::log::LogSampling::ALL,
            spans: Box::new(None::<shared::model::ModelSpans>),
            latest: Box::new(DynamoLatest::new(&aws, table("LIMITS"))),
            sleep: Box::new(SystemClock),
            clock: Box::new(SystemClock),
            chance: Box::new(SystemChance),
        }
    }

    /// Accepts an event of this contact.
    async fn accept(&self, name: &str, contact: &str) -> Event {
        let unique = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
        let lead = lead_of(&format!("{name}-{unique}"), contact);
        let flow = self.flows.flow("lead-routing").expect("the flow");
        let now = SystemClock.now();
        let event = Event::new(flow, 1, lead, Names::default(), now, Trace::start(1, 2, 3)).expect("a lead has a key");
        self.ledger.admit(&Row::admitted(&event, now), now).await.expect("the ledger answers");
        let queue = SqsEvents::new(&aws().await, self.queues.events_url());
        queue.send(&event).await.expect("the queue answers");
        event
    }

    async fn row(&self, event: &Event) -> Row {
        self.ledger.row(&event.id).await.expect("the ledger answers").expect("it was accepted")
    }

    /// Receives and works until the queue has been silent for a while.
    async fn drain(&self, container: &Processor) {
        let mut silent = 0;
        while silent < 8 {
            let batch = self.queues.receive().await;
            silent = if batch.is_empty() { silent + 1 } else { 0 };
            let kept = process_batch(container, batch.iter().map(Delivered::received).collect(), deadline()).await;
            for delivered in batch.iter().filter(|delivered| !kept.contains(&delivered.message_id)) {
                self.queues.delete(&delivered.receipt).await;
            }
            sleep(Duration::from_millis(250)).await;
        }
    }
}

fn table(name: &str) -> String {
    std::env::var(format!("LEDGERLINE_{name}_TABLE")).expect("make test names the table")
}

fn deadline() -> shared::base::time::Timestamp {
    SystemClock.now() + Duration::from_secs(30)
}

async fn work(container: &Processor, message: &Received) -> MessageFate {
    process(container, message, deadline()).await
}

/// Works on a message as often as it comes back.
async fn settle(container: &Processor, message: &Received) -> MessageFate {
    loop {
        match work(container, message).await {
            MessageFate::RedeliverAfter(delay) => sleep(delay).await,
            verdict => return verdict,
        }
    }
}

async fn one_message(guarantee: &str) -> (Arena, Event, Received) {
    let flows = flows_without_breaker(|yaml| replace_effects(&yaml, &[("a", guarantee)]));
    let arena = Arena::with(flows).await;
    let event = arena.accept("race", "ada@example.com").await;
    let batch = arena.queues.receive().await;
    let message = batch[0].received();
    (arena, event, message)
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn of_two_containers_that_race_for_one_event_one_calls() {
    for (name, guarantee, ..) in GUARANTEES {
        let (arena, event, message) = one_message(guarantee).await;
        let (one, other) = (arena.container().await, arena.container().await);
        let verdicts = join(work(&one, &message), work(&other, &message)).await;
        assert_eq!(arena.partner.changes(), 1, "{name}: {verdicts:?}");
        assert_eq!(arena.row(&event).await.state, State::Succeeded, "{name}");
        assert_eq!(settle(&other, &message).await, MessageFate::Done, "{name}: the copy is deleted");
        assert_eq!(arena.partner.changes(), 1, "{name}");
    }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_container_killed_after_the_call_and_before_the_record_keeps_the_guarantee() {
    for (name, guarantee, changes, state) in GUARANTEES {
        let (arena, event, message) = one_message(guarantee).await;
        arena.partner.hold_first();
        let (killed, heir) = (arena.container_with(SHORT_LEASE).await, arena.container().await);
        tokio::select! {
            verdict = work(&killed, &message) => panic!("{name}: it was to be killed: {verdict:?}"),
            () = arena.partner.until_called() => (),
        }
        settle(&heir, &message).await;
        outcome(&arena, &event, name, changes, state).await;
    }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_lease_that_ends_under_a_slow_partner_keeps_the_guarantee_though_both_finish() {
    for (name, guarantee, changes, state) in GUARANTEES {
        let (arena, event, message) = one_message(guarantee).await;
        let told = arena.partner.hold_first();
        let (slow, heir) = (arena.container_with(SHORT_LEASE).await, arena.container().await);
        let (late, _) = join(work(&slow, &message), async {
            arena.partner.until_called().await;
            settle(&heir, &message).await;
            told.notify_one();
        })
        .await;
        assert_eq!(late, MessageFate::LeaveToRedeliver, "{name}: a zombie changes nothing");
        outcome(&arena, &event, name, changes, state).await;
    }
}

async fn outcome(arena: &Arena, event: &Event, name: &str, changes: usize, state: State) {
    let row = arena.row(event).await;
    assert_eq!(row.state, state, "{name}: {:?}", row.history);
    assert_eq!(arena.partner.changes(), changes, "{name}: {:?}", arena.partner.desk().log);
    assert_eq!(arena.partner.applied(), 1, "{name}: once, whatever happened");
    let unknown = (state == State::Dead).then_some(Reason::UnknownOutcome);
    assert_eq!(row.death.map(|death| death.reason), unknown, "{name}: what nobody knows is said");
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn of_three_effects_the_first_is_never_called_again_over_retries_and_replay() {
    let native = "guarantee: native";
    let quick = |yaml: String| yaml.replace("base: 2s", "base: 50ms");
    let flows = flows_without_breaker(|yaml| {
        let effects = [("a", native), ("b", native), ("c", native)];
        quick(replace_effects(&yaml, &effects))
    });
    let arena = Arena::with(flows).await;
    let container = arena.container().await;
    arena.partner.desk().broken = vec!["/b"];
    let event = arena.accept("three", "grace@example.com").await;
    arena.drain(&container).await;
    assert_eq!(arena.row(&event).await.death.map(|death| death.reason), Some(Reason::UnknownOutcome));

    let aws = aws().await;
    let events = SqsEvents::new(&aws, arena.queues.events_url());
    let replay = Replay {
        records: Box::new(arena.ledger.clone()),
        lines: Box::new(arena.ledger.clone()),
        breakers: Box::new(DynamoPressure::new(&aws, table("LIMITS"))),
        queue: Box::new(events.clone()),
        depths: Box::new(events),
        latest: Box::new(DynamoLatest::new(&aws, table("LIMITS"))),
        windows: Box::new(DynamoWindows::new(&aws, table("LEDGER"))),
        contacts: Box::new(DynamoContacts::new(&aws, table("CONTACTS"))),
        boards: Box::new(DynamoDocument::named(&aws, table("LIMITS"), "nobody's")),
        batches: Box::new(DynamoDocument::named(&aws, table("LIMITS"), "nobody's batches")),
        ticks: Box::new(SqsDeadLetters::new(&aws, arena.queues.dead_letters_url())),
        visibility: Box::new(SqsDeadLetters::new(&aws, arena.queues.dead_letters_url())),
        limiter: Limiter::new(Box::new(DynamoLimits::new(&aws, table("LIMITS")))),
        spans: Box::new(None::<shared::model::ModelSpans>),
        metrics: Box::new(ModelMetrics::default()),
        figures: Figures::new(Box::new(ModelMetrics::default())),
        chance: Box::new(SystemChance),
        sleep: Box::new(SystemClock),
        flows: arena.flows.clone(),
        clock: Box::new(SystemClock),
    };
    let letters = arena.queues.receive_dead().await;
    assert_eq!(park_batch(&replay, letters.iter().map(Delivered::received).collect()).await, Vec::<String>::new());
    arena.partner.desk().broken = Vec::new();
    let again = Operation::Replay {
        id: event.id.clone(),
        by: "ada".into(),
        reason: "it is back".into(),
        version: None,
        with_new: false,
    };
    operate(&replay, again).await.expect("it can be replayed");
    arena.drain(&container).await;

    assert_eq!(arena.row(&event).await.state, State::Succeeded);
    let log: Vec<String> = arena.partner.desk().log.iter().map(|call| call[..7].to_owned()).collect();
    assert_eq!(log, ["POST /a", "POST /b", "POST /b", "POST /b", "POST /b", "POST /c"]);
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn a_batch_of_ten_over_four_groups_keeps_exactly_what_failed_and_what_stood_behind_it() {
    let arena = Arena::with(flows_without_breaker(|yaml| yaml.replace("base: 2s", "base: 200ms"))).await;
    let container = arena.container().await;
    let names = ["a1", "b1", "a2", "c1", "b2", "d1", "b3", "c2", "a3", "d2"];
    for name in names {
        arena.accept(name, &format!("{}@example.com", &name[..1])).await;
    }
    let batch = arena.queues.receive().await;
    assert_eq!(batch.len(), names.len(), "one batch has them all");
    arena.partner.desk().broken = vec!["a2", "b1"];
    let kept = process_batch(&container, batch.iter().map(Delivered::received).collect(), deadline()).await;
    let (kept, done): (Vec<_>, Vec<_>) = batch.iter().partition(|delivered| kept.contains(&delivered.message_id));
    for delivered in done {
        arena.queues.delete(&delivered.receipt).await;
    }
    let mut kept: Vec<String> = kept.into_iter().map(name_of).collect();
    kept.sort();
    assert_eq!(kept, ["a2", "a3", "b1", "b2", "b3"], "what failed, and what stood behind it");

    arena.partner.desk().broken = Vec::new();
    arena.drain(&container).await;
    let log = arena.partner.desk().log.clone();
    for group in ["a", "b", "c", "d"] {
        let mut sent: Vec<&str> = names.into_iter().filter(|name| name.starts_with(group)).collect();
        sent.sort();
        let mut called: Vec<&str> = log
            .iter()
            .filter_map(|call| sent.iter().copied().find(|name| call.contains(&format!("/{name}"))))
            .collect();
        called.dedup();
        assert_eq!(called, sent, "in order, each after the one before it was done: {log:?}");
    }
}

/// The first two letters of the provider's id.
fn name_of(delivered: &Delivered) -> String {
    let event: Event = serde_json::from_str(&delivered.body).expect("an event");
    event.payload["data"]["event_id"].as_str().expect("a name")[..2].to_owned()
}
