//! `ledgerline status`

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::base::time::Timestamp;
use shared::ledger::batch::{Batch, Filter};
use shared::operate::switchboard::{Board, Position, Subject, Switch, Turned};

use crate::CommandExit;
use crate::args::now;
use crate::cloud::{self, CloudArgs};
use crate::output::{self, BOLD, columns, printable, styled};

/// Show which switches are on, the last turns of switches, and the newest batches of replays.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {}

impl StatusArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let answer = cloud::with(at, async |cloud| cloud.query(json!({"op": "status"})).await)?;
        output::print_answer(json, &answer, || text(&answer, now()))?;
        Ok(CommandExit::Success)
    }
}

/// The text for an answer's switchboard. This command may not know that of a newer function, and must not take it
/// for one on which every switch is off.
pub(super) fn board_text(answer: &Value, text: impl FnOnce(&Board) -> String) -> String {
    match Board::deserialize(&answer["board"]) {
        Ok(board) => text(&board),
        Err(error) => format!(
            "This command cannot read the switchboard: {error}. Switches may be on. Add --json to see the switchboard as \
             it is, or update this command.\n"
        ),
    }
}

/// The switches that are on.
pub(super) fn switches_text(board: &Board, now: Timestamp) -> String {
    let rows: Vec<_> = board.positions(now).iter().map(row).collect();
    match rows.as_slice() {
        [] => "Nothing is switched: every flow runs as its file says.\n".into(),
        rows => columns(["SWITCH", "OF", "UNTIL", "BY", "REASON"], rows),
    }
}

