//! The parts of pages: links, buttons, fields, times.

use serde_json::{Value, json};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{SignOff, State};

use super::html::{Html, Json, Show, html};
use super::{Access, Console};

/// A link to another page of the widget.
pub(super) fn link(console: &Console<'_>, label: &dyn Show, page: Value) -> Html {
    page_call(console, "link", label, page)
}

/// A button that shows the page again, with the values of the fields.
pub(super) fn look(console: &Console<'_>, label: &'static str, page: Value) -> Html {
    page_call(console, "btn", &label, page)
}

fn page_call(console: &Console<'_>, class: &'static str, label: &dyn Show, page: Value) -> Html {
    html(
        r#"<a class="{}">{}</a><cwdb-action action="call" display="widget" endpoint="{}">{}</cwdb-action>"#,
        &[&class, label, &console.endpoint, &Json(page)],
    )
}

/// A button that changes something, after a question. Its answer pops up: the page stays, so that
/// refreshing it never does anything twice. A read-only console has none.
pub(super) fn button(console: &Console<'_>, label: &'static str, question: &dyn Show, operation: Value) -> Html {
    match console.access {
        Access::Read => Html::default(),
        Access::Operate => html(
            r#"<a class="btn">{}</a><cwdb-action action="call" display="popup" confirmation="{}" endpoint="{}">{}</cwdb-action>"#,
            &[&label, question, &console.endpoint, &Json(operation)],
        ),
    }
}

/// A link to an event's page.
pub(super) fn event_link(console: &Console<'_>, id: &EventId) -> Html {
    let short: String = id.as_str().chars().take(SHORT).collect();
    link(console, &html(r#"<code title="{}">{}</code>"#, &[id, &short]), json!({"page": "event", "id": id}))
}

/// The number of characters of an id that tell events apart.
const SHORT: usize = 12;

/// A text field, with its value.
pub(super) fn field(label: &'static str, name: &'static str, hint: &'static str, value: &str) -> Html {
    html(
        r#"<label>{} <input name="{}" value="{}" placeholder="{}" maxlength="{}"></label> "#,
        &[&label, &name, &value, &hint, &SignOff::MAX_CHARS],
    )
}

/// A choice between all and one of these options. Its name is not that of a sign-off's field.
pub(super) fn choice(name: &'static str, options: &[String], chosen: &str) -> Html {
    let option = |value: &String| match value == chosen {
        true => html(r#"<option selected>{}</option>"#, &[value]),
        false => html("<option>{}</option>", &[value]),
    };
    let options: Html = options.iter().map(option).collect();
    html(
        r#"<label>{} <select name="filter_{}"><option value="">all</option>{}</select></label> "#,
        &[&name, &name, &options],
    )
}

/// A state, in its colour.
pub(super) fn badge(state: State) -> Html {
    html(r#"<span class="badge {}">{}</span>"#, &[&state.as_str(), &state_name(state)])
}

/// A state's name in words.
pub(super) fn state_name(state: State) -> String {
    state.as_str().replace('_', " ")
}

/// The time since a moment; the moment itself is its title.
pub(super) fn ago(now: Timestamp, at: Timestamp) -> Html {
    html(r#"<span title="{}">{} ago</span>"#, &[&at.to_string(), &span(now.since(at).as_secs())])
}

/// A span of time, in the largest unit that it fills twice.
pub(super) fn span(secs: u64) -> String {
    match secs {
        0..120 => format!("{secs} s"),
        120..7200 => format!("{} min", secs / 60),
        7200..172_800 => format!("{} h", secs / 3600),
        _ => format!("{} d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_a_unit_that_it_fills_twice() {
        for (secs, told) in [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")] {
            assert_eq!(span(secs), told);
        }
    }
}
