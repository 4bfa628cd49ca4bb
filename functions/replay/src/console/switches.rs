//! The switches that are on, the latest turns, and a button for each flow.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use shared::base::time::Timestamp;
use shared::operate::switchboard::{self, Board, Position, Subject, Switch, Turned};

use super::call::WidgetCall;
use super::html::{Html, html};
use super::{Access, Console, parts};
use crate::operations::Failure;

pub(super) async fn tables(
    console: &Console<'_>,
    call: &WidgetCall,
    waiting: &BTreeMap<&str, usize>,
) -> Result<Html, Failure> {
    let (board, _) = switchboard::look(&*console.replay.boards).await?;
    let now = console.replay.clock.now();
    Ok(html("{}{}{}", &[&switched(&board, now), &turned(&board, now), &flows(console, call, waiting, &board, now)]))
}

fn switched(board: &Board, now: Timestamp) -> Html {
    let on = board.positions(now);
    if on.is_empty() {
        return html("<h3>Switches</h3><p>None is on.</p>", &[]);
    }
    let lines: Html = on.iter().map(|(subject, position)| line(subject, position, now)).collect();
    html(
        "<h3>Switches that are on</h3><table><tr><th>of</th><th>switch</th><th>by</th><th>why</th><th>since</th>\
         <th>until</th></tr>{}</table>",
        &[&lines],
    )
}

fn line(subject: &Subject, position: &Position<'_>, now: Timestamp) -> Html {
    if let Position::Log(log, turned) = position {
        let what = format!("log level {}", log.level.as_str());
        let (since, until) = (parts::ago(now, turned.at), log.until.to_string());
        return html(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            &[&subject.to_string(), &what, &turned.by, &turned.why, &since, &until],
        );
    }
    let (what, switch) = match position {
        Position::Paused(switch) => (html("paused", &[]), Some(*switch)),
        Position::SafeMode(switch) => (html("safe mode", &[]), Some(*switch)),
        Position::Log(..) => (html("log level", &[]), None),
        Position::Retry(change, switch) => (html("policy <code>{}</code>", &[&json!(change).to_string()]), *switch),
    };
    let by = switch.map(|switch| switch.by.as_str());
    let why = switch.map(|switch| switch.why.as_str());
    let since = switch.map(|switch| parts::ago(now, switch.since));
    html(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        &[&subject.to_string(), &what, &by, &why, &since, &switch.map(until)],
    )
}

fn until(switch: &Switch) -> String {
    switch.until.map_or("it is turned off".to_owned(), |until| until.to_string())
}

fn turned(board: &Board, now: Timestamp) -> Option<Html> {
    let line = |turned: &Turned| {
        let Turned { at, what, of, by, why, .. } = turned;
        html(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            &[&parts::ago(now, *at), what, &of.to_string(), by, why],
        )
    };
    let lines: Html = board.turned().iter().map(line).collect();
    let table = "<h3>Turned last</h3><table><tr><th>when</th><th>what</th><th>of</th><th>by</th><th>why</th></tr>{}\
                 </table>";
    (!board.turned().is_empty()).then(|| html(table, &[&lines]))
}

fn flows(
    console: &Console<'_>,
    call: &WidgetCall,
    waiting: &BTreeMap<&str, usize>,
    board: &Board,
    now: Timestamp,
) -> Html {
    let paused: BTreeSet<String> = board.positions(now).into_iter().filter_map(paused_flow).collect();
    let line = |name: &str| {
        let list = parts::link(console, &name, json!({"page": "list", "flow": name}));
        let count = waiting.get(name).copied().unwrap_or_default();
        let button = if paused.contains(name) { resume(console, name) } else { pause(console, name) };
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

/// The flow that a switch pauses, by itself and not with everything.
fn paused_flow((subject, position): (Subject, Position<'_>)) -> Option<String> {
    match (subject, position) {
        (Subject::Flow(name), Position::Paused(_)) => Some(name),
        _ => None,
    }
}

fn pause(console: &Console<'_>, flow: &str) -> Html {
    parts::button(console, "Pause", &format!("Hold back every call of {flow}?"), json!({"op": "pause", "flow": flow}))
}

fn resume(console: &Console<'_>, flow: &str) -> Html {
    parts::button(console, "Resume", &format!("Let the calls of {flow} go on?"), json!({"op": "resume", "flow": flow}))
}
