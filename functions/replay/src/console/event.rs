//! The page of one event: its reason, its effects, its history, and the buttons.

use serde_json::json;
use shared::base::id::EventId;
use shared::base::mask::{mask_result, preview};
use shared::base::time::Timestamp;
use shared::ledger::{Entry, Progress, Row, State};
use shared::operate::requeue::Record;
use shared::operate::{aws_console, log_query};

use super::call::WidgetCall;
use super::html::{Html, Show, html};
use super::{Access, Console, parts, timeline};
use crate::operations::Failure;
use crate::row_version;

pub(super) async fn page(console: &Console<'_>, call: &WidgetCall) -> Result<Html, Failure> {
    let id = EventId::named(call.param("id"));
    let Record { row, event } = Record::read(&*console.replay.records, &id).await?;
    let earlier = console.replay.records.older(&id).await?;
    let now = console.replay.clock.now();
    let preview =
        event.map(|event| html("<b>payload, masked</b><pre>{}</pre>", &[&preview(&event.payload).join("\n")]));
    Ok(html(
        r#"<h2>{} <code>{}</code></h2><p>{}</p><div class="sides"><div>{}</div><div>{}</div></div>{}{}{}{}"#,
        &[
            &parts::badge(row.state),
            &row.id,
            &buttons(console, &row),
            &facts(console, &row, now),
            &preview,
            &effects(console, call, &row, now),
            &timeline::of(console, &row, now),
            &history(console, &row),
            &earlier_events(console, &earlier, now),
        ],
    ))
}

/// The buttons for the row's state. Each carries the version of the row that it was made for.
fn buttons(console: &Console<'_>, row: &Row) -> Html {
    let of_row = |op: &str| json!({"op": op, "id": row.id, "version": row_version::of(row)});
    let answer = |op: &str, hash: &str| json!({"op": op, "questions": [{"id": row.id, "hash": hash}]});
    let drop = || parts::button(console, "Drop", &"Give up on this event for good?", of_row("drop"));
    match (row.state, &row.ask) {
        (State::Dead, _) => {
            let ask = "Send this event through the queue again? What is done stays done.";
            let plan = parts::look(console, "Plan", json!({"page": "plan", "id": row.id}));
            [plan, parts::button(console, "Replay", &ask, of_row("replay")), drop()].into_iter().collect()
        }
        (State::AwaitingApproval, Some(ask)) => [
            parts::button(console, "Approve", &"Do what is asked here?", answer("approve", &ask.hash)),
            parts::button(console, "Reject", &"Do nothing for this event?", answer("reject", &ask.hash)),
            drop(),
        ]
        .into_iter()
        .collect(),
        // A replay that was cut off before its message was sent.
        (State::Queued, _) if row.is_parked() => parts::button(
            console,
            "Send again",
            &"Send the message of this replay again? A second copy does no harm.",
            of_row("replay"),
        ),
        (State::Waiting, _) => {
            let ask = "Wake this event now? If it still cannot go on, it waits again.";
            [parts::button(console, "Wake", &ask, of_row("replay")), drop()].into_iter().collect()
        }
        _ => Html::default(),
    }
}

