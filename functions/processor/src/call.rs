//! The calls of effects, from recorded intents to recorded outcomes.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use shared::base::errors::WriteError;
use shared::effects::outcome::Outcome;
use shared::flows::retry::Policy;
use shared::flows::{Effect, Flow, Guarantee};
use shared::ledger::{Reason, Row};
use shared::limits::budget::{self, Spending};
use shared::limits::pressure::{Deferral, DeferralReason};
use shared::operate::metric::Fact;
use tracing::warn;

use crate::action::{Performed, perform};
use crate::ends::Stop;
use crate::hindrance::Hindrance;
use crate::look_up::give_up;
use crate::permits::{release_permit, release_unused_permits};
use crate::work::{Run, Work};

/// Calls effects side by side and records the outcome of each. `None` says that all are done.
pub(crate) async fn call<'r>(run: &mut Run<'r>, effects: &[&'r Effect]) -> Result<Option<Stop<'r>>, WriteError> {
    let (work, flow) = (run.work, run.flow);
    // The write of the intents may have taken all the time. A call whose answer the invocation cannot wait for
    // would only end with an unknown outcome.
    if !work.has_time(Some(flow)) {
        release_unused_permits(work, &mut run.permits, effects).await;
        return Ok(Some(Stop::Retry(Duration::ZERO)));
    }
    let row = &run.lease.row().clone();
    let mut calls: FuturesUnordered<_> =
        effects.iter().map(|effect| async move { (*effect, perform_timed(work, flow, row, effect).await) }).collect();
    let mut stop = None;
    while let Some((effect, performed)) = calls.next().await {
        release_permit(work, &mut run.permits, effect, performed.call_end()).await;
        stop = Stop::most_severe(stop, record(run, effect, performed).await);
        // An outcome that no partner could be asked about is recorded at once, not when its neighbours are
        // done: a crash meanwhile would leave it unknown.
        if effect.guarantee == Guarantee::None && !calls.is_empty() {
            work.processor.ledger.record(&run.lease).await?;
        }
    }
    Ok(stop)
}

async fn perform_timed(work: &Work<'_>, flow: &Flow, row: &Row, effect: &Effect) -> Performed {
    let began = work.now();
    let performed = perform(work, flow, row, effect).await;
    if let Some(integration) = effect.integration() {
        work.count(Fact::Called(integration, performed.call_end(), work.now().since(began)));
    }
    performed
}

/// Records the outcome of a call in the lease. `None` says that the effect is done.
async fn record<'r>(run: &mut Run<'r>, effect: &'r Effect, performed: Performed) -> Option<Stop<'r>> {
    let Run { work, lease, .. } = run;
    let now = work.now();
    match performed {
        Performed::Answered(Outcome::Done(result)) => {
            lease.record_done(effect, result, now);
            None
        }
        Performed::Answered(Outcome::Retryable { error, retry_after, doubt }) => {
            lease.record_repeatable(effect, &error, doubt, now);
            if let Some(down) = is_down(work, effect).await
                && lease.spare_attempt(effect)
            {
                return Some(Stop::Defer(down));
            }
            Some(retry_or_bury(run, effect, error, retry_after).await)
        }
        Performed::Answered(Outcome::Terminal(error)) => {
            lease.record_failed(effect, &error, now);
            Some(Stop::Bury { effect: Some(effect), reason: Reason::Terminal, error })
        }
        Performed::Answered(Outcome::Unknown { error, doubt }) => {
            lease.record_unknown(effect, &error, doubt, now);
            match &effect.lookup {
                Some(lookup) => Some(Stop::Retry(lookup.after)),
                None => Some(Stop::Bury { effect: Some(effect), reason: Reason::UnknownOutcome, error }),
            }
        }
        // The intent stands until the deferral withdraws it: nothing happened, and it was no attempt.
        Performed::Deferred(deferral) => Some(Stop::Defer(Hindrance::passing(deferral))),
        Performed::Overtaken(error) => Some(Stop::Bury { effect: Some(effect), reason: Reason::Stale, error }),
        Performed::Answered(Outcome::CredentialsRejected(error)) => {
            lease.note_credentials_rejected(effect, &error, now);
            let (event, flow, trace_id) = work.ids();
            let told = "the partner rejected our credentials; the event is deferred until they are right";
            warn!(event, flow, trace_id, integration = effect.integration(), %error, "{told}");
            let deferral = Deferral { after: CREDENTIALS_WAIT, why: DeferralReason::CredentialsRejected };
            Some(Stop::Defer(Hindrance::of_partner(deferral, effect.integration().unwrap_or_default())))
        }
        Performed::NotReady(error) => {
            lease.record_failed(effect, &error, now);
            Some(retry_or_bury(run, effect, error, None).await)
        }
        Performed::NotRendered(error) => {
            lease.record_failed(effect, &error.to_string(), now);
            Some(Stop::template(Some(effect), &error))
        }
    }
}

/// The hindrance by a partner that is known to be down: its breaker has opened, or stays open. A call that only shows it
/// again is no attempt.
async fn is_down(work: &Work<'_>, effect: &Effect) -> Option<Hindrance> {
    let integration = effect.integration()?;
    let breaker = work.processor.flows.partner_of(effect)?.pressure.breaker?;
    let deferral = Deferral { after: breaker.open_for, why: DeferralReason::BreakerOpen };
    work.processor.gate.is_down(integration).await.then(|| Hindrance::of_partner(deferral, integration))
}

/// How long an event waits at least after a partner rejected our credentials: a human must put them right.
const CREDENTIALS_WAIT: Duration = Duration::from_secs(30);

/// Retries the effect, as the policy says, unless its attempts or its contact's retries are spent.
async fn retry_or_bury<'r>(
    run: &mut Run<'r>,
    effect: &'r Effect,
    error: String,
    retry_after: Option<Duration>,
) -> Stop<'r> {
    let policy = run.work.board.policy(run.flow);
    let attempt = run.lease.attempts(effect);
    if attempt >= policy.max_attempts {
        return give_up(run, effect, Reason::AttemptsSpent, error);
    }
    if is_budget_exhausted(run.work, run.flow, policy).await {
        return give_up(run, effect, Reason::BudgetExhausted, error);
    }
    Stop::Retry(policy.delay(attempt, run.work.processor.chance.unit(), retry_after))
}

/// Takes one retry from the contact's budget. When the budgets do not answer, the effect is retried: its
/// attempts are bounded all the same.
async fn is_budget_exhausted(work: &Work<'_>, flow: &Flow, policy: &Policy) -> bool {
    let Some(budget) = &policy.budget_per_contact else { return false };
    let key = budget::key(&flow.name, &work.event.group);
    match work.processor.budgets.spend(&key, budget, work.now()).await {
        Ok(spending) => matches!(spending, Spending::Exhausted { .. }),
        Err(unavailable) => {
            let (event, flow, trace_id) = work.ids();
            warn!(event, flow, trace_id, %unavailable, "the retry budget was not reached; the effect is retried without it");
            false
        }
    }
}
