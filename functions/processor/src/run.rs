//! A lease from its first stage to its end.

use std::time::Duration;

use serde_json::Value;
use shared::base::errors::WriteError;
use shared::base::time::Timestamp;
use shared::flows::{Effect, Flow};
use shared::ledger::{Lease, Next, Reason, State};
use shared::limits::pressure::{Deferral, Why};
use shared::operate::metric::Fact;
use shared::operate::stale;
use shared::operate::switchboard::Switch;
use tracing::info;

use crate::intend::Permits;
use crate::process::{Verdict, Work};

impl Work<'_> {
    /// Stage after stage. The write that completes a stage carries the next one's intents, so N effects
    /// in a row cost N + 1 writes, and M side by side cost 2, the claim included.
    pub(crate) async fn run(&self, flow: &Flow, mut lease: Lease) -> Result<Verdict, WriteError> {
        let mut permits = Permits::new();
        let mut prepared = !self.is_prepared(flow);
        loop {
            let next = lease.next(flow, &self.processor.flows, self.now());
            if next != Next::Finish && self.is_expired(flow, &lease) {
                return self.lose(lease, Reason::Expired, "older than its flow allows").await;
            }
            let stop = match (next, self.pause(flow)) {
                (Next::Finish, _) => return self.succeed(flow, lease).await,
                (Next::Unknown(effect, error), _) => {
                    lease.unknown(effect, &error, self.now());
                    Some(Stop::Bury(effect, Reason::UnknownOutcome, error))
                }
                (_, Some(pause)) => Some(Stop::Defer(pause)),
                (Next::Wait(until), None) => Some(Stop::Retry(until.since(self.now()))),
                (Next::Lookup(effect, lookup), None) => self.look_up(flow, effect, lookup, &mut lease).await,
                (Next::Intend(_), None) if !prepared => {
                    prepared = true;
                    self.prepare(flow, &mut lease).await?
                }
                (Next::Intend(effects), None) => self.intend(flow, &effects, &mut lease, &mut permits).await?,
                (Next::Call(effects), None) => self.call(flow, &effects, &mut lease, &mut permits).await?,
            };
            match stop {
                None => continue,
                Some(Stop::Retry(delay)) => return self.retry(lease, delay).await,
                Some(Stop::Defer(deferral)) => return self.defer(flow, lease, deferral).await,
                Some(Stop::Bury(effect, reason, error)) => return self.bury(lease, reason, Some(effect), &error).await,
                Some(Stop::Lost(reason, error)) => return self.lose(lease, reason, &error).await,
                Some(Stop::Refuse(guard, facts)) => return self.refuse(flow, lease, &guard, facts).await,
                Some(Stop::Await(posted)) => return self.await_approval(flow, lease, &posted).await,
            }
        }
    }

    /// Nothing is done for the event. What nobody knows is said all the same.
    async fn refuse(&self, flow: &Flow, lease: Lease, guard: &str, facts: Value) -> Result<Verdict, WriteError> {
        if lease.row().in_doubt() {
            return self.bury(lease, Reason::UnknownOutcome, None, &format!("refused by {guard}")).await;
        }
        let closed = lease.refuse(guard, facts, flow.ttl, self.now());
        self.processor.ledger.close(&closed).await?;
        self.count_settled(flow, State::Noop);
        Ok(Verdict::Done)
    }

    async fn await_approval(&self, flow: &Flow, lease: Lease, posted: &str) -> Result<Verdict, WriteError> {
        let closed = lease.await_approval(posted, self.now());
        self.processor.ledger.close(&closed).await?;
        self.count(Fact::Asked(&flow.name));
        Ok(Verdict::Done)
    }

    async fn succeed(&self, flow: &Flow, lease: Lease) -> Result<Verdict, WriteError> {
        stale::apply(&*self.processor.latest, flow, self.event, self.now()).await?;
        let closed = lease.succeed(flow.ttl, self.now());
        self.processor.ledger.close(&closed).await?;
        self.count_settled(flow, State::Succeeded);
        Ok(Verdict::Done)
    }

    fn count_settled(&self, flow: &Flow, state: State) {
        let took = (!self.event.is_replay()).then(|| self.now().since(self.event.received_at));
        self.count(Fact::Settled(&flow.name, state, took));
    }

    fn pause(&self, flow: &Flow) -> Option<Deferral> {
        let now = self.now();
        self.board.board().paused_flow(&flow.name, now).map(|switch| pause(switch, now))
    }

    /// How long a partner is not called, if an operator paused it.
    pub(crate) fn paused(&self, name: &str) -> Option<Deferral> {
        let now = self.now();
        self.board.board().paused_integration(name, now).map(|switch| pause(switch, now))
    }

    fn is_expired(&self, flow: &Flow, lease: &Lease) -> bool {
        self.now().since(lease.row().queued_at) > flow.max_age
    }

    /// The event is not acted on any more. What nobody knows is said all the same.
    async fn lose(&self, mut lease: Lease, reason: Reason, error: &str) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let reason = if lease.row().in_doubt() { Reason::UnknownOutcome } else { reason };
        self.bury(lease, reason, None, error).await
    }

    /// Waits until the partner can be called.
    async fn defer(&self, flow: &Flow, mut lease: Lease, deferral: Deferral) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let waited = self.now().since(lease.row().queued_at);
        let delay = patience(deferral.after, waited, flow.max_age, self.processor.chance.unit());
        info!(event = %self.event.id, why = deferral.why.as_str(), "deferred");
        let closed = lease.defer(delay, deferral.why.as_str(), self.now());
        self.processor.ledger.close(&closed).await?;
        self.count(Fact::Deferred(&closed.row().flow, deferral.why));
        Ok(Verdict::Again(delay))
    }

    async fn retry(&self, mut lease: Lease, delay: Duration) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let closed = lease.retry(delay, self.now());
        self.processor.ledger.close(&closed).await?;
        self.count(Fact::Retried(&closed.row().flow));
        Ok(Verdict::Again(delay))
    }
}

