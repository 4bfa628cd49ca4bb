//! The request of an effect as a plan shows it: what the flow and the catalogue say, without secrets.

use std::time::Duration;

use serde_json::Value;
use shared::arrival::event::Event;
use shared::arrival::signature::Secret;
use shared::base::trace::SpanId;
use shared::effects::credentials::Credentials;
use shared::effects::request::RequestParts;
use shared::flows::template::{Body, TemplateError, Values};
use shared::flows::{Action, Call, Effect, Flows, Integration, Request};
use shared::ledger::Row;
use shared::limits::rates::Rate;

use super::PlannedAction;
use super::mask::Shown;

/// What stands for a secret variable where a plan renders a template.
const SECRET: &str = "secret";

/// The call of an effect.
pub(super) fn call(
    effect: &Effect,
    call: &Call,
    event: &Event,
    row: &Row,
    flows: &Flows,
    shown: Shown,
) -> Result<PlannedAction, TemplateError> {
    let parts = parts(effect, call, event, row, flows);
    let (integration, key) = (parts.integration, super::idempotency_key(row, effect));
    // What could not be sent is told, also where nothing of it is shown.
    let content_type = parts.clone().request()?.body.map(|body| body.content_type.into_owned());
    let (open, values) = (parts.open_values()?, parts.values()?);
    let key_header = Some(&integration.idempotency_header).filter(|name| !name.is_empty());
    let mut headers: Vec<(String, String)> = key_header.map(|name| (name.clone(), key)).into_iter().collect();
    // JSON is what everybody expects.
    let content_type = content_type.filter(|written| written != "application/json");
    headers.extend(content_type.map(|written| ("Content-Type".to_owned(), written)));
    for (name, written) in call.request.headers.over(&integration.headers).iter() {
        let rendered = written.render_unless_omitted(&open)?.filter(|value| !value.is_null());
        headers.extend(rendered.map(|value| (name.to_owned(), shown.field(written.written(), value))));
    }
    let body = call.request.tree(&values)?.zip(call.request.written_tree());
    let body = body.map(|(rendered, written)| shown.body(&written, rendered));
    Ok(PlannedAction::Call { line: line(&call.request, integration, &open, shown)?, headers, body })
}

/// How the partner is asked whether the call happened.
pub(super) fn lookup(effect: &Effect, event: &Event, row: &Row, flows: &Flows, shown: Shown) -> Option<String> {
    let after = effect.asked_after()?;
    let Action::Call(call) = &effect.action else {
        return Some(format!("the function is asked after {}", in_words(after)));
    };
    let lookup = effect.lookup.as_ref()?;
    let parts = parts(effect, call, event, row, flows);
    let asked = parts.open_values().and_then(|open| line(&lookup.request, parts.integration, &open, shown));
    let asked = asked.unwrap_or_else(|error| format!("cannot be made from this event: {error}"));
    Some(format!("{asked} after {}", in_words(after)))
}

/// What is in force of a partner besides its requests.
pub(super) fn in_force(partner: &Integration) -> Vec<String> {
    let uses = partner.uses.as_ref().map(|name| format!("uses {name}"));
    let timeout = (!partner.timeout.is_zero()).then(|| format!("time-out {}", in_words(partner.timeout)));
    let limits = &partner.pressure;
    let rate = limits.rate.as_ref().map(rate_in_words);
    let slots = limits.concurrency.map(|slots| format!("{slots} calls at once"));
    let breaker = limits.breaker.is_none().then(|| "no breaker".to_owned());
    let has_key = partner.function.is_some() || !partner.idempotency_header.is_empty();
    let key = format!("knows our key for {}", in_words(partner.key_window));
    let key = if has_key { key } else { "no header for our key".to_owned() };
    let is_not_known = |field: &&str| partner.not_known.contains(field);
    let unknown_window = format!("how long it knows our key is not known: {} counts", in_words(partner.key_window));
    let key = Some("key_window").filter(is_not_known).map_or(key, |_| unknown_window);
    let rate = rate.or(Some("rate").filter(is_not_known).map(|_| "rate not known".to_owned()));
    uses.into_iter().chain(timeout).chain(rate).chain(slots).chain(breaker).chain([key]).collect()
}

fn parts<'o>(effect: &'o Effect, call: &'o Call, event: &'o Event, row: &'o Row, flows: &'o Flows) -> RequestParts<'o> {
    let integration = flows.partner_of(effect).expect("parsed flows name their integrations");
    let secret_vars =
        integration.vars.secrets().map(|name| (name.to_owned(), Secret::new(SECRET.to_owned()))).collect();
    RequestParts {
        effect,
        call,
        integration,
        event,
        row,
        span: SpanId::new(1),
        credentials: Credentials::None,
        secret_vars,
    }
}

/// The method and the URL.
fn line(request: &Request, integration: &Integration, open: &Values, shown: Shown) -> Result<String, TemplateError> {
    let path = shown.path(request.path.written(), &request.path.render_from(open)?);
    let mut query = Vec::new();
    for (name, written) in request.query.over(&integration.query).iter() {
        query.extend(values(written, open, shown)?.into_iter().map(|value| format!("{name}={value}")));
    }
    let separator = if path.contains('?') { "&" } else { "?" };
    let query = if query.is_empty() { String::new() } else { format!("{separator}{}", query.join("&")) };
    Ok(format!("{} {}{path}{query}", request.method.as_str(), integration.base_url))
}

/// A value of the query, or each of its list.
fn values(written: &Body, open: &Values, shown: Shown) -> Result<Vec<String>, TemplateError> {
    let Some(rendered) = written.render_unless_omitted(open)? else { return Ok(Vec::new()) };
    let values = match shown.body(written.written(), rendered) {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        one => vec![one],
    };
    Ok(values.into_iter().map(|value| shown.field(&value.clone(), value)).collect())
}

fn rate_in_words(rate: &Rate) -> String {
    let per = match rate.per().as_secs() {
        1 => "s".to_owned(),
        60 => "min".to_owned(),
        3600 => "h".to_owned(),
        other => format!("{other}s"),
    };
    let burst = if rate.burst() == rate.count() { String::new() } else { format!(", {} at once", rate.burst()) };
    format!("rate {}/{per}{burst}", rate.count())
}

/// A duration as flow files write it, as far as one unit will do.
fn in_words(time: Duration) -> String {
    match (time.as_secs(), time.subsec_millis()) {
        (secs, 0) if secs > 0 && secs.is_multiple_of(3600) => format!("{}h", secs / 3600),
        (secs, 0) => format!("{secs}s"),
        _ => format!("{}ms", time.as_millis()),
    }
}
