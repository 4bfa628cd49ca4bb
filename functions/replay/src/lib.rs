//! The replay function: it parks dead letters, and does what operators ask.
//!
//! The dead letter queue feeds it, and operators invoke it. A FIFO queue can be neither searched nor
//! picked from, and its retention ends; so each dead letter becomes a record, and from then on
//! operators work on records.

mod figures;
mod gauges;
mod invalid;
mod contacts;
mod lane;
mod letters;
mod lists;
mod operations;
mod plans;
mod schedule;
mod send_again;
mod switches;
mod row_version;
mod view;
mod wake;
mod console;

use aws_lambda_events::sqs::SqsEvent;
use serde_json::{Value, json};
use shared::arrival::window::Windows;
use shared::base::document::DocumentStore;
use shared::base::machine::{Chance, Clock, Sleep};
use shared::effects::contact::Contacts;
use shared::flows::Flows;
use shared::ledger::batch::Batches;
use shared::ledger::queue::{Depths, Queue, Ticks, Visibility};
use shared::ledger::{Lines, Records};
use shared::limits::pressure::Breakers;
use shared::limits::rates::Limiter;
use shared::operate::metric::{MetricQuery, Metrics};
use shared::operate::span::Spans;
use shared::operate::stale_guard::Latest;
use shared::operate::switchboard::Board;

pub use console::{Access, Console};
pub use contacts::ImportRow;
pub use figures::Figures;
pub use letters::park_batch;
pub use operations::{EffectVerdict, Failure, Operation, QuestionSeen, operate};
pub use plans::PlanSeen;
pub use switches::Span;

/// The ports of the replay function.
pub struct Replay {
    /// The ledger, for operators.
    pub records: Box<dyn Records>,
    /// The lists and lines of waiting events.
    pub lines: Box<dyn Lines>,
    /// The breakers of partners, to see who can be sent work.
    pub breakers: Box<dyn Breakers>,
    /// The event that was applied last, for each entity.
    pub latest: Box<dyn Latest>,
    /// The anchors of keys with a window, for events that were parked before they had a key.
    pub windows: Box<dyn Windows>,
    /// The contacts of all tenants.
    pub contacts: Box<dyn Contacts>,
    /// The queue of events, to send replays.
    pub queue: Box<dyn Queue>,
    /// The depth of the queue of events.
    pub depths: Box<dyn Depths>,
    /// The batches of replays.
    pub batches: Box<dyn DocumentStore<Batches>>,
    /// The ticks that drive the batches.
    pub ticks: Box<dyn Ticks>,
    /// The visibility of dead letters, to postpone the lane's tick.
    pub visibility: Box<dyn Visibility>,
    /// The replay rate of each partner.
    pub limiter: Limiter,
    /// The metrics.
    pub metrics: Box<dyn Metrics>,
    /// What was counted until now, to show it.
    pub figures: Figures,
    /// The exporter of spans.
    pub spans: Box<dyn Spans>,
    /// Random numbers, for jitter.
    pub chance: Box<dyn Chance>,
    /// Short sleeps, between two replays of a batch.
    pub sleep: Box<dyn Sleep>,
    /// The switchboard, to be turned.
    pub boards: Box<dyn DocumentStore<Board>>,
    /// The flows, against which switches are checked.
    pub flows: Flows,
    /// The clock.
    pub clock: Box<dyn Clock>,
}

/// The alias by which approvers invoke the function: IAM lets them use no other.
const APPROVERS: &str = "approvers";

/// The schedule's work was not done: a port did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the schedule's work was not done: {0}")]
pub struct ScheduleFailed(String);

/// Answers an invocation: a dashboard's widget, or what [`handle`] takes. The viewers' console takes only widgets.
///
/// No operator reads the answer to the schedule. So its invocation fails where an operator would be told that
/// a port did not answer: Lambda invokes it again, and the alarm on its errors sees it.
pub async fn serve(console: &Console<'_>, mut payload: Value) -> Result<Value, ScheduleFailed> {
    if let Some(caller) = console.caller {
        sign(&mut payload, caller);
    }
    // Lambda names the alias that was invoked, whatever the caller says.
    if console.endpoint.ends_with(&format!(":{APPROVERS}")) {
        return Ok(operations::handle_for_approver(console.replay, payload).await);
    }
    if payload["describe"] == true {
        return Ok(Value::from(console::DESCRIPTION));
    }
    let unread = payload["op"] == "schedule" || payload["op"] == "wake";
    let answer = match console::WidgetCall::of(&payload) {
        Some(call) => console::answer(console, &call).await,
        None if console.access == Access::Operate => handle(console.replay, payload).await,
        None => {
            json!({"error": "this function only shows the dashboard's widget: nothing was done; operators invoke the replay function"})
        }
    };
    match answer["error"].as_str() {
        Some(why) if unread && answer["unavailable"] == true => Err(ScheduleFailed(why.to_owned())),
        _ => Ok(answer),
    }
}

/// Replaces the name that the caller states by the one that Lambda gives.
///
/// Lambda knows a name only of callers with a Cognito identity. Of others it tells a function nothing:
/// then `by` is what the caller states, and CloudTrail has the credentials beside the id of the request.
fn sign(payload: &mut Value, caller: &str) {
    for stated in ["/by", "/widgetContext/forms/all/by"] {
        if let Some(by) = payload.pointer_mut(stated) {
            *by = json!(caller);
        }
    }
}

/// The series that the console draws.
pub fn drawn(replay: &Replay) -> Vec<MetricQuery> {
    console::drawn(replay)
}

/// Handles a batch of dead letters, or an operator's request: both arrive as a plain invocation.
pub async fn handle(replay: &Replay, payload: Value) -> Value {
    match serde_json::from_value::<SqsEvent>(payload.clone()) {
        Ok(batch) => letters::handle(replay, batch).await,
        Err(_) => operations::handle(replay, payload).await,
    }
}
