//! The report of a night: a table of what was measured, and what does not hold.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use shared::base::time::Timestamp;
use shared::ledger::{Row, State};
use shared::limits::pressure::Breaker;

use super::{NightArgs, PAUSED, PassedNight};
use crate::chaos::senders::SenderLog;
use crate::partners::PartnerCall;

/// How many of a kind of failure are shown.
const SHOWN: usize = 10;

/// How much longer the other flow's events may take at night: twice as long, and a moment for the machine's own noise.
const TWICE: u32 = 2;

/// The same while the paused flow's events come or go on: they have the machine's cores, too. What stops the other flow
/// makes its events later than that by far.
const TEN_TIMES: u32 = 10;
const NOISE: Duration = Duration::from_millis(250);

/// How long after the partner's return its backlog may last.
const DRAINED_WITHIN: Duration = Duration::from_secs(3600);

/// A part of the night, as the other flow sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NightPart {
    /// Nothing waits.
    Before,
    /// Events of the paused flow come, and leave the queue.
    Coming,
    /// All of them wait.
    Waiting,
    /// All of them go on.
    GoingOn,
}

impl NightPart {
    const ALL: [NightPart; 4] = [NightPart::Before, NightPart::Coming, NightPart::Waiting, NightPart::GoingOn];

    fn as_str(self) -> &'static str {
        match self {
            NightPart::Before => "other flow, before",
            NightPart::Coming => "while they come",
            NightPart::Waiting => "while they wait",
            NightPart::GoingOn => "while they go on",
        }
    }
}

/// The report of a night.
pub(super) struct NightReport<'r> {
    pub(super) flags: &'r NightArgs,
    /// What was seen while it passed.
    pub(super) passed: &'r PassedNight,
    /// What the senders of the other flow were answered.
    pub(super) others: &'r BTreeMap<NightPart, SenderLog>,
    /// The ledger at the end.
    pub(super) rows: &'r HashMap<String, Row>,
    /// The calls that the partners got.
    pub(super) calls: &'r [PartnerCall],
    /// The most messages in flight.
    pub(super) most_in_flight: &'r BTreeMap<NightPart, u64>,
    /// How long it took.
    pub(super) took: Duration,
}