/// How long an event waits that must wait `after` at least, and has waited so long already.
///
/// A little longer by chance: whoever was turned away together should not come back together. The longer it has
/// waited, the more seldom it asks: each time is one receive, of which the queue allows so many, and a flow that
/// is paused for a day must not run out of them. But it is there once more before it is too old.
fn patience(after: Duration, waited: Duration, max_age: Duration, chance: f64) -> Duration {
    let last_chance = max_age.saturating_sub(waited + LAST_CHANCE);
    let seldom = after.max((waited / 10).min(last_chance));
    let spread = seldom.clamp(Duration::from_secs(1), MAX_SPREAD).mul_f64(chance / 4.0);
    (seldom + spread).min(last_chance).max(after)
}

/// How long before its end a waiting event asks for the last time.
const LAST_CHANCE: Duration = Duration::from_secs(30);

/// The wait of which a quarter is up to chance. After a night's rest, five minutes are enough.
const MAX_SPREAD: Duration = Duration::from_secs(20 * 60);

/// An operator may resume it sooner than its end: it is asked again before long.
fn pause(switch: &Switch, now: Timestamp) -> Deferral {
    let left = switch.until.map_or(PAUSED_FOR, |until| until.since(now));
    Deferral { after: left.min(PAUSED_FOR), why: Why::Paused }
}

const PAUSED_FOR: Duration = Duration::from_secs(10);

/// Why a lease ends before its effects are done.
pub(crate) enum Stop<'f> {
    /// It is tried again after this long.
    Retry(Duration),
    /// It waits for something that is not there.
    Defer(Deferral),
    /// It died of this effect.
    Bury(&'f Effect, Reason, String),
    /// It died before any effect.
    Lost(Reason, String),
    /// This guard refused it, for these facts.
    Refuse(String, Value),
    /// A human is asked.
    Await(String),
}

impl<'f> Stop<'f> {
    /// Of two reasons to stop, the one that decides: the first to give up, else the longer wait.
    pub(crate) fn graver(one: Option<Self>, other: Option<Self>) -> Option<Stop<'f>> {
        match (one, other) {
            (None, stop) | (stop, None) => stop,
            (Some(Stop::Retry(one)), Some(Stop::Retry(other))) => Some(Stop::Retry(one.max(other))),
            (Some(bury @ Stop::Bury(..)), _) | (_, Some(bury @ Stop::Bury(..))) => Some(bury),
            (one, _) => one,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn who_may_go_before_it_is_too_old_does() {
        for minutes in 0..720 {
            let left = Duration::from_secs(60 * minutes);
            for chance in [0.0, 0.5, 0.999] {
                let waited = 12 * HOUR - left;
                for after in [Duration::from_secs(1), Duration::from_secs(600), left * 9 / 10] {
                    let delay = patience(after, waited, 12 * HOUR, chance);
                    assert!(delay >= after, "{after:?} asked, {delay:?} given");
                    assert!(after + LAST_CHANCE > left || delay < left, "{delay:?} of {left:?} with {chance}");
                }
            }
        }
    }

    #[test]
    fn a_night_ends_for_all_within_minutes_and_not_at_once() {
        let night = 11 * HOUR;
        assert_eq!(patience(night, Duration::ZERO, 12 * HOUR, 0.0), night);
        assert_eq!(patience(night, Duration::ZERO, 12 * HOUR, 1.0), night + Duration::from_secs(300));
    }

    #[test]
    fn who_waits_long_asks_seldom() {
        let second = Duration::from_secs(1);
        assert_eq!(patience(10 * second, 10 * HOUR, 48 * HOUR, 0.0), HOUR);
        assert_eq!(patience(10 * second, Duration::ZERO, 48 * HOUR, 1.0), 12_500 * second / 1000);
    }
}
