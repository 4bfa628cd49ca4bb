//! The catalogue: every metric with its unit and its sets of dimensions. `infra/docs/OPERATE.md` says what each tells.
//!
//! Each value of a set of dimensions is one metric to CloudWatch, and has its price. So there is none for a contact or an
//! event, and none that a stranger could write.

/// What a metric is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// The source of a delivery, if it is one of ours.
    Source,
    /// The flow of an event.
    Flow,
    /// The integration that was called.
    Integration,
    /// The state in which an event settled.
    State,
    /// The reason of a rejection or of a dead letter.
    Reason,
    /// The reason why an event waits.
    Why,
    /// How a call ended.
    Outcome,
    /// The guard that blocked an event.
    Guard,
}

impl Dimension {
    /// Every dimension, in the order of its declaration.
    pub const ALL: [Dimension; 8] = [
        Dimension::Source,
        Dimension::Flow,
        Dimension::Integration,
        Dimension::State,
        Dimension::Reason,
        Dimension::Why,
        Dimension::Outcome,
        Dimension::Guard,
    ];

    /// The dimension's name in CloudWatch.
    pub const fn name(self) -> &'static str {
        match self {
            Dimension::Source => "Source",
            Dimension::Flow => "Flow",
            Dimension::Integration => "Integration",
            Dimension::State => "State",
            Dimension::Reason => "Reason",
            Dimension::Why => "Why",
            Dimension::Outcome => "Outcome",
            Dimension::Guard => "Guard",
        }
    }
}

/// The unit of a metric, as CloudWatch calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// How many.
    Count,
    /// A short time.
    Milliseconds,
    /// A long time.
    Seconds,
}

impl MetricUnit {
    /// The unit's name in CloudWatch.
    pub const fn name(self) -> &'static str {
        match self {
            MetricUnit::Count => "Count",
            MetricUnit::Milliseconds => "Milliseconds",
            MetricUnit::Seconds => "Seconds",
        }
    }
}

/// The sets of dimensions by which a metric is counted, each by itself.
pub type Sets = &'static [&'static [Dimension]];

const ALONE: Sets = &[&[]];
const BY_SOURCE: Sets = &[&[Dimension::Source], &[]];
const BY_REJECTION: Sets = &[&[Dimension::Source, Dimension::Reason], &[Dimension::Reason], &[]];
const BY_FLOW: Sets = &[&[Dimension::Flow], &[]];
const BY_END: Sets = &[&[Dimension::Flow, Dimension::State], &[Dimension::State]];
const BY_END_AND_ALONE: Sets = &[&[Dimension::Flow, Dimension::State], &[]];
const BY_WAIT: Sets = &[&[Dimension::Flow, Dimension::Why], &[Dimension::Why]];
const BY_GUARD: Sets = &[&[Dimension::Flow, Dimension::Guard]];
const BY_DEATH: Sets = &[&[Dimension::Flow, Dimension::Reason], &[Dimension::Reason], &[]];
const BY_REASON: Sets = &[&[Dimension::Reason], &[]];
const BY_CALL: Sets = &[&[Dimension::Integration, Dimension::Outcome]];
const BY_INTEGRATION: Sets = &[&[Dimension::Integration], &[]];
const OF_INTEGRATION: Sets = &[&[Dimension::Integration]];

macro_rules! catalogue {
    ($($metric:ident: $unit:ident $sets:ident,)+) => {
        /// A metric. Dashboards and alarms of deployed stacks name these.
        #[expect(missing_docs, reason = "`infra/docs/OPERATE.md` says of each what it tells, and a test holds it complete")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $($metric),+
        }

        impl Metric {
            /// Every metric.
            pub const ALL: &'static [Metric] = &[$(Metric::$metric),+];

            /// The metric's name in CloudWatch.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Metric::$metric => stringify!($metric)),+
                }
            }

            /// The metric's unit.
            pub const fn unit(self) -> MetricUnit {
                match self {
                    $(Metric::$metric => MetricUnit::$unit),+
                }
            }

            /// The sets of dimensions by which the metric is counted.
            pub const fn sets(self) -> Sets {
                match self {
                    $(Metric::$metric => $sets),+
                }
            }
        }
    };
}

catalogue! {
    // Deliveries, by the intake.
    Accepted: Count BY_SOURCE,
    Duplicates: Count BY_SOURCE,
    Rejected: Count BY_REJECTION,
    InvalidParked: Count ALONE,
    IntakeTime: Milliseconds ALONE,
    VerifyTime: Milliseconds ALONE,
    RateTime: Milliseconds ALONE,
    AdmitTime: Milliseconds ALONE,
    SendTime: Milliseconds ALONE,

    // Messages, by the processor.
    EventsSettled: Count BY_END,
    TimeToSettled: Milliseconds BY_END_AND_ALONE,
    Attempts: Count BY_FLOW,
    Effects: Count BY_FLOW,
    ProtectedEffects: Count BY_FLOW,
    Retries: Count BY_FLOW,
    Deferrals: Count BY_WAIT,
    Waits: Count BY_WAIT,
    ApprovalsAsked: Count BY_FLOW,
    Blocked: Count BY_GUARD,
    BudgetExhausted: Count BY_FLOW,
    UnknownOutcomes: Count BY_FLOW,
    DeadLetters: Count BY_DEATH,
    ReplaysDead: Count ALONE,
    ReplaysSettled: Count ALONE,
    ReplayedWithinADay: Count ALONE,
    ReplayedLater: Count ALONE,
    SloGood: Count BY_FLOW,
    SloBad: Count BY_FLOW,
    SloSpent: Count BY_FLOW,

    // Calls of partners and of the team's own functions.
    PartnerCalls: Count BY_CALL,
    PartnerFailures: Count OF_INTEGRATION,
    PartnerLatency: Milliseconds OF_INTEGRATION,
    CredentialsRejected: Count BY_INTEGRATION,
    BreakerOpened: Count BY_INTEGRATION,
    BreakerClosed: Count OF_INTEGRATION,
    BreakersOpen: Count BY_INTEGRATION,

    // What somebody must mend.
    UnreadableRows: Count ALONE,
    PayloadsNotKept: Count ALONE,
    BadSwitchboard: Count ALONE,
    NewerFormat: Count ALONE,
    StoodStill: Count ALONE,
    WorkerPanics: Count ALONE,
    TimeoutTooLong: Count OF_INTEGRATION,
    ConfigurationWrong: Count ALONE,
    SpansDropped: Count ALONE,

    // What is parked and waits, by the replay function.
    Parked: Count BY_REASON,
    TimeToSignal: Seconds ALONE,
    ParkedNow: Count ALONE,
    QueuedNow: Count ALONE,
    InFlightNow: Count ALONE,
    WaitingNow: Count ALONE,
    AwaitingApprovalNow: Count ALONE,
    OldestParkedAge: Seconds ALONE,
    OldestWaitingOverdue: Seconds ALONE,
    Replayed: Count ALONE,
    ReplaysSkipped: Count ALONE,
    ReplaysFailed: Count ALONE,
    TimeToReplay: Seconds ALONE,
    BatchesOpen: Count ALONE,
    BatchesStalled: Count ALONE,
    ScheduleRan: Count ALONE,
    WakeRan: Count ALONE,
    Woken: Count ALONE,
}

impl Metric {
    /// Whether the values of one unit of work are added up. Of the others, each value counts for itself: they have
    /// percentiles.
    pub(super) const fn is_sum(self) -> bool {
        matches!(self.unit(), MetricUnit::Count) && !matches!(self, Metric::Attempts)
    }
}
