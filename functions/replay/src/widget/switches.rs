//! The switches that are on, and a button for each flow's.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::time::Timestamp;

use super::call::Call;
use super::html::{Html, html};
use super::{Access, Console, parts};
use crate::operations::{Failure, Operation, operate};

pub(super) async fn tables(
    console: &Console<'_>,
    call: &Call,
    waiting: &BTreeMap<&str, usize>,
) -> Result<Html, Failure> {
    let status = operate(console.replay, Operation::Status).await?;
    let board = &status["board"];
    let now = console.replay.clock.now();
    Ok(html("{}{}", &[&switched(board, now), &flows(console, call, waiting, board, now)]))
}

fn switched(board: &Value, now: Timestamp) -> Html {
    let mut lines = subject("everything", &board["all"], now);
    for (kind, label) in [("flows", "flow"), ("integrations", "integration")] {
        let of_kind = board[kind].as_object().into_iter().flatten();
        lines.extend(of_kind.flat_map(|(name, switches)| subject(&format!("{label} {name}"), switches, now)));
    }
    if lines.is_empty() {
        return html("<h3>Switches</h3><p>None is on.</p>", &[]);
    }
    let lines: Html = lines.into_iter().collect();
    html(
        "<h3>Switches that are on</h3><table><tr><th>of</th><th>switch</th><th>by</th><th>why</th><th>since</th>\
         <th>until</th></tr>{}</table>",
        &[&lines],
    )
}

/// A line for each switch of one subject that is on.
fn subject(name: &str, switches: &Value, now: Timestamp) -> Vec<Html> {
    let on = |switch: &'static str| {
        let at = is_on(&switches[switch], now)?;
        let text = |field: &str| at[field].as_str().unwrap_or_default().to_owned();
        let until = moment(&at["until"]).map_or("it is turned off".to_owned(), |until| until.to_string());
        let since = moment(&at["since"]).map(|since| parts::ago(now, since));
        Some(html(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            &[&name, &switch.replace('_', " "), &text("by"), &text("why"), &since, &until],
        ))
    };
    let retry = switches["retry"].as_object().filter(|retry| !retry.is_empty()).map(|retry| {
        let retry = Value::Object(retry.clone()).to_string();
        html(r#"<tr><td>{}</td><td>retry policy</td><td colspan="4"><code>{}</code></td></tr>"#, &[&name, &retry])
    });
    [on("paused"), on("safe_mode"), retry].into_iter().flatten().collect()
}

fn flows(console: &Console<'_>, call: &Call, waiting: &BTreeMap<&str, usize>, board: &Value, now: Timestamp) -> Html {
    let line = |name: &str| {
        let is_paused = is_on(&board["flows"][name]["paused"], now).is_some();
        let list = parts::link(console, &name, json!({"page": "list", "flow": name}));
        let count = waiting.get(name).copied().unwrap_or_default();
        let button = if is_paused { resume(console, name) } else { pause(console, name) };
        html("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", &[&list, &count, &button])
    };
    let lines: Html = console.replay.flows.all().map(|flow| line(&flow.name)).collect();
    let span = (console.access == Access::Operate)
        .then(|| parts::field("pause for", "for", "30m; empty: until resumed", call.field("for")));
    html(
        "<h3>Flows</h3>{}<table><tr><th>flow</th><th>parked</th><th></th></tr>{}</table>",
        &[&span.map(|span| html(r#"<form class="sign">{}</form>"#, &[&span])), &lines],
    )
}

fn pause(console: &Console<'_>, flow: &str) -> Html {
    parts::button(console, "Pause", &format!("Hold back every call of {flow}?"), json!({"op": "pause", "flow": flow}))
}

fn resume(console: &Console<'_>, flow: &str) -> Html {
    parts::button(console, "Resume", &format!("Let the calls of {flow} go on?"), json!({"op": "resume", "flow": flow}))
}

fn is_on(switch: &Value, now: Timestamp) -> Option<&Value> {
    let ended = moment(&switch["until"]).is_some_and(|until| until <= now);
    (switch.is_object() && !ended).then_some(switch)
}

fn moment(value: &Value) -> Option<Timestamp> {
    value.as_i64().map(Timestamp::from_millis)
}
