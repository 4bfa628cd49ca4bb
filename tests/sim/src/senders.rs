//! Senders: they post until they are told that we have it, and some post it again.

use std::time::Duration;

use intake::{Accepted, Rejection, accept};
use serde_json::Value;
use shared::arrival::delivery::{Called, Delivery};
use shared::arrival::signature::{Secret, new_secret, sign};
use shared::base::time::Timestamp;
use shared::base::trace::Trace;
use shared::flows::{Flows, Scheme};
use shared::operate::metric::WorkUnit;

use crate::containers::{INTAKE_TIMEOUT, InvocationEnd, LoadedFunction};
use crate::recipe::EventPost;
use crate::run::BrokenInvariant;
use crate::scheduler::Actor;
use crate::timeline::Who;
use crate::world::SimWorld;

/// What the secret of every sender is made of.
const KEY: [u8; 32] = *b"32 bytes that every sender knows";

/// The secret of a sender in this scheme: of one with public keys, the private one.
pub(crate) fn senders_secret(scheme: &Scheme) -> Secret {
    new_secret(scheme, &KEY)
}

/// A sender of one event.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// What it posts, one of these each time. Under one key, it is one event.
    pub(crate) posts: Vec<EventPost>,
    pub(crate) first_at: Duration,
    /// When it posts again, although it was told that we have it.
    pub(crate) again_after: Vec<Duration>,
    /// How often it was told nothing good. It asks more and more seldom.
    pub(crate) unanswered: u32,
    /// When it posted last.
    pub(crate) posted_at: Timestamp,
}

impl Sender {
    pub(crate) fn of(posts: Vec<EventPost>, first_at: Duration, again_after: Vec<Duration>) -> Self {
        Sender { posts, first_at, again_after, unanswered: 0, posted_at: Timestamp::from_secs(0) }
    }
}

/// How often an answer does not reach its sender.
const LOST_ANSWERS: f64 = 0.03;

/// After so many answers that were none a sender gives up: that takes it some five hours, and longer than any run needs to
/// heal.
const PATIENCE: u32 = 40;

/// The longest body that the intake surely takes.
const LONGEST_KEPT: usize = 240 * 1024;

/// The name of the invariant that a good event is taken sooner or later.
pub(crate) const GOOD_EVENTS_TAKEN: &str = "good-events-taken";

impl SimWorld {
    pub(crate) fn post(&mut self, number: usize) {
        let Some((who, LoadedFunction::Intake(intake))) = self.idle(|who| matches!(who, Who::Intake(_))) else {
            return self.later(Duration::from_millis(200), Actor::Sender(number));
        };
        let posts = &self.setup.senders[number].posts;
        let chosen = usize::try_from(self.scheduler.below(posts.len() as u64)).unwrap_or_default();
        let post = &posts[chosen];
        let delivery = signed(post, &self.setup.versions[0].flows, self.scheduler.now());
        let trace = trace(number);
        self.oracle.posted(post, &trace.id(), self.scheduler.now());
        self.setup.senders[number].posted_at = self.scheduler.now();
        self.scheduler.note(Who::Sender(number), "post", &who.to_string(), "", None);
        let work = async move {
            let now = intake.clock.now();
            InvocationEnd::Answered(
                number,
                accept(&intake, &WorkUnit::new(&*intake.metrics), delivery, trace, now).await,
            )
        };
        self.invoke(who, INTAKE_TIMEOUT, Some(Actor::Sender(number)), work);
    }

