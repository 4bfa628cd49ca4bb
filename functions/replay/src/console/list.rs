//! The page of parked events, newest first.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use shared::base::time::Timestamp;
use shared::ledger::batch::Filter;
use shared::ledger::{Row, State};

use super::call::WidgetCall;
use super::html::{Html, html};
use super::overview::STATES;
use super::{Console, parts};
use crate::lists::newest;
use crate::operations::{Failure, decline};

pub(super) async fn page(console: &Console<'_>, call: &WidgetCall) -> Result<Html, Failure> {
    let (filter, chosen) = asked_for(call)?;
    let (rows, more) = newest(console.replay, &Filter { state: waiting_only(&filter), ..Filter::default() }).await?;
    let shown: Vec<&Row> = rows.iter().filter(|row| filter.takes(row)).collect();
    let now = console.replay.clock.now();
    let lines: Html = shown.iter().take(LINES).map(|row| line(console, row, now)).collect();
    let cut = (shown.len() > LINES).then(|| html("<p>The newest {} of {}.</p>", &[&LINES, &shown.len()]));
    let older = more.then(|| html("<p>Only the newest {} are looked at: there may be older ones.</p>", &[&rows.len()]));
    let table = html(
        "<table><tr><th>event</th><th>flow</th><th>state</th><th>reason</th><th>effect</th><th>error</th>\
         <th>attempts</th><th>replays</th><th>parked</th></tr>{}</table>",
        &[&lines],
    );
    let none = (shown.is_empty() && !more).then(|| html("<p>Nothing is parked here.</p>", &[]));
    Ok(html("{}{}{}{}{}", &[&form(console, &rows, chosen), &table, &none, &cut, &older]))
}

/// The state that has lists of its own, if the filter is for it.
fn waiting_only(filter: &Filter) -> Option<State> {
    filter.state.filter(|state| *state == State::Waiting)
}

/// The longest list.
pub(super) const LINES: usize = 50;

/// The filter of the page: from the fields where its own button was pressed, from the link's parameters otherwise.
pub(super) fn asked_for(call: &WidgetCall) -> Result<(Filter, [&str; 3]), Failure> {
    let by_fields = call.param("filter") == "fields";
    let chosen = [("flow", "filter_flow"), ("reason", "filter_reason"), ("state", "filter_state")]
        .map(|(name, field)| (name, if by_fields { call.field(field) } else { call.param(name) }));
    let named = chosen.into_iter().filter(|(_, value)| !value.is_empty());
    let filter: Map<String, Value> = named.map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let filter = serde_json::from_value(Value::Object(filter)).map_err(|error| decline(error.to_string()))?;
    Ok((filter, chosen.map(|(_, value)| value)))
}

fn form(console: &Console<'_>, rows: &[Row], [flow, reason, state]: [&str; 3]) -> Html {
    let flows: BTreeSet<String> = rows.iter().map(|row| row.flow.clone()).collect();
    let reasons: BTreeSet<String> = rows.iter().filter_map(|row| Some(reason_of(row)?.to_owned())).collect();
    let choices = [
        parts::choice("flow", &Vec::from_iter(flows), flow),
        parts::choice("reason", &Vec::from_iter(reasons), reason),
        parts::choice("state", &STATES.map(|state| state.as_str().to_owned()), state),
    ];
    let button = parts::look(console, "Filter", json!({"page": "list", "filter": "fields"}));
    let plan = json!({"page": "plan", "flow": flow, "reason": reason, "state": state});
    let plan = parts::look(console, "Plan a replay", plan);
    html("<form>{}{}{}</form>", &[&choices.into_iter().collect::<Html>(), &button, &plan])
}

fn line(console: &Console<'_>, row: &Row, now: Timestamp) -> Html {
    let death = row.death.as_ref();
    html(
        r#"<tr><td>{}</td><td class="text">{}</td><td>{}</td><td>{}</td><td class="text">{}</td><td class="text">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>"#,
        &[
            &parts::event_link(console, &row.id),
            &row.flow,
            &parts::badge(row.state),
            &reason_of(row),
            &death.and_then(|death| death.effect.clone()),
            &death.map(|death| console.line(&death.error)),
            &death.map(|death| death.attempts),
            &row.replay,
            &row.listed_at.map(|at| parts::ago(now, at)),
        ],
    )
}

fn reason_of(row: &Row) -> Option<&'static str> {
    row.death.as_ref().map(|death| death.reason.as_str())
}