impl NightReport<'_> {
    /// Whether everything holds.
    pub(super) fn holds(&self) -> bool {
        self.findings().is_empty()
    }

    /// The table of what was measured.
    pub(super) fn table(&self) -> String {
        let mut table = String::new();
        let mut line = |name: &str, value: &str, more: &str| {
            let _ = writeln!(table, "{}", format!("  {name:<24} {value:>8}   {more}").trim_end());
        };
        let flags = self.flags;
        line("events that wait", &flags.events.to_string(), &format!("of {} entities", flags.entities));
        line("in-flight limit", &flags.in_flight.to_string(), "messages; the poller says nothing when it is reached");
        for part in NightPart::ALL {
            let (times, in_flight) = (self.settle_times(part), self.most_in_flight.get(&part).copied());
            let more = format!("{times}; {} messages in flight at most", in_flight.unwrap_or_default());
            line(part.as_str(), &times.0.len().to_string(), &more);
        }
        match flags.outage {
            None => line(
                "woken by the resumption",
                &self.passed.woken_at_once.to_string(),
                "the wakes of each minute woke the others",
            ),
            Some(seconds) => line(
                "calls while it was down",
                &self.passed.calls_before.0.to_string(),
                &format!("in {seconds} s and the time until all had left the queue"),
            ),
        }
        line("first effect after it", &told(self.first_effect()), "");
        line("last effect after it", &told(self.last_effect()), "");
        line(
            "done",
            &self.done().to_string(),
            "each once, and those of an entity in order, unless it says otherwise below",
        );
        line("seconds", &self.took.as_secs().to_string(), "");
        table
    }

    /// What does not hold, in sentences.
    pub(super) fn failures(&self) -> String {
        let findings = self.findings();
        let mut text: String = findings.iter().take(SHOWN).map(|finding| format!("\nfailed: {finding}\n")).collect();
        if findings.len() > SHOWN {
            let _ = writeln!(text, "\n… and {} more", findings.len() - SHOWN);
        }
        text
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let mut hold = |holds: bool, finding: String| findings.extend((!holds).then_some(finding));
        let before = self.settle_times(NightPart::Before);
        for (part, times) in
            [(NightPart::Coming, TEN_TIMES), (NightPart::Waiting, TWICE), (NightPart::GoingOn, TEN_TIMES)]
        {
            let night = self.settle_times(part);
            let finding = format!("the other flow's events {night} {}, and {before} before", part.as_str());
            hold(night.is_within(times, &before), finding);
        }
        let most = self.most_in_flight.values().copied().max().unwrap_or_default();
        hold(most <= self.flags.in_flight as u64, format!("{most} messages were in flight"));
        let asleep = ids(&self.passed.sent).filter(|id| state(&self.passed.asleep, id) == Some(State::Waiting)).count();
        // One of them may just see whether the partner is back.
        let probes = usize::from(self.flags.outage.is_some());
        let finding = format!("{asleep} of {} events left the queue to wait", self.flags.events);
        hold(asleep + probes >= self.flags.events, finding);
        let (calls, early) = self.passed.calls_before;
        hold(early == 0, format!("{early} events took effect before the flow was resumed"));
        match self.flags.outage {
            None => {
                hold(calls == 0, format!("{calls} calls of the paused flow were made before it was resumed"));
                hold(self.passed.woken_at_once > 0, "the resumption woke nothing".into());
            }
            Some(_) => {
                hold(calls <= self.calls_of_outage(), format!("{calls} calls of a partner that was down"));
                let last = self.last_effect();
                let finding = format!("the last effect came {} after the partner's return", told(last));
                hold(last.is_some_and(|last| last <= DRAINED_WITHIN), finding);
            }
        }
        for (part, log) in std::iter::once(("the paused flow", &self.passed.sent))
            .chain(self.others.iter().map(|(part, log)| (part.as_str(), log)))
        {
            findings.extend(log.unexpected.iter().map(|answer| format!("{part}: {answer}")));
            findings.extend(self.not_done_once(log));
        }
        findings.extend(self.out_of_order());
        findings
    }

    /// The events that were not done, or whose effect was not applied exactly once.
    fn not_done_once<'s>(&'s self, log: &'s SenderLog) -> impl Iterator<Item = String> + 's {
        let mut applied: HashMap<&str, usize> = HashMap::new();
        for call in self.calls.iter().filter(|call| call.applied) {
            *applied.entry(event_of(call)).or_default() += 1;
        }
        log.accepted.iter().filter_map(move |(event, ids)| {
            let state = ids.first().and_then(|id| state(self.rows, id));
            let times = applied.get(event.as_str()).copied().unwrap_or_default();
            let good = ids.len() == 1 && state == Some(State::Succeeded) && times == 1;
            let state = state.map_or("not in the ledger", State::as_str);
            (!good).then(|| format!("{event} is {state}, and its effect happened {times} times"))
        })
    }

    /// The entities whose events took effect in another order than they were sent in. An event's id has its number.
    fn out_of_order(&self) -> Vec<String> {
        let mut last: HashMap<String, &str> = HashMap::new();
        let mut found = Vec::new();
        for call in self.calls_of_paused().filter(|call| call.applied) {
            let (entity, event) = (call.body["contact"].to_string(), event_of(call));
            if let Some(before) = last.insert(entity, event).filter(|before| *before > event) {
                found.push(format!("{event} took effect after {before}, which was sent later"));
            }
        }
        found
    }

    /// The most calls that a partner may get while it is down: the failures that open the breaker, of what is in flight at
    /// once, and a probe each half minute of all the time until it is well again.
    fn calls_of_outage(&self) -> usize {
        let down = self.took.as_secs().saturating_sub(self.flags.seconds);
        50 + usize::try_from(down / Breaker::STANDARD.open_for.as_secs()).unwrap_or(usize::MAX)
    }

    /// How many events of the paused flow are done.
    fn done(&self) -> usize {
        ids(&self.passed.sent).filter(|id| state(self.rows, id) == Some(State::Succeeded)).count()
    }

    fn settle_times(&self, part: NightPart) -> SettleTimes {
        let rows = self.others.get(&part).into_iter().flat_map(ids).filter_map(|id| self.rows.get(id));
        SettleTimes::of(rows.filter_map(settled_after).collect())
    }

    fn calls_of_paused(&self) -> impl Iterator<Item = &PartnerCall> {
        self.calls.iter().filter(|call| call.integration == PAUSED.1)
    }

    fn first_effect(&self) -> Option<Duration> {
        self.calls_of_paused().next().and_then(|call| self.after_resumption(call))
    }

    fn last_effect(&self) -> Option<Duration> {
        self.calls_of_paused().last().and_then(|call| self.after_resumption(call))
    }

    fn after_resumption(&self, call: &PartnerCall) -> Option<Duration> {
        Some(Timestamp::parse(&call.time)?.since(self.passed.resumed_at))
    }
}

