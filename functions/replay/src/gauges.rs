//! What is so now, counted each minute: how much is on the queue, and which breakers are open.
//!
//! A breaker counts when it opens and when it closes; between the two nothing happens that anybody could count, unless
//! there are events for that partner. Of what does not answer nothing is counted: a gauge fails no wake.

use futures::future::join_all;
use shared::limits::pressure::PartnerHealth;
use shared::operate::metric::{Fact, WorkUnit};

use crate::Replay;

/// Counts what is so now.
pub(crate) async fn count_now(replay: &Replay, unit: &WorkUnit<'_>) {
    if let Ok(depth) = replay.depths.depth().await {
        unit.count(&Fact::OnQueueNow(depth.queued as u64, depth.in_flight as u64));
    }
    let now = replay.clock.now();
    let breakers = replay.flows.integrations().filter_map(|(name, partner)| Some((name, partner.pressure.breaker?)));
    let health =
        breakers.map(async |(name, breaker)| (name, PartnerHealth::of(name, &breaker, &*replay.breakers, now).await));
    for (name, health) in join_all(health).await {
        if matches!(health, Ok(PartnerHealth::Down | PartnerHealth::Probed(_))) {
            unit.count(&Fact::BreakerIsOpen(name));
        }
    }
}
