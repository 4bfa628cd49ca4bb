//! How a run ends: success, retry, deferral, a guard's block, a question to a human, a dead letter.
//!
//! The ledger's row is closed first; then come the dead letter and the metrics; the message's fate is last. A
//! crash in between is repaired by the redelivery, which finds the row as it was left.

use std::time::Duration;

use serde_json::Value;
use shared::base::errors::WriteError;
use shared::base::time::Timestamp;
use shared::flows::template::TemplateError;
use shared::flows::{Effect, Flow};
use shared::ledger::queue::{DeadLetter, OUTAGE_DELAY, Received};
use shared::ledger::{Closed, Death, Lease, Reason, State, WaitsFor};
use shared::limits::pressure::DeferralReason;
use shared::operate::metric::Fact;
use shared::operate::stale_guard;
use shared::operate::switchboard::MARK_KNOWN_AFTER;
use tracing::{error, warn};

use crate::ended::Ended;
use crate::figures::{count_dead, count_settled};
use crate::hindrance::{Hindrance, LONGEST_ON_QUEUE};
use crate::leave::{Leaving, leave};
use crate::work::{MessageFate, Processor, Run, Work};

/// The reason why a run ends before its effects are done.
pub(crate) enum Stop<'f> {
    /// The event is tried again after this long.
    Retry(Duration),
    /// The event waits for something that is not available now.
    Defer(Hindrance),
    /// A guard blocks the event, for these facts.
    Block { guard: String, facts: Value },
    /// A human is asked. `posted` says whether Slack got the question.
    AwaitApproval { posted: String },
    /// The event is a dead letter, because of this effect, or before any effect.
    Bury { effect: Option<&'f Effect>, reason: Reason, error: String },
}

impl<'f> Stop<'f> {
    /// A dead letter because of a template: an effect's, or one before any effect.
    pub(crate) fn template(effect: Option<&'f Effect>, error: &TemplateError) -> Self {
        Stop::Bury { effect, reason: Reason::Template, error: error.to_string() }
    }

    /// The more severe of two stops: the first to bury the event, else the longer wait.
    pub(crate) fn most_severe(one: Option<Self>, other: Option<Self>) -> Option<Stop<'f>> {
        match (one, other) {
            (None, stop) | (stop, None) => stop,
            (Some(Stop::Retry(one)), Some(Stop::Retry(other))) => Some(Stop::Retry(one.max(other))),
            (Some(bury @ Stop::Bury { .. }), _) | (_, Some(bury @ Stop::Bury { .. })) => Some(bury),
            (Some(Stop::Retry(delay)), Some(Stop::Defer(hindrance)))
            | (Some(Stop::Defer(hindrance)), Some(Stop::Retry(delay))) => {
                Some(Stop::Defer(hindrance.no_earlier_than(delay)))
            }
            (Some(Stop::Defer(one)), Some(Stop::Defer(other))) if other.deferral.after > one.deferral.after => {
                Some(Stop::Defer(other))
            }
            (one, _) => one,
        }
    }
}

/// Ends a run before its effects are done.
pub(crate) async fn end(run: Run<'_>, stop: Stop<'_>) -> Result<MessageFate, WriteError> {
    match stop {
        Stop::Retry(delay) => retry(run, delay).await,
        Stop::Defer(hindrance) => defer(run, &hindrance).await,
        Stop::Block { guard, facts } => block(run, &guard, facts).await,
        Stop::AwaitApproval { posted } => await_approval(run, &posted).await,
        Stop::Bury { effect, reason, error } => bury_or_say_unknown(run, effect, reason, &error).await,
    }
}

