//! What a newer event of its entity has overtaken.

use futures::executor::block_on;
use shared::arrival::event::Event;
use shared::arrival::invalid::InvalidBody;
use shared::base::id::EventId;
use shared::ledger::{Row, State};
use shared::operate::stale_guard;

use super::{LATEST_WINS, NOT_UNDONE, Oracle, Seen, violated};
use crate::run::BrokenInvariant;

impl Oracle {
    /// A replay intends a call. Where the latest wins, no newer event of its group has succeeded.
    pub(super) fn is_latest(&self, seen: &Seen, row: &Row) -> Result<(), BrokenInvariant> {
        if row.replay == 0 || !self.flows(&row.flow).all(|flow| flow.latest_wins) {
            return Ok(());
        }
        let event = |id: &EventId| seen.events.get(id).and_then(|known| known.event.as_ref());
        let Some(this) = event(&row.id) else { return Ok(()) };
        let same_entity = |other: &Event| other.group == this.group;
        let overtakes = |other: &Row| {
            let newer = other.flow == row.flow && other.received_at > row.received_at;
            newer && other.state == State::Succeeded && event(&other.id).is_some_and(same_entity)
        };
        match self.ledger.rows().iter().find(|other| overtakes(other)) {
            Some(other) => Err(violated(LATEST_WINS, format!("{} is replayed after {}", row.id, other.id))),
            None => Ok(()),
        }
    }

    /// A request that may be repeated sets a resource. No newer event has set that before.
    pub(super) fn undoes_nothing(&self, event: &EventId, flow: &str, effect: &str) -> Result<(), BrokenInvariant> {
        let Some(Row { received_at, .. }) = self.row(event) else { return Ok(()) };
        let mut seen = self.seen();
        let Some(this) = seen.events.get(event).and_then(|known| known.event.clone()) else { return Ok(()) };
        let resource = (flow.to_owned(), effect.to_owned(), this.group.clone());
        let last = seen.resources.entry(resource).or_insert((received_at, event.clone()));
        if last.0 > received_at {
            return Err(violated(NOT_UNDONE, format!("`{effect}` of {event} undoes that of {}", last.1)));
        }
        if last.0 < received_at {
            *last = (received_at, event.clone());
        }
        Ok(())
    }

    /// Whether some version of the flows that may be live does not take the shape of a parked event, or its sender has
    /// sent it again in another.
    pub(super) fn is_still_invalid(&self, row: &Row) -> bool {
        let Some(kept) = self.ledger.payload(&row.id).filter(|_| row.is_invalid()) else { return false };
        self.flows(&row.flow)
            .any(|flow| InvalidBody::fitted(&kept, flow).map_or(true, |(event, _)| self.row(&event.id).is_some()))
    }

    /// Whether a replay is held back, because a newer event of its entity was applied or is just about to be
    /// closed.
    pub(super) fn is_held_back(&self, seen: &Seen, row: &Row) -> bool {
        let Some(event) = seen.events.get(&row.id).and_then(|known| known.event.as_ref()) else { return false };
        let overtaken =
            |flow| block_on(stale_guard::overtaken(&self.latest, flow, event, row.received_at)).unwrap_or_default();
        self.flows(&row.flow).any(|flow| overtaken(flow).is_some())
    }
}
