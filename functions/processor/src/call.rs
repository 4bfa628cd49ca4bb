//! From recorded intents to what came of their calls.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use shared::base::errors::WriteError;
use shared::effects::outcome::{LookedUp, Outcome};
use shared::effects::request::pick;
use shared::flows::retry::Policy;
use shared::flows::{Effect, Flow, Guarantee, Lookup};
use shared::ledger::{Lease, Reason};
use shared::limits::budget::{self, Spending};
use shared::limits::pressure::Ended;
use shared::operate::metric::Fact;
use tracing::warn;

use crate::effect::{Called, Caller};
use crate::intend::Permits;
use crate::process::Work;
use crate::run::Stop;

impl Work<'_> {
    /// Calls effects side by side and notes what comes of each.
    pub(crate) async fn call<'f>(
        &self,
        flow: &Flow,
        effects: &[&'f Effect],
        lease: &mut Lease,
        permits: &mut Permits,
    ) -> Result<Option<Stop<'f>>, WriteError> {
        // The write of the intents may have taken all the time. A call for which nobody can wait would
        // only be one of which nobody knows.
        if !self.has_time(Some(flow)) {
            self.give_back(effects, permits).await;
            return Ok(Some(Stop::Retry(Duration::ZERO)));
        }
        let row = lease.row().clone();
        let caller = Caller { work: self, flow, row: &row };
        let mut calls: FuturesUnordered<_> =
            effects.iter().map(|effect| async move { (*effect, self.timed(effect, caller).await) }).collect();
        let mut stop = None;
        while let Some((effect, called)) = calls.next().await {
            self.called(effect, permits, called.says()).await;
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
    pub(crate) async fn look_up<'f>(
        &self,
        flow: &Flow,
        effect: &'f Effect,
        lookup: &Lookup,
        lease: &mut Lease,
    ) -> Option<Stop<'f>> {
        let mut permits = match self.enter_all(&[effect]).await {
            Ok(permits) => permits,
            Err(deferral) => return Some(Stop::Defer(deferral)),
        };
        let asked = Caller { work: self, flow, row: lease.row() }.look_up(effect, lookup).await;
        let ended = if matches!(asked, LookedUp::CannotSay(_)) { Ended::Failure } else { Ended::Success };
        self.called(effect, &mut permits, ended).await;
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
}