/// Closes the event: every effect is done. One that the flow had when it was called, and has no more, may be in doubt.
pub(crate) async fn succeed(run: Run<'_>) -> Result<MessageFate, WriteError> {
    let Run { work, flow, lease, permits } = run;
    if lease.row().in_doubt() {
        let error = "the flow no longer has the effect that is in doubt";
        return bury(work, lease, None, Reason::UnknownOutcome, error).await;
    }
    if let Some(error) = work.maybe_renamed(lease.row()) {
        return bury(work, lease, None, Reason::Misconfigured, &error).await;
    }
    let applied =
        stale_guard::apply(&*work.processor.latest, flow, work.event, lease.row().received_at, work.now()).await;
    if let Err(error) = applied {
        let (event, flow_name, trace_id) = work.ids();
        let told = "what was applied last was not noted; the event is done, and is settled when it comes back";
        warn!(event, flow = flow_name, trace_id, %error, "{told}");
        let delay = delay_without_attempt(work, flow, &lease, OUTAGE_DELAY);
        return retry(Run { work, flow, lease, permits }, delay).await;
    }
    let closed = close(work, lease.succeed(flow.retention(), work.now())).await?;
    work.ends(Ended::with("succeeded", None, closed.row()));
    count_settled(work, flow, closed.row(), State::Succeeded);
    Ok(MessageFate::Done)
}

async fn retry(run: Run<'_>, delay: Duration) -> Result<MessageFate, WriteError> {
    let Run { work, flow, mut lease, .. } = run;
    lease.withdraw_intents();
    if delay > LONGEST_ON_QUEUE {
        let until = Some(work.now() + delay);
        match leave(work, &flow.name, lease, &WaitsFor::Moment, DeferralReason::LongRetry, until).await? {
            Leaving::Left => return Ok(MessageFate::Done),
            // It must not be tried earlier. So this time it stays on the queue, and the flow is marked for the next.
            Leaving::NotYet(given_back) | Leaving::NotNow(given_back) | Leaving::Never(given_back) => {
                lease = given_back;
            }
        }
    }
    let closed = close(work, lease.retry(delay, work.now())).await?;
    work.ends(Ended::with("retry", None, closed.row()));
    work.count(Fact::Retried(&flow.name));
    Ok(MessageFate::RedeliverAfter(delay))
}

/// Defers the event until it can go on. That is no attempt. Where that may take long, the event leaves the queue.
async fn defer(run: Run<'_>, hindrance: &Hindrance) -> Result<MessageFate, WriteError> {
    let Run { work, flow, mut lease, .. } = run;
    lease.withdraw_intents();
    let (now, deferral) = (work.now(), hindrance.deferral);
    let age = now.since(lease.row().queued_at);
    let waited = now.since(lease.row().on_queue_since());
    let left = flow.max_age.saturating_sub(age);
    let mut delay = deferral_delay(deferral.after, waited, left, work.processor.chance.unit());
    if let Some(on) = hindrance.leaves_queue_for(age, waited) {
        let due = hindrance.due(delay, now);
        (lease, delay) = match leave(work, &flow.name, lease, on, deferral.why, due).await? {
            Leaving::Left => return Ok(MessageFate::Done),
            Leaving::NotYet(given_back) => (given_back, UNTIL_KNOWN),
            Leaving::NotNow(given_back) => {
                (given_back, deferral_delay(UNTIL_KNOWN, waited, left, work.processor.chance.unit()))
            }
            Leaving::Never(given_back) => {
                let delay = delay.max(NEVER_LEAVES).min(LONGEST_ON_QUEUE);
                if delay + LAST_CHANCE > left {
                    return bury_not_kept(work, given_back, on, deferral.why).await;
                }
                (given_back, delay)
            }
        };
    }
    defer_on_queue(work, lease, delay.min(LONGEST_ON_QUEUE), deferral.why).await
}

/// Buries an event that the ledger does not take, and that was held back for as long as its flow lets it wait: it would be
/// too old when it comes back.
async fn bury_not_kept(
    work: &Work<'_>,
    lease: Lease,
    on: &WaitsFor,
    why: DeferralReason,
) -> Result<MessageFate, WriteError> {
    let why = why.as_str();
    let error = format!(
        "the ledger does not take its payload, so it waited on the queue for {on} ({why}) until it was too old"
    );
    let reason = lease.row().reason_or_doubt(Reason::NotKept);
    bury(work, lease, None, reason, &error).await
}

