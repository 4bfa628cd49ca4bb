//! The claim: one conditional write gives the event to this worker, or says why not.

use std::borrow::Cow;
use std::time::Duration;

use shared::base::errors::{Unavailable, WriteError};
use shared::base::retention::QUEUE_RETENTION;
use shared::base::time::Timestamp;
use shared::flows::{Effect, Flow};
use shared::ledger::queue::OUTAGE_DELAY;
use shared::ledger::{Claim, Death, Lease, NotClaimed, Reason, WaitsFor};
use shared::limits::pressure::{DeferralReason, Permit};
use shared::operate::metric::Fact;
use tracing::{debug, error, warn};

use crate::ended::Ended;
use crate::ends::{UNTIL_KNOWN, bury, defer_on_queue, deferral_delay, delay_without_claim, left_by_newer, send_letter};
use crate::hindrance::LONGEST_ON_QUEUE;
use crate::leave::{Leaving, leave};
use crate::pause::{pause_of_flow, pause_of_integration};
use crate::permits::enter_freely;
use crate::run::run;
use crate::work::{MessageFate, NEWER_FORMAT_DELAY, Permits, Run, Work};

/// Claims the event, and runs it to its end if the claim is won.
pub(crate) async fn claim(work: &Work<'_>, flow: Option<&Flow>) -> MessageFate {
    let first = flow.map(|flow| first_effects(work, flow)).unwrap_or_default();
    let (effects, permits): (Vec<&Effect>, Vec<Option<Permit>>) = first.into_iter().unzip();
    let first = effects.iter().map(|effect| effect.ledger_name().to_owned()).collect();
    let (replay, wake, fingerprint) = (work.event.replay, work.event.wake, work.event.fingerprint.clone());
    let holder = format!("{:016x}", work.processor.chance.bits());
    let claim = Claim { now: work.now(), lease: work.processor.lease, holder, replay, wake, fingerprint, first };
    match work.processor.ledger.claim(&work.event.id, &claim).await {
        Ok(Ok(lease)) => {
            let number = *work.claim.get_or_init(|| lease.row().epoch);
            work.export_claim(number, claim.now);
            let (event, flow_name, trace_id) = work.ids();
            debug!(event, flow = flow_name, trace_id, epoch = number, "the claim was won");
            // Where the ledger knew of an effect already the claim intends none, and its permits are as nothing.
            let permits = effects.iter().zip(permits).filter_map(|(effect, permit)| Some((effect.id.clone(), permit?)));
            settle(work, flow, lease, permits.collect()).await
        }
        Ok(Err(not_claimed)) => not_won(work, not_claimed, claim.now).await,
        Err(error) if error.is_lasting() => broken_row(work, &error).await,
        Err(error) => {
            let (event, flow, trace_id) = work.ids();
            error!(event, flow, trace_id, %error, "the claim got no answer; the message comes back later");
            MessageFate::RedeliverAfter(delay_without_claim(work, OUTAGE_DELAY))
        }
    }
}

/// The message's fate when its row cannot be read, or takes no more: it is told once, a deploy has a day to mend it, and
/// then the message is parked beside the row.
async fn broken_row(work: &Work<'_>, error: &Unavailable) -> MessageFate {
    let ((event, flow, trace_id), now) = (work.ids(), work.now());
    if work.processor.told.is_new(&work.event.id) {
        let told = "the event's row cannot be read, or takes no more; the message comes back each hour";
        error!(event, flow, trace_id, %error, "{told}");
        work.count(Fact::Unreadable);
    }
    // An event may be old when it is replayed or woken: its age says nothing of the row's fault.
    let tried_since = work.message.first_received_at.unwrap_or(work.event.received_at);
    if now.since(tried_since) < LASTING_PATIENCE && !work.message.is_deleted_soon(QUEUE_RETENTION, now) {
        return MessageFate::RedeliverAfter(LASTING_DELAY);
    }
    let error = "the event's row cannot be read, or takes no more".to_owned();
    send_letter(work, Death { reason: Reason::Unreadable, effect: None, error, attempts: 0, at: now }, 0).await
}

