//! Senders: they post until they are told that we have it, and some post it again.

use std::time::Duration;

use intake::{Receipt, Rejection, accept};
use serde_json::Value;
use shared::delivery::Delivery;
use shared::signature::{Secret, standard_webhooks_signature};
use shared::time::Timestamp;
use shared::trace::Trace;

use super::containers::{Ended, Function, INTAKE_TIMEOUT};
use super::scheduler::{Actor, Violation};
use super::timeline::Who;
use super::world::World;

pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A sender of one event.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) source: String,
    pub(super) payload: Value,
    pub(super) first_at: Duration,
    /// When it posts again, although it was told that we have it.
    pub(super) again_after: Vec<Duration>,
}

/// How often an answer does not reach its sender.
const LOST_ANSWERS: f64 = 0.03;

/// The name of the invariant that a good event is taken sooner or later.
pub(super) const GOOD_EVENTS_TAKEN: &str = "good-events-taken";

impl World {
    pub(super) fn post(&mut self, number: usize) {
        let Some((who, Function::Intake(intake))) = self.idle(|who| matches!(who, Who::Intake(_))) else {
            return self.later(Duration::from_millis(200), Actor::Sender(number));
        };
        let sender = &self.setup.senders[number];
        let delivery = signed(sender, self.scheduler.now());
        // The same for each copy, so that a partner's call can be told from another event's.
        let trace = Trace::start(7, number as u64 + 1, 1);
        self.scheduler.note(Who::Sender(number), "post", &who.to_string(), "", None);
        let work = async move {
            let now = intake.clock.now();
            Ended::Answered(number, accept(&intake, delivery, trace, now).await)
        };
        self.invoke(who, INTAKE_TIMEOUT, Some(Actor::Sender(number)), work);
    }

    pub(super) fn answered(&mut self, number: usize, answer: Result<Receipt, Rejection>) {
        let heard = self.scheduler.healed() || !self.scheduler.happens(LOST_ANSWERS);
        match answer {
            Ok(receipt) if heard => {
                self.scheduler.note(Who::Sender(number), "hears", "", "202", None);
                self.oracle.acknowledged(&receipt.id);
                if let Some(after) = self.setup.senders[number].again_after.pop() {
                    self.later(after, Actor::Sender(number));
                }
            }
            Ok(_) | Err(Rejection::Unavailable(_) | Rejection::TooMany(_)) => {
                self.scheduler.note(Who::Sender(number), "hears", "", "nothing good", None);
                let again = self.scheduler.between(Duration::from_secs(1), Duration::from_secs(8));
                self.later(again, Actor::Sender(number));
            }
            Err(rejection) => {
                let seen = format!("sender-{number}: {rejection}");
                self.scheduler.violated(Violation { invariant: GOOD_EVENTS_TAKEN, seen });
            }
        }
    }
}

fn signed(sender: &Sender, now: Timestamp) -> Delivery {
    let body = sender.payload.to_string().into_bytes();
    let timestamp = now.secs();
    let signature = standard_webhooks_signature(&Secret::new(SECRET), "msg", timestamp, &body).expect("a good secret");
    let timestamp = timestamp.to_string();
    let headers = [
        ("content-type", "application/json"),
        ("webhook-id", "msg"),
        ("webhook-timestamp", &timestamp),
        ("webhook-signature", &signature),
    ];
    Delivery { source: sender.source.clone(), event_type: None, headers: headers.into_iter().collect(), body }
}