/// Lets the event stay on the queue for so long. Its intents are withdrawn.
pub(crate) async fn defer_on_queue(
    work: &Work<'_>,
    lease: Lease,
    delay: Duration,
    why: DeferralReason,
) -> Result<MessageFate, WriteError> {
    let closed = close(work, lease.defer(delay, why.as_str(), work.now())).await?;
    work.ends(Ended::with("deferred", Some(why.as_str()), closed.row()));
    work.count(Fact::Deferred(&work.event.flow, why));
    Ok(MessageFate::RedeliverAfter(delay))
}

/// The delay of an event that leaves the queue as soon as every container knows its flow's mark.
pub(crate) const UNTIL_KNOWN: Duration = MARK_KNOWN_AFTER.saturating_add(Duration::from_secs(1));

/// The shortest delay of an event that the ledger does not take, and that so waits on the queue for what takes long.
const NEVER_LEAVES: Duration = Duration::from_secs(30);

/// Closes a blocked event as a no-op. If the outcome of an effect is unknown, the event is buried instead, so that
/// an operator sees it.
async fn block(run: Run<'_>, guard: &str, facts: Value) -> Result<MessageFate, WriteError> {
    let Run { work, flow, lease, .. } = run;
    if lease.row().in_doubt() {
        return bury(work, lease, None, Reason::UnknownOutcome, &format!("blocked by {guard}")).await;
    }
    let closed = close(work, lease.block(guard, facts, flow.retention(), work.now())).await?;
    work.ends(Ended::with("noop", Some(guard), closed.row()));
    work.count(Fact::Blocked(&flow.name, guard));
    count_settled(work, flow, closed.row(), State::Noop);
    Ok(MessageFate::Done)
}

async fn await_approval(run: Run<'_>, posted: &str) -> Result<MessageFate, WriteError> {
    let closed = close(run.work, run.lease.await_approval(posted, run.work.now())).await?;
    run.work.ends(Ended::with("awaiting_approval", None, closed.row()));
    run.work.count(Fact::Asked(&run.flow.name));
    Ok(MessageFate::Done)
}

/// The event is not acted on any more. Where an effect is in doubt, that is said, and not why it is given up on.
async fn bury_or_say_unknown(
    run: Run<'_>,
    effect: Option<&Effect>,
    reason: Reason,
    error: &str,
) -> Result<MessageFate, WriteError> {
    let Run { work, mut lease, .. } = run;
    lease.withdraw_intents();
    let reason = lease.row().reason_or_doubt(reason);
    bury(work, lease, effect, reason, error).await
}

/// Buries the event: the ledger first, then the letter. A crash between is repaired by the redelivery, which finds
/// the row dead and sends the letter again.
pub(crate) async fn bury(
    work: &Work<'_>,
    lease: Lease,
    effect: Option<&Effect>,
    reason: Reason,
    error: &str,
) -> Result<MessageFate, WriteError> {
    let closed = close(work, lease.bury(reason, effect, error, work.now())).await?;
    let Some(death) = &closed.row().death else { return Ok(MessageFate::LeaveToRedeliver) };
    work.ends(Ended::with("dead", Some(death.reason.as_str()), closed.row()));
    count_dead(work, closed.row());
    Ok(send_letter(work, death.clone(), closed.row().epoch).await)
}

/// Buries a message that is no event. On the queue it would come back for ever.
pub(crate) async fn bury_malformed(processor: &Processor, message: &Received) -> MessageFate {
    let at = processor.clock.now();
    let error = "the message is not an event".to_owned();
    let letter = DeadLetter {
        body: message.body.clone(),
        group: message.group.clone(),
        deduplication_id: message.message_id.clone(),
        death: Death { reason: Reason::Malformed, effect: None, error, attempts: 0, at },
    };
    match processor.dead_letters.bury(&letter).await {
        Ok(()) => MessageFate::Done,
        Err(error) => {
            let message_id = &message.message_id;
            error!(message_id, %error, "the dead letter of a malformed message was not sent; it comes back in 10 s");
            MessageFate::RedeliverAfter(OUTAGE_DELAY)
        }
    }
}

