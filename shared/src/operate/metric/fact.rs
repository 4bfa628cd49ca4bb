//! Facts: what happened in a unit of work, and which metrics it becomes.

use std::time::Duration;

use super::{Dimension, Metric};
use crate::ledger::{Reason, State};
use crate::limits::pressure::{BreakerChange, DeferralReason};

/// A fact that is counted.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact<'f> {
    /// A source's event was accepted for the first time.
    Accepted(&'f str),
    /// A source sent an event that was accepted before.
    Duplicate(&'f str),
    /// A source's delivery, or one event of its batch, was rejected as this problem.
    Rejected(&'f str, &'static str),
    /// A stage of a delivery took so long.
    Took(Stage, Duration),
    /// An event of this flow was parked by the intake, because its flow does not take its shape.
    ParkedInvalid(&'f str),

    /// An event was settled, so long after it was received. One that was replayed or approved has no such time: it waited
    /// for an operator.
    Settled(&'f str, State, Option<Duration>),
    /// An event of this flow came to an end, and its effects took at most so many attempts each.
    Attempted(&'f str, u32),
    /// An effect of this flow came to an end: a known one, or one that is unknown. It is protected if the one or the
    /// other can do no harm.
    EffectEnded(&'f str, bool),
    /// An effect failed, and the event of this flow is tried again.
    Retried(&'f str),
    /// An event of this flow waits for something that is not available now.
    Deferred(&'f str, DeferralReason),
    /// An event of this flow has left the queue to wait.
    Waits(&'f str, DeferralReason),
    /// An event of this flow waits for a human's approval.
    Asked(&'f str),
    /// A guard blocked an event of this flow.
    Blocked(&'f str, &'f str),
    /// The retries of a contact's events of this flow are spent.
    BudgetExhausted(&'f str),
    /// An event of this flow is a dead letter.
    Dead(&'f str, Reason),
    /// An event of this flow is a dead letter again: it was parked before, and replayed.
    DeadAgain(&'f str, Reason),
    /// An event that was parked and replayed was settled, so long after it was parked.
    Healed(Duration),
    /// An event of this flow was good by its service level, or it was bad and spent so much of what all may.
    ServiceLevel(&'f str, Option<u32>),

    /// An integration was called, or would have been. A call that was made took so long.
    Called(&'f str, CallOutcome, Option<Duration>),
    /// An integration does not take our credentials.
    CredentialsRejected(&'f str),
    /// A partner's breaker opened or closed.
    Breaker(&'f str, BreakerChange),
    /// A partner's breaker is open now.
    BreakerIsOpen(&'f str),

    /// The time-out of this integration does not fit into an invocation, told at the container's start.
    OverlongTimeout(&'f str),
    /// A container did not start, because its configuration or its flows are wrong.
    Misconfigured,
    /// A row of the ledger cannot be read, or takes no more.
    Unreadable,
    /// The ledger does not take the payload of an event.
    NotKept,
    /// A message was left alone, because its container never read the switchboard.
    StoodStill,
    /// The newest switchboard cannot be used: the last good one stays in force.
    BadSwitchboard,
    /// A message or a row was left alone, because a newer version of the code wrote it.
    NewerFormat,
    /// A worker panicked.
    Panicked,
    /// So many spans were not exported, because there was no room for them.
    SpansDropped(u64),

    /// A dead letter was taken in, so long after its event failed for the first time.
    Parked(Reason, Duration),
    /// So many events are parked now, and the oldest for so long.
    ParkedNow(u64, Duration),
    /// So many messages are on the queue now, and so many in flight.
    OnQueueNow(u64, u64),
    /// So many events wait now.
    WaitingNow(u64),
    /// So many events await an approval now.
    AwaitingApprovalNow(u64),
    /// The waiting event that should have gone on first should have done so this long ago.
    Overdue(Duration),
    /// An event was replayed, so long after it was parked.
    Replayed(Duration),
    /// So many events were not replayed, because they cannot be as they are.
    ReplaysSkipped(u64),
    /// An event was not replayed, because the ledger or the queue did not answer.
    ReplayFailed,
    /// So many batches of replays are open, and so many of them do not come to an end.
    Batches(u64, u64),
    /// The schedule's work was done.
    ScheduleRan,
    /// The work of the wakes was done.
    WakeRan,
    /// So many waiting events were woken.
    Woken(u64),
}

/// A stage of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// All of it, from the request to the answer.
    Whole,
    /// The signature, its secrets included.
    Verify,
    /// The sender's rate.
    Rate,
    /// The ledger.
    Admit,
    /// The queue.
    Send,
}

/// How a call of a partner ended, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The effect is done.
    Done,
    /// The call failed, and is repeated.
    Retry,
    /// The partner does not take it.
    Failed,
    /// Nobody knows whether it happened.
    InDoubt,
    /// The partner does not take our credentials.
    CredentialsRejected,
    /// Something of ours kept the call from being made.
    NotMade,
}

impl CallOutcome {
    /// Every outcome.
    pub const ALL: [CallOutcome; 6] = [
        CallOutcome::Done,
        CallOutcome::Retry,
        CallOutcome::Failed,
        CallOutcome::InDoubt,
        CallOutcome::CredentialsRejected,
        CallOutcome::NotMade,
    ];

    /// The outcome's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            CallOutcome::Done => "done",
            CallOutcome::Retry => "retry",
            CallOutcome::Failed => "failed",
            CallOutcome::InDoubt => "in_doubt",
            CallOutcome::CredentialsRejected => "credentials_rejected",
            CallOutcome::NotMade => "not_made",
        }
    }

    /// Whether the call says that the partner is not well, or does not know us.
    const fn is_failure(self) -> bool {
        matches!(self, CallOutcome::Retry | CallOutcome::InDoubt | CallOutcome::CredentialsRejected)
    }
}

/// The time after which a replay is late.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// The dimensions of a fact: two at most.
pub(super) type Dimensions<'f> = [Option<(Dimension, &'f str)>; 2];

impl Fact<'_> {
    /// The dimensions of the fact's metrics.
    pub(super) fn dimensions(&self) -> Dimensions<'_> {
        let (one, two) = match self {
            Fact::Accepted(source) | Fact::Duplicate(source) => ((Dimension::Source, *source), None),
            Fact::Rejected(source, problem) => ((Dimension::Source, *source), Some((Dimension::Reason, *problem))),
            Fact::ParkedInvalid(flow) => {
                ((Dimension::Flow, *flow), Some((Dimension::Reason, Reason::Invalid.as_str())))
            }
            Fact::Settled(flow, state, _) => ((Dimension::Flow, *flow), Some((Dimension::State, state.as_str()))),
            Fact::Attempted(flow, _)
            | Fact::EffectEnded(flow, _)
            | Fact::Retried(flow)
            | Fact::Asked(flow)
            | Fact::BudgetExhausted(flow)
            | Fact::ServiceLevel(flow, _) => ((Dimension::Flow, *flow), None),
            Fact::Deferred(flow, why) | Fact::Waits(flow, why) => {
                ((Dimension::Flow, *flow), Some((Dimension::Why, why.as_str())))
            }
            Fact::Blocked(flow, guard) => ((Dimension::Flow, *flow), Some((Dimension::Guard, *guard))),
            Fact::Dead(flow, reason) | Fact::DeadAgain(flow, reason) => {
                ((Dimension::Flow, *flow), Some((Dimension::Reason, reason.as_str())))
            }
            Fact::Called(integration, outcome, _) => {
                ((Dimension::Integration, *integration), Some((Dimension::Outcome, outcome.as_str())))
            }
            Fact::CredentialsRejected(integration)
            | Fact::Breaker(integration, _)
            | Fact::BreakerIsOpen(integration)
            | Fact::OverlongTimeout(integration) => ((Dimension::Integration, *integration), None),
            Fact::Parked(reason, _) => ((Dimension::Reason, reason.as_str()), None),
            Fact::Took(..)
            | Fact::Healed(_)
            | Fact::Misconfigured
            | Fact::Unreadable
            | Fact::NotKept
            | Fact::StoodStill
            | Fact::BadSwitchboard
            | Fact::NewerFormat
            | Fact::Panicked
            | Fact::SpansDropped(_)
            | Fact::ParkedNow(..)
            | Fact::OnQueueNow(..)
            | Fact::WaitingNow(_)
            | Fact::AwaitingApprovalNow(_)
            | Fact::Overdue(_)
            | Fact::Replayed(_)
            | Fact::ReplaysSkipped(_)
            | Fact::ReplayFailed
            | Fact::Batches(..)
            | Fact::ScheduleRan
            | Fact::WakeRan
            | Fact::Woken(_) => return [None, None],
        };
        [Some(one), two]
    }

    /// Hands over each metric of the fact, with its value.
    pub(super) fn measure(&self, mut to: impl FnMut(Metric, u64)) {
        let one = |metric| (metric, 1);
        let measures: &[(Metric, u64)] = match self {
            Fact::Accepted(_) => &[one(Metric::Accepted)],
            Fact::Duplicate(_) => &[one(Metric::Duplicates)],
            Fact::Rejected(..) => &[one(Metric::Rejected)],
            Fact::Took(stage, took) => &[(stage.metric(), millis(*took))],
            Fact::ParkedInvalid(_) => &[one(Metric::InvalidParked), one(Metric::DeadLetters), one(Metric::Parked)],
            Fact::Settled(_, _, Some(took)) => &[one(Metric::EventsSettled), (Metric::TimeToSettled, millis(*took))],
            Fact::Settled(_, _, None) => &[one(Metric::EventsSettled)],
            Fact::Attempted(_, attempts) => &[(Metric::Attempts, (*attempts).into())],
            Fact::EffectEnded(_, protected) => &[one(Metric::Effects), (Metric::ProtectedEffects, (*protected).into())],
            Fact::Retried(_) => &[one(Metric::Retries)],
            Fact::Asked(_) => &[one(Metric::ApprovalsAsked)],
            Fact::Deferred(..) => &[one(Metric::Deferrals)],
            Fact::Waits(..) => &[one(Metric::Waits)],
            Fact::Blocked(..) => &[one(Metric::Blocked)],
            Fact::BudgetExhausted(_) => &[one(Metric::BudgetExhausted)],
            Fact::Dead(_, Reason::UnknownOutcome) => &[one(Metric::DeadLetters), one(Metric::UnknownOutcomes)],
            Fact::Dead(..) => &[one(Metric::DeadLetters)],
            Fact::DeadAgain(_, Reason::UnknownOutcome) => {
                &[one(Metric::DeadLetters), one(Metric::ReplaysDead), one(Metric::UnknownOutcomes)]
            }
            Fact::DeadAgain(..) => &[one(Metric::DeadLetters), one(Metric::ReplaysDead)],
            Fact::Healed(after) if *after < A_DAY => &[one(Metric::ReplaysSettled), one(Metric::ReplayedWithinADay)],
            Fact::Healed(_) => &[one(Metric::ReplaysSettled), one(Metric::ReplayedLater)],
            Fact::ServiceLevel(_, None) => &[one(Metric::SloGood), (Metric::SloBad, 0), (Metric::SloSpent, 0)],
            Fact::ServiceLevel(_, Some(spent)) => {
                &[(Metric::SloGood, 0), one(Metric::SloBad), (Metric::SloSpent, (*spent).into())]
            }
            Fact::Called(_, outcome, Some(took)) => &[
                one(Metric::PartnerCalls),
                (Metric::PartnerFailures, outcome.is_failure().into()),
                (Metric::PartnerLatency, millis(*took)),
            ],
            Fact::Called(_, _, None) => &[one(Metric::PartnerCalls)],
            Fact::CredentialsRejected(_) => &[one(Metric::CredentialsRejected)],
            Fact::Breaker(_, BreakerChange::Opened) => &[one(Metric::BreakerOpened)],
            Fact::Breaker(_, BreakerChange::Closed) => &[one(Metric::BreakerClosed)],
            Fact::BreakerIsOpen(_) => &[one(Metric::BreakersOpen)],
            Fact::OverlongTimeout(_) => &[one(Metric::TimeoutTooLong)],
            Fact::Misconfigured => &[one(Metric::ConfigurationWrong)],
            Fact::Unreadable => &[one(Metric::UnreadableRows)],
            Fact::NotKept => &[one(Metric::PayloadsNotKept)],
            Fact::StoodStill => &[one(Metric::StoodStill)],
            Fact::BadSwitchboard => &[one(Metric::BadSwitchboard)],
            Fact::NewerFormat => &[one(Metric::NewerFormat)],
            Fact::Panicked => &[one(Metric::WorkerPanics)],
            Fact::SpansDropped(spans) => &[(Metric::SpansDropped, *spans)],
            Fact::Parked(_, after) => &[one(Metric::Parked), (Metric::TimeToSignal, after.as_secs())],
            Fact::ParkedNow(events, oldest) => {
                &[(Metric::ParkedNow, *events), (Metric::OldestParkedAge, oldest.as_secs())]
            }
            Fact::OnQueueNow(queued, in_flight) => &[(Metric::QueuedNow, *queued), (Metric::InFlightNow, *in_flight)],
            Fact::WaitingNow(events) => &[(Metric::WaitingNow, *events)],
            Fact::AwaitingApprovalNow(events) => &[(Metric::AwaitingApprovalNow, *events)],
            Fact::Overdue(oldest) => &[(Metric::OldestWaitingOverdue, oldest.as_secs())],
            Fact::Replayed(after) => &[one(Metric::Replayed), (Metric::TimeToReplay, after.as_secs())],
            Fact::ReplaysSkipped(events) => &[(Metric::ReplaysSkipped, *events)],
            Fact::ReplayFailed => &[one(Metric::ReplaysFailed)],
            Fact::Batches(open, stalled) => &[(Metric::BatchesOpen, *open), (Metric::BatchesStalled, *stalled)],
            Fact::ScheduleRan => &[one(Metric::ScheduleRan)],
            Fact::WakeRan => &[one(Metric::WakeRan)],
            Fact::Woken(events) => &[(Metric::Woken, *events)],
        };
        measures.iter().for_each(|(metric, value)| to(*metric, *value));
    }
}

impl Stage {
    const fn metric(self) -> Metric {
        match self {
            Stage::Whole => Metric::IntakeTime,
            Stage::Verify => Metric::VerifyTime,
            Stage::Rate => Metric::RateTime,
            Stage::Admit => Metric::AdmitTime,
            Stage::Send => Metric::SendTime,
        }
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// One of each fact, and of each that becomes other metrics.
    pub(in super::super) fn examples() -> Vec<Fact<'static>> {
        let stages = [Stage::Whole, Stage::Verify, Stage::Rate, Stage::Admit, Stage::Send];
        let mut examples = vec![
            Fact::Accepted("web-form"),
            Fact::Duplicate("web-form"),
            Fact::Rejected("web-form", "bad-signature"),
            Fact::ParkedInvalid("leads"),
            Fact::Settled("leads", State::Succeeded, Some(SECOND)),
            Fact::Settled("leads", State::Noop, None),
            Fact::Attempted("leads", 3),
            Fact::EffectEnded("leads", true),
            Fact::Retried("leads"),
            Fact::Deferred("leads", DeferralReason::Paused),
            Fact::Waits("leads", DeferralReason::Paused),
            Fact::Asked("leads"),
            Fact::Blocked("leads", "consent"),
            Fact::BudgetExhausted("leads"),
            Fact::Dead("leads", Reason::Stale),
            Fact::Dead("leads", Reason::UnknownOutcome),
            Fact::DeadAgain("leads", Reason::Terminal),
            Fact::DeadAgain("leads", Reason::UnknownOutcome),
            Fact::Healed(SECOND),
            Fact::Healed(A_DAY),
            Fact::ServiceLevel("leads", None),
            Fact::ServiceLevel("leads", Some(1000)),
            Fact::Called("crm", CallOutcome::Done, Some(SECOND)),
            Fact::Called("crm", CallOutcome::NotMade, None),
            Fact::CredentialsRejected("crm"),
            Fact::Breaker("crm", BreakerChange::Opened),
            Fact::Breaker("crm", BreakerChange::Closed),
            Fact::BreakerIsOpen("crm"),
            Fact::OverlongTimeout("crm"),
            Fact::Misconfigured,
            Fact::Unreadable,
            Fact::NotKept,
            Fact::StoodStill,
            Fact::BadSwitchboard,
            Fact::NewerFormat,
            Fact::Panicked,
            Fact::SpansDropped(7),
            Fact::Parked(Reason::Terminal, SECOND),
            Fact::ParkedNow(3, SECOND),
            Fact::OnQueueNow(4, 3),
            Fact::WaitingNow(2),
            Fact::AwaitingApprovalNow(1),
            Fact::Overdue(SECOND),
            Fact::Replayed(SECOND),
            Fact::ReplaysSkipped(2),
            Fact::ReplayFailed,
            Fact::Batches(2, 1),
            Fact::ScheduleRan,
            Fact::WakeRan,
            Fact::Woken(5),
        ];
        examples.extend(stages.map(|stage| Fact::Took(stage, SECOND)));
        examples
    }

    #[test]
    fn every_metric_of_the_catalogue_is_counted_by_some_fact() {
        let mut counted = BTreeSet::new();
        examples().iter().for_each(|fact| fact.measure(|metric, _| counted.extend([metric])));
        assert_eq!(counted, Metric::ALL.iter().copied().collect());
    }

    /// Otherwise one of its sets of dimensions would be missing in CloudWatch, and an alarm on it would never hear of it.
    #[test]
    fn every_fact_says_all_dimensions_of_its_metrics_and_no_more() {
        for fact in examples() {
            let said: BTreeSet<Dimension> = fact.dimensions().into_iter().flatten().map(|(name, _)| name).collect();
            let mut used = BTreeSet::new();
            fact.measure(|metric, _| used.extend(metric.sets().iter().copied().flatten().copied()));
            assert_eq!(said, used, "{fact:?}");
        }
    }
}
