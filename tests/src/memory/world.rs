//! A whole system in memory.

use std::time::Duration;

use intake::{Accepted, Intake, Receipt, Rejection, accept, accept_batch};
use processor::{Processor, process_batch};
use replay::{Figures, Operation, Replay, operate, park_batch};
use serde_json::Value;
use shared::adapters::AwsLcCrypto;
use shared::arrival::delivery::{Called, Delivery};
use shared::arrival::secrets::CachedSecrets;
use shared::arrival::signature::{Secret, sign, standard_webhooks_signature};
use shared::base::document::DocumentStore;
use shared::base::id::EventId;
use shared::base::machine::Clock;
use shared::base::trace::Trace;
use shared::effects::enrichment::Findings;
use shared::effects::token::Tokens;
use shared::flows::contract::Contracts;
use shared::flows::{Flow, Flows};
use shared::ledger::{Row, Rows, WaitsFor};
use shared::limits::pressure::Gate;
use shared::limits::rates::Limiter;
use shared::model::{
    Delivered, ModelBudgets, ModelCaps, ModelChance, ModelClock, ModelContacts, ModelDocument, ModelFunctions,
    ModelLatest, ModelLedger, ModelLimits, ModelMetrics, ModelPartners, ModelPlaces, ModelPressure, ModelQueue,
    ModelSecrets, ModelTokens, ModelWindows,
};
use shared::operate::metric::WorkUnit;
use shared::operate::switchboard::{Board, Switchboard};

use crate::fixtures::{NOW, files};

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(crate) const RECEIPTS_TOKEN: &str = "web-forms.8e03978e40d5";

/// The template's numbers.
const LEASE: Duration = Duration::from_secs(60);
const VISIBILITY: Duration = Duration::from_secs(180);
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
/// The time between two ticks that wake.
const TICK: Duration = Duration::from_secs(60);
const MAX_RECEIVES: usize = 1000;

