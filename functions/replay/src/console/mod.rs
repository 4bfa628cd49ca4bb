//! The operators' console: a custom widget of a CloudWatch dashboard.
//!
//! The dashboard invokes the function and shows the HTML of its answer; a `<cwdb-action>` makes the
//! element before it a link or a button, which invokes the function again. Pages show the ledger and
//! the switchboard as they are now, and buttons ask for the same operations as the CLI.
//!
//! Deliberately absent: JavaScript, which CloudWatch removes; a state of the widget's own; and any
//! permission that is read from the call. IAM says who may invoke which function: a viewer's has a role
//! that can only read, and shows no buttons.

mod call;
mod chart;
mod event;
mod figures;
mod html;
mod list;
mod outcome;
mod overview;
mod parts;
mod plan;
mod plots;
mod switches;
mod timeline;

use std::str::FromStr;

use serde_json::{Value, json};
use shared::ledger::unquoted;

pub(crate) use call::WidgetCall;
pub(crate) use figures::queries as drawn;
use html::{Html, html};

use crate::Replay;
use crate::operations::{Failure, decline};

/// The access that a console gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The console only shows.
    Read,
    /// The console shows, and has buttons.
    Operate,
}

impl FromStr for Access {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "read" => Ok(Access::Read),
            "operate" => Ok(Access::Operate),
            _ => Err(format!("CONSOLE must be `read` or `operate`, not `{text}`")),
        }
    }
}

/// A console, and the function behind it.
#[derive(Clone, Copy)]
pub struct Console<'a> {
    /// The ports that the console works on.
    pub replay: &'a Replay,
    /// The access that the console gives.
    pub access: Access,
    /// The function's ARN, which links and buttons call.
    pub endpoint: &'a str,
    /// The caller's name, where Lambda knows it.
    pub caller: Option<&'a str>,
}

impl Console<'_> {
    /// The region of the function.
    fn region(&self) -> &str {
        self.endpoint.split(':').nth(3).unwrap_or_default()
    }

    /// A line of the history or an error, as this console may show it. Partners and operators may name people in it.
    fn line(&self, line: &str) -> String {
        match self.access {
            Access::Operate => line.to_owned(),
            Access::Read => unquoted(line),
        }
    }
}

/// The widget's description, in Markdown.
pub(crate) const DESCRIPTION: &str = include_str!("describe.md");

/// Answers a dashboard's call with a page.
pub(crate) async fn answer(console: &Console<'_>, call: &WidgetCall) -> Value {
    let page = page(console, call).await.unwrap_or_else(|failure| outcome::not_done(&failure.answer()));
    let theme = if call.is_dark() { "dark" } else { "light" };
    let style = html(concat!("<style>", include_str!("style.css"), "</style>"), &[]);
    json!(html(r#"{}<div class="ledgerline {}">{}</div>"#, &[&style, &theme, &page]).into_text())
}

async fn page(console: &Console<'_>, call: &WidgetCall) -> Result<Html, Failure> {
    if call.params().contains_key("op") {
        return outcome::page(console, call).await;
    }
    let body = match call.param("page") {
        "" | "overview" => overview::page(console, call).await?,
        "list" => list::page(console, call).await?,
        "event" => event::page(console, call).await?,
        "plan" => plan::page(console, call).await?,
        other => return Err(decline(format!("there is no page `{other}`"))),
    };
    Ok(html("{}{}{}", &[&menu(console), &signature(console, call), &body]))
}

fn menu(console: &Console<'_>) -> Html {
    let overview = parts::link(console, &"Overview", json!({"page": "overview"}));
    let list = parts::link(console, &"Parked events", json!({"page": "list"}));
    html(r#"<p class="menu">{} · {}</p>"#, &[&overview, &list])
}

/// The form for the operator's name and reason: every operation records both. They are what the operator states;
/// CloudTrail knows whose credentials invoked the function.
fn signature(console: &Console<'_>, call: &WidgetCall) -> Html {
    if console.access == Access::Read {
        return Html::default();
    }
    let by = parts::field("by", "by", "your name", call.field("by"));
    let reason = parts::field("reason", "reason", "why, for the history", call.field("reason"));
    html(r#"<form class="sign">{}{}</form>"#, &[&by, &reason])
}
