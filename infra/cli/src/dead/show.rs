//! `ledgerline dead show`

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::base::mask::mask_result;
use shared::ledger::timeline::EventTimeline;

use super::parked_event::ParkedEvent;
use crate::CommandExit;
use crate::args::now;
use crate::cloud::{self, CloudArgs, CloudClient};
use crate::output::{self, BAD, BOLD, columns, printable, styled};
use crate::trace::drawn;

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline dead show 1b16f576…        takes the whole id, as `dead list` prints it
  ledgerline dead show 1b16f576… --json | jq -r '.history[]'
  ledgerline dead show 1b16f576… --json --results | jq .effects
  ledgerline dead show 1b16f576… --json | jq '.older[].history'     earlier events of the same key";

/// Show one event: its effects, its history, a masked preview, what to do next.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The event's id, as `dead list` prints it.
    id: String,
    /// With `--json`: print the effects' results as they are, and not masked. One may be a discount code.
    #[arg(long)]
    results: bool,
}

impl ShowArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        let (answer, logs) = cloud::with(at, async |cloud| {
            let answer = read_event(cloud, &self.id).await?;
            let logs = cloud.log_address(&answer);
            Ok((answer, logs))
        })?;
        let shown = if self.results { answer } else { with_masked_results(answer) };
        output::print_answer(json, &shown, || text(&shown, at, logs.as_deref()))?;
        Ok(CommandExit::Success)
    }
}

/// A page on which results show their names alone: a partner may quote people's data in them.
fn with_masked_results(mut page: Value) -> Value {
    for effect in page["effects"].as_object_mut().into_iter().flat_map(|effects| effects.values_mut()) {
        if let Some(result) = effect.get_mut("result") {
            *result = mask_result(result);
        }
    }
    if let Some(Value::Array(older)) = page.get_mut("older") {
        older.iter_mut().for_each(|page| *page = with_masked_results(page.take()));
    }
    page
}

/// Reads an event's page.
pub(crate) async fn read_event(cloud: &CloudClient, id: &str) -> Result<Value> {
    cloud.query(json!({"op": "show", "id": id})).await
}

/// The version of an event's row: the one that the operator saw, or else the one that it has now.
pub(crate) async fn row_version(cloud: &CloudClient, id: &str, seen: Option<&str>) -> Result<Value> {
    match seen {
        Some(seen) => Ok(json!(seen)),
        None => Ok(read_event(cloud, id).await?["version"].clone()),
    }
}

fn text(page: &Value, at: &CloudArgs, logs: Option<&str>) -> String {
    let (history, earlier, preview) = (history(page), earlier(page), preview(page));
    let logs = logs.map_or_else(String::new, |logs| format!("{}\n  {logs}\n", styled(BOLD, "LOGS, in your browser")));
    let sections = [facts(page), effects(page), timeline(page), history, earlier, preview, logs, next_steps(page, at)];
    sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(String::new, printable)
}

fn facts(page: &Value) -> String {
    let Ok(line) = ParkedEvent::deserialize(page) else { return String::new() };
    let title = format!(
        "{}  {}\n",
        styled(BOLD, printable(&line.flow)),
        styled(if line.reason.is_some() { BAD } else { BOLD }, printable(line.why()))
    );
    let tries = line.attempts.map(|attempts| format!(" (attempt {attempts})")).unwrap_or_default();
    let error = line.error.as_ref().map(|_| printable(&line.last_error()) + &tries);
    let ask = line.ask.as_ref().map(|ask| format!("{} until {}", printable(&ask.hash), printable(&ask.until)));
    let waits = line.waits.as_ref().map(|waits| printable(&waits.in_words()));
    let noop = page["noop"]["guard"].as_str().map(printable);
    let facts = [
        ("id", Some(printable(&line.id))),
        ("state", Some(printable(&line.state))),
        ("last error", error),
        ("waits", waits),
        ("guard", noop),
        ("goes on as", page["noop"]["facts"]["replayed_as"].as_str().map(printable)),
        ("approval", ask),
        ("source", Some(word(&page["source"]))),
        ("received", Some(word(&page["received_at"]))),
        ("parked", Some(printable(&line.parked_at)).filter(|at| !at.is_empty())),
        ("replays", Some(page["replays"].to_string())),
        ("version", Some(printable(&line.version))),
        ("trace", Some(word(&page["trace_id"]))),
    ];
    let fact = |(name, value): (&str, Option<String>)| value.map(|value| format!("  {name:<10}  {value}\n"));
    title + &facts.into_iter().filter_map(fact).collect::<String>()
}

