//! The page of a plan, and the button that applies it.

use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::ledger::batch::Filter;

use super::call::WidgetCall;
use super::html::{Html, html};
use super::{Console, list, parts};
use crate::operations::Failure;
use crate::plans::{self, PlannedEffect, PlannedEvent};

pub(super) async fn page(console: &Console<'_>, call: &WidgetCall) -> Result<Html, Failure> {
    let (filter, _) = list::asked_for(call)?;
    let (ids, more) = match call.params().contains_key("id") {
        true => (vec![EventId::named(call.param("id"))], false),
        false => plans::taken_first(console.replay, &filter, list::LINES).await?,
    };
    let plan = plans::plan(console.replay, &ids, false).await?;
    let (blocked, free): (Vec<_>, Vec<_>) = plan.iter().partition(|event| event.blocked.is_some());
    let lines: Html = free.iter().chain(&blocked).map(|event| line(console, event)).collect();
    let table = html(
        "<h3>What a replay would do</h3><table><tr><th>event</th><th>flow</th><th>effects</th><th></th></tr>{}</table>",
        &[&lines],
    );
    let nothing = free.is_empty().then(|| html("<p>Nothing here can be replayed.</p>", &[]));
    let newer = more
        .then(|| html("<p>Only the oldest {} are looked at: there may be newer ones.</p>", &[&Filter::MAX_SCANNED]));
    Ok(html("<p>{}</p>{}{}{}", &[&apply(console, &free), &table, &nothing, &newer]))
}

/// The button that replays the events of the table, or none of them if one has changed since.
fn apply(console: &Console<'_>, free: &[&PlannedEvent]) -> Html {
    if free.is_empty() {
        return Html::default();
    }
    let events: Vec<Value> = free.iter().map(|event| json!({"id": event.id, "hash": event.hash})).collect();
    let question = format!("Replay {} as planned here? If one of them has changed, none is.", events.len());
    parts::button(console, "Apply", &question, json!({"op": "apply", "events": events}))
}

fn line(console: &Console<'_>, event: &PlannedEvent) -> Html {
    let steps: Html = event.steps.iter().map(step).collect();
    html(
        r#"<tr><td>{}</td><td class="text">{}</td><td>{}</td><td class="text">{}</td></tr>"#,
        &[&parts::event_link(console, &event.id), &event.flow, &steps, &event.blocked],
    )
}

fn step(step: &PlannedEffect) -> Html {
    html(r#"{} <span class="badge {}">{}</span> "#, &[&step.effect, &step.fate, &step.fate])
}
