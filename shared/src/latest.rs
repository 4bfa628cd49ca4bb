//! The stale guard: an event that a newer one of its entity has overtaken is not replayed.
//!
//! The queue keeps the order of a group, but what is parked has left the queue. Its replay comes after
//! whatever was applied meanwhile, and would put an old address in the place of a new one. Where a flow
//! says that the latest wins, what was applied last is written down for each entity, before the event is
//! closed: a crash between the two brings the event back, and it is written down again.

use crate::event::Event;
use crate::flow::Flow;
use crate::time::Timestamp;

/// The name under which an entity's latest event is kept. Its message group names the entity.
pub fn key(event: &Event) -> String {
    format!("latest/{}/{}", event.flow, event.group)
}

/// Whether an event is judged at all: where the latest wins, and it does not come in its turn.
pub fn is_judged(flow: &Flow, event: &Event) -> bool {
    flow.latest_wins && event.is_replay()
}

/// Why an event is held back, if what was applied last is newer.
pub fn overtaken(event: &Event, applied: Option<Timestamp>) -> Option<String> {
    let newer = applied.filter(|applied| *applied > event.received_at)?;
    Some(format!("a newer event of its entity was applied, received at {newer}"))
}
