//! A lease from its first stage to its end.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use shared::flow::{Effect, Flow, Guarantee, Lookup};
use shared::ledger::{Lease, Next, Reason, Row};
use shared::outcome::{LookedUp, Outcome};
use shared::ports::WriteError;
use shared::request::pick;

use crate::effect::{Called, Caller};
use crate::process::{Verdict, Work};

impl Work<'_> {
    /// Stage after stage. The write that completes a stage carries the next one's intents, so N effects
    /// in a row cost N + 1 writes, and M side by side cost 2, the claim included.
    pub(crate) async fn run(&self, flow: &Flow, mut lease: Lease) -> Result<Verdict, WriteError> {
        loop {
            let next = lease.next(flow, &self.processor.flows, self.now());
            if next != Next::Finish && self.is_expired(flow, &lease) {
                return self.expire(lease).await;
            }
            let stop = match next {
                Next::Finish => {
                    let closed = lease.succeed(flow.ttl, self.now());
                    self.processor.ledger.close(&closed).await?;
                    return Ok(Verdict::Done);
                }
                Next::Unknown(effect, error) => {
                    lease.unknown(effect, &error, self.now());
                    Some(Stop::Bury(effect, Reason::UnknownOutcome, error))
                }
                Next::Wait(until) => Some(Stop::Retry(until.since(self.now()))),
                Next::Lookup(effect, lookup) => self.look_up(flow, effect, lookup, &mut lease).await,
                Next::Intend(effects) => self.intend(flow, &effects, &mut lease).await?,
                Next::Call(effects) => self.call(flow, &effects, &mut lease).await?,
            };
            match stop {
                None => continue,
                Some(Stop::Retry(delay)) => return self.retry(lease, delay).await,
                Some(Stop::Bury(effect, reason, error)) => return self.bury(lease, reason, Some(effect), &error).await,
            }
        }
    }

    fn is_expired(&self, flow: &Flow, lease: &Lease) -> bool {
        self.now().since(lease.row().queued_at) > flow.max_age
    }

    /// The event waited too long, and is not acted on any more. What nobody knows is said all the same.
    async fn expire(&self, mut lease: Lease) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let reason = if lease.row().in_doubt() { Reason::UnknownOutcome } else { Reason::Expired };
        self.bury(lease, reason, None, "older than its flow allows").await
    }

    async fn intend<'f>(
        &self,
        flow: &Flow,
        effects: &[&'f Effect],
        lease: &mut Lease,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        if let Some(spent) = effects.iter().find(|effect| lease.attempts(effect) >= flow.retry.max_attempts) {
            return Ok(Some(Stop::Bury(spent, Reason::AttemptsSpent, "no attempt is left".into())));
        }
        if !self.has_time(Some(flow)) {
            return Ok(Some(Stop::Retry(Duration::ZERO)));
        }
        effects.iter().for_each(|effect| lease.intend(effect, self.now()));
        self.processor.ledger.record(lease).await?;
        Ok(None)
    }

    /// Calls effects side by side and notes what comes of each.
    async fn call<'f>(
        &self,
        flow: &Flow,
        effects: &[&'f Effect],
        lease: &mut Lease,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        let row = lease.row().clone();
        let caller = self.caller(&row);
        let mut calls: FuturesUnordered<_> =
            effects.iter().map(|effect| async move { (*effect, caller.call(effect).await) }).collect();
        let mut stop = None;
        while let Some((effect, called)) = calls.next().await {
            stop = Stop::graver(stop, self.note(flow, effect, called, lease));
            // What no partner could be asked about is written down at once, not when its neighbours are
            // done: a crash meanwhile would leave it unknown.
            if effect.guarantee == Guarantee::None && !calls.is_empty() {
                self.processor.ledger.record(lease).await?;
            }
        }
        Ok(stop)
    }

    /// Notes what came of a call. `None` says that it is done.
    fn note<'f>(&self, flow: &Flow, effect: &'f Effect, called: Called, lease: &mut Lease) -> Option<Stop<'f>> {
        let now = self.now();
        match called {
            Called::Answered(Outcome::Done(answer)) => {
                lease.done(effect, pick(effect, &answer), now);
                None
            }
            Called::Answered(Outcome::Retryable { error, retry_after }) => {
                lease.failed(effect, &error, now);
                Some(self.again(flow, effect, lease, error, retry_after))
            }
            Called::Answered(Outcome::Terminal(error)) => {
                lease.failed(effect, &error, now);
                Some(Stop::Bury(effect, Reason::Terminal, error))
            }
            Called::Answered(Outcome::Unknown(error)) => {
                lease.unknown(effect, &error, now);
                match &effect.lookup {
                    Some(lookup) => Some(Stop::Retry(lookup.after)),
                    None => Some(Stop::Bury(effect, Reason::UnknownOutcome, error)),
                }
            }
            Called::NotRendered(error) => {
                lease.failed(effect, &error.to_string(), now);
                Some(Stop::Bury(effect, Reason::Template, error.to_string()))
            }
        }
    }

    fn again<'f>(
        &self,
        flow: &Flow,
        effect: &'f Effect,
        lease: &Lease,
        error: String,
        retry_after: Option<Duration>,
    ) -> Stop<'f> {
        let attempt = lease.attempts(effect);
        if attempt >= flow.retry.max_attempts {
            return Stop::Bury(effect, Reason::AttemptsSpent, error);
        }
        Stop::Retry(flow.retry.delay(attempt, self.processor.chance.unit(), retry_after))
    }

    /// Finds out whether an effect happened. A partner that cannot say is asked again until the event
    /// is too old: asking is no attempt.
    async fn look_up<'f>(
        &self,
        flow: &Flow,
        effect: &'f Effect,
        lookup: &Lookup,
        lease: &mut Lease,
    ) -> Option<Stop<'f>> {
        let row = lease.row().clone();
        match self.caller(&row).look_up(effect, lookup).await {
            LookedUp::Found(answer) => lease.done(effect, pick(effect, &answer), self.now()),
            LookedUp::Absent => lease.failed(effect, "looked up: it did not happen", self.now()),
            LookedUp::CannotSay(error) => {
                lease.unknown(effect, &format!("looked up: {error}"), self.now());
                let delay = flow.retry.delay(lease.attempts(effect).max(1), self.processor.chance.unit(), None);
                return Some(Stop::Retry(delay.max(lookup.after)));
            }
        }
        None
    }

    fn caller<'r>(&'r self, row: &'r Row) -> Caller<'r> {
        Caller { processor: self.processor, event: self.event, row, deadline: self.deadline }
    }

    async fn retry(&self, mut lease: Lease, delay: Duration) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let closed = lease.retry(delay, self.now());
        self.processor.ledger.close(&closed).await?;
        Ok(Verdict::Again(delay))
    }
}

/// Why a lease ends before its effects are done.
enum Stop<'f> {
    Retry(Duration),
    Bury(&'f Effect, Reason, String),
}

impl<'f> Stop<'f> {
    /// Of two reasons to stop, the one that decides: the first to give up, else the longer wait.
    fn graver(one: Option<Self>, other: Option<Self>) -> Option<Stop<'f>> {
        match (one, other) {
            (None, stop) | (stop, None) => stop,
            (Some(Stop::Retry(one)), Some(Stop::Retry(other))) => Some(Stop::Retry(one.max(other))),
            (Some(bury @ Stop::Bury(..)), _) | (_, Some(bury @ Stop::Bury(..))) => Some(bury),
        }
    }
}
