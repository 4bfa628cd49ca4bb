//! Keys that end, and rows that people see for longer.

use futures::executor::block_on;
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{Row, Rows as _, State};
use shared::model::RowChange;

use super::{KEPT_FOR_PEOPLE, KEY_LIVES, NOTHING_LOST, Oracle, report, violated};
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;

/// More than clocks differ, and the seconds in which a life is counted.
const ROUNDED: i64 = 2;

impl Oracle {
    /// A row is written. Where a new event takes the place of a settled one, that one's key has ended, and what people may
    /// still want to see of it is put aside. From then on it is another event.
    pub(super) fn began_anew(&self, change: RowChange, scheduler: &Scheduler) -> RowChange {
        let RowChange { before: Some(before), after, .. } = &change else { return change };
        let born = after.epoch == 0 && (after.state == State::Queued || after.is_parked());
        if !before.state.is_settled() || !born {
            return change;
        }
        report(scheduler, self.may_begin_anew(before, scheduler.now()));
        self.forget(&after.id);
        RowChange { before: None, ..change }
    }

    fn may_begin_anew(&self, before: &Row, now: Timestamp) -> Result<(), BrokenInvariant> {
        if before.key_until.unwrap_or(before.expires_at) > now.secs() + ROUNDED {
            let seen =
                format!("{} is taken for a new event, and its key lives until {:?}", before.id, before.key_until);
            return Err(violated(KEY_LIVES, seen));
        }
        let older = block_on(self.ledger.older(&before.id)).unwrap_or_default();
        let kept = older.iter().any(|row| row.received_at == before.received_at);
        if before.expires_at > now.secs() + ROUNDED && !kept {
            let seen = format!("what became of {} is gone, and was kept until {}", before.id, before.expires_at);
            return Err(violated(KEPT_FOR_PEOPLE, seen));
        }
        Ok(())
    }

    /// The table has deleted rows. What comes under their keys is new.
    pub(crate) fn deleted(&self, rows: &[Row], scheduler: &Scheduler) {
        for row in rows {
            if !row.state.is_settled() {
                let seen = format!("the row of {} is deleted, and it is {}", row.id, row.state.as_str());
                scheduler.violated(violated(NOTHING_LOST, seen));
            }
            self.forget(&row.id);
        }
    }

    fn forget(&self, id: &EventId) {
        self.seen().events.remove(id);
        self.partner.forget(id);
    }

    /// A sender is told that we have what it posted then. That is no event whose key had ended before.
    pub(crate) fn is_not_of_an_ended_key(&self, id: &EventId, posted_at: Timestamp) -> Result<(), BrokenInvariant> {
        let ended =
            |row: &Row| row.state.is_settled() && row.key_until.is_some_and(|end| end + ROUNDED < posted_at.secs());
        match self.row(id).filter(ended) {
            Some(row) => {
                let seen =
                    format!("{id} was posted at {posted_at}, and is the event whose key ended at {:?}", row.key_until);
                Err(violated(KEY_LIVES, seen))
            }
            None => Ok(()),
        }
    }
}