/// The delay of a message whose row cannot be read. A deploy may mend that.
const LASTING_DELAY: Duration = Duration::from_secs(3600);

/// How long after its first receipt a message is parked beside a row that cannot be read. It is well within the time for
/// which the queue keeps a message.
const LASTING_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// The effects whose intents the claim may write, with the permits of those that call a partner: none where a partner
/// might not be called now, or ever, because an intent without a call would be taken for a call.
fn first_effects<'f>(work: &Work<'_>, flow: &'f Flow) -> Vec<(&'f Effect, Option<Permit>)> {
    let held_back = pause_of_flow(work, flow).is_some() || work.may_wait(flow) || work.misfit(flow).is_some();
    let first = flow.first_stage();
    // Whether a replay does what is new, only the row says.
    let has_new = work.event.is_replay() && first.iter().any(|effect| work.is_new(effect));
    if held_back || has_new || work.needs_preparation(flow) || work.in_safe_mode(flow) {
        return Vec::new();
    }
    let permits = first.into_iter().map(|effect| Some((effect, unhindered(work, effect)?)));
    permits.collect::<Option<_>>().unwrap_or_default()
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
        NotClaimed::Settled => {
            work.ends(Ended::early("settled_before"));
            MessageFate::Done
        }
        NotClaimed::Superseded => {
            let (event, flow, trace_id) = work.ids();
            let replay = work.event.replay;
            let wake = work.event.wake;
            let told = "the event was replayed or woken since, or is done with another payload; the message is deleted";
            debug!(event, flow, trace_id, replay, wake, "{told}");
            work.ends(Ended::early("superseded"));
            MessageFate::Done
        }
        NotClaimed::HeldUntil(until) | NotClaimed::RetryAt(until) => {
            work.ends(Ended::early("too_early"));
            MessageFate::RedeliverAfter(until.since(now) + CLOCK_MARGIN)
        }
        // The worker that buried the event may have crashed before it sent the letter. Sending it twice is
        // harmless: the queue drops the copy, and parking the same event again changes nothing.
        NotClaimed::Dead(row) => match &row.death {
            Some(death) => {
                work.ends(Ended::with("dead_before", Some(death.reason.as_str()), &row));
                send_letter(work, death.clone(), row.epoch).await
            }
            None => MessageFate::LeaveToRedeliver,
        },
        NotClaimed::NewerFormat => {
            let (event, flow, trace_id) = work.ids();
            let told = "a newer version wrote the event's row; the message is left on the queue for that version";
            warn!(event, flow, trace_id, "{told}");
            work.count(Fact::NewerFormat);
            if !work.message.is_deleted_soon(QUEUE_RETENTION, now) {
                return MessageFate::RedeliverAfter(NEWER_FORMAT_DELAY);
            }
            // The dead letter queue keeps it for longer, for the version that knows its row.
            send_letter(work, left_by_newer(now), 0).await
        }
        NotClaimed::NoRow => {
            let error = "the ledger has no row for this event".to_owned();
            let death = Death { reason: Reason::Orphaned, effect: None, error, attempts: 0, at: now };
            work.ends(Ended::early("orphaned"));
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
async fn settle(work: &Work<'_>, flow: Option<&Flow>, mut lease: Lease, permits: Permits) -> MessageFate {
    // However this lease is closed, the next claim could not tell any more until when a lost worker may have called.
    if lease.takes_over() {
        let lost = lease.note_lost_attempts(work.now());
        work.export_lost(lease.row(), &lost);
    }
    if flow.is_some() {
        lease.find_flow();
    }
    let ended = match flow {
        Some(flow) => match work.misfit(flow) {
            // It would come back for ever: no invocation has time for its call.
            Some(misfit) => {
                let reason = lease.row().reason_or_doubt(Reason::Misconfigured);
                bury(work, lease, None, reason, &misfit.to_string()).await
            }
            None => run_in_its_mode(work, flow, lease, permits).await,
        },
        None => wait_for_flow(work, lease).await,
    };
    match ended {
        Ok(fate) => fate,
        Err(WriteError::Unavailable(error)) if error.is_lasting() => broken_row(work, &error).await,
        Err(error) => {
            let (event, flow, trace_id) = work.ids();
            warn!(event, flow, trace_id, %error, "ledger write failed; the message is left for redelivery");
            MessageFate::LeaveToRedeliver
        }
    }
}

/// How long an event waits for a version of the code that has its flow, counted from its first claim by one that has not,
/// since the last by one that has. A deploy and its roll-back take less.
const UNKNOWN_FLOW_PATIENCE: Duration = Duration::from_secs(3600);

/// How long an event waits at least before it is tried again in the hope of another version.
const UNKNOWN_FLOW_WAIT: Duration = Duration::from_secs(30);

/// The longest that an event which has left the queue waits before it is tried again in the hope of another version.
const UNKNOWN_FLOW_AWAY: Duration = Duration::from_secs(10 * 60);

/// Defers an event whose flow this version does not have: a newer container may have it. After a quarter of an hour the
/// event leaves the queue, as others do. One that has waited for [`UNKNOWN_FLOW_PATIENCE`] is parked, for its flow is gone.
async fn wait_for_flow(work: &Work<'_>, mut lease: Lease) -> Result<MessageFate, WriteError> {
    let (waited, why) = (lease.miss_flow(work.now()), DeferralReason::UnknownFlow);
    if waited >= UNKNOWN_FLOW_PATIENCE {
        let error = format!("there is no flow `{}`", work.event.flow);
        let reason = lease.row().reason_or_doubt(Reason::UnknownFlow);
        return bury(work, lease, None, reason, &error).await;
    }
    lease.withdraw_intents();
    let left = UNKNOWN_FLOW_PATIENCE.saturating_sub(waited);
    let mut delay = deferral_delay(UNKNOWN_FLOW_WAIT, waited, left, work.processor.chance.unit());
    if waited > LONGEST_ON_QUEUE {
        let due = Some(work.now() + left.min(UNKNOWN_FLOW_AWAY));
        (lease, delay) = match leave(work, &work.event.flow, lease, &WaitsFor::Moment, why, due).await? {
            Leaving::Left => return Ok(MessageFate::Done),
            Leaving::NotYet(given_back) => (given_back, UNTIL_KNOWN),
            Leaving::NotNow(given_back) | Leaving::Never(given_back) => (given_back, delay),
        };
    }
    defer_on_queue(work, lease, delay, why).await
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
    let flow = &*effects_of(work, flow, &lease);
    if lease.row().safe {
        run(Run::new(work, &flow.clone().in_safe_mode(), lease, permits)).await
    } else {
        run(Run::new(work, flow, lease, permits)).await
    }
}

/// The flow with the effects that are done for this event. A first try does all that is deployed, but for what may have
/// happened already under a name that the flow has no more; a replay leaves out what is new since the event was accepted,
/// unless an operator said otherwise.
fn effects_of<'f>(work: &Work<'_>, flow: &'f Flow, lease: &Lease) -> Cow<'f, Flow> {
    let left_out: Vec<&Effect> = match (work.event.is_replay(), lease.row().with_new) {
        (true, true) => Vec::new(),
        (true, false) => flow.effects.iter().filter(|effect| work.is_new(effect)).collect(),
        (false, _) => lease.row().maybe_renamed(flow, work.event.effects.as_deref()),
    };
    if left_out.is_empty() { Cow::Borrowed(flow) } else { Cow::Owned(flow.without(&left_out)) }
}
