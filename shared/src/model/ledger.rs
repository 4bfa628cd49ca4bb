//! The ledger in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::FutureExt as _;

use super::ledger_items::{IndexLag, KeptPayload, LARGEST_ITEM, LinePlace, takes_payload, takes_row};
use super::{ModelChance, locked};
use crate::arrival::event::Event;
use crate::base::errors::{Unavailable, WriteError};
use crate::base::format::{FORMAT, UNNUMBERED};
use crate::base::id::EventId;
use crate::base::time::Timestamp;
use crate::ledger::{
    Admission, Admissions, Claim, Claims, Closed, InLine, Lease, Line, Lines, ListOrder, Listed, NotClaimed,
    PassedOver, Records, Row, Rows, SHARDS, ShardPage, WaitsFor, read_list,
};

/// The ledger in memory, as a version of the code sees it that writes one format.
#[derive(Clone, Debug)]
pub struct ModelLedger {
    table: Arc<Mutex<Table>>,
    format: u32,
}

impl Default for ModelLedger {
    fn default() -> Self {
        ModelLedger { table: Arc::default(), format: FORMAT }
    }
}

#[derive(Debug, Default)]
struct Table {
    /// The largest row that is taken, if it is not what DynamoDB takes.
    largest_row: Option<usize>,
    rows: BTreeMap<EventId, Row>,
    /// The format that each row was last written in. What a newer one has and an older one lacks stands and falls with it.
    formats: BTreeMap<EventId, u32>,
    older: BTreeMap<EventId, Vec<Row>>,
    payloads: BTreeMap<EventId, KeptPayload>,
    lines: BTreeMap<Line, BTreeMap<(Timestamp, EventId), LinePlace>>,
    /// The events that wait, or were woken and are not claimed yet.
    waiting: BTreeSet<EventId>,
    reads: usize,
    writes: usize,
    changes: Vec<RowChange>,
    /// How the index lags, if it does.
    lag: Option<IndexLag>,
}

/// One write that landed.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    /// The row before the write, if there was one.
    pub before: Option<Row>,
    /// The row after the write.
    pub after: Row,
    /// The formats of the row before and after the write.
    pub formats: (u32, u32),
}

impl Table {
    fn write(&mut self, row: &Row, format: u32) {
        if row.stands_in_line() {
            self.waiting.insert(row.id.clone());
        } else {
            self.waiting.remove(&row.id);
        }
        let before = self.rows.insert(row.id.clone(), row.clone());
        if let Some(lag) = &mut self.lag {
            lag.was(before.as_ref());
        }
        let format_before = self.formats.insert(row.id.clone(), format).unwrap_or(UNNUMBERED);
        self.changes.push(RowChange { before, after: row.clone(), formats: (format_before, format) });
    }

    fn takes_row(&self, row: &Row) -> Result<(), Unavailable> {
        takes_row(row, self.largest_row.unwrap_or(LARGEST_ITEM))
    }

    fn is_newer(&self, id: &EventId, format: u32) -> bool {
        self.formats.get(id).is_some_and(|written| *written > format)
    }

    fn hold(&mut self, row: &Row, format: u32) -> Result<(), WriteError> {
        let current = self.rows.get(&row.id).ok_or(WriteError::Fenced)?;
        let held = current.epoch == row.epoch && current.step <= row.step;
        if self.is_newer(&row.id, format) {
            return Err(WriteError::NewerFormat);
        }
        if !held {
            return Err(WriteError::Fenced);
        }
        self.takes_row(row)?;
        self.write(row, format);
        Ok(())
    }

    fn keep(&mut self, event: &Event, expires_at: i64) {
        self.payloads.insert(event.id.clone(), KeptPayload { event: event.clone(), expires_at });
    }

    /// The rows that the index shows, of these.
    fn indexed<'t>(&'t self, rows: impl Iterator<Item = &'t Row>) -> impl Iterator<Item = &'t Row> {
        rows.filter_map(|row| self.lag.as_ref().map_or(Some(row), |lag| lag.shows(row)))
    }