/// Moves a message of a newer version to the dead letter queue, which keeps it for longer.
pub(crate) async fn move_to_letters(processor: &Processor, message: &Received) -> MessageFate {
    let letter = DeadLetter {
        body: message.body.clone(),
        // No letter of its entity waits behind it.
        group: message.message_id.clone(),
        deduplication_id: message.message_id.clone(),
        death: left_by_newer(processor.clock.now()),
    };
    let message_id = &message.message_id;
    match processor.dead_letters.bury(&letter).await {
        Ok(()) => {
            error!(message_id, "no newer version came back for its message; it is moved to the dead letters in time");
            MessageFate::Done
        }
        Err(error) => {
            error!(message_id, %error, "the message of a newer version was not moved to the dead letters; it comes back in 10 s");
            MessageFate::RedeliverAfter(OUTAGE_DELAY)
        }
    }
}

/// Why what a newer version wrote is a dead letter: nobody came back for it in time.
pub(crate) fn left_by_newer(at: Timestamp) -> Death {
    let error = "a newer version of Ledgerline wrote it, and did not come back for it in time".to_owned();
    Death { reason: Reason::Unreadable, effect: None, error, attempts: 0, at }
}

/// Sends the event's dead letter with its context. Once a row is dead, only this is left to do.
pub(crate) async fn send_letter(work: &Work<'_>, death: Death, epoch: u64) -> MessageFate {
    let letter = DeadLetter {
        body: work.message.body.clone(),
        group: work.event.group.clone(),
        deduplication_id: format!("{}-e{epoch}", work.event.id),
        death,
    };
    match work.processor.dead_letters.bury(&letter).await {
        Ok(()) => MessageFate::Done,
        Err(error) => {
            let (event, flow, trace_id) = work.ids();
            error!(event, flow, trace_id, %error, "the dead letter was not sent; the message comes back in 10 s to send it");
            MessageFate::RedeliverAfter(OUTAGE_DELAY)
        }
    }
}

async fn close(work: &Work<'_>, closed: Closed) -> Result<Closed, WriteError> {
    work.processor.ledger.close(&closed).await?;
    Ok(closed)
}

/// The delay of an event that must wait at least `after`, has waited on the queue for `waited` already, and is too old
/// after `left`.
///
/// A random part is added, so that events that were deferred together do not come back together. The longer an event
/// has waited, the more seldom it comes: each time is one receive, of which the queue allows only so many, and a flow
/// that is paused for a day must not use them up. But it comes once more before it is too old.
pub(crate) fn deferral_delay(after: Duration, waited: Duration, left: Duration, chance: f64) -> Duration {
    let last_chance = left.saturating_sub(LAST_CHANCE);
    let seldom = after.max((waited / 10).min(last_chance));
    let spread = seldom.clamp(Duration::from_secs(1), MAX_SPREAD).mul_f64(chance / 4.0);
    (seldom + spread).min(last_chance).max(after)
}

/// The delay of an event that comes back after `after` at least, and may come back without end: no attempt is counted.
/// The longer it has been on the queue, the more seldom it comes.
pub(crate) fn delay_without_attempt(work: &Work<'_>, flow: &Flow, lease: &Lease, after: Duration) -> Duration {
    let (now, row) = (work.now(), lease.row());
    let left = flow.max_age.saturating_sub(now.since(row.queued_at));
    let delay = deferral_delay(after, now.since(row.on_queue_since()), left, work.processor.chance.unit());
    delay.min(LONGEST_ON_QUEUE).max(after)
}

/// The delay of an event whose invocation has no time left for its calls. The next one may have none either: a call that
/// just fits has none as soon as our tables are slow.
pub(crate) fn delay_without_time(run: &Run<'_>) -> Duration {
    delay_without_attempt(run.work, run.flow, &run.lease, Duration::from_secs(1))
}

