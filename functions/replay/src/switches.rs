//! What operators switch at run time, with no deploy.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use shared::ports::WriteError;
use shared::switchboard::{Board, Refused, Subject, Switch, Turn};
use shared::time::{Timestamp, duration};
use tracing::info;

use crate::Replay;
use crate::lane;
use crate::operations::{Failure, Operation, check_words, refuse};

/// How long a switch is on, as `30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Span(#[serde(deserialize_with = "duration")] Duration);

/// Turns a switch. The board is read and written under its version, so that two operators who turn
/// different switches at once both have theirs.
pub(crate) async fn turn(replay: &Replay, operation: Operation) -> Result<Value, Failure> {
    let now = replay.clock.now();
    let (subject, turn, by, why) = requested(operation, now)?;
    check_words(&by, &why)?;
    for _ in 0..TRIES {
        let (board, version) = read(replay).await?;
        let next = board.changed(&subject, turn.clone(), &replay.flows, now)?;
        match replay.boards.put(&next, version).await {
            Ok(version) => {
                info!(?subject, by, why, version, "switched");
                return Ok(json!({"version": version, "board": next}));
            }
            Err(WriteError::Fenced) => continue,
            Err(WriteError::Unavailable(unavailable)) => return Err(unavailable.into()),
        }
    }
    Err(refuse("others are turning switches right now: try again"))
}

/// The positions of all switches.
pub(crate) async fn status(replay: &Replay) -> Result<Value, Failure> {
    let (board, version) = read(replay).await?;
    Ok(json!({"version": version, "board": board, "batches": lane::status(replay).await?}))
}

async fn read(replay: &Replay) -> Result<(Board, u64), Failure> {
    match replay.boards.read().await? {
        Some(stored) => Ok((Board::read(&stored.text)?, stored.version)),
        None => Ok((Board::default(), 0)),
    }
}

fn requested(operation: Operation, now: Timestamp) -> Result<(Subject, Turn, String, String), Failure> {
    let on = |span: Option<Span>, by: &str, why: &str| Switch {
        since: now,
        until: span.map(|Span(span)| now + span),
        by: by.to_owned(),
        why: why.to_owned(),
    };
    Ok(match operation {
        Operation::Pause { flow, integration, r#for, by, reason } => {
            (subject(flow, integration)?, Turn::Pause(on(r#for, &by, &reason)), by, reason)
        }
        Operation::Resume { flow, integration, by, reason } => (subject(flow, integration)?, Turn::Resume, by, reason),
        Operation::SafeMode { flow, r#for: Span(Duration::ZERO), by, reason } => {
            (subject(flow, None)?, Turn::Normal, by, reason)
        }
        Operation::SafeMode { flow, r#for, by, reason } => {
            (subject(flow, None)?, Turn::SafeMode(on(Some(r#for), &by, &reason)), by, reason)
        }
        Operation::Policy { flow, retry, by, reason } => (Subject::Flow(flow), Turn::Retry(retry), by, reason),
        other => return Err(refuse(format!("{other:?} is no switch"))),
    })
}

fn subject(flow: Option<String>, integration: Option<String>) -> Result<Subject, Failure> {
    match (flow, integration) {
        (None, None) => Ok(Subject::All),
        (Some(flow), None) => Ok(Subject::Flow(flow)),
        (None, Some(integration)) => Ok(Subject::Integration(integration)),
        (Some(_), Some(_)) => Err(refuse("name a flow or an integration, not both; neither means everything")),
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        refuse(refused.to_string())
    }
}

/// How often a turn is tried while others turn too.
const TRIES: usize = 5;
