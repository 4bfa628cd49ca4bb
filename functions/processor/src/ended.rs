//! How the work on a message ended.

use shared::ledger::Row;

/// How the work on a message ended, as its line tells it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: &'static str,
    pub(crate) reason: Option<String>,
    pub(crate) attempt: u32,
}

impl Ended {
    /// An end before any effect was tried here.
    pub(crate) fn early(outcome: &'static str) -> Self {
        Ended { outcome, reason: None, attempt: 0 }
    }

    /// An end that left the event's row like this.
    pub(crate) fn with(outcome: &'static str, reason: Option<&str>, row: &Row) -> Self {
        let attempt = row.effects.values().map(|entry| entry.attempts).max().unwrap_or_default();
        Ended { outcome, reason: reason.map(str::to_owned), attempt }
    }

    /// Whether everything went well at the first try, so that a sample of such lines says as much as all of them.
    pub(crate) fn is_plain_success(&self) -> bool {
        self.attempt <= 1 && matches!(self.outcome, "succeeded" | "noop" | "settled_before" | "superseded")
    }
}
