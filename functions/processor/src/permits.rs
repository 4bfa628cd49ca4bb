//! Permits to call a partner: pauses, the gate, and giving a permit back.

use std::time::Duration;

use shared::base::time::Timestamp;
use shared::flows::{Effect, Flow, Integration};
use shared::limits::pressure::{CallEnd, Deferral, DeferralReason, Permit};
use shared::operate::metric::Fact;
use shared::operate::switchboard::Switch;
use tracing::warn;

use crate::safe_mode::enter_safe_mode_on_open_breaker;
use crate::work::{Permits, Work};

/// Permits for all of these effects, or for none.
pub(crate) async fn enter_all(work: &Work<'_>, effects: &[&Effect]) -> Result<Permits, Deferral> {
    let mut permits = Permits::new();
    for effect in effects {
        // An effect that calls no partner needs no permit.
        let partner = effect.integration().zip(work.processor.flows.partner_of(effect));
        let Some((name, partner)) = partner else { continue };
        match enter(work, name, partner).await {
            Ok(permit) => drop(permits.insert(effect.id.clone(), permit)),
            Err(deferral) => {
                release_unused_permits(work, &mut permits, effects).await;
                return Err(deferral);
            }
        }
    }
    Ok(permits)
}

/// A permit to call a partner now, or how long to wait for one.
pub(crate) async fn enter(work: &Work<'_>, name: &str, partner: &Integration) -> Result<Permit, Deferral> {
    match pause_of_integration(work, name) {
        Some(paused) => Err(paused),
        None => work.processor.gate.enter(name, &partner.pressure, partner.timeout, work.now()).await,
    }
}

/// Gives back the permits of effects that are not called after all.
pub(crate) async fn release_unused_permits(work: &Work<'_>, permits: &mut Permits, effects: &[&Effect]) {
    for effect in effects {
        release_permit(work, permits, effect, CallEnd::Neutral).await;
    }
}

/// Gives an effect's permit back, if it has one, and reports the partner's health.
pub(crate) async fn release_permit(work: &Work<'_>, permits: &mut Permits, effect: &Effect, end: CallEnd) {
    if let Some((name, permit)) = effect.integration().zip(permits.remove(&effect.id)) {
        leave(work, name, permit, end).await;
    }
}

/// Gives a permit back, and reports the partner's health.
pub(crate) async fn leave(work: &Work<'_>, name: &str, permit: Permit, end: CallEnd) {
    if let Some(change) = work.processor.gate.leave(permit, end, work.now()).await {
        let (event, flow, trace_id) = work.ids();
        warn!(event, flow, trace_id, integration = name, ?change, "the breaker of the integration changed");
        work.count(Fact::Breaker(name, change));
        enter_safe_mode_on_open_breaker(work, name, change).await;
    }
}

/// The deferral of a flow's events, if an operator paused it.
pub(crate) fn pause_of_flow(work: &Work<'_>, flow: &Flow) -> Option<Deferral> {
    let now = work.now();
    work.board.board().paused_flow(&flow.name, now).map(|switch| until_resumed(switch, now))
}

/// The deferral of calls to a partner, if an operator paused it.
pub(crate) fn pause_of_integration(work: &Work<'_>, name: &str) -> Option<Deferral> {
    let now = work.now();
    work.board.board().paused_integration(name, now).map(|switch| until_resumed(switch, now))
}

/// The deferral of a paused event. An operator may resume it sooner than its end, so it comes back before long.
fn until_resumed(switch: &Switch, now: Timestamp) -> Deferral {
    let left = switch.until.map_or(PAUSED_FOR, |until| until.since(now));
    Deferral { after: left.min(PAUSED_FOR), why: DeferralReason::Paused }
}

const PAUSED_FOR: Duration = Duration::from_secs(10);
