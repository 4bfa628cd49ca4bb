//! `ledgerline status`

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::batch::{Batch, Filter};
use shared::switchboard::{Board, Position, Subject, Switch};
use shared::time::Timestamp;

use crate::args::now;
use crate::cloud::{self, At};
use crate::output::{BOLD, columns, styled};
use crate::{Verdict, output};

/// Show what is switched, and the newest batches of replays.
#[derive(Debug, Args)]
pub(crate) struct Status {}

impl Status {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        let answer = cloud::with(at, async |cloud| cloud.look(json!({"op": "status"})).await)?;
        output::show(json, &answer, || format!("{}\n{}", switches(&answer, now()), batches(&answer)))?;
        Ok(Verdict::Fine)
    }
}

/// What is switched, of an answer with a board.
pub(super) fn switches(answer: &Value, now: Timestamp) -> String {
    let board = Board::deserialize(&answer["board"]).unwrap_or_default();
    let rows: Vec<_> = board.positions(now).iter().map(row).collect();
    match rows.as_slice() {
        [] => "Nothing is switched: everything runs as its flow says.\n".into(),
        rows => columns(["SWITCHED", "OF", "UNTIL", "BY", "WHY"], rows),
    }
}

fn row((subject, position): &(Subject, Position<'_>)) -> [String; 5] {
    let of = match subject {
        Subject::All => "everything".to_owned(),
        Subject::Flow(flow) => format!("flow {flow}"),
        Subject::Integration(integration) => format!("integration {integration}"),
    };
    let until = |switch: &Switch| switch.until.map_or_else(|| "resumed".into(), |until| until.to_string());
    match position {
        Position::Paused(switch) => ["paused".into(), of, until(switch), switch.by.clone(), switch.why.clone()],
        Position::SafeMode(switch) => ["safe mode".into(), of, until(switch), switch.by.clone(), switch.why.clone()],
        Position::Retry(retry) => ["policy".into(), of, String::new(), String::new(), json!(retry).to_string()],
    }
}

fn batches(answer: &Value) -> String {
    let all: Vec<Batch> = Vec::deserialize(&answer["batches"]).unwrap_or_default();
    let row = |batch: &Batch| {
        let progress = json!(batch.progress).as_str().unwrap_or_default().to_owned();
        let sent = format!("{} of {}", batch.replayed, batch.max);
        [batch.id.clone(), progress, sent, chosen(&batch.filter), batch.by.clone(), batch.why.clone()]
    };
    match all.iter().map(row).collect::<Vec<_>>().as_slice() {
        [] => "No batch of replays was begun.\n".into(),
        rows => format!("{}\n{}", styled(BOLD, "Batches, the newest first"), columns(HEAD, rows)),
    }
}

const HEAD: [&str; 6] = ["BATCH", "IS", "REPLAYED", "OF THOSE WITH", "BY", "WHY"];

/// What a batch replays, in words.
fn chosen(filter: &Filter) -> String {
    let Filter { flow, reason, state, error, replays, since } = filter;
    let parts = [
        flow.as_ref().map(|flow| format!("flow {flow}")),
        reason.map(|reason| reason.as_str().to_owned()),
        state.map(|state| state.as_str().to_owned()),
        error.as_ref().map(|error| format!("error {error:?}")),
        replays.map(|most| format!("replayed at most {most} times")),
        since.map(|since| format!("since {since}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "anything".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_lists_switches_and_batches() {
        let switch = json!({"since": 1000, "until": 1_794_830_400_000_i64, "by": "ada", "why": "the CRM is moving"});
        let forever = json!({"since": 1000, "by": "ada", "why": "stop"});
        let batch = json!({"id": "19a8-04f2", "filter": {"flow": "lead-routing", "reason": "attempts_spent"},
                           "max": 200, "per_minute": 5, "by": "ada", "why": "the CRM is back", "started_at": 1,
                           "replayed": 12, "progress": "running"});
        let answer = json!({
            "version": 3,
            "board": {"all": {"paused": forever}, "integrations": {"crm": {"paused": switch}},
                      "flows": {"lead-routing": {"safe_mode": switch, "retry": {"max_attempts": 5}}}},
            "batches": [batch],
        });
        let text = format!("{}\n{}", switches(&answer, Timestamp::from_secs(2)), batches(&answer));
        insta::assert_snapshot!(anstream::adapter::strip_str(&text));
    }

    #[test]
    fn nothing_is_told_in_words() {
        let answer = json!({"version": 0, "board": {}, "batches": []});
        assert!(switches(&answer, now()).starts_with("Nothing is switched"));
        assert!(batches(&answer).starts_with("No batch"));
    }
}
