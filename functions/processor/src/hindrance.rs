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

/// The longest wait on the queue for room at a partner that works: its rate, its slots, its share of the batches. What
/// waits for longer is a backlog, and would fill the queue.
const ROOM: Duration = Duration::from_secs(60);

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
    /// A hindrance that passes soon, or that nobody tells the end of: a table that does not answer.
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

    /// What keeps an event from a partner: that it is down or paused, or has no room.
    pub(crate) fn of_partner(deferral: Deferral, integration: &str) -> Self {
        match deferral.why {
            DeferralReason::BreakerOpen
            | DeferralReason::CredentialsRejected
            | DeferralReason::NoSecret
            | DeferralReason::NoToken
            | DeferralReason::RateSpent
            | DeferralReason::ConcurrencyFull
            | DeferralReason::PartnerSlow
            | DeferralReason::Paused => Hindrance::of(deferral, WaitsFor::Integration(integration.to_owned())),
            _ => Hindrance::passing(deferral),
        }
    }

    /// Whether the partner works, and has only no room.
    fn is_crowd(&self) -> bool {
        use DeferralReason::{ConcurrencyFull, PartnerSlow, RateSpent};
        matches!(self.deferral.why, RateSpent | ConcurrencyFull | PartnerSlow)
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

    /// The same, for an event that must not go on before `delay` is over, whatever it waits for.
    pub(crate) fn no_earlier_than(self, delay: Duration) -> Self {
        if delay <= self.deferral.after {
            return self;
        }
        Hindrance::timed(Deferral { after: delay, ..self.deferral })
    }

    /// What an event of this age leaves the queue for, if it has `waited` there for so long that it should.
    pub(crate) fn leaves_queue_for(&self, age: Duration, waited: Duration) -> Option<&WaitsFor> {
        let Deferral { after, why } = self.deferral;
        self.on.as_ref().filter(|on| match on {
            _ if why == DeferralReason::BehindAnother => true,
            _ if self.is_crowd() => waited > ROOM,
            WaitsFor::Moment => after > LONGEST_ON_QUEUE,
            WaitsFor::Flow(_) | WaitsFor::Integration(_) => after > SHORT || age > YOUNG,
        })
    }

    /// The moment for which the event is listed, if it is due after `delay`.
    pub(crate) fn due(&self, delay: Duration, now: Timestamp) -> Option<Timestamp> {
        let timed = self.on == Some(WaitsFor::Moment);
        self.listed_for.or_else(|| timed.then(|| now + delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_partner(after: u64, why: DeferralReason) -> Hindrance {
        Hindrance::of_partner(Deferral { after: Duration::from_secs(after), why }, "crm")
    }

    fn leaves(hindrance: &Hindrance, age: u64, waited: u64) -> bool {
        hindrance.leaves_queue_for(Duration::from_secs(age), Duration::from_secs(waited)).is_some()
    }

    #[test]
    fn who_finds_no_room_for_a_minute_leaves_the_queue() {
        use DeferralReason::{ConcurrencyFull, PartnerSlow, RateSpent};
        for why in [ConcurrencyFull, PartnerSlow, RateSpent] {
            let crowd = of_partner(5, why);
            assert!(!leaves(&crowd, 60, 60) && leaves(&crowd, 61, 61), "{why:?}");
            assert!(!leaves(&crowd, 86_400, 5), "{why:?}: it was woken a moment ago");
        }
    }

    #[test]
    fn who_waits_for_a_partner_that_is_down_leaves_at_once_unless_it_is_young() {
        let down = of_partner(30, DeferralReason::BreakerOpen);
        assert!(!leaves(&down, 60, 60) && leaves(&down, 61, 5));
        assert!(leaves(&of_partner(31, DeferralReason::BreakerOpen), 0, 0));
        assert!(!leaves(&of_partner(3600, DeferralReason::LimitsUnavailable), 86_400, 86_400), "it ends by itself");
    }
}
