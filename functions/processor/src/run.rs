//! The loop: the lease's next step, until something ends the run.

use shared::base::errors::{Unavailable, WriteError};
use shared::ledger::queue::OUTAGE_DELAY;
use shared::ledger::{Doubt, Next, Reason};

use tracing::warn;

use crate::call::call;
use crate::ends::{Stop, delay_without_attempt, end, succeed};
use crate::intend::intend;
use crate::line::stand_in_line;
use crate::look_up::look_up;
use crate::pause::pause_of_flow;
use crate::prepare::prepare;
use crate::work::{MessageFate, Run};

/// Runs an event, stage after stage. The write that completes a stage carries the next one's intents, so N effects
/// in a row cost N + 1 writes, and M side by side cost 2, the claim included.
pub(crate) async fn run(mut run: Run<'_>) -> Result<MessageFate, WriteError> {
    let mut prepared = !run.work.needs_preparation(run.flow);
    let mut goes_first = false;
    loop {
        let next = run.lease.next(run.flow, &run.work.processor.flows, run.work.now());
        if next != Next::Finish && is_expired(&run) {
            let error = "the event is older than its flow's `max_age`".into();
            return end(run, Stop::Bury { effect: None, reason: Reason::Expired, error }).await;
        }
        if !goes_first && let Some(stop) = stand_in_line(&run).await? {
            return end(run, stop).await;
        }
        goes_first = true;
        let stop = match (next, pause_of_flow(run.work, run.flow)) {
            (Next::Finish, _) => return succeed(run).await,
            (Next::Unknown(effect, error), _) => {
                run.lease.record_unknown(effect, error.as_str(), Doubt::None, run.work.now());
                Some(Stop::Bury { effect: Some(effect), reason: Reason::UnknownOutcome, error })
            }
            (_, Some(pause)) => Some(Stop::Defer(pause)),
            (Next::Wait(until), None) => Some(Stop::Retry(until.since(run.work.now()))),
            (Next::Lookup(effect), None) => look_up(&mut run, effect).await,
            (Next::Intend(_), None) if !prepared => {
                prepared = true;
                prepare(&mut run).await?
            }
            (Next::Intend(effects), None) => match intend(&mut run, &effects).await {
                Ok(stop) => stop,
                // What was done before is not written yet: that write comes with these intents. Whether they landed or
                // not, the event's next row takes them back.
                Err(WriteError::Unavailable(error)) => Some(keep_what_is_done(&run, &error)),
                Err(error @ (WriteError::Fenced | WriteError::NewerFormat)) => return Err(error),
            },
            (Next::Call(effects), None) => call(&mut run, &effects).await?,
        };
        if let Some(stop) = stop {
            return end(run, stop).await;
        }
    }
}

/// A port did not answer between two effects. The row is closed with all that is known, and the event comes back.
fn keep_what_is_done<'r>(run: &Run<'_>, error: &Unavailable) -> Stop<'r> {
    let (event, flow, trace_id) = run.work.ids();
    warn!(event, flow, trace_id, %error, "the next effects were not intended; the event is tried again later");
    Stop::Retry(delay_without_attempt(run.work, run.flow, &run.lease, OUTAGE_DELAY))
}

fn is_expired(run: &Run<'_>) -> bool {
    run.work.now().since(run.lease.row().queued_at) > run.flow.max_age
}
