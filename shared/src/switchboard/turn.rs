//! Turning switches on the board that is stored.

use super::{Board, Refused, Subject, Turn};
use crate::flow::Flows;
use crate::ports::{Boards, Unavailable, WriteError};
use crate::time::Timestamp;

/// Why no switch was turned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The flows cannot go by it, or nobody can read the board that is there.
    #[error(transparent)]
    Refused(#[from] Refused),
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
    flows: &Flows,
    now: Timestamp,
) -> Result<(Board, u64), TurnError> {
    for _ in 0..TRIES {
        let (mut board, version) = read(boards).await?;
        for (subject, turn) in turns {
            board = board.changed(subject, turn.clone(), flows, now)?;
        }
        match boards.put(&board, version).await {
            Ok(version) => return Ok((board, version)),
            Err(WriteError::Fenced) => continue,
            Err(WriteError::Unavailable(unavailable)) => return Err(unavailable.into()),
        }
    }
    Err(TurnError::Crowded)
}
