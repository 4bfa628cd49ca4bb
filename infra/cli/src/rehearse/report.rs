//! What became of an export.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::output;

/// What became of an export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RehearsalReport {
    /// How many lines it has, without empty ones.
    pub lines: usize,
    /// How many events were in these lines.
    pub events: usize,
    /// How many events were accepted as new. One that several flows take counts once for each.
    pub accepted: usize,
    /// How many events were known, with the payload of the first: the old system acted on them once more, and this one does
    /// not.
    pub duplicates: usize,
    /// How many events were known by their key, and had another payload: a repetition, or another event that is lost.
    pub other_payloads: usize,
    /// How many effects of these the old system did once more: those that the first one did.
    pub effects_spared: usize,
    /// How many events were of a type that no flow takes, from a source that lets them go by.
    pub ignored: usize,
    /// How many events were known, and may be so by a try whose answer was lost.
    pub in_doubt: usize,
    /// How many were rejected, by the problem that their sender is told.
    pub rejected: BTreeMap<String, usize>,
    /// How many events succeeded.
    pub succeeded: usize,
    /// For how many nothing was done, by the guard.
    pub noop: BTreeMap<String, usize>,
    /// How many were parked, by the reason.
    pub dead: BTreeMap<String, usize>,
    /// How many were still on their way at the end, by their state: they wait for a human.
    pub open: BTreeMap<String, usize>,
    /// How many calls each integration got.
    pub calls: BTreeMap<String, usize>,
    /// How many entities the accepted events are about.
    pub entities: usize,
    /// How many entities have events that the export has in another order than that of their moments.
    pub reordered_entities: usize,
    /// How many events the export has after a newer one of their entity.
    pub out_of_order: usize,
    /// How many events were acted on after a later line of their entity was. A line that waits lets none pass; a parked
    /// one does.
    pub overtaken: usize,
    /// How many lines have a moment before that of an earlier line.
    pub behind_the_clock: usize,
    /// How many lines do not say when they happened.
    pub without_moment: usize,
    /// How many lines came while their source was over its rate, and were sent again, each time a second later.
    pub throttled: usize,
    /// When the export begins.
    pub starts_at: String,
    /// How long it took.
    #[serde(skip)]
    pub took: Duration,
}

/// What is known of an export that was sent to a running cloud: its answers, and nothing of what it did afterwards.
pub(super) struct SentReport<'r>(pub(super) &'r RehearsalReport);

impl SentReport<'_> {
    /// The report for scripts.
    pub(super) fn as_json(&self) -> Value {
        let RehearsalReport { lines, events, accepted, duplicates, ignored, in_doubt, rejected, .. } = self.0;
        json!({"lines": lines, "events": events, "accepted": accepted, "duplicates": duplicates, "ignored": ignored,
               "in_doubt": in_doubt, "rejected": rejected})
    }
}

impl fmt::Display for SentReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let seconds = report.took.as_secs_f64();
        writeln!(f, "{} answered, {seconds:.1} s in this run", output::count(report.lines, "line"))?;
        report.events_in_lines(f)?;
        writeln!(f, "  accepted   {}", report.accepted)?;
        writeln!(f, "  duplicate  {}: known there before", report.duplicates)?;
        report.not_accepted(f)?;
        writeln!(f, "\nWhat became of the accepted events, ledgerline status and dead list tell there.")
    }
}

impl fmt::Display for RehearsalReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        writeln!(f, "{} from {} in {seconds:.1} s", output::count(self.lines, "line"), self.starts_at)?;
        self.events_in_lines(f)?;
        writeln!(f, "  accepted   {}", self.accepted)?;
        writeln!(
            f,
            "  duplicate  {}: the old system did {} again, and this one does not",
            self.duplicates,
            output::count(self.effects_spared, "effect")
        )?;
        if self.other_payloads > 0 {
            writeln!(
                f,
                "  same key   {}: another payload under the key of an earlier event, and never acted on. Are they other \
                 events? `ledgerline flows keys` names the lines and the fields",
                self.other_payloads
            )?;
        }
        self.not_accepted(f)?;
        writeln!(f, "\nOf the accepted events\n  succeeded  {}", self.succeeded)?;
        counted(f, "no-op", &self.noop)?;
        counted(f, "dead", &self.dead)?;
        counted(f, "open", &self.open)?;
        self.order(f)?;
        for (many, what) in [
            (self.behind_the_clock, "before an earlier line: taken when they stand in the file"),
            (self.without_moment, "without a moment: taken at that of the line before"),
            (self.throttled, "over the rate of their source, and sent again a second later"),
        ] {
            if many > 0 {
                writeln!(f, "{} {what}", output::count(many, "line"))?;
            }
        }
        let calls: Vec<String> = self.calls.iter().map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(f, "calls: {}", if calls.is_empty() { "none".into() } else { calls.join(", ") })
    }
}

impl RehearsalReport {
    fn events_in_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.events == self.lines {
            return Ok(());
        }
        writeln!(f, "  {} in them", output::count(self.events, "event"))
    }

    /// The events that were neither accepted nor known.
    fn not_accepted(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ignored > 0 {
            writeln!(f, "  ignored    {}: no flow takes their type", self.ignored)?;
        }
        counted(f, "rejected", &self.rejected)?;
        if self.in_doubt > 0 {
            writeln!(f, "  in doubt   {}: accepted or duplicate, the first answer was lost", self.in_doubt)?;
        }
        Ok(())
    }

    /// What became of the order of each entity's events.
    fn order(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nOrder by entity\n  {}", told(self.entities))?;
        writeln!(
            f,
            "  in the export: {} with events out of order ({} after a newer one)",
            told(self.reordered_entities),
            output::count(self.out_of_order, "event")
        )?;
        match self.overtaken {
            0 => writeln!(f, "  acted on: each entity's events in the order of their lines"),
            many => writeln!(f, "  acted on: {} after a later line of the same entity", output::count(many, "event")),
        }
    }
}

fn told(entities: usize) -> String {
    if entities == 1 { "1 entity".into() } else { format!("{entities} entities") }
}

fn counted(f: &mut fmt::Formatter<'_>, what: &str, counts: &BTreeMap<String, usize>) -> fmt::Result {
    let all: usize = counts.values().sum();
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    writeln!(f, "  {what:<10} {all}{parts}")
}