fn effects(page: &Value) -> String {
    let row = |(id, effect): (&String, &Value)| {
        let attempts = effect["attempts"].to_string();
        [id.clone(), word(&effect["state"]), attempts, word(&effect["at"]), word(&effect["error"])]
    };
    let rows: Vec<_> = page["effects"].as_object().into_iter().flatten().map(row).collect();
    if rows.is_empty() { String::new() } else { columns(["EFFECT", "STATE", "TRIES", "AT", "ERROR"], &rows) }
}

/// A bar for each span. An older function does not tell them.
fn timeline(page: &Value) -> String {
    let Ok(timeline) = EventTimeline::deserialize(&page["timeline"]) else { return String::new() };
    if timeline.spans.is_empty() {
        return String::new();
    }
    format!("{}\n{}", styled(BOLD, "TIMELINE"), drawn::bars(&timeline, now()))
}

fn history(page: &Value) -> String {
    section("HISTORY", &page["history"])
}

/// The earlier events of the same key, each with how it ended.
fn earlier(page: &Value) -> String {
    let row = |older: &Value| {
        let done = older["effects"].as_object().into_iter().flatten().filter(|(_, effect)| effect["state"] == "done");
        let done: Vec<String> = done.map(|(id, _)| printable(id)).collect();
        let end = older["history"].as_array().and_then(|history| history.last()).map(word).unwrap_or_default();
        [word(&older["received_at"]), word(&older["state"]), done.join(", "), end]
    };
    let rows: Vec<_> = page["older"].as_array().into_iter().flatten().map(row).collect();
    let title = styled(BOLD, "EARLIER EVENTS OF THE SAME KEY");
    if rows.is_empty() {
        String::new()
    } else {
        format!("{title}\n{}", columns(["RECEIVED", "STATE", "DONE", "END"], &rows))
    }
}

fn preview(page: &Value) -> String {
    section("PREVIEW (masked)", &page["preview"])
}

fn section(title: &str, lines: &Value) -> String {
    let lines: String = lines.as_array().into_iter().flatten().map(|line| format!("  {}\n", word(line))).collect();
    if lines.is_empty() { lines } else { format!("{}\n{lines}", styled(BOLD, title)) }
}

/// What the operator can do about the event, with commands to paste.
fn next_steps(page: &Value, at: &CloudArgs) -> String {
    let id = word(&page["id"]);
    let unknown = |(name, effect): (&String, &Value)| {
        (effect["state"] == "unknown").then(|| (printable(name), result_to_fill_in(effect)))
    };
    let unknown = page["effects"].as_object().into_iter().flatten().find_map(unknown);
    let (title, verbs) = match (page["state"].as_str(), unknown) {
        (Some("dead"), Some((effect, result))) => (
            "Look into the partner's records, then record whether the effect happened (and its result, from these records):",
            vec![
                format!("resolve {id} {effect} --did-not-happen --reason '…'"),
                format!("resolve {id} {effect} --happened '{result}' --reason '…'"),
            ],
        ),
        (Some("dead" | "queued"), _) => (
            "See what a replay would do, then replay the event:",
            vec![format!("plan {id}"), format!("replay {id} --reason '…'")],
        ),
        (Some("awaiting_approval"), _) => (
            "Approve or reject the event:",
            vec![format!("approve {id} --reason '…'"), format!("reject {id} --reason '…'")],
        ),
        _ => return String::new(),
    };
    let commands: String = verbs.iter().map(|verb| format!("  {}\n", at.command(verb))).collect();
    format!("{title}\n{commands}")
}

