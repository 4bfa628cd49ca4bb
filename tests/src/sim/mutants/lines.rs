//! Lines of waiting events that are kept carelessly.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use shared::arrival::event::Event;
use shared::base::document::{DocumentStore, Stored};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::format::FORMAT;
use shared::base::time::Timestamp;
use shared::ledger::{Closed, InLine, Line, Lines, Listed, PassedOver, WaitsFor};
use shared::model::ModelLedger;
use shared::operate::switchboard::{Board, change_waits};
use sim::mutation::ContainerPorts;

use super::super::seeds::{OURS, SHIPPED};
use crate::fixtures::NOW;

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
    /// Lists come in the wrong order.
    Reversed,
    /// Nothing that waits is taken.
    TakesNothing,
}

#[async_trait]
impl Lines for CarelessLines {
    async fn wait(&self, closed: &Closed, event: &Event) -> Result<(), WriteError> {
        match self.fault {
            LineFault::RowAlone => self.ledger.hold(closed.row()),
            LineFault::TakesNothing => {
                Err(Unavailable { port: "the ledger", why: Unavailable::DECLINED.into() }.into())
            }
            LineFault::LooksNot | LineFault::Reversed => self.lines.wait(closed, event).await,
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

    async fn listed_past(
        &self,
        passed: &PassedOver,
        on: &WaitsFor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Listed, Unavailable> {
        let mut listed = self.lines.listed_past(passed, on, until, limit).await?;
        if self.fault == LineFault::Reversed {
            listed.rows.reverse();
        }
        Ok(listed)
    }
}

/// The flows that really have a mark, as a container knows it.
type Marked = Arc<Mutex<BTreeSet<String>>>;

/// Lets events leave the queue before their flow's mark is known: a container takes every flow for marked when an event
/// may leave, sets the mark when one does, and goes by the marks that it has read when it may overtake another.
pub(super) fn leaves_early(ports: ContainerPorts) -> ContainerPorts {
    let (marked, boards): (Marked, Arc<dyn DocumentStore<Board>>) = (Marked::default(), ports.boards.into());
    ContainerPorts {
        board: Box::new(AllMarked(ports.board, Arc::clone(&marked))),
        lines: Box::new(LinesOfMarked(ports.lines, marked, Arc::clone(&boards))),
        boards: Box::new(SharedBoards(boards)),
        ..ports
    }
}

struct SharedBoards(Arc<dyn DocumentStore<Board>>);

#[async_trait]
impl DocumentStore<Board> for SharedBoards {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        self.0.read().await
    }

    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        self.0.put(board, seen).await
    }
}

struct AllMarked(Box<dyn DocumentStore<Board>>, Marked);

#[async_trait]
impl DocumentStore<Board> for AllMarked {
    async fn read(&self) -> Result<Option<Stored>, Unavailable> {
        let stored = self.0.read().await?;
        let empty = Stored { version: 0, format: FORMAT, text: "{}".into() };
        let stored = stored.unwrap_or(empty);
        let mut board: Value = serde_json::from_str(&stored.text).expect("a board");
        let marked = board["waits"].as_object().into_iter().flatten().map(|(flow, _)| flow.clone()).collect();
        *self.1.lock().expect("nobody panics") = marked;
        let flows = [&OURS, &SHIPPED].into_iter().map(|simulation| simulation.scenario().versions[0].flows());
        for flows in flows {
            for flow in flows.all() {
                let on = flows.integrations().map(|(name, _)| json!({"integration": name}));
                let on: Vec<Value> = on.chain([json!({"flow": flow.name}), json!("moment")]).collect();
                let since = NOW - Duration::from_secs(60);
                board["waits"][&flow.name] = json!({"since": since, "seen": NOW, "on": on});
            }
        }
        Ok(Some(Stored { text: board.to_string(), ..stored }))
    }

    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError> {
        self.0.put(board, seen).await
    }
}

struct LinesOfMarked(Box<dyn Lines>, Marked, Arc<dyn DocumentStore<Board>>);

impl LinesOfMarked {
    fn is_marked(&self, line: &Line) -> bool {
        let flow = line.as_str().split('/').nth(1).unwrap_or_default();
        self.1.lock().expect("nobody panics").contains(flow)
    }
}

#[async_trait]
impl Lines for LinesOfMarked {
    async fn wait(&self, closed: &Closed, event: &Event) -> Result<(), WriteError> {
        let row = closed.row();
        if let Some(wait) = &row.wait {
            let marked = change_waits(&*self.2, |board| board.with_waits(&row.flow, &wait.on, wait.since)).await;
            marked.map_err(|_| Unavailable { port: "the board", why: "the mark was not set".into() })?;
        }
        self.0.wait(closed, event).await
    }

    async fn first(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        if self.is_marked(line) { self.0.first(line).await } else { Ok(None) }
    }

    async fn last(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        self.0.last(line).await
    }

    async fn leave(&self, line: &Line, place: &InLine) -> Result<(), Unavailable> {
        self.0.leave(line, place).await
    }

    async fn listed_past(
        &self,
        passed: &PassedOver,
        on: &WaitsFor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Listed, Unavailable> {
        self.0.listed_past(passed, on, until, limit).await
    }
}
