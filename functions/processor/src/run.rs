//! A lease from its first stage to its end.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use shared::budget::{self, Spending};
use shared::flow::{Effect, Flow, Guarantee, Lookup};
use shared::ledger::{Lease, Next, Reason, Row};
use shared::outcome::{LookedUp, Outcome};
use shared::overrides::{InForce, Source};
use shared::ports::WriteError;
use shared::pressure::{Deferral, Ended, Permit};
use shared::request::pick;
use shared::retry::Policy;
use tracing::{info, warn};

use crate::effect::{Called, Caller};
use crate::process::{Verdict, Work};

/// What lets effects be called, by their ids.
type Permits = BTreeMap<String, Permit>;

impl Work<'_> {
    /// Stage after stage. The write that completes a stage carries the next one's intents, so N effects
    /// in a row cost N + 1 writes, and M side by side cost 2, the claim included.
    pub(crate) async fn run(&self, flow: &Flow, mut lease: Lease) -> Result<Verdict, WriteError> {
        let mut permits = Permits::new();
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
                Next::Intend(effects) => self.intend(flow, &effects, &mut lease, &mut permits).await?,
                Next::Call(effects) => self.call(flow, &effects, &mut lease, &mut permits).await?,
            };
            match stop {
                None => continue,
                Some(Stop::Retry(delay)) => return self.retry(lease, delay).await,
                Some(Stop::Defer(deferral)) => return self.defer(lease, deferral).await,
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
        permits: &mut Permits,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        if let Some(spent) = self.spent(flow, effects, lease).await {
            return Ok(Some(Stop::Bury(spent, Reason::AttemptsSpent, "no attempt is left".into())));
        }
        if !self.has_time(Some(flow)) {
            return Ok(Some(Stop::Retry(Duration::ZERO)));
        }
        // Before the intent: a call that is deferred was never intended.
        match self.enter(effects).await {
            Ok(entered) => permits.extend(entered),
            Err(deferral) => return Ok(Some(Stop::Defer(deferral))),
        }
        effects.iter().for_each(|effect| lease.intend(effect, self.now()));
        self.processor.ledger.record(lease).await?;
        Ok(None)
    }

    /// An effect that was tried as often as the policy allows. What was never tried needs no policy.
    async fn spent<'f>(&self, flow: &Flow, effects: &[&'f Effect], lease: &Lease) -> Option<&'f Effect> {
        let tried: Vec<&&Effect> = effects.iter().filter(|effect| lease.attempts(effect) > 0).collect();
        if tried.is_empty() {
            return None;
        }
        let most = self.policy(flow).await.max_attempts;
        tried.into_iter().find(|effect| lease.attempts(effect) >= most).copied()
    }

    /// The policy in force: the flow's own, or an operator's.
    async fn policy(&self, flow: &Flow) -> Policy {
        let InForce { policy, source } = self.processor.policies.in_force(flow, self.now()).await;
        if let Source::LastGood(problem) = source {
            warn!(flow = flow.name, %problem, "the newest retry policy is not in force");
        }
        policy
    }

    /// A permit for each effect, or for none.
    async fn enter(&self, effects: &[&Effect]) -> Result<Permits, Deferral> {
        let mut permits = Permits::new();
        for effect in effects {
            let partner = self.partner(effect);
            let gate = &self.processor.gate;
            match gate.enter(&effect.integration, &partner.pressure, partner.timeout, self.now()).await {
                Ok(permit) => drop(permits.insert(effect.id.clone(), permit)),
                Err(deferral) => {
                    for permit in permits.into_values() {
                        self.leave(Some(permit), Ended::Neutral).await;
                    }
                    return Err(deferral);
                }
            }
        }
        Ok(permits)
    }

    async fn leave(&self, permit: Option<Permit>, ended: Ended) {
        let Some(permit) = permit else { return };
        if let Some(change) = self.processor.gate.leave(permit, ended, self.now()).await {
            warn!(event = %self.event.id, ?change, "breaker");
        }
    }

    /// Waits until the partner can be called, and a little longer by chance: whoever was turned away
    /// together should not come back together.
    async fn defer(&self, mut lease: Lease, deferral: Deferral) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let chance = self.processor.chance.unit();
        let delay = deferral.after + deferral.after.max(Duration::from_secs(1)).mul_f64(chance / 4.0);
        info!(event = %self.event.id, why = deferral.why.as_str(), "deferred");
        let closed = lease.defer(delay, deferral.why.as_str(), self.now());
        self.processor.ledger.close(&closed).await?;
        Ok(Verdict::Again(delay))
    }

    /// Calls effects side by side and notes what comes of each.
    async fn call<'f>(
        &self,
        flow: &Flow,
        effects: &[&'f Effect],
        lease: &mut Lease,
        permits: &mut Permits,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        let row = lease.row().clone();
        let caller = self.caller(&row);
        let mut calls: FuturesUnordered<_> =
            effects.iter().map(|effect| async move { (*effect, caller.call(effect).await) }).collect();
        let mut stop = None;
        while let Some((effect, called)) = calls.next().await {
            self.leave(permits.remove(&effect.id), called.says()).await;
            stop = Stop::graver(stop, self.note(flow, effect, called, lease).await);
            // What no partner could be asked about is written down at once, not when its neighbours are
            // done: a crash meanwhile would leave it unknown.
            if effect.guarantee == Guarantee::None && !calls.is_empty() {
                self.processor.ledger.record(lease).await?;
            }
        }
        Ok(stop)
    }

    /// Notes what came of a call. `None` says that it is done.
    async fn note<'f>(&self, flow: &Flow, effect: &'f Effect, called: Called, lease: &mut Lease) -> Option<Stop<'f>> {
        let now = self.now();
        match called {
            Called::Answered(Outcome::Done(answer)) => {
                lease.done(effect, pick(effect, &answer), now);
                None
            }
            Called::Answered(Outcome::Retryable { error, retry_after }) => {
                lease.failed(effect, &error, now);
                Some(self.again(flow, effect, lease, error, retry_after).await)
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
            Called::Unprepared(error) => {
                lease.failed(effect, &error, now);
                Some(self.again(flow, effect, lease, error, None).await)
            }
            Called::NotRendered(error) => {
                lease.failed(effect, &error.to_string(), now);
                Some(Stop::Bury(effect, Reason::Template, error.to_string()))
            }
        }
    }

    /// Tries it again, as the policy says, unless it or its contact has been tried enough.
    async fn again<'f>(
        &self,
        flow: &Flow,
        effect: &'f Effect,
        lease: &Lease,
        error: String,
        retry_after: Option<Duration>,
    ) -> Stop<'f> {
        let policy = self.policy(flow).await;
        let attempt = lease.attempts(effect);
        if attempt >= policy.max_attempts {
            return Stop::Bury(effect, Reason::AttemptsSpent, error);
        }
        if self.has_no_budget(flow, &policy).await {
            return Stop::Bury(effect, Reason::BudgetExhausted, error);
        }
        Stop::Retry(policy.delay(attempt, self.processor.chance.unit(), retry_after))
    }

    /// Takes one retry from the contact's budget. When nobody can know what is left, it is tried: its
    /// attempts are bounded all the same.
    async fn has_no_budget(&self, flow: &Flow, policy: &Policy) -> bool {
        let Some(budget) = &policy.budget_per_contact else { return false };
        let key = budget::key(&flow.name, &self.event.group);
        match self.processor.budgets.spend(&key, budget, self.now()).await {
            Ok(spending) => matches!(spending, Spending::Exhausted { .. }),
            Err(unavailable) => {
                warn!(event = %self.event.id, %unavailable, "retried without a budget");
                false
            }
        }
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
        let permit = match self.enter(&[effect]).await {
            Ok(mut permits) => permits.remove(&effect.id),
            Err(deferral) => return Some(Stop::Defer(deferral)),
        };
        let row = lease.row().clone();
        let asked = self.caller(&row).look_up(effect, lookup).await;
        let ended = if matches!(asked, LookedUp::CannotSay(_)) { Ended::Failure } else { Ended::Success };
        self.leave(permit, ended).await;
        match asked {
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
    Defer(Deferral),
    Bury(&'f Effect, Reason, String),
}

impl<'f> Stop<'f> {
    /// Of two reasons to stop, the one that decides: the first to give up, else the longer wait.
    fn graver(one: Option<Self>, other: Option<Self>) -> Option<Stop<'f>> {
        match (one, other) {
            (None, stop) | (stop, None) => stop,
            (Some(Stop::Retry(one)), Some(Stop::Retry(other))) => Some(Stop::Retry(one.max(other))),
            (Some(bury @ Stop::Bury(..)), _) | (_, Some(bury @ Stop::Bury(..))) => Some(bury),
            (stop @ Some(Stop::Defer(_)), _) | (_, stop @ Some(Stop::Defer(_))) => stop,
        }
    }
}