    pub(crate) fn answered(&mut self, number: usize, answer: Result<Accepted, Rejection>) {
        let heard = self.scheduler.healed() || !self.scheduler.happens(LOST_ANSWERS);
        match answer {
            Ok(accepted) if heard && accepted.is_success() => {
                self.setup.senders[number].unanswered = 0;
                self.scheduler.note(Who::Sender(number), "hears", "", "202", None);
                for receipt in accepted.receipts() {
                    self.oracle.acknowledged(&receipt.id);
                    let posted_at = self.setup.senders[number].posted_at;
                    let told = self.oracle.told(&trace(number).id(), &receipt.id);
                    let judged = told.and(self.oracle.is_not_of_an_ended_key(&receipt.id, posted_at));
                    if let Err(violation) = judged {
                        self.scheduler.violated(violation);
                    }
                }
                if let Some(after) = self.setup.senders[number].again_after.pop() {
                    self.later(after, Actor::Sender(number));
                }
            }
            Ok(_) | Err(Rejection::Unavailable(_) | Rejection::Throttled(_)) => {
                self.scheduler.note(Who::Sender(number), "hears", "", "nothing good", None);
                let sender = &mut self.setup.senders[number];
                sender.unanswered += 1;
                if sender.unanswered > PATIENCE {
                    return self.gave_up(number);
                }
                let longer = 1 << sender.unanswered.saturating_sub(4).min(7);
                let again = self.scheduler.between(Duration::from_secs(1), Duration::from_secs(8));
                self.later(again * longer, Actor::Sender(number));
            }
            // A version that does not have the flow takes none of its events. The one before may come back, or the next one
            // come: this sender asks again while they change.
            Err(Rejection::UnknownType) if !self.is_for_good(number) => {
                self.scheduler.note(Who::Sender(number), "hears", "", "no such flow", None);
                if !self.scheduler.healed() {
                    let again = self.scheduler.between(Duration::from_secs(10), Duration::from_secs(120));
                    self.later(again, Actor::Sender(number));
                }
            }
            // What no queue can keep is rejected, with its place.
            Err(Rejection::Invalid(_) | Rejection::TooLarge) if self.cannot_be_kept(number) => {
                self.scheduler.note(Who::Sender(number), "hears", "", "it cannot be kept", None);
            }
            Err(rejection) => {
                let seen = format!("sender-{number}: {rejection}");
                self.scheduler.violated(BrokenInvariant { invariant: GOOD_EVENTS_TAKEN, seen });
            }
        }
    }
}

impl SimWorld {
    /// A sender was told nothing good for hours. Its event is lost, unless its row is broken.
    fn gave_up(&self, number: usize) {
        if self.scheduler.broken().is_none() && self.setup.stores.faulty.is_none() {
            let seen = format!("sender-{number} gave up: it was told nothing good {PATIENCE} times");
            self.scheduler.violated(BrokenInvariant { invariant: GOOD_EVENTS_TAKEN, seen });
        }
    }

    /// Whether what this sender posts is too large for a message, or has characters that the queue does not take.
    fn cannot_be_kept(&self, number: usize) -> bool {
        let text = self.setup.senders[number].posts[0].body.to_string();
        text.len() > LONGEST_KEPT || text.contains("\\u00") || text.contains('\u{fffe}')
    }

    /// Whether every version takes what this sender sends.
    fn is_for_good(&self, number: usize) -> bool {
        let post = &self.setup.senders[number].posts[0];
        let named = |flows: &Flows| {
            let told = || flows.source(&post.source)?.type_of(&post.body);
            let event_type = post.event_type.as_deref().or_else(told);
            event_type.is_some_and(|event_type| flows.route(&post.source, event_type).is_some())
        };
        self.setup.versions.iter().all(|version| named(&version.flows))
    }
}

/// The trace of a sender. It is the same for each copy, so that a partner's call can be told from another event's.
fn trace(number: usize) -> Trace {
    Trace::start(7, number as u64 + 1, 1)
}

/// The delivery as its source signs and packs it.
fn signed(post: &EventPost, flows: &Flows, now: Timestamp) -> Delivery {
    let source = flows.source(&post.source).expect("a source of the flows");
    let EventPost { source: name, event_type, delivery_id, idempotency_key, body } = post.clone();
    let (content_type, body) = match &source.form {
        Some(field) => ("application/x-www-form-urlencoded", form(field, &body)),
        None => ("application/json", body.to_string()),
    };
    let signature = sign(&source.scheme, &senders_secret(&source.scheme), &delivery_id, now.secs(), body.as_bytes());
    let key = idempotency_key.map(|key| ("idempotency-key".to_owned(), key));
    let headers = signature.expect("a good secret").into_iter().chain(key);
    let headers = headers.chain([("content-type".to_owned(), content_type.to_owned())]).collect();
    Delivery { source: name, event_type, headers, body: body.into_bytes(), called: Called::default() }
}

fn form(field: &str, body: &Value) -> String {
    let body: String = form_urlencoded::byte_serialize(body.to_string().as_bytes()).collect();
    format!("{field}={body}")
}
