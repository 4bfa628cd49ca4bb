//! The partners: they do as they are asked or misbehave, and keep what they promise.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::effects::body::RequestBody;
use shared::effects::request::PartnerRequest;
use shared::flows::{AnswerPlace, AnswerRule, Effect, Flows, Guarantee, Integration, Meaning};

use crate::ports::Seat;
use crate::scenario::{ListedField, Listing};
use crate::scheduler::{Actor, Due, Scheduler};
use crate::timeline::Who;

/// What a partner does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// As it is asked.
    Well,
    /// As it is asked, slowly.
    Slow,
    /// No connection comes about.
    Unreachable,
    /// Nothing is done, and it says so.
    Refuse {
        /// The status that it answers with.
        status: u16,
        /// When it wants to be asked again, in seconds.
        retry_after: Option<u64>,
    },
    /// It answers with a status that does not say whether anything happened.
    Fail {
        /// The status that it answers with.
        status: u16,
        /// Whether it did what it was asked for.
        applied: bool,
        /// Whether it saves this answer under our key, and gives it again until it forgets the key.
        saved: bool,
    },
    /// It does what it is asked for, and says so without a body.
    Bare {
        /// Whether it saves this answer under our key.
        saved: bool,
    },
    /// It does not do what it is asked for, and says so in the body of a 200, where its table reads bodies.
    SayNo,
    /// It answers 200 with a body that its table cannot make out, where its table reads bodies.
    Mumble {
        /// Whether it did what it was asked for.
        applied: bool,
    },
    /// It does what it is asked for, and its answer is far longer than anybody keeps.
    Verbose,
    /// It does not answer in time.
    Hang {
        /// How late it does what it was asked for, if it does, in parts of a hundred of the longest that it takes.
        late: Option<u32>,
    },
}

impl Conduct {
    /// One of the bad ones. Whoever says in its body what it did says something bad there every other time.
    pub(crate) fn drawn(scheduler: &Scheduler, wordy: bool) -> Self {
        let coin = || scheduler.below(2) == 0;
        let which = if wordy && coin() { 12 + scheduler.below(2) } else { scheduler.below(17) };
        match which {
            0 => Conduct::Unreachable,
            1 | 2 => Conduct::Refuse { status: 429, retry_after: Some(1 + scheduler.below(20)) },
            3 => Conduct::Fail { status: 503, applied: coin(), saved: coin() },
            4 => Conduct::Refuse { status: 400, retry_after: None },
            5 => Conduct::Fail { status: Self::doubtful(scheduler), applied: false, saved: coin() },
            6 => Conduct::Fail { status: Self::doubtful(scheduler), applied: true, saved: coin() },
            7 => Conduct::Hang { late: None },
            8 => Conduct::Hang { late: Some(0) },
            9 => Conduct::Hang {
                late: Some(if coin() { 100 } else { u32::try_from(scheduler.below(100)).unwrap_or_default() }),
            },
            10 => Conduct::Refuse { status: if coin() { 401 } else { 403 }, retry_after: None },
            11 => Conduct::Bare { saved: coin() },
            12 => Conduct::SayNo,
            13 => Conduct::Mumble { applied: coin() },
            16 => Conduct::Verbose,
            _ => Conduct::Slow,
        }
    }

    /// A status of which only the partner knows whether it had acted.
    fn doubtful(scheduler: &Scheduler) -> u16 {
        const DOUBTFUL: [u16; 10] = [500, 502, 504, 303, 307, 402, 408, 409, 423, 425];
        DOUBTFUL[usize::try_from(scheduler.below(10)).unwrap_or_default()]
    }
}

