//! The operators' switches: pauses, safe mode, retry policies.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use shared::base::time::{Timestamp, duration};
use shared::ledger::SignOff;
use shared::operate::metric::WorkUnit;
use shared::operate::switchboard::{self, Subject, Turn, TurnError};
use tracing::{info, warn};

use crate::operations::{Failure, Operation, decline};
use crate::{Replay, lane, lists, wake};

/// The length of a pause or of safe mode, as `30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Span(#[serde(deserialize_with = "duration")] Duration);

/// Turns a switch.
pub(crate) async fn turn(replay: &Replay, unit: &WorkUnit<'_>, operation: Operation) -> Result<Value, Failure> {
    let now = replay.clock.now();
    let (subject, turn, by, why) = requested(operation, now)?;
    let sign_off = SignOff::new(&by, &why)?;
    let turns = [(subject, turn)];
    let (board, version) = switchboard::turn(&*replay.boards, &turns, sign_off, &replay.flows, now).await?;
    info!(subject = ?turns[0].0, by, why, version, "the switchboard was changed");
    let mut answer = json!({"version": version, "board": board});
    if turns[0].1 == Turn::Resume {
        answer["woken"] = wake_resumed(replay, unit).await;
    }
    Ok(answer)
}

/// Wakes the events that waited for a resume. If that fails, the next tick does it: the switch is turned all the same.
async fn wake_resumed(replay: &Replay, unit: &WorkUnit<'_>) -> Value {
    match wake::wake_all(replay, unit).await {
        Ok(answer) => answer["woken"].clone(),
        Err(error) => {
            warn!(%error, "the resumed events were not woken; the schedule wakes them within a minute");
            json!(0)
        }
    }
}

/// The switches that are on, the latest turns, and the newest batches.
pub(crate) async fn status(replay: &Replay) -> Result<Value, Failure> {
    let (board, version) = switchboard::look(&*replay.boards).await?;
    let (batches, waiting) = (lane::status(replay).await?, lists::waiting(replay, &board).await?);
    let figures = replay.figures.north_star(replay.clock.now()).await;
    Ok(json!({"version": version, "board": board, "batches": batches, "waiting": waiting, "figures": figures}))
}

fn requested(operation: Operation, now: Timestamp) -> Result<(Subject, Turn, String, String), Failure> {
    Ok(match operation {
        Operation::Pause { flow, integration, r#for, by, reason } => {
            let until = r#for.map(|Span(span)| now + span);
            (subject(flow, integration)?, Turn::Pause { until }, by, reason)
        }
        Operation::Resume { flow, integration, by, reason } => (subject(flow, integration)?, Turn::Resume, by, reason),
        Operation::SafeMode { flow, r#for: Span(Duration::ZERO), by, reason } => {
            (subject(flow, None)?, Turn::Normal, by, reason)
        }
        Operation::SafeMode { flow, r#for: Span(span), by, reason } => {
            (subject(flow, None)?, Turn::SafeMode { until: now + span }, by, reason)
        }
        Operation::LogLevel { flow, r#for: Span(Duration::ZERO), by, reason, .. } => {
            (Subject::Flow(flow), Turn::UsualLog, by, reason)
        }
        Operation::LogLevel { flow, level, r#for: Span(span), by, reason } => {
            (Subject::Flow(flow), Turn::Log { level, until: now + span }, by, reason)
        }
        Operation::Policy { flow, retry, by, reason } => (Subject::Flow(flow), Turn::Retry(retry), by, reason),
        _ => {
            return Err(decline("this operation turns no switch: write pause, resume, safe_mode, policy or log_level"));
        }
    })
}

fn subject(flow: Option<String>, integration: Option<String>) -> Result<Subject, Failure> {
    match (flow, integration) {
        (None, None) => Ok(Subject::All),
        (Some(flow), None) => Ok(Subject::Flow(flow)),
        (None, Some(integration)) => Ok(Subject::Integration(integration)),
        (Some(_), Some(_)) => Err(decline("name a flow or an integration, not both; neither means everything")),
    }
}

impl From<TurnError> for Failure {
    fn from(error: TurnError) -> Self {
        match error {
            TurnError::Unavailable(unavailable) => unavailable.into(),
            refused => decline(refused.to_string()),
        }
    }
}
