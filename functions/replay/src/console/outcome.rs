//! The outcome of a button, which pops up over the page.

use serde_json::{Map, Value, json};

use super::call::WidgetCall;
use super::html::{Html, html};
use super::{Access, Console};
use crate::operations::{Failure, Operation, attempt, decline};

pub(super) async fn page(console: &Console<'_>, call: &WidgetCall) -> Result<Html, Failure> {
    if console.access == Access::Read {
        return Err(decline(
            "nothing was done: this console only shows; operators use the dashboard whose name ends in -operate",
        ));
    }
    let operation = operation(call)?;
    let answer = attempt(console.replay, call.param("op"), operation).await?;
    Ok(match call.param("op") {
        "resolve" => done("your verdict is recorded; replay the event to go on from there"),
        _ => told(&answer),
    })
}

/// The outcome of an operation that was declined, or that may have been done.
pub(super) fn not_done(failure: &Value) -> Html {
    let what = if failure["unavailable"] == true { "No answer" } else { "Not done" };
    let why = failure["error"].as_str().unwrap_or_default();
    html(r#"<p class="outcome bad"><b>{}:</b> {}</p>"#, &[&what, &why])
}

/// The operation that the button carries, with the sign-off from the fields.
fn operation(call: &WidgetCall) -> Result<Operation, Failure> {
    let mut params = call.params().clone();
    for name in ["by", "reason"] {
        params.insert(name.into(), json!(call.field(name)));
    }
    if params["op"] == "pause" && !call.field("for").is_empty() {
        params.insert("for".into(), json!(call.field("for")));
    }
    if params.get("verdict").is_some_and(|verdict| verdict == "happened") {
        params.insert("verdict".into(), json!({"happened": result(call)?}));
    }
    serde_json::from_value(Value::Object(params)).map_err(|error| decline(error.to_string()))
}

fn result(call: &WidgetCall) -> Result<Value, Failure> {
    match call.field("result") {
        "" => Ok(Value::Object(Map::new())),
        text => serde_json::from_str(text).map_err(|error| decline(format!("the result is not JSON: {error}"))),
    }
}

fn done(what: &str) -> Html {
    html(r#"<p class="outcome good"><b>Done:</b> {}.</p>"#, &[&what])
}

fn told(answer: &Value) -> Html {
    if answer["error"].is_string() {
        return not_done(answer);
    }
    let fates = [&answer["answered"], &answer["applied"]].into_iter().find_map(Value::as_array);
    match (fates, &answer["state"]) {
        (Some(fates), _) => fates.iter().map(fate).collect(),
        (None, Value::String(_)) => fate(answer),
        (None, _) => done("the switch is turned"),
    }
}

/// The fate of one event: of several behind one button, each has its own.
fn fate(event: &Value) -> Html {
    match event["state"].as_str() {
        _ if event["error"].is_string() => not_done(event),
        state => done(&format!("the event is {} now", state.unwrap_or_default().replace('_', " "))),
    }
}