pub(crate) struct World {
    pub(crate) clock: ModelClock,
    pub(crate) ledger: ModelLedger,
    pub(crate) windows: ModelWindows,
    pub(crate) events: ModelQueue,
    pub(crate) dead_letters: ModelQueue,
    pub(crate) partners: ModelPartners,
    pub(crate) functions: ModelFunctions,
    pub(crate) limits: ModelLimits,
    pub(crate) pressure: ModelPressure,
    pub(crate) board: ModelDocument<Board>,
    pub(crate) metrics: ModelMetrics,
    pub(crate) contacts: ModelContacts,
    pub(crate) latest: ModelLatest,
    pub(crate) caps: ModelCaps,
    pub(crate) budgets: ModelBudgets,
    pub(crate) secrets: ModelSecrets,
    pub(crate) tokens: ModelTokens,
    pub(crate) intake: Intake,
    pub(crate) processor: Processor,
    pub(crate) replay: Replay,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(crate::fixtures::plain_flows())
    }

    /// The same with a partner that has no breaker: an event dies when its attempts are spent, though its partner may be
    /// down.
    pub(crate) fn without_breaker() -> Self {
        Self::with(flows_without_breaker(|yaml| yaml))
    }

    pub(crate) fn with(flows: Flows) -> Self {
        let clock = ModelClock::at(NOW);
        let chance = ModelChance::seeded(7);
        let ledger = ModelLedger::default();
        let windows = ModelWindows::default();
        let dead_letters = ModelQueue::new(clock.clone(), VISIBILITY);
        let events = ModelQueue::new(clock.clone(), VISIBILITY).redrive_to(dead_letters.clone(), MAX_RECEIVES);
        let partners = ModelPartners::new(clock.clone());
        let functions = ModelFunctions::new(clock.clone());
        let limits = ModelLimits::default();
        let pressure = ModelPressure::default();
        let board = ModelDocument::default();
        let metrics = ModelMetrics::at(clock.clone());
        let contacts = ModelContacts::default();
        let secrets = ModelSecrets::default();
        let tokens = ModelTokens::default();
        secrets.put("sources/web-forms", SECRET);
        secrets.put("receipts/web-forms", RECEIPTS_TOKEN);
        secrets.put("sources/storefront", SECRET);
        secrets.put("sources/slack", SECRET);
        for (name, _) in flows.integrations() {
            secrets.put(&format!("integrations/{name}"), "token");
        }
        let intake = Intake {
            contracts: Contracts::of(&flows),
            flows: flows.clone(),
            ledger: Box::new(ledger.clone()),
            windows: Box::new(windows.clone()),
            rows: Box::new(ledger.clone()),
            queue: Box::new(events.clone()),
            limiter: Limiter::new(Box::new(limits.clone())),
            secrets: Box::new(CachedSecrets::new(secrets.clone(), clock.clone())),
            public_url: None,
            metrics: Box::new(metrics.clone()),
            sampling: shared::operate::log::LogSampling::ALL,
            spans: Box::new(None::<shared::model::ModelSpans>),
            clock: Box::new(clock.clone()),
            chance: Box::new(chance.clone()),
        };
        let gate = Gate::new(
            Box::new(limits.clone()),
            Box::new(pressure.clone()),
            Box::new(pressure.clone()),
            Box::new(chance.clone()),
        );
        let latest = ModelLatest::default();
        let (caps, budgets) = (ModelCaps::beside(ledger.clone()), ModelBudgets::default());
        let processor = Processor {
            switchboard: Switchboard::new(Box::new(board.clone())),
            boards: Box::new(board.clone()),
            caps: Box::new(caps.clone()),
            records: Box::new(ledger.clone()),
            lines: Box::new(ledger.clone()),
            queue: Box::new(events.clone()),
            told: Default::default(),
            found: Findings::default(),
            tokens: Tokens::new(Box::new(tokens.clone()), Box::new(AwsLcCrypto)),
            places: Some(Box::new(ModelPlaces)),
            contacts: Box::new(contacts.clone()),
            metrics: Box::new(metrics.clone()),
            sampling: shared::operate::log::LogSampling::ALL,
            spans: Box::new(None::<shared::model::ModelSpans>),
            latest: Box::new(latest.clone()),
            budgets: Box::new(budgets.clone()),
            gate,
            flows,
            lease: LEASE,
            timeout: FUNCTION_TIMEOUT,
            ledger: Box::new(ledger.clone()),
            visibility: Box::new(events.clone()),
            dead_letters: Box::new(dead_letters.clone()),
            secrets: Box::new(CachedSecrets::new(secrets.clone(), clock.clone())),
            partners: Box::new(partners.clone()),
            functions: Box::new(functions.clone()),
            sleep: Box::new(clock.clone()),
            clock: Box::new(clock.clone()),
            chance: Box::new(chance),
        };
        let replay = Replay {
            records: Box::new(ledger.clone()),
            lines: Box::new(ledger.clone()),
            breakers: Box::new(pressure.clone()),
            queue: Box::new(events.clone()),
            depths: Box::new(events.clone()),
            latest: Box::new(latest.clone()),
            windows: Box::new(windows.clone()),
            contacts: Box::new(contacts.clone()),
            boards: Box::new(board.clone()),
            batches: Box::new(ModelDocument::default()),
            ticks: Box::new(dead_letters.clone()),
            visibility: Box::new(dead_letters.clone()),
            limiter: Limiter::new(Box::new(limits.clone())),
            metrics: Box::new(metrics.clone()),
            figures: Figures::new(Box::new(metrics.clone())),
            spans: Box::new(None::<shared::model::ModelSpans>),
            chance: Box::new(ModelChance::seeded(11)),
            sleep: Box::new(clock.clone()),
            flows: processor.flows.clone(),
            clock: Box::new(clock.clone()),
        };
        World {
            clock,
            ledger,
            windows,
            events,
            dead_letters,
            partners,
            functions,
            limits,
            pressure,
            board,
            metrics,
            contacts,
            latest,
            caps,
            budgets,
            secrets,
            tokens,
            intake,
            processor,
            replay,
        }
    }

    /// Lets the queue of events bear only so many messages in flight. It must be empty.
    pub(crate) fn limit_queue(&mut self, messages: usize) {
        self.events = self.events.clone().limited_to(messages);
    }

    /// A sender posts this.
    pub(crate) async fn post(&self, body: &Value) -> Result<Receipt, Rejection> {
        self.deliver(signed(body, self.clock.now().secs())).await
    }

    pub(crate) async fn deliver(&self, delivery: Delivery) -> Result<Receipt, Rejection> {
        self.deliver_any(delivery).await.map(|accepted| accepted.into_event().expect("one event of one flow"))
    }

    /// A delivery that may hold several events, or be for several flows.
    pub(crate) async fn deliver_any(&self, delivery: Delivery) -> Result<Accepted, Rejection> {
        accept(&self.intake, &WorkUnit::new(&*self.intake.metrics), delivery, Trace::start(1, 2, 3), self.clock.now())
            .await
    }

    /// A source sends this, signed in its own way.
    pub(crate) async fn send(
        &self,
        source: &str,
        event_type: Option<&str>,
        body: &Value,
        more: &[(&str, &str)],
    ) -> Result<Receipt, Rejection> {
        let delivery = self.signed_by(source, event_type, "application/json", body.to_string().as_bytes(), more);
        self.deliver(delivery).await
    }

    /// A source posts a form.
    pub(crate) async fn send_form(&self, source: &str, form: &str) -> Result<Receipt, Rejection> {
        let content_type = "application/x-www-form-urlencoded";
        self.deliver(self.signed_by(source, None, content_type, form.as_bytes(), &[])).await
    }

    fn signed_by(
        &self,
        source: &str,
        event_type: Option<&str>,
        content_type: &str,
        body: &[u8],
        more: &[(&str, &str)],
    ) -> Delivery {
        let scheme = &self.intake.flows.source(source).expect("a source").scheme;
        let now = self.clock.now().secs();
        let signature = sign(scheme, &Secret::new(SECRET), "msg_1", now, body).expect("a good secret");
        let signature = signature.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers = signature.chain([("content-type", content_type)]).chain(more.iter().copied()).collect();
        let event_type = event_type.map(str::to_owned);
        Delivery { source: source.into(), event_type, headers, body: body.to_vec(), called: Called::default() }
    }

    /// A sender posts these as a batch.
    pub(crate) async fn post_batch(&self, batch: &Value) -> Result<Vec<Result<Receipt, Rejection>>, Rejection> {
        let delivery = signed(batch, self.clock.now().secs());
        accept_batch(
            &self.intake,
            &WorkUnit::new(&*self.intake.metrics),
            delivery,
            Trace::start(1, 2, 3),
            self.clock.now(),
        )
        .await
        .map(|results| results.into_iter().map(one_event).collect())
    }

    /// One poll of the queue of events. Says what the processor kept.
    pub(crate) async fn poll(&self) -> Vec<String> {
        let batch = self.events.receive(10);
        let messages = batch.iter().map(Delivered::received).collect();
        let kept = process_batch(&self.processor, messages, self.clock.now() + self.processor.timeout).await;
        delete(&self.events, batch, &kept);
        kept
    }

    /// The queue gives up on its first message: it is a letter now, as SQS redrives it.
    pub(crate) fn give_up_on_first(&self) {
        let given_up = self.events.receive(1).remove(0);
        self.dead_letters
            .put(&given_up.group, &given_up.message_id, &given_up.body, Default::default())
            .expect("SQS takes it");
        self.events.delete(&given_up.receipt);
    }

    /// Lets time pass until nothing is on the queue of events any more.
    pub(crate) async fn drain(&self) {
        for _ in 0..1000 {
            self.poll().await;
            match self.events.next_visible() {
                Some(at) => self.clock.advance(at.since(self.clock.now())),
                None if self.events.depth() == 0 && !self.wake_next().await => return,
                None => (),
            }
        }
        panic!("the queue does not drain");
    }

    /// Lets time pass until the schedule wakes something, if anything waits that a moment or a probe can wake.
    async fn wake_next(&self) -> bool {
        let (now, board) = (self.clock.now(), self.board().await);
        let next = |row: Row| match row.wait.as_ref().filter(|_| row.stands_in_line())?.on.clone() {
            _ if row.is_woken() => row.listed_at,
            WaitsFor::Moment => row.listed_at,
            WaitsFor::Flow(flow) => Some(board.paused_flow(&flow, now).map_or(Some(now), |pause| pause.until)?),
            WaitsFor::Integration(name) => {
                Some(board.paused_integration(&name, now).map_or(Some(now + TICK), |pause| pause.until)?)
            }
        };
        let Some(at) = self.ledger.rows().into_iter().filter_map(next).min() else { return false };
        self.clock.advance(at.since(now));
        self.wake().await;
        true
    }

    /// One tick of the schedule that wakes. Says how many events it woke.
    pub(crate) async fn wake(&self) -> u64 {
        let answer = operate(&self.replay, Operation::Wake).await.expect("the models answer");
        answer["woken"].as_u64().expect("a number")
    }

    async fn board(&self) -> Board {
        let stored = DocumentStore::<Board>::read(&self.board).await.expect("the model answers");
        stored.and_then(|stored| Board::read(&stored.text).ok()).unwrap_or_default()
    }

    /// One poll of the queue of dead letters.
    pub(crate) async fn park(&self) -> Vec<String> {
        let batch = self.dead_letters.receive(10);
        let kept = park_batch(&self.replay, batch.iter().map(Delivered::received).collect()).await;
        delete(&self.dead_letters, batch, &kept);
        kept
    }

    pub(crate) async fn row(&self, id: &EventId) -> Row {
        self.ledger.row(id).await.expect("the model answers").expect("the event has a row")
    }

    /// What happened to an event, without the times.
    pub(crate) async fn story(&self, id: &EventId) -> Vec<String> {
        self.row(id).await.history.into_iter().map(|moment| moment.what).collect()
    }
}

