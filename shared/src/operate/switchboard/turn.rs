//! Turns: changes to the stored switchboard.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::understood::understood;
use super::{BadBoard, Board};
use crate::base::document::DocumentStore;
use crate::base::errors::{Unavailable, WriteError};
use crate::base::time::Timestamp;
use crate::flows::Flows;
use crate::ledger::SignOff;
use crate::operate::log::LogLevel;

/// The subject of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// All flows and integrations.
    All,
    /// One flow, by its name.
    Flow(String),
    /// One integration, by its name.
    Integration(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::All => f.write_str("everything"),
            Subject::Flow(name) => write!(f, "flow {name}"),
            Subject::Integration(name) => write!(f, "integration {name}"),
        }
    }
}

/// An operator's change to the switchboard.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// Pauses calls, until an operator resumes them or until this moment.
    Pause {
        /// The moment when the pause ends by itself.
        until: Option<Timestamp>,
    },
    /// Ends a pause.
    Resume,
    /// Puts flows into safe mode, until this moment.
    SafeMode {
        /// The moment when safe mode ends by itself.
        until: Timestamp,
    },
    /// Ends safe mode.
    Normal,
    /// Logs more or less of a flow, until this moment.
    Log {
        /// The level.
        level: LogLevel,
        /// The moment when the log is as usual again.
        until: Timestamp,
    },
    /// Logs a flow as usual.
    UsualLog,
    /// Changes a flow's retry policy in these fields; without any, the flow's own policy is in force again.
    Retry(Map<String, Value>),
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Turn::Pause { .. } => "paused",
            Turn::Resume => "resumed",
            Turn::SafeMode { .. } => "safe mode",
            Turn::Normal => "safe mode off",
            Turn::Log { level, .. } => return write!(f, "log level {}", level.as_str()),
            Turn::UsualLog => "log level as usual",
            Turn::Retry(change) if change.is_empty() => "policy taken back",
            Turn::Retry(_) => "policy",
        })
    }
}

/// The reason why no switch was turned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The flows cannot use the new board, or the stored board is not readable.
    #[error(transparent)]
    BadBoard(#[from] BadBoard),
    /// Other writers changed the board at every try.
    #[error("other operators are turning switches at this moment: nothing was changed; try again")]
    Crowded,
    /// The board could not be read or written.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The number of tries while other writers change the board, too.
pub(super) const TRIES: usize = 5;

/// The stored board, to be changed, and its version.
pub async fn read(boards: &dyn DocumentStore<Board>) -> Result<(Board, u64), TurnError> {
    match boards.read().await? {
        Some(stored) => {
            let text = stored.to_change().map_err(|newer| {
                BadBoard(vec![format!(
                    "the switchboard cannot be changed: {newer}; turn switches by the newer version"
                )])
            })?;
            Ok((Board::read(text)?, stored.version))
        }
        None => Ok((Board::default(), 0)),
    }
}

/// The stored board as it is in force here, and its version: a switch that this version does not understand is a pause.
pub async fn look(boards: &dyn DocumentStore<Board>) -> Result<(Board, u64), TurnError> {
    match boards.read().await? {
        Some(stored) => Ok((understood(&stored.text)?.0, stored.version)),
        None => Ok((Board::default(), 0)),
    }
}

/// Turns switches, all or none. The board is read and written under its version, so that two operators who turn
/// different switches at once both have theirs. Returns the new board and its version.
pub async fn turn(
    boards: &dyn DocumentStore<Board>,
    turns: &[(Subject, Turn)],
    sign_off: SignOff<'_>,
    flows: &Flows,
    now: Timestamp,
) -> Result<(Board, u64), TurnError> {
    for _ in 0..TRIES {
        let (mut board, version) = read(boards).await?;
        for (subject, turn) in turns {
            board = board.changed(subject, turn.clone(), sign_off, flows, now)?;
        }
        match boards.put(&board, version).await {
            Ok(version) => return Ok((board, version)),
            // The next read tells of a newer format.
            Err(WriteError::Fenced | WriteError::NewerFormat) => continue,
            Err(WriteError::Unavailable(unavailable)) => return Err(unavailable.into()),
        }
    }
    Err(TurnError::Crowded)
}
