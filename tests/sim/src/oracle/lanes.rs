//! Batches of replays, and how fast they go.

use std::collections::BTreeSet;
use std::time::Duration;

use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::flows::Flow;
use shared::ledger::Row;
use shared::ledger::batch::{Batch, BatchProgress, Batches};
use shared::limits::rates::Rate;
use shared::model::RowChange;

use super::ends::refilled;
use super::{
    CLOCKS, LANE_BOUNDED, LANE_ENDS, LANE_ONCE, LANE_RATE, Oracle, STOPPED, Seen, replayed_by, report, violated,
};
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;

/// A batch as it was last written, and what it has sent.
pub(super) struct Lane {
    batch: Batch,
    opened_at: Timestamp,
    sent: Vec<Sent>,
}

/// A replay by a batch.
struct Sent {
    event: EventId,
    at: Timestamp,
    /// The partners that every version of its flow calls, unless its worker had stood still.
    partners: BTreeSet<String>,
}

/// From the moment that a worker takes for its token, to the replay that it took it for.
const ON_ITS_WAY: Duration = Duration::from_secs(3);

impl Oracle {
    /// The batches are written.
    pub(crate) fn batches_written(&self, batches: &Batches, scheduler: &Scheduler) {
        if self.blind {
            return;
        }
        for batch in batches.all() {
            report(scheduler, self.batch_written(batch, scheduler));
        }
    }

    fn batch_written(&self, batch: &Batch, scheduler: &Scheduler) -> Result<(), BrokenInvariant> {
        let mut seen = self.seen();
        let Some(lane) = seen.lanes.get_mut(&batch.id) else {
            let lane = Lane { batch: batch.clone(), opened_at: scheduler.now(), sent: Vec::new() };
            seen.lanes.insert(batch.id.clone(), lane);
            return Ok(());
        };
        let before = std::mem::replace(&mut lane.batch, batch.clone());
        if batch.replayed < before.replayed || batch.replayed > batch.max {
            let what = format!("{} has replayed {} of {}", batch.id, batch.replayed, batch.max);
            return Err(violated(LANE_BOUNDED, what));
        }
        if before.progress != BatchProgress::Running && *batch != before {
            return Err(violated(STOPPED, format!("{} was {:?}, and goes on", batch.id, before.progress)));
        }
        if before.progress == BatchProgress::Running && batch.progress == BatchProgress::Done && batch.left() > 0 {
            return self.left_nothing(&seen, &batch.id, scheduler);
        }
        Ok(())
    }

    /// Whatever a batch takes was replayed when it is done, or cannot be. What changed since it began may have
    /// come too late for it, and so may what an index that lags did not show.
    fn left_nothing(&self, seen: &Seen, id: &str, scheduler: &Scheduler) -> Result<(), BrokenInvariant> {
        let Some(Lane { batch, opened_at, .. }) = seen.lanes.get(id).filter(|_| !self.lags) else { return Ok(()) };
        let early = |row: &Row| seen.events.get(&row.id).is_some_and(|known| known.written_at < Some(*opened_at));
        // A version without the flow passes over its events.
        let is_everywhere = |row: &Row| self.versions.iter().all(|flows| flows.flow(&row.flow).is_some());
        let held_back = |row: &Row| {
            scheduler.is_broken(&row.id)
                || !is_everywhere(row)
                || self.is_held_back(seen, row)
                || self.ledger.payload(&row.id).is_none()
                || self.is_still_invalid(row)
        };
        let left = |row: &Row| batch.takes(row) && early(row) && !held_back(row);
        match self.ledger.rows().into_iter().find(left) {
            Some(row) => Err(violated(LANE_ENDS, format!("{id} is done, and has not replayed {}", row.id))),
            None => Ok(()),
        }
    }

    /// A row is written. If a batch has sent it again, it may have.
    pub(super) fn batch_sends(&self, change: &RowChange, now: Timestamp, stalled: bool) -> Result<(), BrokenInvariant> {
        let batch = replayed_by(change).and_then(|(by, _)| by.split_once(" (batch ")?.1.strip_suffix(')'));
        let (Some(before), Some(id)) = (&change.before, batch) else { return Ok(()) };
        let row = &change.after;
        let mut seen = self.seen();
        let Some(lane) = seen.lanes.get_mut(id) else {
            return Err(violated(LANE_BOUNDED, format!("{} is replayed by {id}, which nobody opened", row.id)));
        };
        if lane.sent.iter().any(|sent| sent.event == row.id) || !lane.batch.takes(before) {
            return Err(violated(LANE_ONCE, format!("{} is replayed by {id}, and is not part of it", row.id)));
        }
        let partners = if stalled { BTreeSet::new() } else { self.partners(&row.flow) };
        lane.sent.push(Sent { event: row.id.clone(), at: now, partners });
        if lane.sent.len() > lane.batch.replayed as usize {
            let what = format!("{id} has sent {}, and counted {}", lane.sent.len(), lane.batch.replayed);
            return Err(violated(LANE_BOUNDED, what));
        }
        Ok(())
    }

    /// The partners that every version of a flow calls.
    fn partners(&self, flow: &str) -> BTreeSet<String> {
        let of = |flow: &Flow| -> BTreeSet<String> {
            flow.effects.iter().filter_map(|effect| effect.integration()).map(str::to_owned).collect()
        };
        self.flows(flow).map(of).reduce(|one, other| &one & &other).unwrap_or_default()
    }

    /// In no stretch of time did batches replay more to a partner than their rate. Batches of the same rate
    /// share a bucket; each other rate has one, with one token in it.
    pub(super) fn within_lane_rates(&self, seen: &Seen) -> Result<(), BrokenInvariant> {
        let all = || seen.lanes.values().flat_map(|lane| lane.sent.iter().map(move |sent| (sent, lane)));
        let partners: BTreeSet<&String> = all().flat_map(|(sent, _)| &sent.partners).collect();
        for partner in partners {
            let to = all().filter(|(sent, _)| sent.partners.contains(partner));
            let mut sent: Vec<(Timestamp, u32)> = to.map(|(sent, lane)| (sent.at, lane.batch.per_minute)).collect();
            sent.sort();
            for (first, (from, _)) in sent.iter().enumerate() {
                let mut rates = BTreeSet::new();
                for (count, (to, rate)) in (1..).zip(&sent[first..]) {
                    rates.insert(*rate);
                    let fastest = rates.last().copied().unwrap_or_default();
                    let refilled = refilled(&Rate::per_minute(fastest), to.since(*from) + CLOCKS + ON_ITS_WAY);
                    if f64::from(count) > rates.len() as f64 + refilled {
                        let what = format!("{count} replays to `{partner}` within {:?}", to.since(*from));
                        return Err(violated(LANE_RATE, what));
                    }
                }
            }
        }
        Ok(())
    }

    /// After the faults are over, every batch has come to its end.
    pub(super) fn batches_ended(&self, seen: &Seen) -> Result<(), BrokenInvariant> {
        match seen.lanes.values().find(|lane| lane.batch.progress == BatchProgress::Running) {
            Some(lane) => Err(violated(LANE_ENDS, format!("{} goes on for ever", lane.batch.id))),
            None => Ok(()),
        }
    }
}