/// The result of an effect as an operator states it: with the names that the flow needs. An older function does not tell them.
fn result_to_fill_in(effect: &Value) -> String {
    let needed = effect["needs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let fields: Vec<String> = needed.map(|name| format!("{}: \"…\"", json!(printable(name)))).collect();
    format!("{{{}}}", fields.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Value {
        json!({
            "id": "1b16f576", "flow": "lead-routing", "state": "dead", "source": "web-forms", "replays": 1,
            "received_at": "2026-11-16T09:59:00.000Z", "parked_at": "2026-11-16T10:00:00.042Z", "version": "3.4",
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "reason": "attempts_spent", "effect": "crm", "error": "answered 500", "attempts": 3,
            "effects": {
                "crm": {"state": "failed", "attempts": 3, "at": "2026-11-16T10:00:00.000Z", "error": "answered 500"},
                "mail": {"state": "done", "attempts": 1, "at": "2026-11-16T09:59:01.000Z", "result": {"id": "secret"}},
            },
            "history": ["2026-11-16T09:59:00.000Z  accepted", "2026-11-16T10:00:00.042Z  parked"],
            "timeline": {
                "event": "1b16f576", "flow": "lead-routing", "state": "dead",
                "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
                "spans": [
                    {"id": "00000000000000a1", "parent": "00f067aa0ba902b7", "kind": "accepted", "end": "done",
                     "began": 1_794_823_140_000_i64, "ended": 1_794_823_140_004_i64},
                    {"id": "00000000000000a2", "parent": "00000000000000a1", "kind": "worked", "claim": 1,
                     "end": "unknown", "said": "the worker was lost",
                     "began": 1_794_823_140_100_i64, "ended": 1_794_823_180_000_i64},
                    {"id": "00000000000000a3", "parent": "00000000000000a2", "kind": "called", "effect": "crm",
                     "attempt": 1, "end": "unknown", "said": "the worker was lost",
                     "began": 1_794_823_140_100_i64, "ended": 1_794_823_180_000_i64},
                    {"id": "00000000000000a4", "parent": "00000000000000a1", "kind": "worked", "claim": 2,
                     "end": "done", "said": "dead: attempts_spent",
                     "began": 1_794_823_190_000_i64, "ended": 1_794_823_200_042_i64},
                ],
            },
            "older": [{
                "received_at": "2026-11-14T08:00:00.000Z", "state": "succeeded",
                "effects": {"crm": {"state": "done", "result": {"id": "secret"}}, "mail": {"state": "skipped"}},
                "history": ["2026-11-14T08:00:00.000Z  accepted", "2026-11-14T08:00:01.000Z  succeeded"],
            }],
            "preview": ["{", "  \"email\": \"a***@example.com\"", "}"],
        })
    }

    #[test]
    fn a_page_reads_from_top_to_bottom() {
        let text = text(&page(), &CloudArgs::unnamed(), Some("https://eu-central-1.console.aws.amazon.com/…"));
        assert!(!text.contains("secret"), "results are for scripts");
        insta::assert_snapshot!(anstream::adapter::strip_str(&text));
    }

    #[test]
    fn a_result_shows_its_names_unless_it_is_asked_for() {
        let masked = with_masked_results(page());
        assert_eq!(masked["effects"]["mail"]["result"], json!({"id": "s***"}));
        assert_eq!(masked["effects"]["crm"], page()["effects"]["crm"]);
        assert_eq!(masked["older"][0]["effects"]["crm"]["result"], json!({"id": "s***"}), "of an earlier event, too");
    }

    #[test]
    fn an_unknown_asks_for_a_word_before_a_replay() {
        let mut page = page();
        page["effects"]["crm"]["state"] = json!("unknown");
        let next = |page: &Value| next_steps(page, &CloudArgs::unnamed());
        assert!(next(&page).contains("ledgerline resolve 1b16f576 crm --did-not-happen"), "{}", next(&page));
        assert!(next(&page).contains("crm --happened '{}'"), "{}", next(&page));
        page["effects"]["crm"]["needs"] = json!(["ts", "channel"]);
        assert!(next(&page).contains(r#"crm --happened '{"ts": "…", "channel": "…"}'"#), "{}", next(&page));
        page["state"] = json!("awaiting_approval");
        assert!(next(&page).contains("ledgerline approve 1b16f576"), "{}", next(&page));
        page["state"] = json!("succeeded");
        assert_eq!(next(&page), "");
    }
}