impl fmt::Display for Conduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conduct::Well => write!(f, "200"),
            Conduct::Slow => write!(f, "200, slowly"),
            Conduct::Unreachable => write!(f, "unreachable"),
            Conduct::Refuse { status, .. } => write!(f, "{status}"),
            Conduct::Fail { status, applied: true, .. } => write!(f, "{status}, and did it"),
            Conduct::Fail { status, applied: false, .. } => write!(f, "{status}, and did not do it"),
            Conduct::Bare { .. } => write!(f, "200, without a body"),
            Conduct::SayNo => write!(f, "200, and says no"),
            Conduct::Verbose => write!(f, "200, and says far too much"),
            Conduct::Mumble { applied: true } => write!(f, "200, with a strange body, and did it"),
            Conduct::Mumble { applied: false } => write!(f, "200, with a strange body, and did not do it"),
            Conduct::Hang { late: None } => write!(f, "hangs, and does not do it"),
            Conduct::Hang { late: Some(late) } => write!(f, "hangs, and does it after {late}% of its longest"),
        }
    }
}

/// How every partner behaves when a run starts, so that much is parked.
#[derive(Clone, Copy, Debug)]
pub struct OpeningConduct {
    /// What partners do.
    pub conduct: Conduct,
    /// For how long.
    pub lasts: Duration,
}

/// A partner that behaves in one way for long, whatever else happens.
#[derive(Clone, Debug)]
pub struct PartnerOutage {
    /// The integration.
    pub integration: String,
    /// When it begins, from the start of the run.
    pub from: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What the partner does.
    pub conduct: Conduct,
}

impl PartnerOutage {
    /// A partner that hangs on every call, and never recovers.
    pub fn hangs_for_good(integration: &str) -> Self {
        let conduct = Conduct::Hang { late: None };
        PartnerOutage { integration: integration.to_owned(), from: Duration::ZERO, lasts: Duration::MAX, conduct }
    }

    /// What the partner of this integration does by it now.
    pub(crate) fn conduct(&self, integration: &str, elapsed: Duration) -> Option<Conduct> {
        let within = elapsed.checked_sub(self.from).is_some_and(|since| since < self.lasts);
        (within && self.integration == integration).then_some(self.conduct)
    }
}

/// The longest that a partner takes, where no flow says how long it has to settle: to do what it did not answer to, and
/// as long again to let a lookup find what it has done.
const LATEST: Duration = Duration::from_secs(3);

/// How long an operator waits after the longest that a partner takes.
const LOOKS_AFTER: Duration = Duration::from_secs(12);

/// More than two clocks differ.
const CLOCKS: Duration = Duration::from_millis(1100);

/// All partners.
pub(crate) struct Partner {
    /// Every version of the flows that may be live.
    versions: Vec<Flows>,
    listings: BTreeMap<String, Listing>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When each effect of each event was applied.
    applied: BTreeMap<(EventId, String), Vec<Timestamp>>,
    /// What each integration did, in order: when, and the body that asked for it.
    did: BTreeMap<String, Vec<(Timestamp, String)>>,
    /// The keys that are remembered, by integration and key.
    keys: BTreeMap<(String, String), SavedAnswer>,
    /// Whom a partner is busy with, by integration.
    connections: BTreeMap<String, Vec<Who>>,
    /// The questions in the room, as their buttons carry them.
    questions: Vec<String>,
}

/// What a partner that honours keys remembers of one.
#[derive(Clone)]
struct SavedAnswer {
    until: Timestamp,
    /// The request that came under the key. Another one is refused.
    request: String,
    status: u16,
    body: Option<Value>,
}

/// A request that has arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) integration: String,
    pub(crate) path: String,
    /// The event and the effect, from the key or, for a question, from the trace.
    pub(crate) key: Option<String>,
    pub(crate) trace: String,
    /// What a message in a room asks, as its buttons carry it.
    pub(crate) question: Option<String>,
    /// What is asked for: the method, the path and the body.
    pub(crate) request: String,
    /// The body as a text.
    pub(crate) body: String,
    /// Whether its client does not wait for it any more.
    pub(crate) late: bool,
}

impl Arrival {
    /// The event and the effect that our key names.
    pub(crate) fn effect(&self) -> Option<(EventId, String)> {
        let (event, effect) = self.key.as_ref()?.split_once('/')?;
        // Behind the point stands the number of the key's event.
        let id = event.split_once('.').map_or(event, |(id, _)| id);
        Some((EventId::named(id), effect.split('/').next()?.to_owned()))
    }
}

