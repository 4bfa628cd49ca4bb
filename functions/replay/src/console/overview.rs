//! The overview page: the depth of the queue, the parked events by state and reason, and the switches.

use std::collections::BTreeMap;

use serde_json::json;
use shared::ledger::batch::Filter;
use shared::ledger::queue::Depth;
use shared::ledger::{Row, State};

use super::call::WidgetCall;
use super::html::{Html, html};
use super::{Console, figures, parts, switches};
use crate::lists::newest;
use crate::operations::Failure;

pub(super) async fn page(console: &Console<'_>, call: &WidgetCall) -> Result<Html, Failure> {
    let (rows, more) = newest(console.replay, &Filter::default()).await?;
    let (waiting, _) = newest(console.replay, &Filter { state: Some(State::Waiting), ..Filter::default() }).await?;
    let switches = switches::tables(console, call, &counts(rows.iter().map(|row| row.flow.as_str()))).await?;
    let older = more.then(|| html("<p>Only the newest {} are counted: there are older ones.</p>", &[&rows.len()]));
    let depth = console.replay.depths.depth().await?;
    let tiles = tiles(console, depth, &[&rows[..], &waiting].concat());
    let charts = figures::charts(console).await;
    Ok(html("{}{}{}{}{}", &[&tiles, &older, &reasons(console, &rows), &charts, &switches]))
}

/// The states in which an event is parked, or waits.
pub(super) const STATES: [State; 4] = [State::Dead, State::AwaitingApproval, State::Queued, State::Waiting];

/// The tiles: events on the queue, and parked events. A replay that is on its way is in both until it is claimed.
fn tiles(console: &Console<'_>, depth: Depth, rows: &[Row]) -> Html {
    let on_queue = [("on the queue", depth.queued), ("running or retrying", depth.in_flight)];
    let on_queue = on_queue
        .into_iter()
        .map(|(name, count)| html(r#"<div class="tile queued"><b>{}</b> {}</div>"#, &[&count, &name]));
    let parked = STATES.into_iter().map(|state| {
        let count = rows.iter().filter(|row| row.state == state).count();
        let label = html("<b>{}</b> {}", &[&count, &parked_as(state)]);
        let list = json!({"page": "list", "state": state.as_str()});
        html(r#"<div class="tile {}">{}</div>"#, &[&state.as_str(), &parts::link(console, &label, list)])
    });
    html(r#"<div class="tiles">{}</div>"#, &[&on_queue.chain(parked).collect::<Html>()])
}

/// The label of the parked events in a state.
fn parked_as(state: State) -> String {
    match state {
        State::Queued => "replays on their way".to_owned(),
        other => parts::state_name(other),
    }
}

fn reasons(console: &Console<'_>, rows: &[Row]) -> Html {
    let reasons = rows.iter().filter_map(|row| Some(row.death.as_ref()?.reason.as_str()));
    if rows.is_empty() {
        return html("<p>Nothing is parked.</p>", &[]);
    }
    let mut counted: Vec<(&str, usize)> = counts(reasons).into_iter().collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let line = |(reason, count): &(&str, usize)| {
        let link = parts::link(console, reason, json!({"page": "list", "reason": reason}));
        html("<tr><td>{}</td><td>{}</td></tr>", &[&link, count])
    };
    let lines: Html = counted.iter().map(line).collect();
    html("<h3>Top reasons</h3><table><tr><th>reason</th><th>events</th></tr>{}</table>", &[&lines])
}

fn counts<'r>(names: impl Iterator<Item = &'r str>) -> BTreeMap<&'r str, usize> {
    names.fold(BTreeMap::new(), |mut counts, name| {
        *counts.entry(name).or_default() += 1;
        counts
    })
}