/// The delay of a message whose event could not even be claimed. An old event comes back seldom: an outage of our own
/// tables must not use up the receives of what the queue holds. When a replayed or woken event was sent, only its row
/// says: it comes back each minute, so that its receives last for half a day.
pub(crate) fn delay_without_claim(work: &Work<'_>, after: Duration) -> Duration {
    if work.event.replay > 0 || work.event.wake > 0 {
        return after.max(SENT_AGAIN);
    }
    (work.now().since(work.event.received_at) / 10).min(LONGEST_ON_QUEUE).max(after)
}

/// The delay of a replayed or woken event that could not be claimed.
const SENT_AGAIN: Duration = Duration::from_secs(60);

/// The most times that an event is received while it is deferred on the queue, from its acceptance to the end of its
/// `max_age`, and asks as soon as it may. What stands behind it in its group is received no more often: all that stood
/// before it was older. The queue's `maxReceiveCount` leaves room for it.
pub fn most_receives(max_age: Duration) -> usize {
    let shortest = Duration::from_secs(1);
    let after = |waited: &Duration| {
        let delay = deferral_delay(shortest, *waited, max_age - *waited, 0.0).min(LONGEST_ON_QUEUE);
        Some(*waited + delay).filter(|waited| *waited < max_age)
    };
    std::iter::successors(Some(Duration::ZERO), after).count()
}

/// The time before its end at which a waiting event comes for the last time.
const LAST_CHANCE: Duration = Duration::from_secs(30);

/// The longest delay of which a quarter is random: five minutes are enough.
const MAX_SPREAD: Duration = Duration::from_secs(20 * 60);

#[cfg(test)]
mod tests {
    use super::*;
    use shared::limits::pressure::Deferral;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn who_may_go_before_it_is_too_old_does() {
        for minutes in 0..720 {
            let left = Duration::from_secs(60 * minutes);
            for chance in [0.0, 0.5, 0.999] {
                let waited = 12 * HOUR - left;
                for after in [Duration::from_secs(1), Duration::from_secs(600), left * 9 / 10] {
                    let delay = deferral_delay(after, waited, left, chance);
                    assert!(delay >= after, "{after:?} asked, {delay:?} given");
                    assert!(after + LAST_CHANCE > left || delay < left, "{delay:?} of {left:?} with {chance}");
                }
            }
        }
    }

    #[test]
    fn a_night_ends_for_all_within_minutes_and_not_at_once() {
        let night = 11 * HOUR;
        assert_eq!(deferral_delay(night, Duration::ZERO, 12 * HOUR, 0.0), night);
        assert_eq!(deferral_delay(night, Duration::ZERO, 12 * HOUR, 1.0), night + Duration::from_secs(300));
    }

    #[test]
    fn of_two_stops_the_longer_wait_is_kept() {
        let down = |after| Hindrance::of_partner(Deferral { after, why: DeferralReason::BreakerOpen }, "crm");
        let second = Duration::from_secs(1);
        for turned in [false, true] {
            let most_severe = |one, other| {
                let (one, other) = if turned { (other, one) } else { (one, other) };
                match Stop::most_severe(Some(one), Some(other)) {
                    Some(Stop::Defer(hindrance)) => hindrance,
                    _ => panic!("it is deferred"),
                }
            };
            let asked = most_severe(Stop::Defer(down(30 * second)), Stop::Retry(HOUR));
            assert_eq!(asked.deferral.after, HOUR, "a partner asked for an hour");
            assert_eq!(asked.leaves_queue_for(HOUR, HOUR), Some(&WaitsFor::Moment), "it is not woken before");
            assert_eq!(most_severe(Stop::Defer(down(30 * second)), Stop::Retry(2 * second)), down(30 * second));
            assert_eq!(most_severe(Stop::Defer(down(second)), Stop::Defer(down(9 * second))), down(9 * second));
        }
    }

    #[test]
    fn who_waits_long_asks_seldom() {
        let second = Duration::from_secs(1);
        assert_eq!(deferral_delay(10 * second, 10 * HOUR, 38 * HOUR, 0.0), HOUR);
        assert_eq!(deferral_delay(10 * second, Duration::ZERO, 48 * HOUR, 1.0), 12_500 * second / 1000);
    }
}
