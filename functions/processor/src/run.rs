//! A lease from its first stage to its end.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use shared::budget::{self, Spending};
use shared::cap::{self, Count};
use shared::flow::{Cap, Effect, Flow, Guarantee, Lookup};
use shared::ledger::{Lease, Next, Reason, Row, State};
use shared::metric::Fact;
use shared::outcome::{LookedUp, Outcome};
use shared::ports::{CountError, WriteError};
use shared::pressure::{Deferral, Ended, Permit, Why};
use shared::request::pick;
use shared::retry::Policy;
use shared::switchboard::Switch;
use shared::template::TemplateError;
use shared::time::Timestamp;
use tracing::{info, warn};

use crate::effect::{Called, Caller, text};
use crate::process::{Verdict, Work};

/// What lets effects be called, by their ids.
type Permits = BTreeMap<String, Permit>;

impl Work<'_> {
    /// Stage after stage. The write that completes a stage carries the next one's intents, so N effects
    /// in a row cost N + 1 writes, and M side by side cost 2, the claim included.
    pub(crate) async fn run(&self, flow: &Flow, mut lease: Lease) -> Result<Verdict, WriteError> {
        let mut permits = Permits::new();
        let mut prepared = !flow.is_prepared();
        loop {
            let next = lease.next(flow, &self.processor.flows, self.now());
            if next != Next::Finish && self.is_expired(flow, &lease) {
                return self.expire(lease).await;
            }
            let stop = match next {
                Next::Finish => return self.succeed(flow, lease).await,
                Next::Unknown(effect, error) => {
                    lease.unknown(effect, &error, self.now());
                    Some(Stop::Bury(effect, Reason::UnknownOutcome, error))
                }
                _ if self.pause(flow).is_some() => self.pause(flow).map(Stop::Defer),
                Next::Wait(until) => Some(Stop::Retry(until.since(self.now()))),
                Next::Lookup(effect, lookup) => self.look_up(flow, effect, lookup, &mut lease).await,
                Next::Intend(_) if !prepared => {
                    prepared = true;
                    self.prepare(flow, &mut lease).await?
                }
                Next::Intend(effects) => self.intend(flow, &effects, &mut lease, &mut permits).await?,
                Next::Call(effects) => self.call(flow, &effects, &mut lease, &mut permits).await?,
            };
            match stop {
                None => continue,
                Some(Stop::Retry(delay)) => return self.retry(lease, delay).await,
                Some(Stop::Defer(deferral)) => return self.defer(lease, deferral).await,
                Some(Stop::Bury(effect, reason, error)) => return self.bury(lease, reason, Some(effect), &error).await,
                Some(Stop::Lost(reason, error)) => return self.bury(lease, reason, None, &error).await,
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
        self.count(Fact::Settled(&flow.name, State::Noop, self.now().since(self.event.received_at)));
        Ok(Verdict::Done)
    }

    async fn await_approval(&self, flow: &Flow, lease: Lease, posted: &str) -> Result<Verdict, WriteError> {
        let closed = lease.await_approval(posted, self.now());
        self.processor.ledger.close(&closed).await?;
        self.count(Fact::Asked(&flow.name));
        Ok(Verdict::Done)
    }

    async fn succeed(&self, flow: &Flow, lease: Lease) -> Result<Verdict, WriteError> {
        let closed = lease.succeed(flow.ttl, self.now());
        self.processor.ledger.close(&closed).await?;
        self.count(Fact::Settled(&flow.name, State::Succeeded, self.now().since(self.event.received_at)));
        Ok(Verdict::Done)
    }

    fn pause(&self, flow: &Flow) -> Option<Deferral> {
        let now = self.now();
        self.board.board().paused_flow(&flow.name, now).map(|switch| pause(switch, now))
    }

    /// How long an effect's partner is not called, if an operator paused it.
    pub(crate) fn paused(&self, effect: &Effect) -> Option<Deferral> {
        self.paused_integration(effect.integration()?)
    }

    /// The same of any integration.
    pub(crate) fn paused_integration(&self, name: &str) -> Option<Deferral> {
        let now = self.now();
        self.board.board().paused_integration(name, now).map(|switch| pause(switch, now))
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
        match self.skip(flow, effects, lease) {
            Ok(true) => return Ok(None),
            Ok(false) => (),
            Err(stop) => return Ok(Some(stop)),
        }
        if let Some(spent) = self.spent(flow, effects, lease) {
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
        let recorded = self.record_intents(flow, effects, lease).await;
        if !matches!(recorded, Ok(None)) {
            for effect in effects {
                self.leave(effect, permits.remove(&effect.id), Ended::Neutral).await;
            }
        }
        recorded
    }

    /// Writes the intents down, and counts them where the flow has caps: both or neither.
    async fn record_intents<'f>(
        &self,
        flow: &Flow,
        effects: &[&Effect],
        lease: &mut Lease,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        let mut intending = lease.clone();
        effects.iter().for_each(|effect| intending.intend(effect, self.now()));
        if flow.caps().next().is_none() {
            self.processor.ledger.record(&intending).await?;
            *lease = intending;
            return Ok(None);
        }
        for _ in 0..COUNT_TRIES {
            let counts = match self.counts(flow, lease).await? {
                Ok(counts) => counts,
                Err(stop) => return Ok(Some(stop)),
            };
            match self.processor.caps.record(&intending, &counts).await {
                Ok(()) => {
                    *lease = intending;
                    return Ok(None);
                }
                Err(CountError::Moved) => continue,
                Err(CountError::Write(error)) => return Err(error),
            }
        }
        // A crowd before one entity. The event is as good in a moment.
        Ok(Some(Stop::Retry(Duration::from_secs(1))))
    }

    /// A place for this event under each of the flow's caps.
    async fn counts<'f>(&self, flow: &Flow, lease: &Lease) -> Result<Result<Vec<Count>, Stop<'f>>, WriteError> {
        let mut counts = Vec::new();
        for cap in flow.caps() {
            let entity = match self.entity(flow, cap, lease) {
                Ok(entity) => entity,
                Err(error) => return Ok(Err(Stop::Lost(Reason::Template, error.to_string()))),
            };
            let key = cap::key(&cap.channel, &entity);
            let now = self.now();
            match self.processor.caps.read(&key).await?.take(cap.limit, cap.per, &self.event.id, now) {
                Ok(counter) => counts.push(Count::new(key, counter, cap.per, now)),
                Err(full) => {
                    let facts = json!({
                        "channel": cap.channel, "limit": cap.limit, "per_seconds": cap.per.as_secs(),
                        "free_at": full.free_at.to_string(),
                    });
                    return Ok(Err(Stop::Refuse("cap".into(), facts)));
                }
            }
        }
        Ok(Ok(counts))
    }

    /// Whom a cap protects.
    fn entity(&self, flow: &Flow, cap: &Cap, lease: &Lease) -> Result<String, TemplateError> {
        match (&cap.entity, &flow.contact) {
            (Some(entity), _) => Ok(text(entity.render(&lease.row().scope_of(self.event))?)),
            (None, Some(contact)) => {
                let id = self.contact_id(contact, lease)?;
                Ok(id.map_or_else(|| self.event.group.clone(), |id| id.to_string()))
            }
            (None, None) => Ok(self.event.group.clone()),
        }
    }

    /// Leaves out the effects whose conditions are false, and says whether there were any.
    fn skip<'f>(&self, flow: &Flow, effects: &[&'f Effect], lease: &mut Lease) -> Result<bool, Stop<'f>> {
        let mut skipped = false;
        for effect in effects {
            if lease.row().safe && flow.skips_in_safe_mode(effect) {
                lease.skip(effect, self.now());
                skipped = true;
                continue;
            }
            let Some(when) = &effect.when else { continue };
            match when.holds(&lease.row().scope(self.event, effect)) {
                Ok(true) => continue,
                Ok(false) => lease.skip(effect, self.now()),
                Err(error) => return Err(Stop::Bury(effect, Reason::Template, error.to_string())),
            }
            skipped = true;
        }
        Ok(skipped)
    }

    /// An effect that was tried as often as the policy allows.
    fn spent<'f>(&self, flow: &Flow, effects: &[&'f Effect], lease: &Lease) -> Option<&'f Effect> {
        let most = self.board.policy(flow).max_attempts;
        effects.iter().find(|effect| lease.attempts(effect) >= most).copied()
    }

    /// A permit for each effect, or for none.
    async fn enter(&self, effects: &[&Effect]) -> Result<Permits, Deferral> {
        let mut permits = Permits::new();
        for effect in effects {
            match self.enter_one(effect).await {
                Ok(permit) => permits.extend(permit.map(|permit| (effect.id.clone(), permit))),
                Err(deferral) => {
                    for effect in effects {
                        self.leave(effect, permits.remove(&effect.id), Ended::Neutral).await;
                    }
                    return Err(deferral);
                }
            }
        }
        Ok(permits)
    }

    /// What calls no partner needs no permit.
    async fn enter_one(&self, effect: &Effect) -> Result<Option<Permit>, Deferral> {
        if let Some(paused) = self.paused(effect) {
            return Err(paused);
        }
        let (Some(name), Some(partner)) = (effect.integration(), self.processor.flows.partner_of(effect)) else {
            return Ok(None);
        };
        self.processor.gate.enter(name, &partner.pressure, partner.timeout, self.now()).await.map(Some)
    }

    async fn leave(&self, effect: &Effect, permit: Option<Permit>, ended: Ended) {
        let (Some(permit), Some(integration)) = (permit, effect.integration()) else { return };
        if let Some(change) = self.processor.gate.leave(permit, ended, self.now()).await {
            warn!(integration, ?change, "breaker");
            self.count(Fact::Breaker(integration, change));
            self.breaker_changed(integration, change).await;
        }
    }

    /// Waits until the partner can be called, and a little longer by chance: whoever was turned away
    /// together should not come back together.
    ///
    /// The longer it has waited, the more seldom it asks: each time is one receive, of which the queue
    /// allows so many, and a flow that is paused for a day must not run out of them.
    async fn defer(&self, mut lease: Lease, deferral: Deferral) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let waited = self.now().since(lease.row().queued_at);
        let after = deferral.after.max(waited / 10);
        let delay = after + after.max(Duration::from_secs(1)).mul_f64(self.processor.chance.unit() / 4.0);
        info!(event = %self.event.id, why = deferral.why.as_str(), "deferred");
        let closed = lease.defer(delay, deferral.why.as_str(), self.now());
        self.processor.ledger.close(&closed).await?;
        self.count(Fact::Deferred(&closed.row().flow, deferral.why));
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
        // The write of the intents may have taken all the time. A call for which nobody can wait would
        // only be one of which nobody knows.
        if !self.has_time(Some(flow)) {
            for effect in effects {
                self.leave(effect, permits.remove(&effect.id), Ended::Neutral).await;
            }
            return Ok(Some(Stop::Retry(Duration::ZERO)));
        }
        let row = lease.row().clone();
        let caller = self.caller(flow, &row);
        let mut calls: FuturesUnordered<_> =
            effects.iter().map(|effect| async move { (*effect, self.timed(effect, caller).await) }).collect();
        let mut stop = None;
        while let Some((effect, called)) = calls.next().await {
            self.leave(effect, permits.remove(&effect.id), called.says()).await;
            stop = Stop::graver(stop, self.note(flow, effect, called, lease).await);
            // What no partner could be asked about is written down at once, not when its neighbours are
            // done: a crash meanwhile would leave it unknown.
            if effect.guarantee == Guarantee::None && !calls.is_empty() {
                self.processor.ledger.record(lease).await?;
            }
        }
        Ok(stop)
    }

    async fn timed(&self, effect: &Effect, caller: Caller<'_>) -> Called {
        let began = self.now();
        let called = caller.call(effect).await;
        if let Some(integration) = effect.integration() {
            self.count(Fact::Called(integration, called.says(), self.now().since(began)));
        }
        called
    }

    /// Notes what came of a call. `None` says that it is done.
    async fn note<'f>(&self, flow: &Flow, effect: &'f Effect, called: Called, lease: &mut Lease) -> Option<Stop<'f>> {
        let now = self.now();
        match called {
            Called::Answered(Outcome::Done(answer)) => {
                lease.done(effect, pick(effect, &answer), now);
                None
            }
            Called::Answered(Outcome::Retryable { error, retry_after, doubtful }) => {
                if doubtful {
                    lease.doubted(effect, &error, now);
                } else {
                    lease.failed(effect, &error, now);
                }
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
        let policy = self.board.policy(flow);
        let attempt = lease.attempts(effect);
        if attempt >= policy.max_attempts {
            return Stop::Bury(effect, Reason::AttemptsSpent, error);
        }
        if self.has_no_budget(flow, policy).await {
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
        let asked = self.caller(flow, &row).look_up(effect, lookup).await;
        let ended = if matches!(asked, LookedUp::CannotSay(_)) { Ended::Failure } else { Ended::Success };
        self.leave(effect, permit, ended).await;
        match asked {
            LookedUp::Found(answer) => lease.done(effect, pick(effect, &answer), self.now()),
            LookedUp::Absent => lease.absent(effect, self.now()),
            LookedUp::CannotSay(error) => {
                lease.unknown(effect, &format!("looked up: {error}"), self.now());
                let delay = flow.retry.delay(lease.attempts(effect).max(1), self.processor.chance.unit(), None);
                return Some(Stop::Retry(delay.max(lookup.after)));
            }
        }
        None
    }

    fn caller<'r>(&'r self, flow: &'r Flow, row: &'r Row) -> Caller<'r> {
        let contact = flow.contact.as_ref();
        Caller { processor: self.processor, event: self.event, row, contact, deadline: self.deadline }
    }

    async fn retry(&self, mut lease: Lease, delay: Duration) -> Result<Verdict, WriteError> {
        lease.withdraw();
        let closed = lease.retry(delay, self.now());
        self.processor.ledger.close(&closed).await?;
        self.count(Fact::Retried(&closed.row().flow));
        Ok(Verdict::Again(delay))
    }
}

/// An operator may resume it sooner than its end: it is asked again before long.
fn pause(switch: &Switch, now: Timestamp) -> Deferral {
    let left = switch.until.map_or(PAUSED_FOR, |until| until.since(now));
    Deferral { after: left.min(PAUSED_FOR), why: Why::Paused }
}

const PAUSED_FOR: Duration = Duration::from_secs(10);

/// How often a count is tried while others count too.
const COUNT_TRIES: usize = 10;

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
    fn graver(one: Option<Self>, other: Option<Self>) -> Option<Stop<'f>> {
        match (one, other) {
            (None, stop) | (stop, None) => stop,
            (Some(Stop::Retry(one)), Some(Stop::Retry(other))) => Some(Stop::Retry(one.max(other))),
            (Some(bury @ Stop::Bury(..)), _) | (_, Some(bury @ Stop::Bury(..))) => Some(bury),
            (one, _) => one,
        }
    }
}
