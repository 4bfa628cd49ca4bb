//! The stale guard: an event is not replayed once a newer one of its entity was applied.
//!
//! The queue keeps the order of a group, but a parked event has left the queue. Its replay comes after the
//! events that were applied meanwhile, and would put an old address in the place of a new one. Where a flow
//! says that the latest wins, the event that was applied last is recorded for each entity, before the event is
//! closed: a crash between the two brings the event back, and it is recorded again.

use crate::arrival::event::Event;
use crate::base::errors::Unavailable;
use crate::base::retention::UNSETTLED_RETENTION;
use crate::base::time::Timestamp;
use crate::flows::{Flow, Guarantee};
use crate::ledger::Row;
use async_trait::async_trait;

/// The record of the event that was applied last, for each entity.
#[async_trait]
pub trait Latest: Send + Sync {
    /// The moment when the latest applied event was received.
    async fn applied(&self, key: &str) -> Result<Option<Timestamp>, Unavailable>;

    /// Records that an event was applied which was received then, unless a newer one was. The record may be
    /// forgotten after `expires_at`, in seconds since the Unix epoch.
    async fn apply(&self, key: &str, received_at: Timestamp, expires_at: i64) -> Result<(), Unavailable>;
}

/// Whether the stale guard judges an event before its effects: where the latest wins or a request may be repeated,
/// and the event is a replay.
pub fn is_judged(flow: &Flow, event: &Event) -> bool {
    flow.replaces_older() && event.is_replay()
}

/// The reason why an event is stale, if the latest wins and a newer event of its entity was applied.
pub async fn overtaken(latest: &dyn Latest, flow: &Flow, event: &Event) -> Result<Option<String>, Unavailable> {
    if !flow.replaces_older() {
        return Ok(None);
    }
    let newer = latest.applied(&key(event)).await?.filter(|applied| *applied > event.received_at);
    Ok(newer.map(|newer| format!("a newer event of the same entity was applied, received at {newer}")))
}

/// Records that an event was applied, where the latest wins. The record outlives every event that could be
/// replayed.
pub async fn apply(latest: &dyn Latest, flow: &Flow, event: &Event, now: Timestamp) -> Result<(), Unavailable> {
    if !flow.replaces_older() {
        return Ok(());
    }
    latest.apply(&key(event), event.received_at, (now + UNSETTLED_RETENTION).secs()).await
}

/// Records an event that is given up on, if it may have set a resource: the repetition of an older event's request must
/// not undo that.
pub async fn apply_tried(
    latest: &dyn Latest,
    flow: &Flow,
    event: &Event,
    row: &Row,
    now: Timestamp,
) -> Result<(), Unavailable> {
    let mut tried = flow.effects.iter().filter(|effect| row.effects.contains_key(&effect.id));
    if tried.any(|effect| effect.guarantee == Guarantee::Idempotent) {
        apply(latest, flow, event, now).await?;
    }
    Ok(())
}

/// The name of an entity's record. The event's message group names the entity.
fn key(event: &Event) -> String {
    format!("latest/{}/{}", event.flow, event.group)
}
