//! The replay function: it owns everything that is parked.
//!
//! The dead letter queue feeds it, and operators ask it. A FIFO queue can be neither searched nor
//! picked from, and its retention ends; so each dead letter becomes a record, and from then on
//! operators work on records.

mod lane;
mod letters;
mod lists;
mod operations;
mod plans;
mod schedule;
mod send;
mod switches;
mod version;
mod view;
mod widget;

use aws_lambda_events::sqs::SqsEvent;
use serde_json::{Value, json};
use shared::base::machine::{Chance, Clock, Sleep};
use shared::flows::Flows;
use shared::ledger::Records;
use shared::ledger::batch::BatchStore;
use shared::ledger::queue::{Depths, Queue, Ticks, Visibility};
use shared::limits::rates::Limiter;
use shared::operate::stale::Latest;
use shared::operate::switchboard::Boards;

pub use letters::park_batch;
pub use operations::{EffectVerdict, Failure, Operation, QuestionSeen, operate};
pub use plans::PlanSeen;
pub use switches::Span;
pub use widget::{Access, Console};

/// What the replay works with.
pub struct Replay {
    /// The ledger.
    pub records: Box<dyn Records>,
    /// What was applied last, of each entity.
    pub latest: Box<dyn Latest>,
    /// The queue of events.
    pub queue: Box<dyn Queue>,
    /// How much is on it.
    pub depths: Box<dyn Depths>,
    /// Batches of replays.
    pub batches: Box<dyn BatchStore>,
    /// What drives them.
    pub ticks: Box<dyn Ticks>,
    /// The queue of dead letters, to postpone the lane's tick.
    pub visibility: Box<dyn Visibility>,
    /// How often a partner may be called by replays.
    pub limiter: Limiter,
    /// Chance, for jitter.
    pub chance: Box<dyn Chance>,
    /// Short sleeps, between two replays of a batch.
    pub sleep: Box<dyn Sleep>,
    /// The switchboard.
    pub boards: Box<dyn Boards>,
    /// The flows, by which switches are judged.
    pub flows: Flows,
    /// The time.
    pub clock: Box<dyn Clock>,
}

/// The schedule's work could not be done: something did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the schedule: {0}")]
pub struct ScheduleFailed(String);

/// A dashboard's widget, or what [`handle`] takes. The console of viewers takes nothing else.
///
/// Nobody reads what the schedule is answered. So its invocation fails where others would be told that
/// something is unavailable: Lambda asks again, and the alarm on its errors sees it.
pub async fn serve(console: &Console<'_>, mut payload: Value) -> Result<Value, ScheduleFailed> {
    if let Some(caller) = console.caller {
        sign(&mut payload, caller);
    }
    if payload["describe"] == true {
        return Ok(Value::from(widget::DESCRIPTION));
    }
    let unread = payload["op"] == "schedule";
    let answer = match widget::WidgetCall::of(&payload) {
        Some(call) => widget::answer(console, &call).await,
        None if console.access == Access::Operate => handle(console.replay, payload).await,
        None => {
            json!({"error": "this function is a widget of a dashboard, to look: operators use the replay function"})
        }
    };
    match answer["error"].as_str() {
        Some(why) if unread && answer["unavailable"] == true => Err(ScheduleFailed(why.to_owned())),
        _ => Ok(answer),
    }
}

/// Puts the name that Lambda gives of the caller in the place of the one that the caller gives.
///
/// Lambda knows one only of those who come with a Cognito identity. Of others it tells a function nothing:
/// then `by` is somebody's word, and CloudTrail has the credentials beside the id of the request.
fn sign(payload: &mut Value, caller: &str) {
    for stated in ["/by", "/widgetContext/forms/all/by"] {
        if let Some(by) = payload.pointer_mut(stated) {
            *by = json!(caller);
        }
    }
}

/// A batch of dead letters, or an operator's request: both arrive as a plain invocation.
pub async fn handle(replay: &Replay, payload: Value) -> Value {
    match serde_json::from_value::<SqsEvent>(payload.clone()) {
        Ok(batch) => letters::handle(replay, batch).await,
        Err(_) => operations::handle(replay, payload).await,
    }
}