fn facts(console: &Console<'_>, row: &Row, now: Timestamp) -> Html {
    let mut facts: Vec<(&'static str, Box<dyn Show>)> = vec![
        ("flow", Box::new(row.flow.clone())),
        ("source", Box::new(row.source.clone())),
        ("received", Box::new(parts::ago(now, row.received_at))),
        ("parked", Box::new(row.listed_at.filter(|_| row.is_parked()).map(|at| parts::ago(now, at)))),
        ("replays", Box::new(row.replay)),
        ("trace", Box::new(trace(console, row))),
        ("logs", Box::new(logs(console, row, now))),
    ];
    if let Some(death) = &row.death {
        facts.push(("reason", Box::new(death.reason.as_str())));
        facts.push(("effect", Box::new(death.effect.clone())));
        facts.push(("error", Box::new(console.line(&death.error))));
        facts.push(("attempts", Box::new(death.attempts)));
    }
    if let Some(ask) = &row.ask {
        facts.push(("asked until", Box::new(ask.until.to_string())));
        let approved_by = ask.approved_by.as_ref().filter(|_| console.access == Access::Operate);
        facts.push(("approved by", Box::new(approved_by.cloned())));
    }
    if let Some(wait) = row.wait.as_ref().filter(|_| row.state == State::Waiting) {
        facts.push(("waits for", Box::new(format!("{}: {}", wait.on, wait.why))));
        facts.push(("waits since", Box::new(parts::ago(now, wait.since))));
        facts.push(("waits until", Box::new(wait.until.map(|until| until.to_string()))));
    }
    if let Some(noop) = &row.noop {
        facts.push(("nothing done", Box::new(format!("{}: {}", noop.guard, noop.facts))));
    }
    let line = |(name, value): &(&'static str, Box<dyn Show>)| {
        html(r#"<tr><th>{}</th><td class="text">{}</td></tr>"#, &[name, &**value])
    };
    html(r#"<table class="facts">{}</table>"#, &[&facts.iter().map(line).collect::<Html>()])
}

/// The trace's id, as a link to where it can be seen; where there is no such place, with the command that rebuilds it.
fn trace(console: &Console<'_>, row: &Row) -> Html {
    let id = row.trace.id();
    if !is_in_aws(console, row) {
        return html("<code>{}</code> <code>ledgerline trace {}</code>", &[&id, &row.id]);
    }
    let address = aws_console::trace(console.region(), &row.trace);
    html(r#"<a href="{}" target="_blank" rel="noopener"><code>{}</code></a>"#, &[&address, &id])
}

/// Whether AWS's console can know the trace: its spans are exported to CloudWatch, or nothing is exported, and Lambda has
/// begun the trace and X-Ray records it. Of what goes to a collector nothing is known here.
fn is_in_aws(console: &Console<'_>, row: &Row) -> bool {
    let spans = &console.replay.spans;
    match spans.share_has(&row.trace) {
        Some(_) => spans.are_in_cloudwatch() && spans.takes(&row.trace),
        None => row.trace.is_sampled() && row.trace.is_of_x_ray(row.received_at),
    }
}

/// A link to the event's lines in the logs, with the query filled in.
fn logs(console: &Console<'_>, row: &Row, now: Timestamp) -> Html {
    let stack = log_query::stack_of(console.endpoint);
    let until = row.history.last().map_or(now, |last| last.at);
    let address = log_query::address(console.region(), stack, &row.id, row.received_at, until);
    html(r#"<a href="{}" target="_blank" rel="noopener">Logs Insights</a>"#, &[&address])
}

fn effects(console: &Console<'_>, call: &WidgetCall, row: &Row, now: Timestamp) -> Html {
    let line = |(id, entry): (&String, &Entry)| {
        let state = entry.progress.as_str();
        html(
            r#"<tr><td>{}</td><td><span class="badge {}">{}</span></td><td>{}</td><td>{}</td><td class="text">{}</td><td>{}</td></tr>"#,
            &[
                id,
                &state,
                &state,
                &entry.attempts,
                &parts::ago(now, entry.at),
                &came_to(console, &entry.progress),
                &verdicts(console, row, id),
            ],
        )
    };
    let lines: Html = row.effects.iter().map(line).collect();
    let resolvable = row.effects.keys().any(|effect| may_resolve(console, row, effect, true));
    let result = (console.access == Access::Operate && resolvable).then(|| {
        let field = parts::field("if it happened, its result", "result", r#"{"crm_id": "…"}"#, call.field("result"));
        html(r#"<form class="sign">{}</form>"#, &[&field])
    });
    html(
        "<h3>Effects</h3>{}<table><tr><th>effect</th><th>state</th><th>attempts</th><th>when</th><th></th><th></th></tr>\
         {}</table>",
        &[&result, &lines],
    )
}

/// The result of an effect, or its error. A result may be worth money, such as a discount code: who may only look
/// sees its shape.
fn came_to(console: &Console<'_>, progress: &Progress) -> Option<String> {
    match progress {
        Progress::Done { result } if *result != json!({}) => Some(match console.access {
            Access::Operate => result.to_string(),
            Access::Read => mask_result(result).to_string(),
        }),
        other => other.error().map(|error| console.line(error)),
    }
}

/// The verdicts on an effect that an operator may know better about.
fn verdicts(console: &Console<'_>, row: &Row, effect: &str) -> Html {
    let verdict = |(label, verdict, happened): (&'static str, &str, bool)| {
        may_resolve(console, row, effect, happened).then_some(())?;
        let params = json!({"op": "resolve", "id": row.id, "effect": effect, "verdict": verdict, "version": row_version::of(row)});
        Some(parts::button(
            console,
            label,
            &format!("Have you seen in the partner's own records that {effect} {}?", label.to_lowercase()),
            params,
        ))
    };
    let both = [("Happened", "happened", true), ("Did not happen", "did_not_happen", false)];
    both.into_iter().filter_map(verdict).collect()
}

fn may_resolve(console: &Console<'_>, row: &Row, effect: &str, happened: bool) -> bool {
    let required = console.replay.flows.required_results(&row.flow, effect);
    row.may_resolve(effect, happened, &required).is_ok()
}

fn history(console: &Console<'_>, row: &Row) -> Html {
    html("<h3>History</h3>{}", &[&moments(console, row)])
}

fn moments(console: &Console<'_>, row: &Row) -> Html {
    let moments = row.history.iter();
    let lines: Html = moments
        .map(|moment| {
            html(
                r#"<tr><td>{}</td><td class="text">{}</td></tr>"#,
                &[&moment.at.to_string(), &console.line(&moment.what)],
            )
        })
        .collect();
    html(r#"<table class="history">{}</table>"#, &[&lines])
}

/// The events that had the same key before, for as long as their flow keeps them. Nothing can be done about them.
fn earlier_events(console: &Console<'_>, earlier: &[Row], now: Timestamp) -> Html {
    let event = |row: &Row| {
        let (badge, received) = (parts::badge(row.state), parts::ago(now, row.received_at));
        html("<p>{} received {}</p>{}", &[&badge, &received, &moments(console, row)])
    };
    let events: Html = earlier.iter().map(event).collect();
    if earlier.is_empty() { events } else { html("<h3>Earlier events of the same key</h3>{}", &[&events]) }
}
