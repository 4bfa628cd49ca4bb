//! The ledger, one step at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures::executor::block_on;
use shared::arrival::event::Event;
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{
    Admission, Admissions, Claim, Claims, Closed, InLine, Lease, Line, Lines, Listed, NotClaimed, PassedOver, Records,
    Row, Rows, WaitsFor,
};
use shared::model::{ModelLedger, PlainAdmission};

use super::{PortCall, Seat, short, told};
use crate::mutation::RowRules;
use crate::stores::ItemUse::{ClaimsRow, ReadsRow, WritesRow};

/// How often the answer to a claim is so late that the client repeats it.
const LATE_ANSWERS: f64 = 0.03;

/// How often the second write of an admission lands when its client has given up.
const LATE_ADMISSIONS: f64 = 0.2;

/// The ledger of one container.
#[derive(Clone)]
pub(crate) struct SimLedger {
    pub(crate) seat: Seat,
    pub(crate) ledger: ModelLedger,
    pub(crate) rules: RowRules,
    /// The flows of the container's version.
    pub(crate) flows: Arc<BTreeSet<String>>,
}

impl SimLedger {
    /// The rows of a list that can be read: the adapter leaves the others out.
    fn readable(&self, mut rows: Vec<Row>) -> Vec<Row> {
        rows.retain(|row| !self.seat.scheduler.is_unreadable(&row.id));
        rows
    }

    async fn hold(&self, name: &'static str, row: &Row) -> Result<(), WriteError> {
        let hold = self.rules.hold;
        let (ledger, late) = (self.ledger.clone(), row.clone());
        let about = format!("{} e{} s{}", short(row.id.as_str()), row.epoch, row.step);
        let call = PortCall::of_row(name, &about, WritesRow).with_echo(move || drop(hold(&ledger, late)));
        let write = async { hold(&self.ledger, row.clone()).map(|()| row.state.as_str()) };
        self.seat
            .call(call, write, |answer| answer.as_ref().map_or_else(ToString::to_string, |s| (*s).into()))
            .await??;
        Ok(())
    }
}

#[async_trait]
impl Admissions for SimLedger {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        let call = PortCall::of_row("admit", short(row.id.as_str()), ReadsRow);
        let plainly = async { self.ledger.admit_plainly(row, None, now) };
        match self.seat.call(call, plainly, admitted).await?? {
            PlainAdmission::Ended(admission) => Ok(admission),
            PlainAdmission::InTheWay(seen) => self.admit_anew(*seen, row, None).await.map(|()| Admission::New),
        }
    }

    async fn admit_parked(&self, row: &Row, event: &Event, now: Timestamp) -> Result<bool, Unavailable> {
        let call = PortCall::of_row("admit parked", short(row.id.as_str()), ReadsRow);
        let plainly = async { self.ledger.admit_plainly(row, Some(event), now) };
        match self.seat.call(call, plainly, admitted).await?? {
            PlainAdmission::Ended(admission) => Ok(admission == Admission::New),
            PlainAdmission::InTheWay(seen) => self.admit_anew(*seen, row, Some(event)).await.map(|()| true),
        }
    }
}

/// What the first write of an admission came to.
fn admitted(answer: &Result<PlainAdmission, Unavailable>) -> String {
    match answer {
        Ok(PlainAdmission::Ended(Admission::New)) => "new".into(),
        Ok(PlainAdmission::Ended(Admission::Duplicate(row))) => format!("duplicate of {}", row.state.as_str()),
        Ok(PlainAdmission::InTheWay(_)) => "after an ended key".into(),
        Err(error) => error.to_string(),
    }
}

impl SimLedger {
    /// The second write of an admission after an ended key. It may land when its client has long given up: the network was
    /// slow. A client that is answered late repeats it under the same token, which changes nothing.
    async fn admit_anew(&self, seen: Row, row: &Row, payload: Option<&Event>) -> Result<(), Unavailable> {
        let call = PortCall::of_row("admit anew", short(row.id.as_str()), WritesRow);
        let (admit, ledger) = (self.rules.admit_anew, self.ledger.clone());
        if self.seat.scheduler.healed() || !self.seat.scheduler.happens(LATE_ADMISSIONS) {
            return self.seat.call(call, async { admit(&ledger, &seen, row, payload) }, told).await?;
        }
        let (row, payload) = (row.clone(), payload.cloned());
        self.seat.lands_late(call, move || drop(admit(&ledger, &seen, &row, payload.as_ref()))).await
    }
}