fn text(answer: &Value, now: Timestamp) -> String {
    let board = board_text(answer, |board| format!("{}\n{}", switches_text(board, now), turns_text(board)));
    let sections = [board, waiting_text(answer), batches_text(answer), figures_text(answer)];
    sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The events that wait, by what they wait for. An older function does not tell.
fn waiting_text(answer: &Value) -> String {
    let Some(waiting) = answer["waiting"].as_array() else { return String::new() };
    let word = |line: &Value, name: &str| line[name].as_str().map_or_else(String::new, printable);
    let row = |line: &Value| {
        [word(line, "flow"), word(line, "for"), word(line, "why"), line["count"].to_string(), word(line, "until")]
    };
    match waiting.iter().map(row).collect::<Vec<_>>().as_slice() {
        [] => "No event waits.\n".into(),
        rows => {
            format!("{}\n{}", styled(BOLD, "Waiting events"), columns(["FLOW", "FOR", "WHY", "EVENTS", "UNTIL"], rows))
        }
    }
}

/// The figures of the last day. An older function does not tell them.
fn figures_text(answer: &Value) -> String {
    let figures = &answer["figures"];
    if let Some(why) = figures["unavailable"].as_str() {
        return format!("The figures of the last day cannot be read now: {}\n", printable(why));
    }
    let Some(hours) = figures["hours"].as_u64() else { return String::new() };
    let number = |value: &Value, unit: &str| {
        value.as_f64().map_or_else(|| "-".to_owned(), |number| format!("{}{unit}", rounded(number)))
    };
    let both = |name: &str, unit: &str| {
        let of = &figures[name];
        format!("median {}, p95 {}", number(&of["p50"], unit), number(&of["p95"], unit))
    };
    let share = |name: &str, of: &str| format!("{} of {of}", number(&figures[name], " %"));
    let rows = [
        [
            "time to signal".to_owned(),
            both("time_to_signal_seconds", " s"),
            "from the first failure to the parked event that is counted".into(),
        ],
        [
            "protected effects".to_owned(),
            share("protected_effects_percent", "effects"),
            "no doubt about them can do harm".into(),
        ],
        [
            "replays".to_owned(),
            share("replays_within_a_day_percent", "replays"),
            "settled within a day of being parked".into(),
        ],
        ["duplicates".to_owned(), share("duplicates_percent", "deliveries"), "sent before".into()],
        ["attempts".to_owned(), both("attempts", ""), "of the effect of an event that took the most".into()],
    ];
    let head = styled(BOLD, format!("The last {hours} hours"));
    format!("{head}\n{}", columns(["FIGURE", "VALUE", "OF WHAT"], &rows))
}

/// A number with two digits after the point at most.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

fn row((subject, position): &(Subject, Position<'_>)) -> [String; 5] {
    let (what, switch, end) = match position {
        Position::Log(log, turned) => {
            let (what, until) = (format!("log level {}", log.level.as_str()), log.until.to_string());
            return [what, subject.to_string(), until, turned.by.clone(), turned.why.clone()];
        }
        Position::Paused(switch) => ("paused".into(), Some(*switch), "resumed"),
        Position::SafeMode(switch) => ("safe mode".into(), Some(*switch), "turned off"),
        Position::Retry(change, switch) => (format!("policy {}", json!(change)), *switch, "restored"),
    };
    let until = switch.and_then(|switch| switch.until).map_or_else(|| end.into(), |until| until.to_string());
    let word = |part: fn(&Switch) -> &String| switch.map(part).cloned().unwrap_or_default();
    [what, subject.to_string(), until, word(|switch| &switch.by), word(|switch| &switch.why)]
}

fn turns_text(board: &Board) -> String {
    let row = |turned: &Turned| {
        let Turned { at, what, of, by, why, .. } = turned.clone();
        [at.to_string(), what, of.to_string(), by, why]
    };
    match board.turned().iter().map(row).collect::<Vec<_>>().as_slice() {
        [] => "No turn of a switch is on record.\n".into(),
        rows => {
            let head = ["WHEN", "TURNED", "OF", "BY", "REASON"];
            format!("{}\n{}", styled(BOLD, "Last turns of switches, the newest first"), columns(head, rows))
        }
    }
}

fn batches_text(answer: &Value) -> String {
    let all: Vec<Batch> = Vec::deserialize(&answer["batches"]).unwrap_or_default();
    let row = |batch: &Batch| {
        let progress = json!(batch.progress).as_str().unwrap_or_default().to_owned();
        let sent = format!("{} of {}", batch.replayed, batch.max);
        [batch.id.clone(), progress, sent, filter_text(&batch.filter), batch.by.clone(), batch.why.clone()]
    };
    match all.iter().map(row).collect::<Vec<_>>().as_slice() {
        [] => "No batch of replays was started.\n".into(),
        rows => format!("{}\n{}", styled(BOLD, "Batches of replays, the newest first"), columns(HEAD, rows)),
    }
}

const HEAD: [&str; 6] = ["BATCH", "STATE", "REPLAYED", "EVENTS", "BY", "REASON"];

/// The events that a batch replays, in words.
fn filter_text(filter: &Filter) -> String {
    let Filter { flow, reason, state, error, replays, since } = filter;
    let parts = [
        flow.as_ref().map(|flow| format!("flow {flow}")),
        reason.map(|reason| reason.as_str().to_owned()),
        state.map(|state| state.as_str().to_owned()),
        error.as_ref().map(|error| format!("error contains {error:?}")),
        replays.map(|most| format!("replayed at most {most} times")),
        since.map(|since| format!("since {since}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "all".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_lists_switches_turns_and_batches() {
        let switch = json!({"since": 1000, "until": 1_794_830_400_000_i64, "by": "ada", "why": "the CRM is moving"});
        let forever = json!({"since": 1000, "by": "ada", "why": "stop"});
        let batch = json!({"id": "19a8-04f2", "filter": {"flow": "lead-routing", "reason": "attempts_spent"},
                           "max": 200, "per_minute": 5, "by": "ada", "why": "the CRM is back", "started_at": 1,
                           "replayed": 12, "progress": "running"});
        let answer = json!({
            "version": 3,
            "board": {"all": {"paused": forever}, "integrations": {"crm": {"paused": switch}},
                      "flows": {"cart-recovery": {"retry": {"base": "2s"}},
                                "lead-routing": {"safe_mode": switch, "retry": {"max_attempts": 5},
                                                 "retry_by": {"since": 1000, "by": "bob", "why": "the CRM is slow"}}},
                      "turned": [{"at": 1_794_823_200_000_i64, "what": "resumed", "of": {"integration": "email"},
                                  "by": "bob", "why": "it has moved"},
                                 {"at": 1000, "what": "paused", "of": "all", "by": "ada", "why": "stop"}]},
            "batches": [batch],
            "waiting": [{"flow": "cart-recovery", "for": "a moment", "why": "quiet hours", "count": 12, "until": "2026-11-17T07:00:00.000Z"},
                        {"flow": "lead-routing", "for": "integration crm", "why": "breaker open", "count": 3, "until": null}],
            "figures": {"hours": 24, "time_to_signal_seconds": {"p50": 61.0, "p95": 90.0}, "protected_effects_percent": 98.0,
                        "replays_within_a_day_percent": null, "duplicates_percent": 3.4, "attempts": {"p50": 1.0, "p95": 3.0}},
        });
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&answer, Timestamp::from_secs(2))));
    }

    #[test]
    fn a_figure_has_two_digits_at_most() {
        let told = |number: f64| rounded(number).to_string();
        assert_eq!([3.599_999_999_999_999_6, 0.1 + 0.2, 61.0, 98.765].map(told), ["3.6", "0.3", "61", "98.77"]);
    }

    #[test]
    fn nothing_is_told_in_words() {
        let answer = json!({"version": 0, "board": {}, "batches": []});
        let text = text(&answer, now());
        for words in ["Nothing is switched", "No turn of a switch is on record", "No batch"] {
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn figures_that_cannot_be_read_are_no_zeros() {
        let answer = json!({"board": {}, "batches": [], "figures": {"unavailable": "CloudWatch does not answer: it answered 503"}});
        let text = text(&answer, now());
        assert!(text.contains("cannot be read now: CloudWatch") && !text.contains("0 %"), "{text}");
    }

    #[test]
    fn a_board_that_is_not_known_here_is_not_taken_for_an_empty_one() {
        let answer = json!({"version": 4, "board": {"brakes": {}}, "batches": []});
        let text = text(&answer, now());
        assert!(text.starts_with("This command cannot read the switchboard: unknown field `brakes`"), "{text}");
        assert!(!text.contains("Nothing is switched"), "{text}");
    }
}
