//! Permits to call a partner: pauses, the gate, a token, and giving a permit back.

use shared::flows::{Effect, Integration};
use shared::limits::pressure::{CallEnd, Permit};
use shared::operate::metric::Fact;
use tracing::warn;

use crate::credentials::{end_of, has_token, hindrance_of, prepare_token};
use crate::hindrance::Hindrance;
use crate::pause::pause_of_integration;
use crate::safe_mode::enter_safe_mode_on_open_breaker;
use crate::work::{Permits, Work};

/// Permits for all of these effects, or for none.
pub(crate) async fn enter_all(work: &Work<'_>, effects: &[&Effect]) -> Result<Permits, Hindrance> {
    let mut permits = Permits::new();
    for effect in effects {
        // An effect that calls no partner needs no permit.
        let partner = effect.integration().zip(work.processor.flows.partner_of(effect));
        let Some((name, partner)) = partner else { continue };
        match enter(work, name, partner).await {
            Ok(permit) => drop(permits.insert(effect.id.clone(), permit)),
            Err(hindrance) => {
                release_unused_permits(work, &mut permits, effects).await;
                return Err(hindrance);
            }
        }
    }
    Ok(permits)
}

/// A permit to call a partner now, or how long to wait for one.
pub(crate) async fn enter(work: &Work<'_>, name: &str, partner: &Integration) -> Result<Permit, Hindrance> {
    if let Some(paused) = pause_of_integration(work, name) {
        return Err(paused);
    }
    let entered = work.processor.gate.enter(name, &partner.pressure, partner.timeout, work.now()).await;
    let permit = entered.map_err(|deferral| Hindrance::of_partner(deferral, name))?;
    // Before the intent: a fetch takes time, and a crash in it must not leave an unknown outcome.
    match prepare_token(work, name, partner).await {
        Ok(()) => Ok(permit),
        Err(no_token) => {
            leave(work, name, permit, end_of(&no_token)).await;
            Err(hindrance_of(&no_token, name))
        }
    }
}

/// A permit to call an effect's partner that needs no question, if there is one.
pub(crate) fn enter_freely(work: &Work<'_>, effect: &Effect) -> Option<Permit> {
    let name = effect.integration()?;
    let partner = work.processor.flows.partner_of(effect)?;
    let free = work.processor.gate.enter_freely(name, &partner.pressure, work.now());
    free.filter(|_| has_token(work, name, partner))
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
    if let Some(change) = work.processor.gate.leave(permit.used_for(&work.event.id), end, work.now()).await {
        let (event, flow, trace_id) = work.ids();
        warn!(event, flow, trace_id, integration = name, ?change, "the breaker of the integration changed");
        work.count(Fact::Breaker(name, change));
        enter_safe_mode_on_open_breaker(work, name, change).await;
    }
}
