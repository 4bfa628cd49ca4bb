//! What follows a failed call: the event waits for its partner, or the effect is tried again or given up.
//!
//! Attempts are spent on answers. A partner that is down gives none: its events get their attempts back, and wait. A
//! partner that has answered nobody since an effect was tried before may be down: then the last attempt is not spent yet,
//! and the event comes back when more can be known. What fails while others are answered is what the partner does not take.

use std::time::Duration;

use shared::base::time::Timestamp;
use shared::flows::retry::Policy;
use shared::flows::{Effect, Flow};
use shared::ledger::{Reason, pause_after};
use shared::limits::budget::{self, Spending};
use shared::limits::pressure::{Deferral, DeferralReason, Standing};
use shared::operate::metric::Fact;
use tracing::warn;

use crate::ends::Stop;
use crate::hindrance::Hindrance;
use crate::look_up::give_up;
use crate::work::{Run, Work};

/// A call that failed, and may be repeated.
pub(crate) struct FailedCall {
    pub(crate) error: String,
    /// The delay that the partner asked for.
    pub(crate) retry_after: Option<Duration>,
    /// Whether a partner that is down would have done the same.
    pub(crate) as_if_down: bool,
}

/// The stop after a failed call: the event waits for a partner that is down, or the effect is retried or given up.
pub(crate) async fn wait_or_retry<'r>(run: &mut Run<'r>, effect: &'r Effect, failed: FailedCall) -> Stop<'r> {
    match standing(run, effect, run.lease.tried_before(effect)).await {
        Some((Standing::Down { answered: false }, down)) if failed.as_if_down => {
            run.lease.spare_all_attempts(effect);
            Stop::Defer(down)
        }
        // It may be this event that the partner cannot take: it is spared only so often.
        Some((Standing::Down { .. }, down)) if run.lease.may_spare(effect) => {
            run.lease.spare_attempt(effect);
            Stop::Defer(down)
        }
        Some((Standing::Silent(until_known), _)) if failed.as_if_down => {
            let until_known = until_known.max(pause_after(run.lease.spared(effect)));
            retry_or_bury(run, effect, failed, Some(until_known)).await
        }
        _ => retry_or_bury(run, effect, failed, None).await,
    }
}

/// Gives effects back the attempts that an outage used up before it was known: they are not called now, because it is.
pub(crate) async fn spare_attempts_of_outage(run: &mut Run<'_>, effects: &[&Effect]) {
    for effect in effects {
        let Some(tried) = run.lease.row().entry(effect).filter(|entry| entry.attempts > 0).map(|entry| entry.at) else {
            continue;
        };
        if let Some((Standing::Down { answered: false }, _)) = standing(run, effect, Some(tried)).await {
            run.lease.spare_all_attempts(effect);
        }
    }
}

/// How the effect's partner stands, by the answers since it was tried, and the hindrance that it is if it is down. `None`
/// if it has no breaker.
async fn standing(run: &Run<'_>, effect: &Effect, tried: Option<Timestamp>) -> Option<(Standing, Hindrance)> {
    let Run { work, .. } = run;
    let integration = effect.integration()?;
    let breaker = work.processor.flows.partner_of(effect)?.pressure.breaker?;
    let standing = work.processor.gate.standing(integration, tried, work.now()).await;
    let down = Deferral { after: breaker.open_for, why: DeferralReason::BreakerOpen };
    Some((standing, Hindrance::of_partner(down, integration)))
}

/// Retries the effect, as the policy says, unless its attempts or its contact's retries are spent. Where its partner may be
/// down, and that can be known after `until_known`, they are not: the event comes back then.
async fn retry_or_bury<'r>(
    run: &mut Run<'r>,
    effect: &'r Effect,
    failed: FailedCall,
    until_known: Option<Duration>,
) -> Stop<'r> {
    let FailedCall { error, retry_after, .. } = failed;
    let policy = run.work.board.policy(run.flow);
    let delay = policy.delay(run.lease.attempts(effect), run.work.processor.chance.unit(), retry_after);
    match (spent(run, effect, policy).await, until_known) {
        (None, _) => Stop::Retry(delay),
        (Some(reason), Some(until_known)) => {
            run.lease.spare_attempt(effect);
            match give_up(run, effect, reason, error) {
                Stop::Bury { .. } => Stop::Retry(delay.max(until_known)),
                // The partner is asked whether it happened. If it is down, it is asked again later.
                asks => asks,
            }
        }
        (Some(reason), None) => give_up(run, effect, reason, error),
    }
}

/// The reason to give the effect up for, if its attempts or its contact's retries are spent. Otherwise one retry is taken
/// from the contact's budget.
async fn spent(run: &Run<'_>, effect: &Effect, policy: &Policy) -> Option<Reason> {
    if run.lease.attempts(effect) >= policy.max_attempts {
        return Some(Reason::AttemptsSpent);
    }
    is_budget_exhausted(run.work, run.flow, policy).await.then_some(Reason::BudgetExhausted)
}

/// Takes one retry from the contact's budget. When the budgets do not answer, the effect is retried: its
/// attempts are bounded all the same.
async fn is_budget_exhausted(work: &Work<'_>, flow: &Flow, policy: &Policy) -> bool {
    let Some(budget) = &policy.budget_per_contact else { return false };
    let key = budget::key(&flow.name, &work.event.group);
    match work.processor.budgets.spend(&key, budget, work.now()).await {
        Ok(Spending::Exhausted { .. }) => {
            work.count(Fact::BudgetExhausted(&flow.name));
            true
        }
        Ok(_) => false,
        Err(unavailable) => {
            let (event, flow, trace_id) = work.ids();
            warn!(event, flow, trace_id, %unavailable, "the retry budget was not reached; the effect is retried without it");
            false
        }
    }
}
