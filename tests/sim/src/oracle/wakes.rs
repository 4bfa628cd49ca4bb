//! Which messages stand for an event: a wake's own, and none from before it.

use serde_json::from_str;
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::ledger::Row;
use shared::model::{Delivered, ModelQueue};

use super::{Oracle, SUPERSEDED, WAKE_ARRIVES, violated};
use crate::ports::Seat;
use crate::scheduler::Scheduler;
use crate::timeline::Who;

/// The numbers of a message: its event, its replay and its wake.
pub(super) type MessageNumbers = (EventId, u32, u32);

impl Oracle {
    /// A woken event was sent. Its message is on the queue now, or a copy of it was: the queue has swallowed none that
    /// nobody got.
    pub(crate) fn wake_sent(&self, event: &Event, queue: &ModelQueue, scheduler: &Scheduler) {
        if event.wake == 0 {
            return;
        }
        let on_queue = queue.holds(&serde_json::to_string(event).expect("an event is JSON"));
        let numbers = (event.id.clone(), event.replay, event.wake);
        let mut seen = self.seen();
        if on_queue {
            seen.wakes.insert(numbers);
        } else if !seen.wakes.contains(&numbers) {
            let seen = format!("wake {} of {} was sent, and is not on the queue", event.wake, event.id);
            scheduler.violated(violated(WAKE_ARRIVES, seen));
        }
    }

    /// A container has received these messages.
    pub(crate) fn hands(&self, who: Who, batch: &[Delivered]) {
        let events = batch.iter().filter_map(|message| from_str::<Event>(&message.body).ok());
        let numbers = events.map(|event| (event.id, event.replay, event.wake)).collect();
        self.seen().in_hand.insert(who, numbers);
    }

    /// A worker has won a claim. It has a message of the row's numbers.
    pub(super) fn claims_by_its_message(&self, row: &Row, seat: &Seat) {
        let (numbers, seen) = ((row.id.clone(), row.replay, row.wake), self.seen());
        if seen.in_hand.get(&seat.who).is_some_and(|messages| !messages.contains(&numbers)) {
            let what =
                format!("a message of {} from before replay {} or wake {} claims it", row.id, row.replay, row.wake);
            seat.scheduler.violated(violated(SUPERSEDED, what));
        }
    }
}
