//! The stale guard: an event that a newer one of its entity has overtaken is not replayed.
//!
//! The queue keeps the order of a group, but what is parked has left the queue. Its replay comes after
//! whatever was applied meanwhile, and would put an old address in the place of a new one. Where a flow
//! says that the latest wins, what was applied last is written down for each entity, before the event is
//! closed: a crash between the two brings the event back, and it is written down again.

use crate::arrival::event::Event;
use crate::base::errors::Unavailable;
use crate::base::retention::UNSETTLED_RETENTION;
use crate::base::time::Timestamp;
use crate::flows::Flow;
use async_trait::async_trait;

/// What was applied last, of each entity.
#[async_trait]
pub trait Latest: Send + Sync {
    /// When the latest event that was applied was received.
    async fn applied(&self, key: &str) -> Result<Option<Timestamp>, Unavailable>;

    /// Writes down that an event was applied which was received then, unless a newer one was. It may be
    /// forgotten after `expires_at`, in seconds since the Unix epoch.
    async fn apply(&self, key: &str, received_at: Timestamp, expires_at: i64) -> Result<(), Unavailable>;
}

/// Whether an event is judged before anything is done for it: where the latest wins, and it does not come in
/// its turn.
pub fn is_judged(flow: &Flow, event: &Event) -> bool {
    flow.latest_wins && event.is_replay()
}

/// Why a replay of an event is held back, if the latest wins and a newer event of its entity was applied.
pub async fn overtaken(latest: &dyn Latest, flow: &Flow, event: &Event) -> Result<Option<String>, Unavailable> {
    if !flow.latest_wins {
        return Ok(None);
    }
    let newer = latest.applied(&key(event)).await?.filter(|applied| *applied > event.received_at);
    Ok(newer.map(|newer| format!("a newer event of its entity was applied, received at {newer}")))
}

/// Writes down that an event was applied, where the latest wins. It outlives whatever could be replayed.
pub async fn apply(latest: &dyn Latest, flow: &Flow, event: &Event, now: Timestamp) -> Result<(), Unavailable> {
    if !flow.latest_wins {
        return Ok(());
    }
    latest.apply(&key(event), event.received_at, (now + UNSETTLED_RETENTION).secs()).await
}

/// The name under which an entity's latest event is kept. Its message group names the entity.
fn key(event: &Event) -> String {
    format!("latest/{}/{}", event.flow, event.group)
}