#[async_trait]
impl Claims for SimLedger {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable> {
        let tell = |answer: &Result<Result<Lease, NotClaimed>, Unavailable>| match answer {
            Ok(Ok(lease)) => format!("epoch {}", lease.row().epoch),
            Ok(Err(NotClaimed::Dead(_))) => "refused: dead".into(),
            Ok(Err(found)) => format!("refused: {found:?}"),
            Err(error) => error.to_string(),
        };
        self.seat.oracle.claims(id, &self.seat);
        let repeated = !self.seat.scheduler.healed() && self.seat.scheduler.happens(LATE_ANSWERS);
        let act = async {
            let first = self.ledger.claim(id, claim).await;
            if let Ok(Ok(lease)) = &first {
                let row = lease.row();
                self.seat.oracle.won(row, self.flows.contains(&row.flow), &self.seat);
            }
            if !repeated {
                return first;
            }
            // The answer is late, and the client sends the claim again.
            let again = self.ledger.claim(id, &(self.rules.repeated)(claim)).await;
            let won = |answer: &Result<Result<Lease, NotClaimed>, Unavailable>| matches!(answer, Ok(Ok(_)));
            self.seat.oracle.repeated_claim(id, won(&first), won(&again), &self.seat.scheduler);
            again
        };
        self.seat.call(PortCall::of_row("claim", short(id.as_str()), ClaimsRow), act, tell).await?
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.hold("record", lease.row()).await
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.hold("close", closed.row()).await
    }
}

#[async_trait]
impl Rows for SimLedger {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        let tell = |answer: &Result<Option<Row>, Unavailable>| match answer {
            Ok(Some(row)) => row.state.as_str().into(),
            Ok(None) => "none".into(),
            Err(error) => error.to_string(),
        };
        self.seat.call(PortCall::of_row("row", short(id.as_str()), ReadsRow), self.ledger.row(id), tell).await?
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        self.seat.call(PortCall::of("older", short(id.as_str())), self.ledger.older(id), told).await?
    }
}

#[async_trait]
impl Records for SimLedger {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        Ok(self.readable(self.seat.call(PortCall::of("parked", ""), self.ledger.parked(limit), told).await??))
    }

    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        let between = self.ledger.parked_between(since, until, limit);
        Ok(self.readable(self.seat.call(PortCall::of("parked between", ""), between, told).await??))
    }

    async fn park(&self, seen: Option<&Row>, next: &Row, event: &Event) -> Result<(), WriteError> {
        let about = format!("{} e{} {}", short(next.id.as_str()), next.epoch, next.state.as_str());
        let (ledger, late) = (self.ledger.clone(), (seen.cloned(), next.clone(), event.clone()));
        let again = move || drop(block_on(ledger.park(late.0.as_ref(), &late.1, &late.2)));
        let park = self.ledger.park(seen, next, event);
        self.seat.call(PortCall::of_row("park", &about, WritesRow).with_echo(again), park, told).await?
    }

    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable> {
        self.seat
            .call(PortCall::of("keep", short(event.id.as_str())), self.ledger.keep(event, expires_at), told)
            .await?
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        self.seat.call(PortCall::of("kept", short(id.as_str())), self.ledger.kept(id), told).await?
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        self.seat.call(PortCall::of("forget", short(event.id.as_str())), self.ledger.forget(event), told).await?
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        let mut next = next.clone();
        if next.replay > seen.map_or(0, |row| row.replay) {
            (self.rules.replayed)(&mut next);
        }
        let about = format!("{} e{} {}", short(next.id.as_str()), next.epoch, next.state.as_str());
        let (ledger, late) = (self.ledger.clone(), (seen.cloned(), next.clone()));
        let again = move || drop(block_on(ledger.replace(late.0.as_ref(), &late.1)));
        self.seat
            .call(
                PortCall::of_row("replace", &about, WritesRow).with_echo(again),
                self.ledger.replace(seen, &next),
                told,
            )
            .await?
    }
}

#[async_trait]
impl Lines for SimLedger {
    async fn wait(&self, closed: &Closed, event: &Event) -> Result<(), WriteError> {
        let row = closed.row();
        let about = format!("{} e{} s{}", short(row.id.as_str()), row.epoch, row.step);
        let (ledger, late) = (self.ledger.clone(), (closed.clone(), event.clone()));
        let again = move || drop(block_on(ledger.wait(&late.0, &late.1)));
        self.seat
            .call(PortCall::of_row("wait", &about, WritesRow).with_echo(again), self.ledger.wait(closed, event), told)
            .await?
    }

    async fn first(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        self.seat.call(PortCall::of("first", line.as_str()), self.ledger.first(line), told).await?
    }

    async fn last(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        self.seat.call(PortCall::of("last", line.as_str()), self.ledger.last(line), told).await?
    }

    async fn leave(&self, line: &Line, place: &InLine) -> Result<(), Unavailable> {
        let (ledger, late) = (self.ledger.clone(), (line.clone(), place.clone()));
        let again = move || drop(block_on(ledger.leave(&late.0, &late.1)));
        let call = PortCall::of("leave", line.as_str()).with_echo(again);
        self.seat.call(call, self.ledger.leave(line, place), told).await?
    }

    async fn listed_past(
        &self,
        passed: &PassedOver,
        on: &WaitsFor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Listed, Unavailable> {
        let about = on.to_string();
        let listed = self.ledger.listed_past(passed, on, until, limit);
        let mut listed = self.seat.call(PortCall::of("listed", &about), listed, told).await??;
        let broken = listed.rows.extract_if(.., |row| self.seat.scheduler.is_unreadable(&row.id));
        listed.unreadable = broken.map(|row| row.id).collect();
        Ok(listed)
    }
}
