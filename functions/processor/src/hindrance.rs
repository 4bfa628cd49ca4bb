//! What holds an event back, and whether it waits for it on the queue.

use std::time::Duration;

use shared::base::time::Timestamp;
use shared::ledger::{Row, State, WaitsFor};
use shared::limits::pressure::{Deferral, DeferralReason};

/// The longest wait of a message on the queue. SQS holds only so many messages in flight, and looks only at so many for
/// free groups: what waits longer leaves the queue.
pub(crate) const LONGEST_ON_QUEUE: Duration = Duration::from_secs(15 * 60);

/// The longest wait for a partner or an operator that a young event spends on the queue.
const SHORT: Duration = Duration::from_secs(30);

/// The age up to which an event is young.
const YOUNG: Duration = Duration::from_secs(60);

/// What holds an event back: for how long at least, why, and what it waits for if it leaves the queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hindrance {
    pub(crate) deferral: Deferral,
    /// What the event would wait for. Without it, the event stays on the queue.
    on: Option<WaitsFor>,
    /// The moment for which the event is listed, if that is not the end of its delay.
    listed_for: Option<Timestamp>,
}

impl Hindrance {
    /// A hindrance that passes soon, or that nobody tells the end of: a rate, a slot, a table that does not answer.
    pub(crate) fn passing(deferral: Deferral) -> Self {
        Hindrance { deferral, on: None, listed_for: None }
    }

    /// A hindrance that ends after the deferral.
    pub(crate) fn timed(deferral: Deferral) -> Self {
        Hindrance { deferral, on: Some(WaitsFor::Moment), listed_for: None }
    }

    /// A hindrance that ends when the flow or the integration is free.
    pub(crate) fn of(deferral: Deferral, on: WaitsFor) -> Self {
        Hindrance { deferral, on: Some(on), listed_for: None }
    }

    /// What keeps an event from a partner: only its being down or paused ends with it.
    pub(crate) fn of_partner(deferral: Deferral, integration: &str) -> Self {
        match deferral.why {
            DeferralReason::BreakerOpen
            | DeferralReason::CredentialsRejected
            | DeferralReason::NoToken
            | DeferralReason::Paused => Hindrance::of(deferral, WaitsFor::Integration(integration.to_owned())),
            _ => Hindrance::passing(deferral),
        }
    }

    /// Another event of the entity, which goes first. Whoever stands behind it is woken with it. If it is on its way
    /// already, so is this one with the next wakes.
    pub(crate) fn behind(head: &Row, now: Timestamp) -> Self {
        let waits = head.wait.as_ref().filter(|_| head.state == State::Waiting);
        let on = waits.map_or(WaitsFor::Moment, |wait| wait.on.clone());
        let listed_for = (on == WaitsFor::Moment).then(|| waits.and(head.listed_at).unwrap_or(now));
        let deferral = Deferral { after: Duration::ZERO, why: DeferralReason::BehindAnother };
        Hindrance { deferral, on: Some(on), listed_for }
    }

    /// What the event leaves the queue for, if it has come so often, or for so long, that it should.
    pub(crate) fn leaves_queue_for(&self, waited: Duration) -> Option<&WaitsFor> {
        let Deferral { after, why } = self.deferral;
        self.on.as_ref().filter(|on| match on {
            _ if why == DeferralReason::BehindAnother => true,
            WaitsFor::Moment => after > LONGEST_ON_QUEUE,
            WaitsFor::Flow(_) | WaitsFor::Integration(_) => after > SHORT || waited > YOUNG,
        })
    }

    /// The moment for which the event is listed, if it is due after `delay`.
    pub(crate) fn due(&self, delay: Duration, now: Timestamp) -> Option<Timestamp> {
        let timed = self.on == Some(WaitsFor::Moment);
        self.listed_for.or_else(|| timed.then(|| now + delay))
    }
}
