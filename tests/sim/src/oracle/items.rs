//! What the limits of queues and tables must not cost.

use serde_json::from_str;
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::ledger::{Reason, Row, State};
use shared::model::Delivered;

use super::{KEPT_IN_TIME, Oracle, STOOD_IN, violated};
use crate::run::BrokenInvariant;
use crate::scheduler::Scheduler;

impl Oracle {
    /// The queue has deleted messages because they were too old. None was its event's last hope.
    pub(crate) fn expired(&self, messages: &[Delivered], scheduler: &Scheduler) {
        for event in messages.iter().filter_map(|message| from_str::<Event>(&message.body).ok()) {
            let Some(row) = self.row(&event.id) else { continue };
            let hopes = matches!(row.state, State::Queued | State::Running | State::Retrying) && !row.is_parked();
            let needed = hopes && row.stands_for(event.replay, event.wake, event.fingerprint.as_deref());
            if needed && !scheduler.is_broken(&row.id) {
                let seen =
                    format!("the message of {} is deleted for its age, and it is {}", row.id, row.state.as_str());
                scheduler.violated(violated(KEPT_IN_TIME, seen));
            }
        }
    }

    /// The rows that may stand in for others, with their payloads.
    pub(super) fn stand_ins(&self) -> Vec<Row> {
        let rows = self.ledger.rows().into_iter();
        rows.filter(|row| is_unreadable(row) && self.ended(row)).collect()
    }

    fn ended(&self, row: &Row) -> bool {
        row.state.is_settled() || (row.is_parked() && self.ledger.payload(&row.id).is_some())
    }

    /// At the end, an event whose row is broken for good is told of: its row was parked before, or another one stands in
    /// for it, with the true reason and the payload.
    pub(super) fn stood_in(&self, stand_ins: &[Row], id: &EventId) -> Result<(), BrokenInvariant> {
        if self.row(id).is_some_and(|row| self.ended(&row)) || has_stand_in(stand_ins, id) {
            return Ok(());
        }
        let state = self.row(id).map_or("none", |row| row.state.as_str());
        Err(violated(STOOD_IN, format!("the row of {id} is broken, and {state}, and nothing stands in for it")))
    }
}

/// Whether a row stands in for that of an event, which is broken or full: it says so.
pub(crate) fn stands_in_for(row: &Row, id: &EventId) -> bool {
    is_unreadable(row) && row.id != *id && row.death.as_ref().is_some_and(|death| death.error.contains(id.as_str()))
}

fn is_unreadable(row: &Row) -> bool {
    row.death.as_ref().is_some_and(|death| death.reason == Reason::Unreadable)
}

/// Whether one of these stands in for the row of an event.
pub(super) fn has_stand_in(stand_ins: &[Row], id: &EventId) -> bool {
    stand_ins.iter().any(|row| stands_in_for(row, id))
}
