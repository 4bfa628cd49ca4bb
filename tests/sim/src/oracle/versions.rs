//! What two versions at once may not do to each other.

use std::time::Duration;

use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::ledger::{Reason, Row, State};
use shared::model::RowChange;

use super::{CLOCKS, FLOW_WAITED_FOR, NEWER_KEPT, Oracle, RENAMED_ONCE, violated};
use crate::partner::Arrival;
use crate::ports::Seat;
use crate::run::BrokenInvariant;

/// How long an event waits for its flow.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A row is written. It is not of an older format than before: that would drop what the newer version knows.
pub(super) fn keeps_newer(change: &RowChange) -> Result<(), BrokenInvariant> {
    let (before, after) = change.formats;
    if after < before {
        let seen = format!("{} was of format {before}, and is of {after}", change.after.id);
        return Err(violated(NEWER_KEPT, seen));
    }
    Ok(())
}

impl Oracle {
    /// A worker has won a claim, and its version has the event's flow or not.
    pub(crate) fn won(&self, row: &Row, has_flow: bool, seat: &Seat) {
        if self.blind {
            return;
        }
        self.claims_by_its_message(row, seat);
        let (now, mut seen) = (seat.scheduler.now(), self.seen());
        let known = seen.events.entry(row.id.clone()).or_default();
        known.flow_missed_at = if has_flow { None } else { known.flow_missed_at.or(Some(now)) };
    }

    /// A row is written. If its flow is said to be unknown, it was so for an hour.
    pub(super) fn waited_for_flow(&self, change: &RowChange, now: Timestamp) -> Result<(), BrokenInvariant> {
        let RowChange { before: Some(before), after, .. } = change else { return Ok(()) };
        let unknown = after.death.as_ref().is_some_and(|death| death.reason == Reason::UnknownFlow);
        let died = unknown && after.state == State::Dead && before.state != State::Dead;
        let mut seen = self.seen();
        let known = seen.events.entry(after.id.clone()).or_default();
        if after.replay > before.replay {
            known.flow_missed_at = None;
        }
        let waited = known.flow_missed_at.map(|at| now.since(at)).unwrap_or_default();
        if died && waited + CLOCKS < PATIENCE {
            let seen = format!("{} is given up on after {waited:?}, and a newer version may have its flow", after.id);
            return Err(violated(FLOW_WAITED_FOR, seen));
        }
        Ok(())
    }

    /// A call arrives. What it asks for was not asked for under another name of its effect.
    pub(super) fn is_under_one_name(
        &self,
        event: &EventId,
        effect: &str,
        arrival: &Arrival,
    ) -> Result<(), BrokenInvariant> {
        let mut seen = self.seen();
        let known = seen.events.entry(event.clone()).or_default();
        let place = (arrival.integration.clone(), arrival.path.clone());
        let first = known.asked_as.entry(place).or_insert_with(|| effect.to_owned());
        if first != effect {
            let seen = format!("`{}` of {event} is asked for as `{effect}`, and was as `{first}`", arrival.path);
            return Err(violated(RENAMED_ONCE, seen));
        }
        Ok(())
    }
}