    /// The shards of the index that these rows are on, with those that a query asks for.
    fn shards<'t>(&'t self, rows: impl Iterator<Item = &'t Row>, asked_for: impl Fn(&Row) -> bool) -> Shards<'t> {
        let mut shards = Shards::new();
        for row in self.indexed(rows).filter(|row| asked_for(row)) {
            shards.entry(row.listed.as_deref().unwrap_or_default()).or_default().push(row);
        }
        for rows in shards.values_mut() {
            rows.sort_by(|one, other| one.listed_at.cmp(&other.listed_at).then_with(|| other.id.cmp(&one.id)));
        }
        shards
    }

    fn replace(&mut self, seen: Option<&Row>, next: &Row, format: u32) -> Result<(), WriteError> {
        if self.is_newer(&next.id, format) {
            return Err(WriteError::NewerFormat);
        }
        let current = self.rows.get(&next.id);
        let unchanged = match (current, seen) {
            (Some(current), Some(seen)) => is_same_write(current, seen),
            (current, seen) => current.is_none() && seen.is_none(),
        };
        if !unchanged && current != Some(next) {
            return Err(WriteError::Fenced);
        }
        self.takes_row(next)?;
        self.write(next, format);
        Ok(())
    }
}

impl ModelLedger {
    /// The same ledger, as another version of the code sees it: one that writes this format.
    #[must_use]
    pub fn in_format(&self, format: u32) -> Self {
        ModelLedger { table: Arc::clone(&self.table), format }
    }

    /// The number of writes that were tried, failed ones included: each is charged.
    pub fn writes(&self) -> usize {
        locked(&self.table).writes
    }

    /// The number of reads through the ports.
    pub fn reads(&self) -> usize {
        locked(&self.table).reads
    }

    fn read<T>(&self, what: impl FnOnce(&Table) -> T) -> T {
        let mut table = locked(&self.table);
        table.reads += 1;
        what(&table)
    }

    /// The rows, all of them.
    pub fn rows(&self) -> Vec<Row> {
        locked(&self.table).rows.values().cloned().collect()
    }

