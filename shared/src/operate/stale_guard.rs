//! The stale guard: an event is not replayed once a newer one of its entity was applied.
//!
//! The queue keeps the order of a group, but a parked event has left the queue. Its replay comes after the
//! events that were applied meanwhile, and would put an old address in the place of a new one. Where a flow
//! says that the latest wins, the event that was applied last is recorded for each entity, before the event is
//! closed: a crash between the two brings the event back, and it is recorded again. A request that may be repeated
//! stands under the guard, too.

use crate::arrival::event::Event;
use crate::base::errors::Unavailable;
use crate::base::retention::UNSETTLED_RETENTION;
use crate::base::time::Timestamp;
use crate::flows::{Effect, Flow, Guarantee};
use async_trait::async_trait;

/// The record of the event that was applied last, for each entity.
#[async_trait]
pub trait Latest: Send + Sync {
    /// The moment when the latest applied event was received.
    async fn applied(&self, key: &str) -> Result<Option<Timestamp>, Unavailable>;

    /// Records that an event was applied which was received then, unless a newer one was: then that one's moment
    /// is given. The record may be forgotten after `expires_at`, in seconds since the Unix epoch.
    async fn apply(&self, key: &str, received_at: Timestamp, expires_at: i64)
    -> Result<Option<Timestamp>, Unavailable>;
}

/// Whether the stale guard judges an event before its effects: where the latest wins or a request may be repeated,
/// and the event is a replay.
pub fn is_judged(flow: &Flow, event: &Event) -> bool {
    flow.replaces_older() && event.is_replay()
}

/// The reason why an event is stale, if a newer event of its entity was applied. `received_at` is the moment of the
/// event's first delivery, which its row knows: a later copy of the event may be on the queue in its place.
pub async fn overtaken(
    latest: &dyn Latest,
    flow: &Flow,
    event: &Event,
    received_at: Timestamp,
) -> Result<Option<String>, Unavailable> {
    if !flow.replaces_older() {
        return Ok(None);
    }
    Ok(latest.applied(&key(event)).await?.filter(|applied| *applied > received_at).map(reason))
}

/// Records that an event was applied, where the latest wins.
pub async fn apply(
    latest: &dyn Latest,
    flow: &Flow,
    event: &Event,
    received_at: Timestamp,
    now: Timestamp,
) -> Result<(), Unavailable> {
    if flow.latest_wins {
        record(latest, event, received_at, now).await?;
    }
    Ok(())
}

/// Records that an event is about to set a resource, where the request may be repeated, and gives the reason why it
/// must not: a newer event of its entity did. A sender that delivers an event again, after newer ones, brings an older
/// event that is no replay.
///
/// It is recorded before the call: if it were recorded after it, a crash between the two could let the repetition of an
/// older event's request undo it.
pub async fn announce(
    latest: &dyn Latest,
    effect: &Effect,
    event: &Event,
    received_at: Timestamp,
    now: Timestamp,
) -> Result<Option<String>, Unavailable> {
    if effect.guarantee != Guarantee::Idempotent {
        return Ok(None);
    }
    Ok(record(latest, event, received_at, now).await?.map(reason))
}

fn reason(newer: Timestamp) -> String {
    format!("a newer event of the same entity was applied, or tried, received at {newer}")
}

/// Writes the record, which outlives every event that could be replayed.
async fn record(
    latest: &dyn Latest,
    event: &Event,
    received_at: Timestamp,
    now: Timestamp,
) -> Result<Option<Timestamp>, Unavailable> {
    latest.apply(&key(event), received_at, (now + UNSETTLED_RETENTION).secs()).await
}

/// The name of an entity's record. The event's message group names the entity.
fn key(event: &Event) -> String {
    format!("latest/{}/{}", event.flow, event.group)
}