/// The receipt of an event of a batch that is for one flow.
pub(crate) fn one_event(result: Result<Accepted, Rejection>) -> Result<Receipt, Rejection> {
    result.map(|accepted| accepted.into_event().expect("one event of one flow"))
}

fn delete(queue: &ModelQueue, batch: Vec<Delivered>, kept: &[String]) {
    for delivered in batch.iter().filter(|delivered| !kept.contains(&delivered.message_id)) {
        queue.delete(&delivered.receipt);
    }
}

/// A delivery as the web form signs it.
pub(crate) fn signed(body: &Value, timestamp: i64) -> Delivery {
    signed_bytes(body.to_string().as_bytes(), timestamp)
}

/// The same of any bytes.
pub(crate) fn signed_bytes(body: &[u8], timestamp: i64) -> Delivery {
    let body = body.to_vec();
    let signature =
        standard_webhooks_signature(&Secret::new(SECRET), "msg_1", timestamp, &body).expect("a good secret");
    let timestamp = timestamp.to_string();
    let headers = [
        ("content-type", "application/json"),
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", &timestamp),
        ("webhook-signature", &signature),
    ];
    Delivery {
        source: "web-forms".into(),
        event_type: None,
        headers: headers.into_iter().collect(),
        body,
        called: Called::default(),
    }
}

/// The shipped flows with the flow for leads changed in its YAML.
pub(crate) fn flows_with(change: impl Fn(String) -> String) -> Flows {
    let mut files = files();
    files[2].text = change(std::mem::take(&mut files[2].text));
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The shipped flows with the flow for leads changed in its YAML, and a partner that is called however often it fails.
pub(crate) fn flows_without_breaker(change: impl Fn(String) -> String) -> Flows {
    let mut files = files();
    files[1].text = files[1].text.replace("  timeout:", "  breaker: off\n  timeout:");
    files[2].text = change(std::mem::take(&mut files[2].text));
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The retry policy that the shipped flow has.
pub(crate) fn policy() -> shared::flows::retry::Policy {
    let flow: Flow = crate::fixtures::lead_routing();
    flow.retry
}
