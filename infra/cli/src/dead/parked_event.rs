//! One parked event on one line.

use serde::Deserialize;
use serde_json::{Value, json};
use shared::ledger::batch::Filter;

use crate::output::{BAD, DIM, printable, short, styled};

/// What a list tells of an event.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ParkedEvent {
    pub(crate) id: String,
    pub(crate) flow: String,
    pub(crate) state: String,
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) parked_at: String,
    pub(crate) reason: Option<String>,
    pub(crate) effect: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) attempts: Option<u64>,
    pub(crate) ask: Option<AwaitedApproval>,
}

/// What somebody is asked.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AwaitedApproval {
    pub(crate) hash: String,
    pub(crate) until: String,
}

/// How much of an error a line has room for.
const ERROR: usize = 60;

impl ParkedEvent {
    pub(crate) const HEAD: [&str; 6] = ["PARKED", "FLOW", "REASON", "TRIES", "LAST ERROR", "ID"];

    /// The lines of an answer.
    pub(crate) fn all(answer: &Value) -> Vec<ParkedEvent> {
        let lines = answer["parked"].as_array().into_iter().flatten();
        lines.filter_map(|line| ParkedEvent::deserialize(line).ok()).collect()
    }

    /// Why it is parked: what it died of, or that somebody is asked.
    pub(crate) fn why(&self) -> &str {
        self.reason.as_deref().unwrap_or(&self.state)
    }

    /// What went wrong, and where.
    pub(crate) fn trouble(&self) -> String {
        let error = self.error.as_deref().unwrap_or_default();
        match self.effect.as_deref() {
            Some(effect) if !effect.is_empty() => format!("{effect}: {error}"),
            _ => error.to_owned(),
        }
    }

    /// The event as a row of a table.
    pub(crate) fn row(&self) -> [String; 6] {
        let tries = self.attempts.map(|attempts| attempts.to_string()).unwrap_or_default();
        let trouble = short(&self.trouble(), ERROR);
        [self.parked_at.clone(), self.flow.clone(), self.why().to_owned(), tries, trouble, self.id.clone()]
    }

    /// The event as a line of a log.
    pub(crate) fn log(&self) -> String {
        let (at, why) = (styled(DIM, printable(&self.parked_at)), styled(BAD, printable(self.why())));
        let (flow, id) = (printable(&self.flow), printable(&self.id));
        let trouble = printable(&short(&self.trouble(), ERROR));
        let trouble = if trouble.is_empty() { String::new() } else { format!("  {trouble}") };
        format!("{at}  {flow}  {why}{trouble}  {id}\n")
    }
}

/// What to say where an answer has nothing in it. The function looks through the newest alone.
pub(crate) fn no_match(answer: &Value) -> &'static str {
    match answer["more"] == true {
        true => "None of the 5,000 newest that are parked matches. There may be older ones that do.\n",
        false => "Nothing is parked that matches.\n",
    }
}

/// The operation that lists.
pub(super) fn list_operation(only: &Filter, limit: u32) -> Value {
    json!({"op": "list", "limit": limit, "only": only})
}
