//! The wakes that are left to each partner in one tick.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use shared::flows::Flows;

/// The share of a partner's rate that wakes may use. The rest is for new events.
const SHARE: f64 = 0.8;

/// The calls that one slot is believed to take on in a second. A tick that wakes too many finds some of them again, one
/// that wakes too few leaves the partner idle.
const CALLS_OF_A_SLOT: f64 = 4.0;

/// The time between two ticks: the template's number.
const TICK: Duration = Duration::from_secs(60);

/// The wakes that are left to each partner with a rate or slots.
pub(super) struct WakesLeft<'f> {
    flows: &'f Flows,
    left: BTreeMap<&'f str, u32>,
}

impl<'f> WakesLeft<'f> {
    pub(super) fn of(flows: &'f Flows) -> Self {
        WakesLeft { flows, left: BTreeMap::new() }
    }

    /// Takes one from each partner of a flow, if there is one left of all. A flow that is not deployed has none.
    pub(super) fn take(&mut self, flow: &str) -> bool {
        let limited = self.limited(flow);
        let has_all = limited.iter().all(|(_, left)| *left > 0);
        if has_all {
            self.left.extend(limited.into_iter().map(|(name, left)| (name, left - 1)));
        }
        has_all
    }

    /// Gives back what was taken for an event that was not woken after all.
    pub(super) fn give_back(&mut self, flow: &str) {
        let limited = self.limited(flow);
        self.left.extend(limited.into_iter().map(|(name, left)| (name, left + 1)));
    }

    /// The partners of a flow that have a rate or slots, each with what is left to it.
    fn limited(&self, flow: &str) -> Vec<(&'f str, u32)> {
        let effects = self.flows.flow(flow).into_iter().flat_map(|flow| &flow.effects);
        let partners: BTreeSet<&str> = effects.filter_map(|effect| effect.integration()).collect();
        let left = |name| Some((name, self.left.get(name).copied().or_else(|| self.share_of(name))?));
        partners.into_iter().filter_map(left).collect()
    }

    /// The wakes of one tick that a partner bears beside new events, if it has a rate or slots.
    fn share_of(&self, integration: &str) -> Option<u32> {
        let pressure = &self.flows.integration(integration)?.pressure;
        let by_rate = pressure.rate.map(|rate| f64::from(rate.count()) / rate.per().as_secs_f64());
        let by_slots = pressure.concurrency.map(|slots| f64::from(slots) * CALLS_OF_A_SLOT);
        let a_second = by_rate.into_iter().chain(by_slots).reduce(f64::min)?;
        let a_tick = a_second * TICK.as_secs_f64();
        // At least one, or a partner that is called once an hour would never be.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is small and positive")]
        Some((a_tick * SHARE).max(1.0) as u32)
    }
}