/// A call that a partner is busy with.
pub(crate) struct OpenConnection {
    partner: Arc<Partner>,
    integration: String,
    who: Who,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut state = self.partner.state();
        let connections = state.connections.entry(self.integration.clone()).or_default();
        if let Some(index) = connections.iter().position(|who| *who == self.who) {
            connections.remove(index);
        }
    }
}

impl Partner {
    pub(crate) fn new(versions: Vec<Flows>, listings: BTreeMap<String, Listing>) -> Arc<Self> {
        Arc::new(Partner { versions, listings, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Reads who asks for what.
    pub(crate) fn arrival(&self, request: &PartnerRequest) -> Arrival {
        let header = |name: &str| {
            let found = request.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        let partner = self.integration(&request.integration);
        let key = partner.and_then(|partner| header(&partner.idempotency_header));
        let trace = header("traceparent").and_then(|value| value.split('-').nth(1).map(str::to_owned));
        let json = request.json();
        let button = json.as_ref().map(|body| &body["blocks"][3]["elements"][0]["value"]);
        let question = button.and_then(Value::as_str).map(str::to_owned);
        let (integration, path) = (request.integration.clone(), request.path.clone());
        let body = request.body.as_ref().map_or("null".into(), RequestBody::text).into_owned();
        let asked = format!("{} {path} {body}", request.method);
        Arrival {
            integration,
            path,
            key,
            trace: trace.unwrap_or_default(),
            question,
            request: asked,
            body,
            late: false,
        }
    }

    /// Takes a call, and reports whether it should have been made.
    pub(crate) fn arrive(self: &Arc<Self>, arrival: &Arrival, seat: &Seat) -> OpenConnection {
        let at_once = {
            let mut state = self.state();
            let connections = state.connections.entry(arrival.integration.clone()).or_default();
            connections.push(seat.who);
            connections.iter().filter(|who| !seat.scheduler.is_stalled(**who)).count()
        };
        seat.oracle.called(arrival, at_once, seat);
        OpenConnection { partner: Arc::clone(self), integration: arrival.integration.clone(), who: seat.who }
    }

    /// Does what is asked, as the partner promises: once a key where it honours keys. Says the status
    /// and the body.
    pub(crate) fn apply(&self, arrival: &Arrival, seat: &Seat) -> (u16, Option<Value>) {
        let now = seat.scheduler.now();
        if let Some(question) = &arrival.question {
            return self.show(question, seat);
        }
        let Some((event, effect)) = arrival.effect() else { return self.answer_lookup(arrival, seat) };
        let body = self.body(&arrival.integration, &format!("id-{}", event.as_str().get(..6).unwrap_or_default()));
        let mut state = self.state();
        if self.honours_keys(&arrival.integration) {
            match state.saved(arrival, now) {
                Some(saved) if saved.request != arrival.request => return (422, None),
                Some(saved) => return (saved.status, saved.body.clone()),
                None => state.save(arrival, self.forgets_at(arrival, now), 200, Some(body.clone())),
            }
        }
        let applied = state.applied.entry((event.clone(), effect.clone())).or_default();
        applied.push(now);
        let times = applied.len();
        state.did.entry(arrival.integration.clone()).or_default().push((now, arrival.body.clone()));
        drop(state);
        let late = arrival.late || seat.scheduler.is_stalled(seat.who);
        seat.oracle.applied(&event, &effect, times, late, &seat.scheduler);
        seat.oracle.applied_within(arrival, &seat.scheduler);
        (200, Some(body))
    }

    /// Remembers an answer under the key, where the partner honours keys: Stripe repeats a saved 500, too.
    pub(crate) fn save(&self, arrival: &Arrival, status: u16, seat: &Seat) {
        let now = seat.scheduler.now();
        if arrival.key.is_some() && self.honours_keys(&arrival.integration) {
            self.state().save(arrival, self.forgets_at(arrival, now), status, None);
        }
    }

    /// What is saved under a key, if it is: nothing but that is answered while it is remembered.
    pub(crate) fn saved(&self, arrival: &Arrival, now: Timestamp) -> bool {
        self.honours_keys(&arrival.integration) && self.state().saved(arrival, now).is_some()
    }

    fn forgets_at(&self, arrival: &Arrival, now: Timestamp) -> Timestamp {
        now + self.integration(&arrival.integration).map(|partner| partner.key_window).unwrap_or_default()
    }

    /// Whether what an answer of this partner means stands in its body.
    pub(crate) fn speaks_in_bodies(&self, integration: &str) -> bool {
        self.integration(integration).is_some_and(|partner| partner.answers.iter().any(|rule| rule.when.is_some()))
    }

    /// What a status surely says of a call, where a row of its table says so without a look at the body. The partner keeps
    /// to it.
    pub(crate) fn declared(&self, arrival: &Arrival, status: u16) -> Option<Meaning> {
        let called = arrival.effect().map(|(_, effect)| effect);
        let is_called = |effect: &&Effect| effect.names().any(|name| called.as_deref() == Some(name));
        let own = self.effects(&arrival.integration).find(is_called).map(|effect| &effect.answers);
        let rows = own
            .into_iter()
            .flatten()
            .chain(self.integration(&arrival.integration).into_iter().flat_map(|p| &p.answers));
        let covers = |row: &&AnswerRule| row.status.as_ref().is_none_or(|statuses| statuses.contain(status));
        let row = { rows }.find(covers).filter(|row| row.when.is_none() && row.means != Meaning::InDoubt);
        row.map(|row| row.means)
    }

    /// The body of an answer whose status says what happened: an id in a sentence, and how long to wait.
    pub(crate) fn explains(&self, arrival: &Arrival) -> Option<Value> {
        let (event, _) = arrival.effect()?;
        let id = event.as_str().get(..6).unwrap_or_default().to_owned();
        Some(json!({"message": format!("It is there already. Existing ID: id-{id}"), "wait": 2}))
    }

    /// How long it takes until the records of a flow's partners say all that they will, and an operator may go by them.
    pub(crate) fn settles(&self, flow: &str) -> Duration {
        let flows = self.versions.iter().filter_map(|version| version.flow(flow));
        let called = flows.flat_map(|flow| &flow.effects).filter_map(Effect::integration);
        called.map(|integration| self.latest(integration)).max().unwrap_or(LATEST) + LOOKS_AFTER
    }

    /// When an effect was applied.
    pub(crate) fn applied(&self, event: &EventId, effect: &str) -> Vec<Timestamp> {
        self.state().applied.get(&(event.clone(), effect.to_owned())).cloned().unwrap_or_default()
    }

    /// What was done for an event is forgotten: its key has ended, and what comes under it is another event.
    pub(crate) fn forget(&self, event: &EventId) {
        self.state().applied.retain(|(known, _), _| known != event);
    }

    /// Shows a question in the room. People press its buttons: nobody, somebody, somebody else again.
    fn show(&self, question: &str, seat: &Seat) -> (u16, Option<Value>) {
        seat.oracle.asked(question, &seat.scheduler);
        let mut state = self.state();
        state.questions.push(question.to_owned());
        let number = state.questions.len() - 1;
        for _ in 0..seat.scheduler.below(4) {
            let after = seat.scheduler.between(Duration::from_secs(1), Duration::from_secs(1200));
            seat.scheduler.after(after, Due::Act(Actor::Press(number)));
        }
        (200, Some(json!({"ok": true})))
    }

    /// The question of this number.
    pub(crate) fn question(&self, number: usize) -> String {
        self.state().questions[number].clone()
    }

    /// The longest that a partner takes to do what it did not answer to, and then to let a lookup find it: together as
    /// long as every `lookup.after` allows, by more than clocks differ.
    pub(crate) fn latest(&self, integration: &str) -> Duration {
        let settling = self.effects(integration).filter_map(Effect::asked_after).min();
        settling.map_or(LATEST, |after| (after.saturating_sub(CLOCKS) / 2).max(LATEST))
    }

    fn answer_lookup(&self, arrival: &Arrival, seat: &Seat) -> (u16, Option<Value>) {
        let Some((event, effect)) = seat.oracle.looked_up(arrival) else { return (404, None) };
        let settling = self.latest(&arrival.integration);
        let settled = |at: &Timestamp| *at + settling <= seat.scheduler.now();
        if let Some(listing) = self.listings.get(&arrival.integration) {
            let did = self.state().did.get(&arrival.integration).cloned().unwrap_or_default();
            return (200, Some(listing.page(did.iter().filter(|(at, _)| settled(at)))));
        }
        match self.applied(&event, &effect).iter().any(settled) {
            true => (200, Some(self.body(&arrival.integration, "found"))),
            false => (404, None),
        }
    }

    /// A partner as the last version that knows it has it.
    fn integration(&self, name: &str) -> Option<&Integration> {
        self.versions.iter().rev().find_map(|flows| flows.integration(name))
    }

    /// The effects that call a partner, in any version.
    fn effects<'p>(&'p self, integration: &'p str) -> impl Iterator<Item = &'p Effect> {
        let effects = self.versions.iter().flat_map(|flows| flows.all()).flat_map(|flow| &flow.effects);
        effects.filter(move |effect| effect.integration() == Some(integration))
    }

    fn honours_keys(&self, integration: &str) -> bool {
        self.effects(integration).any(|effect| effect.guarantee == Guarantee::Native)
    }

    /// An answer with something wherever a flow looks for something.
    fn body(&self, integration: &str, id: &str) -> Value {
        let mut body = json!({"ok": true});
        for effect in self.effects(integration) {
            let found = effect.lookup.iter().map(|lookup| lookup.found.pointer());
            let kept = effect.result.values().filter_map(|result| match &result.at {
                AnswerPlace::Pointer(pointer) => Some(pointer.as_str()),
                AnswerPlace::Expression(_) => None,
            });
            for pointer in kept.chain(found.flatten()) {
                plant(&mut body, pointer, id);
            }
        }
        body
    }
}

impl Listing {
    fn page<'d>(&self, did: impl Iterator<Item = &'d (Timestamp, String)>) -> Value {
        let listed: Vec<Value> = did.enumerate().map(|(number, (at, form))| self.object(number, *at, form)).collect();
        json!({ "ok": true, &self.list: listed })
    }

    fn object(&self, number: usize, at: Timestamp, form: &str) -> Value {
        let sent = |wanted: &str| form_urlencoded::parse(form.as_bytes()).find(|(name, _)| name == wanted);
        let value = |field: &ListedField| match field {
            ListedField::Sent(name) => sent(name).map_or(Value::Null, |(_, value)| json!(value)),
            ListedField::SentJson(name) => {
                sent(name).and_then(|(_, value)| serde_json::from_str(&value).ok()).unwrap_or_default()
            }
            ListedField::At => json!(at.to_string()),
            ListedField::Id => json!(format!("listed-{number}")),
        };
        self.fields.iter().map(|(name, field)| (name.clone(), value(field))).collect()
    }
}

impl State {
    fn saved(&self, arrival: &Arrival, now: Timestamp) -> Option<&SavedAnswer> {
        let key = (arrival.integration.clone(), arrival.key.clone()?);
        self.keys.get(&key).filter(|saved| now < saved.until)
    }

    fn save(&mut self, arrival: &Arrival, until: Timestamp, status: u16, body: Option<Value>) {
        let Some(key) = arrival.key.clone() else { return };
        let request = arrival.request.clone();
        self.keys.insert((arrival.integration.clone(), key), SavedAnswer { until, request, status, body });
    }
}

/// Puts a text at a JSON pointer, making objects and arrays on the way.
pub(crate) fn plant(body: &mut Value, pointer: &str, text: &str) {
    let mut place = body;
    for part in pointer.split('/').skip(1) {
        place = match part.parse::<usize>() {
            Ok(index) => {
                if !place.is_array() {
                    *place = json!([]);
                }
                let items = place.as_array_mut().expect("it was made one");
                items.resize(items.len().max(index + 1), Value::Null);
                &mut items[index]
            }
            Err(_) => &mut place[part],
        };
    }
    *place = json!(text);
}
