//! A partner's health, for whoever sends it work and calls nothing.

use super::breaker::{Breaker, Breakers, Phase};
use super::container_breakers::key;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

/// Whether a partner can take work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartnerHealth {
    /// Its breaker is closed.
    Up,
    /// Its breaker is closed, and calls take long.
    Slow,
    /// Its breaker is open, or its probes are out.
    Down,
    /// Its breaker lets so many calls through, to see whether it is back.
    Probed(u32),
}

impl PartnerHealth {
    /// The health of an integration, as all containers share it.
    pub async fn of(
        integration: &str,
        breaker: &Breaker,
        breakers: &dyn Breakers,
        now: Timestamp,
    ) -> Result<Self, Unavailable> {
        let state = breakers.read(&key(integration)).await?;
        let is_slow = state.as_ref().is_some_and(|state| now < state.slow_until);
        Ok(match state.map(|state| state.phase) {
            None | Some(Phase::Closed { .. }) if is_slow => PartnerHealth::Slow,
            None | Some(Phase::Closed { .. }) => PartnerHealth::Up,
            Some(Phase::Open { until, .. } | Phase::HalfOpen { until, .. }) if now < until => PartnerHealth::Down,
            Some(Phase::Open { .. } | Phase::HalfOpen { .. }) => PartnerHealth::Probed(breaker.probes),
        })
    }
}