/// The settle times of some events.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SettleTimes(Vec<Duration>);

impl SettleTimes {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The time within which so many of a hundred events settled.
    fn percentile(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get((self.0.len() * percent / 100).min(last)).copied().unwrap_or_default()
    }

    /// Whether these take no longer than so many times the others.
    fn is_within(&self, times: u32, other: &Self) -> bool {
        let within = |percent| self.percentile(percent) <= other.percentile(percent) * times + NOISE;
        !self.0.is_empty() && !other.0.is_empty() && within(50) && within(95)
    }
}

impl std::fmt::Display for SettleTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, p95, most] = [50, 95, 100].map(|percent| self.percentile(percent).as_millis());
        write!(f, "settled within {median} ms (median), {p95} ms (p95), {most} ms (all)")
    }
}

/// How long it took from an event's reception to its success.
fn settled_after(row: &Row) -> Option<Duration> {
    let settled = row.history.last().filter(|_| row.state == State::Succeeded)?;
    Some(settled.at.since(row.received_at))
}

fn ids(log: &SenderLog) -> impl Iterator<Item = &str> {
    log.accepted.values().flatten().map(String::as_str)
}

fn state(rows: &HashMap<String, Row>, id: &str) -> Option<State> {
    rows.get(id).map(|row| row.state)
}

/// The event that a call was made for. The paths of the flows end with it.
fn event_of(call: &PartnerCall) -> &str {
    call.path.rsplit('/').next().unwrap_or_default()
}

fn told(time: Option<Duration>) -> String {
    time.map_or_else(|| "never".into(), |time| format!("{:.1} s", time.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(millis: impl IntoIterator<Item = u64>) -> SettleTimes {
        SettleTimes::of(millis.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn settle_times_are_told_by_their_middle_and_their_end() {
        assert_eq!(times(1..=100).to_string(), "settled within 51 ms (median), 96 ms (p95), 100 ms (all)");
        assert_eq!(times([7]).percentile(95), Duration::from_millis(7));
    }

    #[test]
    fn a_night_that_holds_another_flow_up_is_seen() {
        let before = times(80..180);
        assert!(times(90..190).is_within(TWICE, &before));
        assert!(
            !times((0..100).map(|n| if n < 90 { 100 } else { 8000 })).is_within(TWICE, &before),
            "a tail that waits"
        );
        assert!(!times(900..1000).is_within(TWICE, &before));
        assert!(!times([]).is_within(TWICE, &before), "nothing settled");
        assert!(times(900..1000).is_within(TEN_TIMES, &before) && !times(8000..8100).is_within(TEN_TIMES, &before));
    }
}
