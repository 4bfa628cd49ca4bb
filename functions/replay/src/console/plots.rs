//! The charts of the overview: which there are, and the series that each draws.

use shared::flows::{Flow, Guard};
use shared::ledger::Reason;
use shared::limits::pressure::DeferralReason;
use shared::operate::metric::{CallOutcome, Dimension, Metric, MetricQuery, MetricStatistic};

use super::chart::Numbers;
use crate::Replay;

/// The most flows, and the most integrations, that have a chart of their own.
const MAX_NAMED: usize = 20;

/// The most guards that have a bar, over all flows.
const MAX_GUARDS: usize = 40;

const PERCENTILES: [u8; 3] = [50, 95, 99];

/// The problems for which the intake refuses a delivery, as `infra/docs/API.md` lists them.
const REFUSALS: [&str; 20] = [
    "bad-handshake",
    "bad-signature",
    "invalid-event",
    "key-malformed",
    "key-missing",
    "key-reused",
    "malformed",
    "moment-ahead",
    "moment-forgotten",
    "no-batches",
    "no-events",
    "not-a-batch",
    "too-large",
    "too-many",
    "type-mismatch",
    "unavailable",
    "unknown-source",
    "unknown-type",
    "unknown-version",
    "unsupported-media-type",
];

/// A chart, and the queries whose series it draws.
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) kind: Kind,
    pub(super) lines: Vec<(String, MetricQuery)>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Lines(Numbers),
    /// The sums of each line.
    Bars,
    /// What was received, and what is left of it at each stage.
    Funnel,
    /// How much of what service levels allow was spent, for each event.
    BurnRate,
}

/// All charts, in the order of the page.
pub(super) fn plots(replay: &Replay) -> Vec<Plot> {
    let all = [
        of_jobs(),
        of_refusals(replay),
        of_times(),
        of_waits(),
        of_flows(replay),
        of_partners(replay),
        of_breakers(replay),
    ];
    all.into_iter().flatten().collect()
}

fn sums<const N: usize>(of: [(&str, Metric); N]) -> Vec<(String, MetricQuery)> {
    of.map(|(label, metric)| (label.to_owned(), MetricQuery::sum(metric))).into()
}

fn settled(state: &str) -> MetricQuery {
    MetricQuery::sum(Metric::EventsSettled).with(Dimension::State, state)
}

fn highest<const N: usize>(of: [(&str, Metric); N]) -> Vec<(String, MetricQuery)> {
    of.map(|(label, metric)| (label.to_owned(), MetricQuery::of(metric, MetricStatistic::Maximum))).into()
}

/// Where jobs are, and how they ended.
fn of_jobs() -> Vec<Plot> {
    let ended = [("succeeded".to_owned(), settled("succeeded")), ("no-op".to_owned(), settled("noop"))];
    let others = sums([
        ("dead", Metric::DeadLetters),
        ("retrying", Metric::Retries),
        ("awaiting approval", Metric::ApprovalsAsked),
    ]);
    let now = highest([
        ("queued", Metric::QueuedNow),
        ("in flight", Metric::InFlightNow),
        ("waiting", Metric::WaitingNow),
        ("awaiting approval", Metric::AwaitingApprovalNow),
        ("dead and parked", Metric::ParkedNow),
    ]);
    let funnel = sums([
        ("new", Metric::Accepted),
        ("duplicates", Metric::Duplicates),
        ("refused", Metric::Rejected),
        ("invalid", Metric::InvalidParked),
        ("dead", Metric::DeadLetters),
        ("replays settled", Metric::ReplaysSettled),
        ("replays dead", Metric::ReplaysDead),
    ]);
    let funnel = funnel.into_iter().chain(ended.clone()).collect();
    let replays = sums([
        ("replayed", Metric::Replayed),
        ("settled", Metric::ReplaysSettled),
        ("dead again", Metric::ReplaysDead),
        ("skipped", Metric::ReplaysSkipped),
        ("not sent", Metric::ReplaysFailed),
    ]);
    vec![
        Plot::new(
            "Jobs that went on or ended",
            Kind::Lines(Numbers::Counts),
            ended.into_iter().chain(others).collect(),
        ),
        Plot::new("Jobs now", Kind::Lines(Numbers::Plain), now),
        Plot::new("Funnel, from received to persisted", Kind::Funnel, funnel),
        Plot::new("Replays", Kind::Lines(Numbers::Counts), replays),
    ]
}

/// Where events are lost: refused at the door or by a guard, or dead.
fn of_refusals(replay: &Replay) -> Vec<Plot> {
    let guards = |flow: &Flow| {
        let blocked = MetricQuery::sum(Metric::Blocked).with(Dimension::Flow, &*flow.name);
        let line = |guard: &Guard| {
            (format!("{}: {}", flow.name, guard.name()), blocked.clone().with(Dimension::Guard, guard.name()))
        };
        flow.guards.iter().map(line).collect::<Vec<_>>()
    };
    let guarded = replay.flows.all().flat_map(guards).take(MAX_GUARDS).collect();
    let by_reason = |metric: Metric| {
        move |reason: &str| (reason.replace('_', " "), MetricQuery::sum(metric).with(Dimension::Reason, reason))
    };
    vec![
        Plot::new("Refused by the intake, by reason", Kind::Bars, REFUSALS.map(by_reason(Metric::Rejected)).into()),
        Plot::new("Refused by guards", Kind::Bars, guarded),
        Plot::new(
            "Dead, by reason",
            Kind::Bars,
            Reason::ALL.map(|reason| by_reason(Metric::DeadLetters)(reason.as_str())).into(),
        ),
    ]
}