    /// Whether a write under this lease would land.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        let row = lease.row();
        let table = locked(&self.table);
        table.rows.get(&row.id).is_some_and(|current| current.epoch == row.epoch && current.step <= row.step)
    }

    /// The row of an event.
    pub fn get(&self, id: &EventId) -> Option<Row> {
        locked(&self.table).rows.get(id).cloned()
    }

    /// The kept payload of a parked event.
    pub fn payload(&self, id: &EventId) -> Option<Event> {
        locked(&self.table).payloads.get(id).map(|kept| kept.event.clone())
    }

    /// Lets the index show this share of the rows as they were before their last write, until it is told otherwise.
    pub fn lag(&self, share: f64, chance: ModelChance) {
        locked(&self.table).lag = (share > 0.0).then(|| IndexLag::new(share, chance));
    }

    /// Declines rows that are larger than this. The product's rows are small: what grows in one is bounded.
    pub fn limit_rows(&self, largest: usize) {
        locked(&self.table).largest_row = Some(largest);
    }

    /// Deletes items whose time is over, as many as `chosen` says: DynamoDB deletes them late, and shows them until then.
    /// Returns the rows that are gone.
    pub fn delete_expired(&self, now: Timestamp, mut chosen: impl FnMut() -> bool) -> Vec<Row> {
        let mut table = locked(&self.table);
        let mut goes = |expires_at: i64| expires_at < now.secs() && chosen();
        table.payloads.retain(|_, kept| !goes(kept.expires_at));
        table.lines.values_mut().for_each(|places| places.retain(|_, place| !goes(place.expires_at)));
        table.older.values_mut().for_each(|rows| rows.retain(|row| !goes(row.expires_at)));
        let gone: Vec<EventId> =
            table.rows.values().filter(|row| goes(row.expires_at)).map(|row| row.id.clone()).collect();
        let delete = |id: &EventId| {
            table.formats.remove(id);
            table.waiting.remove(id);
            table.rows.remove(id)
        };
        gone.iter().filter_map(delete).collect()
    }

    /// The writes that landed since the last call, in order.
    pub fn take_changes(&self) -> Vec<RowChange> {
        std::mem::take(&mut locked(&self.table).changes)
    }

    /// Writes a row that its writer believes to hold. [`Claims::record`] and
    /// [`Claims::close`] do the same.
    pub fn hold(&self, row: &Row) -> Result<(), WriteError> {
        let mut table = locked(&self.table);
        table.writes += 1;
        table.hold(row, self.format)
    }

    /// Whether any event waits, or was woken and is not claimed yet.
    pub fn has_waiting(&self) -> bool {
        !locked(&self.table).waiting.is_empty()
    }

    /// Forgets what the table deletes in time: the rows whose keys have ended, and what was put aside of earlier ones. A long
    /// run keeps its memory.
    pub fn forget_expired(&self, now: Timestamp) {
        let mut table = locked(&self.table);
        let Table { rows, formats, older, payloads, .. } = &mut *table;
        rows.retain(|_, row| !row.forgotten(now));
        formats.retain(|id, _| rows.contains_key(id));
        payloads.retain(|id, _| rows.contains_key(id));
        older.clear();
    }

    /// Forgets of a settled row whatever a repetition of its event is not told: for long plays, which keep many.
    pub fn reduce(&self, id: &EventId) {
        let mut table = locked(&self.table);
        let Some(row) = table.rows.get_mut(id).filter(|row| row.state.is_settled()) else { return };
        row.effects = BTreeMap::new();
        row.enrich = serde_json::Map::new();
        row.history = Vec::new();
        table.payloads.remove(id);
    }

    /// The rows of the events that wait, or were woken and are not claimed yet.
    pub fn waiting_rows(&self) -> Vec<Row> {
        let table = locked(&self.table);
        table.waiting.iter().filter_map(|id| table.rows.get(id)).cloned().collect()
    }

    /// The events in an entity's line, in order.
    pub fn line(&self, line: &Line) -> Vec<InLine> {
        let table = locked(&self.table);
        let places = table.lines.get(line).into_iter().flatten();
        places.map(|((place, id), joined)| InLine { place: *place, id: id.clone(), wake: joined.wake }).collect()
    }

    /// Keeps a row for people, as that of an earlier event of its key.
    pub fn put_aside(&self, row: &Row) {
        locked(&self.table).older.entry(row.id.clone()).or_default().insert(0, row.clone());
    }

    /// Writes a row under no condition, as no adapter does.
    pub fn overwrite(&self, row: &Row) {
        locked(&self.table).write(row, self.format);
    }
}

#[async_trait]
impl Admissions for ModelLedger {
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable> {
        match self.admit_plainly(row, None, now)? {
            PlainAdmission::Ended(admission) => Ok(admission),
            PlainAdmission::InTheWay(seen) => self.admit_anew(&seen, row, None).map(|()| Admission::New),
        }
    }

    async fn admit_parked(&self, row: &Row, event: &Event, now: Timestamp) -> Result<bool, Unavailable> {
        match self.admit_plainly(row, Some(event), now)? {
            PlainAdmission::Ended(admission) => Ok(admission == Admission::New),
            PlainAdmission::InTheWay(seen) => self.admit_anew(&seen, row, Some(event)).map(|()| true),
        }
    }
}

/// What the first write of an admission comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum PlainAdmission {
    /// The event is new or a duplicate: it was the only write.
    Ended(Admission),
    /// The key is free, and this row of the event before is still kept for people: another write puts it aside.
    InTheWay(Box<Row>),
}

/// The two writes of an admission. Others may come between them.
impl ModelLedger {
    /// The first: one conditional put, with the payload beside it where the event is parked from the start.
    pub fn admit_plainly(
        &self,
        row: &Row,
        payload: Option<&Event>,
        now: Timestamp,
    ) -> Result<PlainAdmission, Unavailable> {
        let mut table = locked(&self.table);
        table.writes += 1;
        table.takes_row(row)?;
        payload.map_or(Ok(()), takes_payload)?;
        let is_newer = table.is_newer(&row.id, self.format);
        match table.rows.get(&row.id) {
            Some(found) if !found.forgotten(now) => {
                return Ok(PlainAdmission::Ended(Admission::Duplicate(Box::new(found.clone()))));
            }
            Some(found) if is_newer || found.is_put_aside(now) => {
                return Ok(PlainAdmission::InTheWay(Box::new(found.clone())));
            }
            _ => table.write(row, self.format),
        }
        if let Some(event) = payload {
            table.writes += 1;
            table.keep(event, row.expires_at);
        }
        Ok(PlainAdmission::Ended(Admission::New))
    }

