//! Which messages stand for an event: a wake's own, and none from before it.

use std::time::Duration;

use serde_json::from_str;
use shared::arrival::event::Event;
use shared::base::id::EventId;
use shared::ledger::{Line, Moment, Row, State, WaitsFor};
use shared::model::{Delivered, ModelQueue};

use super::{Oracle, SUPERSEDED, WAKE_ARRIVES, WHOLE, WOKEN_IN_ORDER, violated};
use crate::ports::Seat;
use crate::scheduler::Scheduler;
use crate::timeline::Who;

/// How long after its row a wake is sent, at most.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The numbers of a message: its event, its replay and its wake.
pub(super) type MessageNumbers = (EventId, u32, u32);

impl Oracle {
    /// A woken event was sent. Its message is on the queue now, or a copy of it was: the queue has swallowed none that
    /// nobody got.
    pub(crate) fn wake_sent(&self, event: &Event, queue: &ModelQueue, seat: &Seat) {
        let scheduler = &*seat.scheduler;
        if event.wake == 0 {
            return;
        }
        self.is_woken_in_order(event, scheduler, seat.who);
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

    /// A woken event was sent. No other event of its entity that waits for the same, and stands before it, is left behind,
    /// unless a write of the worker that wakes them failed.
    fn is_woken_in_order(&self, event: &Event, scheduler: &Scheduler, who: Who) {
        let careful = (scheduler.healed() || !self.lags) && !self.has_failed(who);
        let Some(row) = self.row(&event.id).filter(|_| careful) else { return };
        let wake = row.history.iter().rev().find(|moment| moment.what.starts_with("wake "));
        // An operator may wake any, and a wake whose message may be lost is sent again.
        let is_new = |wake: &Moment| wake.at + AT_ONCE >= scheduler.now() && !wake.what.contains(" by ");
        if !wake.is_some_and(is_new) {
            return;
        }
        let on = |row: &Row| row.wait.as_ref().map(|wait| wait.on.clone()).filter(|on| *on != WaitsFor::Moment);
        let line = self.ledger.line(&Line::of(event));
        let heads = line.iter().filter(|head| head.is_before(&row)).filter_map(|head| self.row(&head.id));
        let left = |head: &Row| head.state == State::Waiting && on(head).is_some() && on(head) == on(&row);
        let mut left = heads.filter(|head| left(head) && !scheduler.is_broken(&head.id));
        if let Some(head) = left.next() {
            let seen = format!("{} is woken, and {} waits before it", row.id, head.id);
            scheduler.violated(violated(WOKEN_IN_ORDER, seen));
        }
    }

    /// A call of a container to a table or a queue went wrong.
    pub(crate) fn failed(&self, who: Who) {
        self.seen().failed.insert(who);
    }

    /// Whether a call of this container went wrong. Another one may have waited for it.
    fn has_failed(&self, who: Who) -> bool {
        self.seen().failed.contains(&who)
    }

    /// A container has received these messages.
    pub(crate) fn hands(&self, who: Who, batch: &[Delivered], scheduler: &Scheduler) {
        let events: Vec<Event> = batch.iter().filter_map(|message| from_str::<Event>(&message.body).ok()).collect();
        let mut seen = self.seen();
        for event in &events {
            let sent = seen.events.get(&event.id).and_then(|known| known.sent.get(&event.fingerprint));
            if sent.is_some_and(|sent| sent.payload != event.payload) {
                let what = format!("the message of {} is another one than was sent", event.id);
                scheduler.violated(violated(WHOLE, what));
            }
        }
        let numbers = events.into_iter().map(|event| (event.id, event.replay, event.wake)).collect();
        seen.in_hand.insert(who, numbers);
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