fn of_times() -> Vec<Plot> {
    let p95 =
        |(label, metric): (&str, Metric)| (label.to_owned(), MetricQuery::of(metric, MetricStatistic::Percentile(95)));
    let stages = [
        ("all", Metric::IntakeTime),
        ("verify", Metric::VerifyTime),
        ("rate", Metric::RateTime),
        ("admit", Metric::AdmitTime),
        ("send", Metric::SendTime),
    ];
    let ages =
        highest([("overdue to be woken", Metric::OldestWaitingOverdue), ("oldest parked", Metric::OldestParkedAge)]);
    let levels = sums([("good", Metric::SloGood), ("bad", Metric::SloBad), ("spent", Metric::SloSpent)]);
    let attempts = percentiles(&MetricQuery::sum(Metric::Attempts), &[50, 95]);
    vec![
        Plot::new(
            "Received to settled (ours)",
            Kind::Lines(Numbers::Millis),
            percentiles(&MetricQuery::sum(Metric::TimeToSettled), &PERCENTILES),
        ),
        Plot::new("Intake, by stage, p95", Kind::Lines(Numbers::Millis), stages.map(p95).into()),
        Plot::new("Attempts an event", Kind::Lines(Numbers::Plain), attempts),
        Plot::new("Age of the oldest", Kind::Lines(Numbers::Seconds), ages),
        Plot::new("How fast service levels are spent (1 = just allowed)", Kind::BurnRate, levels),
    ]
}

/// What events wait for, on the queue and off it.
fn of_waits() -> Vec<Plot> {
    let by_why = |metric: Metric| {
        move |why: DeferralReason| {
            (why.as_str().to_owned(), MetricQuery::sum(metric).with(Dimension::Why, why.as_str()))
        }
    };
    vec![
        Plot::new(
            "Deferrals on the queue, by why",
            Kind::Bars,
            DeferralReason::ALL.map(by_why(Metric::Deferrals)).into(),
        ),
        Plot::new("Waits off the queue, by why", Kind::Bars, DeferralReason::ALL.map(by_why(Metric::Waits)).into()),
    ]
}

/// A chart for each flow: those that are first by name, and have one.
fn of_flows(replay: &Replay) -> Vec<Plot> {
    let plot = |flow: &str| {
        let settled =
            MetricQuery::sum(Metric::TimeToSettled).with(Dimension::Flow, flow).with(Dimension::State, "succeeded");
        Plot::new(
            &format!("{flow}: received to succeeded (ours)"),
            Kind::Lines(Numbers::Millis),
            percentiles(&settled, &PERCENTILES),
        )
    };
    replay.flows.all().take(MAX_NAMED).map(|flow| plot(&flow.name)).collect()
}

fn of_partners(replay: &Replay) -> Vec<Plot> {
    let plot = |name: &str| {
        let latency = MetricQuery::sum(Metric::PartnerLatency).with(Dimension::Integration, name);
        Plot::new(
            &format!("{name}: its calls (theirs)"),
            Kind::Lines(Numbers::Millis),
            percentiles(&latency, &PERCENTILES),
        )
    };
    replay.flows.integrations().take(MAX_NAMED).map(|(name, _)| plot(name)).collect()
}

/// How the partners' calls ended, and their breakers.
fn of_breakers(replay: &Replay) -> Vec<Plot> {
    let names = || replay.flows.integrations().take(MAX_NAMED).map(|(name, _)| name);
    let of = |metric: Metric, name: &str| MetricQuery::sum(metric).with(Dimension::Integration, name);
    let outcomes = names().flat_map(|name| {
        CallOutcome::ALL.map(|outcome| {
            let query = of(Metric::PartnerCalls, name).with(Dimension::Outcome, outcome.as_str());
            (format!("{name}: {}", outcome.as_str().replace('_', " ")), query)
        })
    });
    let turns = names().flat_map(|name| {
        [("opened", Metric::BreakerOpened), ("closed", Metric::BreakerClosed)]
            .map(|(turn, metric)| (format!("{name}: {turn}"), of(metric, name)))
    });
    let open = names().map(|name| {
        let statistic = MetricStatistic::Maximum;
        (name.to_owned(), MetricQuery { statistic, ..of(Metric::BreakersOpen, name) })
    });
    vec![
        Plot::new("Partners, by outcome", Kind::Bars, outcomes.collect()),
        Plot::new("Breakers open now", Kind::Lines(Numbers::Plain), open.collect()),
        Plot::new("Breakers that opened and closed", Kind::Bars, turns.collect()),
    ]
}

fn percentiles(of: &MetricQuery, percents: &[u8]) -> Vec<(String, MetricQuery)> {
    let line = |percent: &u8| {
        let statistic = MetricStatistic::Percentile(*percent);
        (statistic.name(), MetricQuery { statistic, ..of.clone() })
    };
    percents.iter().map(line).collect()
}

impl Plot {
    fn new(title: &str, kind: Kind, lines: Vec<(String, MetricQuery)>) -> Self {
        Plot { title: title.to_owned(), kind, lines }
    }
}