    /// The second: a transaction that puts the row aside which was seen, if it has not changed since.
    pub fn admit_anew(&self, seen: &Row, row: &Row, payload: Option<&Event>) -> Result<(), Unavailable> {
        let mut table = locked(&self.table);
        table.writes += if payload.is_some() { 3 } else { 2 };
        let is_unchanged = table.rows.get(&row.id).is_some_and(|current| is_same_write(current, seen));
        if table.is_newer(&row.id, self.format) || !is_unchanged {
            return Err(Unavailable { port: "the ledger", why: "the row of this key has changed meanwhile".into() });
        }
        table.write(&seen.followed_by(row), self.format);
        table.older.entry(row.id.clone()).or_default().insert(0, seen.clone());
        payload.into_iter().for_each(|event| table.keep(event, row.expires_at));
        Ok(())
    }
}

/// Whether a row is as it was seen. A later event of its key runs through the same numbers: it was queued at another
/// moment.
fn is_same_write(current: &Row, seen: &Row) -> bool {
    (current.epoch, current.step, current.queued_at) == (seen.epoch, seen.step, seen.queued_at)
}

#[async_trait]
impl Claims for ModelLedger {
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, NotClaimed>, Unavailable> {
        let mut table = locked(&self.table);
        table.writes += 1;
        let Some(row) = table.rows.get(id).cloned() else { return Ok(Err(NotClaimed::NoRow)) };
        if table.is_newer(id, self.format) {
            return Ok(Err(NotClaimed::NewerFormat));
        }
        if row.is_held_by(claim) {
            return Ok(Ok(Lease::recognised(row, claim)));
        }
        if !row.is_won_by(claim) {
            return Ok(Err(row.not_claimed(claim)));
        }
        let lease = Lease::won(row, claim);
        table.takes_row(lease.row())?;
        table.write(lease.row(), self.format);
        Ok(Ok(lease))
    }

    async fn record(&self, lease: &Lease) -> Result<(), WriteError> {
        self.hold(lease.row())
    }

    async fn close(&self, closed: &Closed) -> Result<(), WriteError> {
        self.hold(closed.row())
    }
}

#[async_trait]
impl Rows for ModelLedger {
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable> {
        Ok(self.read(|table| table.rows.get(id).cloned()))
    }

    async fn older(&self, id: &EventId) -> Result<Vec<Row>, Unavailable> {
        Ok(self.read(|table| table.older.get(id).cloned().unwrap_or_default()))
    }
}

#[async_trait]
impl Records for ModelLedger {
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable> {
        let first = |table: &Table| {
            let shards = table.shards(table.rows.values(), Row::is_parked);
            first_of(&shards, &SHARDS, ListOrder::NewestFirst, &PassedOver::default(), limit)
        };
        Ok(self.read(first)?.rows)
    }

