//! A parked event, as one line of a list.

use serde::Deserialize;
use serde_json::{Value, json};
use shared::ledger::batch::Filter;

use crate::output::{BAD, DIM, printable, short, styled};

/// A parked event, as the replay function lists it.
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
    pub(crate) waits: Option<ParkedWait>,
}

/// What an event waits for that has left the queue.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ParkedWait {
    r#for: String,
    why: String,
    since: String,
    until: Option<String>,
}

impl ParkedWait {
    /// For what, why, since when, and until when where that is known.
    pub(crate) fn in_words(&self) -> String {
        let ParkedWait { r#for, why, since, until } = self;
        let until = until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
        format!("for {for}: {why}, since {since}{until}", for = r#for)
    }
}

/// The approval that an event awaits.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AwaitedApproval {
    pub(crate) hash: String,
    pub(crate) until: String,
}

/// How many characters of an error a line shows.
const ERROR_LENGTH: usize = 60;

impl ParkedEvent {
    pub(crate) const HEAD: [&str; 6] = ["PARKED", "FLOW", "REASON", "TRIES", "LAST ERROR", "ID"];

    /// The parked events of an answer.
    pub(crate) fn all(answer: &Value) -> Vec<ParkedEvent> {
        let lines = answer["parked"].as_array().into_iter().flatten();
        lines.filter_map(|line| ParkedEvent::deserialize(line).ok()).collect()
    }

    /// Why the event is parked: the reason for its death, or else its state.
    pub(crate) fn why(&self) -> &str {
        self.reason.as_deref().unwrap_or(&self.state)
    }

    /// The last error, after the effect that met it.
    pub(crate) fn last_error(&self) -> String {
        let error = self.error.as_deref().unwrap_or_default();
        match self.effect.as_deref() {
            Some(effect) if !effect.is_empty() => format!("{effect}: {error}"),
            _ => error.to_owned(),
        }
    }

    /// The event as a row of a table.
    pub(crate) fn row(&self) -> [String; 6] {
        let tries = self.attempts.map(|attempts| attempts.to_string()).unwrap_or_default();
        let wait = self.waits.as_ref().map(ParkedWait::in_words);
        let error = wait.unwrap_or_else(|| short(&self.last_error(), ERROR_LENGTH));
        [self.parked_at.clone(), self.flow.clone(), self.why().to_owned(), tries, error, self.id.clone()]
    }

    /// The event as a line of a log.
    pub(crate) fn log(&self) -> String {
        let (at, why) = (styled(DIM, printable(&self.parked_at)), styled(BAD, printable(self.why())));
        let (flow, id) = (printable(&self.flow), printable(&self.id));
        let error = printable(&short(&self.last_error(), ERROR_LENGTH));
        let error = if error.is_empty() { String::new() } else { format!("  {error}") };
        format!("{at}  {flow}  {why}{error}  {id}\n")
    }
}

/// The sentence for an answer without events. The replay function looks through the newest 5,000 only.
pub(crate) fn no_match(answer: &Value) -> &'static str {
    match answer["more"] == true {
        true => {
            "None of the 5,000 newest parked events matches. Older ones may: only a batch (`ledgerline replay` with the \
             same options) looks at all of them.\n"
        }
        false => "No parked event matches.\n",
    }
}

/// The operation that lists parked events.
pub(super) fn list_operation(only: &Filter, limit: u32) -> Value {
    json!({"op": "list", "limit": limit, "only": only})
}
