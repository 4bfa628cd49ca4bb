//! Runs of the three functions on a virtual clock: what they print while something happens to them, minute by minute.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use shared::adapters::machine::{EmfMetrics, read_flows};
use shared::base::id::EventId;
use shared::base::machine::Clock as _;
use shared::base::time::Timestamp;
use shared::model::ModelClock;
use shared::operate::metric::{Metrics, Tally};

use super::deeds;
use super::emf;
use super::series::{OURS, Store};
use crate::fixtures::{NOW, root};
use crate::memory::{HttpRequest, SECRET, World};

const MINUTE: Duration = Duration::from_secs(60);

/// What the functions print, as it stands on their standard output.
#[derive(Clone)]
struct Printed {
    clock: ModelClock,
    text: Arc<Mutex<String>>,
}

impl Metrics for Printed {
    fn put(&self, tally: &Tally) {
        let lines = EmfMetrics::new(OURS.into()).lines(tally, self.clock.now());
        self.text.lock().expect("not poisoned").push_str(&lines);
    }
}

/// A system at work.
pub(super) struct AlarmRun {
    pub(super) world: World,
    printed: Printed,
    /// Metrics that no function prints, by what the command sends.
    sent: Store,
    minutes: u32,
    posted: u32,
    /// Whether the dead letter queue has its consumer.
    pub(super) takes_letters: bool,
}

impl AlarmRun {
    pub(super) fn new() -> Self {
        let flows = read_flows(&root().join("tests/src/alarms/flows")).unwrap_or_else(|problems| panic!("{problems}"));
        let mut world = World::with(flows);
        world.secrets.put("sources/partner-forms", SECRET);
        let printed = Printed { clock: world.clock.clone(), text: Arc::default() };
        world.intake.metrics = Box::new(printed.clone());
        world.processor.metrics = Box::new(printed.clone());
        world.replay.metrics = Box::new(printed.clone());
        AlarmRun { world, printed, sent: Store::default(), minutes: 0, posted: 0, takes_letters: true }
    }

    /// Lets a minute pass in which these deeds are done, each so many times.
    pub(super) async fn minute(&mut self, deeds: &[(&str, u32)]) {
        for (deed, times) in deeds {
            for _ in 0..*times {
                deeds::perform(self, deed).await;
            }
        }
        self.minutes += 1;
        let end = NOW + MINUTE * self.minutes;
        self.work().await;
        while let Some(at) = self.next_message().filter(|at| *at < end) {
            self.advance_to(at);
            self.work().await;
        }
        self.advance_to(end);
    }

    /// Works on all that can be received now.
    pub(super) async fn work(&mut self) {
        while self.world.events.next_receipt() == Some(self.world.clock.now()) {
            self.world.poll().await;
        }
        while self.takes_letters && self.world.dead_letters.next_receipt() == Some(self.world.clock.now()) {
            self.world.park().await;
        }
    }

    fn next_message(&self) -> Option<Timestamp> {
        let letters = self.world.dead_letters.next_visible().filter(|_| self.takes_letters);
        self.world.events.next_visible().into_iter().chain(letters).min()
    }

    fn advance_to(&self, at: Timestamp) {
        self.world.clock.advance(at.since(self.world.clock.now()));
    }

    /// A new event of this type, which no other has the key of.
    pub(super) fn event(&mut self, of: &str, worth: i64) -> Value {
        self.posted += 1;
        json!({"type": of, "id": format!("evt_{}", self.posted), "who": format!("who_{}@example.com", self.posted), "worth": worth})
    }

    /// The event that was posted last, if any was.
    pub(super) fn last_event(&self, of: &str) -> Option<Value> {
        let n = Some(self.posted).filter(|posted| *posted > 0)?;
        Some(json!({"type": of, "id": format!("evt_{n}"), "who": format!("who_{n}@example.com"), "worth": 10}))
    }

    /// A genuine request of the web form with this body.
    pub(super) fn request(&self, body: &Value) -> HttpRequest {
        HttpRequest::of(&self.world, body.to_string().as_bytes())
    }

    /// Posts a request, which is answered with this status.
    pub(super) async fn send(&self, request: HttpRequest, status: i64) -> Value {
        let answer = request.send(&self.world).await;
        assert_eq!(answer.status, status, "{:?}", answer.body);
        answer.body
    }

    /// Posts a new event of this type, which is accepted.
    pub(super) async fn post(&mut self, of: &str, worth: i64) -> EventId {
        let event = self.event(of, worth);
        let answer = self.send(self.request(&event), 202).await;
        EventId::named(answer["id"].as_str().expect("an id"))
    }

    /// How much was printed until now.
    pub(super) fn printed(&self) -> usize {
        self.printed.text.lock().expect("not poisoned").len()
    }

    /// Counts a metric that the command sends by itself.
    pub(super) fn count(&mut self, metric: super::AlarmMetric) {
        self.sent.put(metric, i64::from(self.minutes), [1.0]);
    }

    /// The series of all that was printed, the first minute being 0.
    pub(super) fn store(self) -> Store {
        let text = self.printed.text.lock().expect("not poisoned");
        let mut store = emf::store(text.lines(), NOW);
        store.merge(self.sent);
        store
    }
}

/// The series of a run in which each minute has its deeds.
pub(super) fn series(minutes: &[Vec<(&str, u32)>]) -> Store {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut run = AlarmRun::new();
        for deeds in minutes {
            run.minute(deeds).await;
        }
        run.store()
    })
}
