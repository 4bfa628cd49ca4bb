//! The report of a run: a table, and each finding with its history.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::disruptions::DisruptionCounts;
use super::operator::OperatorResults;
use super::reconciliation::{Finding, Reconciliation};
use super::senders::SenderLog;
use crate::partners::PartnerCall;

/// How many of each kind of finding are shown.
const SHOWN: usize = 10;

/// The report of a run.
pub(super) struct ChaosReport<'r> {
    /// The seed of its plan.
    pub(super) seed: u64,
    /// The answers that the senders got.
    pub(super) senders: &'r SenderLog,
    /// How many disruptions there were.
    pub(super) disruptions: DisruptionCounts,
    /// The calls that the partners got.
    pub(super) calls: &'r [PartnerCall],
    /// What the operator found and did.
    pub(super) results: &'r OperatorResults,
    /// What the three ledgers say together.
    pub(super) account: &'r Reconciliation,
    /// How long the load, the drain and the operator's work took.
    pub(super) times: [Duration; 3],
}

impl ChaosReport<'_> {
    /// Whether every effect was done exactly once, and no other; whether every doubt had a reason and was shown; and
    /// whether everything that the operator set out to do was done.
    pub(super) fn is_balanced(&self) -> bool {
        let explained = self.results.unexplained == 0 && self.results.declined.is_empty();
        explained && self.kinds().into_iter().all(|(_, findings)| findings.is_empty())
    }

    fn kinds(&self) -> [(&'static str, &[Finding]); 5] {
        let Reconciliation { duplicates, lost, undone, unlisted, unexpected, .. } = self.account;
        [
            ("duplicates", duplicates),
            ("lost", lost),
            ("undone", undone),
            ("unlisted", unlisted),
            ("unexpected", unexpected),
        ]
    }

    /// The table of all counts.
    pub(super) fn table(&self) -> String {
        let mut table = String::new();
        for (name, value, more) in self.lines() {
            let _ = writeln!(table, "  {name:<22} {value:>8}   {more}");
        }
        table
    }

    /// The findings: the first few of each kind, with their histories, and what the operator was not allowed to do.
    pub(super) fn findings(&self) -> String {
        let declined = self.results.declined.iter().take(SHOWN).map(|why| format!("\ndeclined: {why}\n"));
        self.kinds().into_iter().map(|(kind, findings)| findings_text(kind, findings)).chain(declined).collect()
    }

    fn lines(&self) -> Vec<(&'static str, String, String)> {
        let Self { senders, disruptions, results, account, .. } = self;
        let line = |name, value: usize, more: String| (name, value.to_string(), more);
        let faults = self.faults();
        let [load, drain, operator] = self.times.map(|time| time.as_secs());
        vec![
            ("seed", self.seed.to_string(), String::new()),
            line("events", senders.accepted.len(), String::new()),
            line(
                "acknowledged",
                senders.acknowledged,
                format!(
                    "deliveries; {} requests without an answer, {} rejected as they have to be",
                    senders.retries, senders.rejected
                ),
            ),
            line("effects applied", account.applied, format!("of {} owed", account.owed)),
            line("duplicates", account.duplicates.len(), String::new()),
            line("lost", account.lost.len(), String::new()),
            line("undone", account.undone.len(), "an older event was applied over a newer one".into()),
            line("unlisted", account.unlisted.len(), "in doubt, and shown to no operator".into()),
            line("unexpected", account.unexpected.len(), "accepted or applied, and should not have been".into()),
            line(
                "unknown surfaced",
                results.unknown(),
                format!(
                    "{} by the partner's answer, {} by a lost processor, {} answered too late, {} unexplained; {} had happened",
                    results.ambiguous, results.lost_workers, results.late, results.unexplained, results.happened
                ),
            ),
            line("dead", results.dead.values().sum(), listed(&results.dead)),
            line(
                "replayed",
                results.replayed,
                format!("{} dropped as out of date, {} declined", results.dropped, results.declined.len()),
            ),
            line("killed processes", disruptions.killed, String::new()),
            line(
                "emulator stops",
                disruptions.freezes + disruptions.restarts,
                format!("{} frozen, {} restarted", disruptions.freezes, disruptions.restarts),
            ),
            line("partner outages", disruptions.outages, String::new()),
            line("partner faults", faults.values().sum(), listed(&faults)),
            (
                "seconds",
                (load + drain + operator).to_string(),
                format!("load {load}, drain {drain}, operator {operator}"),
            ),
        ]
    }

    fn faults(&self) -> BTreeMap<String, usize> {
        let mut faults = BTreeMap::new();
        for fault in self.calls.iter().filter_map(PartnerCall::fault) {
            *faults.entry(fault).or_default() += 1;
        }
        faults
    }
}

fn listed(counts: &BTreeMap<String, usize>) -> String {
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name}: {count}")).collect();
    counts.join(", ")
}

fn findings_text(kind: &str, findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings.iter().take(SHOWN) {
        let _ = writeln!(text, "\n{kind}: {} {}", finding.event_id, finding.what);
        for moment in &finding.history {
            let _ = writeln!(text, "    {moment}");
        }
    }
    if findings.len() > SHOWN {
        let _ = writeln!(text, "\n… and {} more of this kind", findings.len() - SHOWN);
    }
    text
}
