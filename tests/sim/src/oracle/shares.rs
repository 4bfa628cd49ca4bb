//! What slow partners hold, and how long events take.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use shared::base::time::Timestamp;
use shared::limits::pressure::{BATCHES_HELD, SLOW, SLOW_FOR};
use shared::model::RowChange;

use super::{CLOCKS, Oracle, SHARE, violated};
use crate::partner::Arrival;
use crate::ports::Seat;
use crate::timeline::Who;

/// The partners that containers know to be slow, and the calls of these that are under way.
#[derive(Default)]
pub(super) struct SlowCalls {
    /// Until when each is known.
    known: BTreeMap<(Who, String), Timestamp>,
    open: Vec<(Who, String)>,
}

impl SlowCalls {
    /// A container starts, and knows nothing.
    pub(super) fn forget(&mut self, who: Who) {
        self.known.retain(|(knows, _), _| *knows != who);
        self.open.retain(|(calls, _)| *calls != who);
    }
}

impl Oracle {
    /// A call begins. Of a partner that it knows to be slow, a container calls no more than its share.
    pub(crate) fn begins(&self, arrival: &Arrival, seat: &Seat) {
        let call = (seat.who, arrival.integration.clone());
        let mut seen = self.seen();
        let now = seat.scheduler.now();
        if seen.slow_calls.known.get(&call).is_none_or(|until| *until <= now) {
            return;
        }
        seen.slow_calls.open.push(call);
        let open = seen
            .slow_calls
            .open
            .iter()
            .filter(|(who, of)| *of == arrival.integration && !seat.scheduler.is_stalled(*who));
        let held: BTreeSet<Who> = open.map(|(who, _)| *who).collect();
        drop(seen);
        if held.len() > BATCHES_HELD as usize {
            let seen = format!("`{}` is slow, and holds {} batches", arrival.integration, held.len());
            seat.scheduler.violated(violated(SHARE, seen));
        }
    }

    /// A call has ended, after this long.
    pub(crate) fn ends(&self, integration: &str, took: Duration, seat: &Seat) {
        let call = (seat.who, integration.to_owned());
        let calls = &mut self.seen().slow_calls;
        if let Some(index) = calls.open.iter().position(|open| *open == call) {
            calls.open.remove(index);
        }
        if took >= SLOW {
            let since = seat.scheduler.now() - took;
            calls.known.insert(call, since + SLOW + SLOW_FOR - CLOCKS);
        }
    }

    /// Notes when an event is settled, and how long after it was received.
    pub(super) fn settles(&self, RowChange { before, after, .. }: &RowChange, now: Timestamp) {
        if after.state.is_settled() && !before.as_ref().is_some_and(|before| before.state.is_settled()) {
            let took = (after.received_at, now.since(after.received_at));
            self.seen().settled.entry(after.flow.clone()).or_default().push(took);
        }
    }

    /// When each settled event was received, and how long it took, by flow.
    pub(crate) fn settled_events(&self) -> BTreeMap<String, Vec<(Timestamp, Duration)>> {
        self.seen().settled.clone()
    }
}
