//! Turning switches on the board that is stored.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{BadBoard, Board};
use crate::base::errors::{Unavailable, WriteError};
use crate::base::time::Timestamp;
use crate::flows::Flows;
use crate::ledger::SignOff;
use crate::operate::switchboard::Boards;

/// What a switch is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Everything.
    All,
    /// A flow.
    Flow(String),
    /// An integration.
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

/// What an operator does to the board.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// Nothing is called until it is resumed, or until this moment.
    Pause {
        /// When it ends by itself.
        until: Option<Timestamp>,
    },
    /// Calls go on.
    Resume,
    /// Flows do what their `safe_mode` says, until this moment.
    SafeMode {
        /// When it ends by itself.
        until: Timestamp,
    },
    /// Flows do what they do.
    Normal,
    /// A flow's policy is changed in this; in nothing, it is the flow's own again.
    Retry(Map<String, Value>),
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Turn::Pause { .. } => "paused",
            Turn::Resume => "resumed",
            Turn::SafeMode { .. } => "safe mode",
            Turn::Normal => "safe mode off",
            Turn::Retry(change) if change.is_empty() => "policy taken back",
            Turn::Retry(_) => "policy",
        })
    }
}

/// Why no switch was turned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The flows cannot go by it, or nobody can read the board that is there.
    #[error(transparent)]
    BadBoard(#[from] BadBoard),
    /// Others turn switches all the time.
    #[error("others are turning switches right now: try again")]
    Crowded,
    /// The board could not be read or written.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// How often a turn is tried while others turn too.
const TRIES: usize = 5;

/// The board that is stored, and its version.
pub async fn read(boards: &dyn Boards) -> Result<(Board, u64), TurnError> {
    match boards.read().await? {
        Some(stored) => Ok((Board::read(&stored.text)?, stored.version)),
        None => Ok((Board::default(), 0)),
    }
}

/// Turns switches, all or none. The board is read and written under its version, so that two who turn
/// different switches at once both have theirs. Answers with the board as it is then, and its version.
pub async fn turn(
    boards: &dyn Boards,
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
            Err(WriteError::Fenced) => continue,
            Err(WriteError::Unavailable(unavailable)) => return Err(unavailable.into()),
        }
    }
    Err(TurnError::Crowded)
}