    async fn parked_between(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable> {
        let within = |row: &Row| row.is_parked() && row.listed_at.is_some_and(|at| since <= at && at <= until);
        let first = |table: &Table| {
            let shards = table.shards(table.rows.values(), within);
            first_of(&shards, &SHARDS, ListOrder::OldestFirst, &PassedOver::default(), limit)
        };
        Ok(self.read(first)?.rows)
    }

    async fn park(&self, seen: Option<&Row>, next: &Row, event: &Event) -> Result<(), WriteError> {
        let mut table = locked(&self.table);
        // A transaction of two writes.
        table.writes += 2;
        takes_payload(event)?;
        table.replace(seen, next, self.format)?;
        table.keep(event, next.expires_at);
        Ok(())
    }

    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable> {
        let mut table = locked(&self.table);
        table.writes += 1;
        takes_payload(event)?;
        table.keep(event, expires_at);
        Ok(())
    }

    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable> {
        Ok(self.read(|table| table.payloads.get(id).map(|kept| kept.event.clone())))
    }

    async fn forget(&self, event: &Event) -> Result<(), Unavailable> {
        let mut table = locked(&self.table);
        table.writes += 1;
        let numbers = table.payloads.get(&event.id).map(|kept| (kept.event.replay, kept.event.wake));
        if numbers == Some((event.replay, event.wake)) {
            table.payloads.remove(&event.id);
        }
        Ok(())
    }

    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError> {
        let mut table = locked(&self.table);
        table.writes += 1;
        table.replace(seen, next, self.format)
    }
}

#[async_trait]
impl Lines for ModelLedger {
    async fn wait(&self, closed: &Closed, event: &Event) -> Result<(), WriteError> {
        let (row, mut table) = (closed.row(), locked(&self.table));
        // A transaction of three writes.
        table.writes += 3;
        takes_payload(event)?;
        table.hold(row, self.format)?;
        table.keep(event, row.expires_at);
        if let Some(InLine { place, id, wake }) = row.in_line() {
            let joined = LinePlace { wake, expires_at: row.expires_at };
            table.lines.entry(Line::of(event)).or_default().insert((place, id), joined);
        }
        Ok(())
    }

    async fn first(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        locked(&self.table).reads += 1;
        Ok(self.line(line).into_iter().next())
    }

    async fn last(&self, line: &Line) -> Result<Option<InLine>, Unavailable> {
        locked(&self.table).reads += 1;
        Ok(self.line(line).into_iter().last())
    }

    async fn leave(&self, line: &Line, place: &InLine) -> Result<(), Unavailable> {
        let mut table = locked(&self.table);
        table.writes += 1;
        if let Some(places) = table.lines.get_mut(line) {
            places.retain(|key, joined| *key != (place.place, place.id.clone()) || joined.wake > place.wake);
        }
        Ok(())
    }

    async fn listed_past(
        &self,
        passed: &PassedOver,
        on: &WaitsFor,
        until: Timestamp,
        limit: usize,
    ) -> Result<Listed, Unavailable> {
        let names = on.shards();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let waits = |row: &Row| {
            row.listed.as_deref().is_some_and(|shard| names.contains(&shard))
                && row.listed_at.is_some_and(|at| at <= until)
        };
        self.read(|table| {
            let shards = match &table.lag {
                // What waits no more may still be shown.
                Some(_) => table.shards(table.rows.values(), waits),
                None => table.shards(table.waiting.iter().filter_map(|id| table.rows.get(id)), waits),
            };
            first_of(&shards, &names, ListOrder::OldestFirst, passed, limit)
        })
    }
}

/// The rows of each shard of the index, by their moments; those of one moment in an order of the index's own.
type Shards<'t> = BTreeMap<&'t str, Vec<&'t Row>>;

/// The first rows of these shards, read in pages. A page counts the rows that the index leaves out of it.
fn first_of(
    shards: &Shards<'_>,
    names: &[&str],
    order: ListOrder,
    passed: &PassedOver,
    limit: usize,
) -> Result<Listed, Unavailable> {
    let page_of = |shard: &str, from: Option<usize>, size: usize| {
        let rows = shards.get(shard).map(Vec::as_slice).unwrap_or_default();
        let from = from.unwrap_or_default();
        let end = from.saturating_add(size).min(rows.len());
        let next = (end < rows.len()).then_some(end);
        let at = |place: usize| if order == ListOrder::OldestFirst { place } else { rows.len() - 1 - place };
        let shown = (from..end).map(|place| rows[at(place)]).filter(|row| !passed.flows.contains(&row.flow));
        ready(Ok(ShardPage { rows: shown.cloned().collect(), unreadable: Vec::new(), has_newer: false, next }))
    };
    read_list(names, order, passed, limit, page_of).now_or_never().expect("every page is there")
}
