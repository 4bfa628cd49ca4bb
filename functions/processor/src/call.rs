//! The calls of effects, from recorded intents to recorded outcomes.

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use shared::base::errors::{Unavailable, WriteError};
use shared::effects::outcome::Outcome;
use shared::flows::{Effect, Flow, Guarantee};
use shared::ledger::{Doubt, Reason, Row};
use shared::limits::pressure::Gate;
use shared::operate::metric::{CallOutcome, Fact};
use tracing::{debug, warn};

use crate::action::{LET_GO, Performed, perform};
use crate::credentials::{until_credentials_are_right, until_secret_is_there};
use crate::ends::{Stop, delay_without_time};
use crate::hindrance::Hindrance;
use crate::permits::{release_permit, release_unused_permits};
use crate::retry::{FailedCall, wait_or_retry};
use crate::work::{Run, Work};

/// Calls effects side by side and records the outcome of each. `None` says that all are done.
pub(crate) async fn call<'r>(run: &mut Run<'r>, effects: &[&'r Effect]) -> Result<Option<Stop<'r>>, WriteError> {
    let (work, flow) = (run.work, run.flow);
    // The write of the intents may have taken all the time. A call whose answer the invocation cannot wait for
    // would only end with an unknown outcome.
    if !work.has_time(Some(flow)) {
        release_unused_permits(work, &mut run.permits, effects).await;
        return Ok(Some(Stop::Retry(delay_without_time(run))));
    }
    let row = &run.lease.row().clone();
    let mut calls: FuturesUnordered<_> =
        effects.iter().map(|effect| async move { (*effect, perform_timed(work, flow, row, effect).await) }).collect();
    let mut stop = None;
    while let Some((effect, performed)) = calls.next().await {
        release_permit(work, &mut run.permits, effect, performed.call_end(effect)).await;
        stop = Stop::most_severe(stop, record(run, effect, performed).await);
        // An outcome that no partner could be asked about is recorded at once, not when its neighbours are
        // done: a crash meanwhile would leave it unknown.
        if effect.guarantee == Guarantee::None && !calls.is_empty() {
            match work.processor.ledger.record(&run.lease).await {
                // Its neighbours are called by now: what comes of them all is written when the run ends.
                Err(WriteError::Unavailable(error)) if !error.is_lasting() => tell_not_recorded(work, effect, &error),
                recorded => recorded?,
            }
        }
    }
    Ok(stop)
}

fn tell_not_recorded(work: &Work<'_>, effect: &Effect, error: &Unavailable) {
    let ((event, flow, trace_id), effect) = (work.ids(), &effect.id);
    warn!(event, flow, trace_id, effect, %error, "an outcome was not recorded at once; the next write carries it");
}

async fn perform_timed(work: &Work<'_>, flow: &Flow, row: &Row, effect: &Effect) -> Performed {
    let began = work.now();
    let (performed, status) = perform(work, flow, row, effect).await;
    work.export_call(row, effect, || performed.tried(status), began);
    if let Some(integration) = effect.integration() {
        let outcome = performed.call_outcome();
        let took = (outcome != CallOutcome::NotMade).then(|| work.now().since(began));
        let (event, flow, trace_id) = work.ids();
        let (effect, outcome_told) = (&effect.id, outcome.as_str());
        debug!(event, flow, trace_id, effect, integration, outcome = outcome_told, ?took, "the call has ended");
        work.count(Fact::Called(integration, outcome, took));
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
            work.count(Fact::EffectEnded(&run.flow.name, true));
            None
        }
        Performed::Answered(Outcome::Retryable { error, retry_after, doubt, as_if_down }) => {
            lease.record_repeatable(effect, &error, doubt, now);
            Some(wait_or_retry(run, effect, FailedCall { error: error.to_string(), retry_after, as_if_down }).await)
        }
        Performed::Answered(Outcome::Terminal(error)) => {
            lease.record_failed(effect, &error, now);
            Some(Stop::Bury { effect: Some(effect), reason: Reason::Terminal, error: error.to_string() })
        }
        Performed::Answered(Outcome::Unknown { error, doubt }) => {
            lease.record_unknown(effect, &error, doubt, now);
            match effect.asked_after() {
                Some(after) => Some(Stop::Retry(after)),
                None => {
                    let (reason, error) = (Reason::UnknownOutcome, error.to_string());
                    Some(Stop::Bury { effect: Some(effect), reason, error })
                }
            }
        }
        // The intent stands until the deferral withdraws it: nothing happened, and it was no attempt.
        Performed::Deferred(deferral) => Some(Stop::Defer(Hindrance::passing(deferral))),
        // It was no attempt: nobody waited for its answer.
        Performed::LetGo => {
            lease.record_repeatable(effect, LET_GO, Doubt::MayHaveHappened, now);
            lease.spare_attempt(effect);
            let integration = effect.integration().unwrap_or_default();
            Some(Stop::Defer(Hindrance::of_partner(Gate::exceeds_share(), integration)))
        }
        Performed::Overtaken(error) => Some(Stop::Bury { effect: Some(effect), reason: Reason::Stale, error }),
        Performed::Answered(Outcome::CredentialsRejected(error)) => {
            lease.note_credentials_rejected(effect, &error, now);
            let integration = effect.integration().unwrap_or_default();
            Some(Stop::Defer(until_credentials_are_right(work, integration, &error)))
        }
        Performed::NotReady(error) => {
            lease.note_no_secret(effect, &error, now);
            Some(Stop::Defer(until_secret_is_there(work, effect.integration().unwrap_or_default(), &error)))
        }
        Performed::NotRendered(error) => {
            lease.record_failed(effect, error.to_string(), now);
            Some(Stop::template(Some(effect), &error))
        }
    }
}
