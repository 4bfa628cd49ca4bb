//! The claim: one conditional write gives the event to this worker, or says why not.

use std::time::Duration;

use shared::base::errors::WriteError;
use shared::base::time::Timestamp;
use shared::flows::{Effect, Flow};
use shared::ledger::queue::OUTAGE_DELAY;
use shared::ledger::{Claim, Death, Lease, NotClaimed, Reason};
use shared::limits::pressure::Permit;
use shared::operate::metric::Fact;
use tracing::{error, info, warn};

use crate::ends::{bury, send_letter};
use crate::pause::{pause_of_flow, pause_of_integration};
use crate::permits::enter_freely;
use crate::run::run;
use crate::work::{MessageFate, Permits, Run, Work};

/// Claims the event, and runs it to its end if the claim is won.
pub(crate) async fn claim(work: &Work<'_>, flow: Option<&Flow>) -> MessageFate {
    let first = flow.map(|flow| first_effects(work, flow)).unwrap_or_default();
    let (first, permits): (Vec<String>, Vec<Option<Permit>>) = first.into_iter().unzip();
    let (replay, wake, fingerprint) = (work.event.replay, work.event.wake, work.event.fingerprint.clone());
    let holder = format!("{:016x}", work.processor.chance.bits());
    let claim = Claim { now: work.now(), lease: work.processor.lease, holder, replay, wake, fingerprint, first };
    match work.processor.ledger.claim(&work.event.id, &claim).await {
        Ok(Ok(lease)) => {
            // Where the ledger knew of an effect already the claim intends none, and its permits are as nothing.
            let permits = claim.first.iter().cloned().zip(permits).filter_map(|(id, permit)| Some((id, permit?)));
            settle(work, flow, lease, permits.collect()).await
        }
        Ok(Err(not_claimed)) => not_won(work, not_claimed, claim.now).await,
        Err(error) if error.is_lasting() => {
            let (event, flow, trace_id) = work.ids();
            if work.processor.told.is_new(&work.event.id) {
                let told = "the event's row cannot be claimed: it is not readable, or takes no more; the message comes back each hour";
                error!(event, flow, trace_id, %error, "{told}");
                work.count(Fact::Unreadable);
            }
            MessageFate::RedeliverAfter(LASTING_DELAY)
        }
        Err(error) => {
            let (event, flow, trace_id) = work.ids();
            error!(event, flow, trace_id, %error, "the claim got no answer; the message comes back in 10 s");
            MessageFate::RedeliverAfter(OUTAGE_DELAY)
        }
    }
}

/// The delay of a message whose row cannot be read. A deploy may mend that; what none has mended when the message's
/// receives are spent is parked beside its row.
const LASTING_DELAY: Duration = Duration::from_secs(3600);

/// The effects whose intents the claim may write, with the permits of those that call a partner: none where a partner
/// might not be called now, or ever, because an intent without a call would be taken for a call.
fn first_effects(work: &Work<'_>, flow: &Flow) -> Vec<(String, Option<Permit>)> {
    let held_back = pause_of_flow(work, flow).is_some() || work.may_wait(flow) || work.misfit(flow).is_some();
    if held_back || work.needs_preparation(flow) || work.in_safe_mode(flow) {
        return Vec::new();
    }
    let first = flow.first_stage().into_iter().map(|effect| Some((effect.id.clone(), unhindered(work, effect)?)));
    first.collect::<Option<_>>().unwrap_or_default()
}

/// The permit of an effect, where it calls a partner, if nothing stands between the effect and its call: no limit, no
/// pause, no failure or slowness that this container knows of, no condition.
fn unhindered(work: &Work<'_>, effect: &Effect) -> Option<Option<Permit>> {
    let paused = effect.integration().is_some_and(|name| pause_of_integration(work, name).is_some());
    match effect.integration() {
        _ if paused || effect.when.is_some() => None,
        None => Some(None),
        Some(_) => enter_freely(work, effect).map(Some),
    }
}

/// The message's fate when the claim is not won: another worker has the event, had it, or buried it.
async fn not_won(work: &Work<'_>, not_claimed: NotClaimed, now: Timestamp) -> MessageFate {
    match not_claimed {
        NotClaimed::Settled => MessageFate::Done,
        NotClaimed::Superseded => {
            let (event, flow, trace_id) = work.ids();
            let replay = work.event.replay;
            let wake = work.event.wake;
            let told = "the event was replayed or woken since, or is done with another payload; the message is deleted";
            info!(event, flow, trace_id, replay, wake, "{told}");
            MessageFate::Done
        }
        NotClaimed::HeldUntil(until) | NotClaimed::RetryAt(until) => {
            MessageFate::RedeliverAfter(until.since(now) + CLOCK_MARGIN)
        }
        // The worker that buried the event may have crashed before it sent the letter. Sending it twice is
        // harmless: the queue drops the copy, and parking the same event again changes nothing.
        NotClaimed::Dead(row) => match &row.death {
            Some(death) => send_letter(work, death.clone(), row.epoch).await,
            None => MessageFate::LeaveToRedeliver,
        },
        NotClaimed::NoRow => {
            let error = "the ledger has no row for this event".to_owned();
            let death = Death { reason: Reason::Orphaned, effect: None, error, attempts: 0, at: now };
            send_letter(work, death, 0).await
        }
    }
}

/// The margin after another worker's lease, before the message comes back: clocks differ.
const CLOCK_MARGIN: Duration = Duration::from_secs(1);

/// Runs the lease to its end.
///
/// A write that failed leaves the message where it is. If the lease was lost, its next holder
/// settles the event; if the ledger is down, the lease runs out and the next delivery finds the
/// intent without an outcome.
async fn settle(work: &Work<'_>, flow: Option<&Flow>, lease: Lease, permits: Permits) -> MessageFate {
    let ended = match flow {
        Some(flow) => match work.misfit(flow) {
            // It would come back for ever: no invocation has time for its call.
            Some(misfit) => {
                let reason = lease.row().reason_or_doubt(Reason::Misconfigured);
                bury(work, lease, None, reason, &misfit.to_string()).await
            }
            None => run_in_its_mode(work, flow, lease, permits).await,
        },
        None => {
            let error = format!("there is no flow `{}`", work.event.flow);
            let reason = lease.row().reason_or_doubt(Reason::UnknownFlow);
            bury(work, lease, None, reason, &error).await
        }
    };
    ended.unwrap_or_else(|error| {
        let (event, flow, trace_id) = work.ids();
        warn!(event, flow, trace_id, %error, "ledger write failed; the message is left for redelivery");
        MessageFate::LeaveToRedeliver
    })
}

/// Runs the event in the mode in which it was first tried: a partner rejects another body under our key.
async fn run_in_its_mode(
    work: &Work<'_>,
    flow: &Flow,
    mut lease: Lease,
    permits: Permits,
) -> Result<MessageFate, WriteError> {
    if lease.row().effects.is_empty() && !lease.row().safe && work.in_safe_mode(flow) {
        lease.enter_safe_mode(work.now());
    }
    if lease.row().safe {
        run(Run::new(work, &flow.clone().in_safe_mode(), lease, permits)).await
    } else {
        run(Run::new(work, flow, lease, permits)).await
    }
}
