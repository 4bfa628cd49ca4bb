//! Lines of waiting events that are kept carelessly.

use async_trait::async_trait;
use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::time::Timestamp;
use shared::ledger::{Closed, InLine, Line, Lines, Row, WaitsFor};
use shared::model::ModelLedger;

/// The lines, but for one thing.
pub(super) struct CarelessLines {
    pub(super) lines: Box<dyn Lines>,
    pub(super) ledger: ModelLedger,
    pub(super) fault: LineFault,
}

/// What is left undone.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum LineFault {
    /// Nobody looks who stands before them.
    LooksNot,
    /// The row is written alone.
    RowAlone,
}

#[async_trait]
impl Lines for CarelessLines {
    async fn wait(&self, closed: &Closed, event: &Event) -> Result<(), WriteError> {
        match self.fault {
            LineFault::RowAlone => self.ledger.hold(closed.row()),
            LineFault::LooksNot => self.lines.wait(closed, event).await,
        }
    }

    async fn first(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        let first = self.lines.first(line).await?;
        Ok(first.filter(|_| self.fault != LineFault::LooksNot))
    }

    async fn last(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        self.lines.last(line).await
    }

    async fn leave(&self, line: &Line, place: &InLine) -> Result<(), Unavailable> {
        self.lines.leave(line, place).await
    }

    async fn listed(&self, on: &WaitsFor, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        self.lines.listed(on, until, limit).await
    }
}
