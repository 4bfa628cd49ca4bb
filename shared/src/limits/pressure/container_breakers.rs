//! Breakers, from one container's side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::lock::Mutex as AsyncMutex;

use super::breaker::{Breaker, BreakerEntry, BreakerState, Phase};
use super::breaker_view::BreakerView;
use super::gate::{BreakerChange, CallEnd, Deferral, DeferralReason};
use crate::base::machine::Chance;
use crate::base::time::Timestamp;
use crate::limits::pressure::{Breakers, Swapped};

/// The breakers as one container sees them: read seldom, written when a failure matters.
pub(super) struct ContainerBreakers {
    breakers: Box<dyn Breakers>,
    /// The watches by integration; integrations are configured, so there are few. Each is behind a lock that is held
    /// while the table is asked: a second call meanwhile waits for the answer instead of asking, too.
    watches: Mutex<HashMap<String, Arc<AsyncMutex<BreakerView>>>>,
}

/// The number of tries to write a breaker while other containers write it, too.
const MAX_TRIES: usize = 4;

/// The delay of a call that wanted to be a probe when all tries failed.
const CROWDED: Duration = Duration::from_secs(1);

impl ContainerBreakers {
    pub(super) fn new(breakers: Box<dyn Breakers>) -> Self {
        Self { breakers, watches: Mutex::default() }
    }

    /// Whether a call may be made; `true` says that it may only as a probe.
    pub(super) async fn look(
        &self,
        integration: &str,
        breaker: &Breaker,
        hold: Duration,
        now: Timestamp,
    ) -> Result<bool, Deferral> {
        let watch = self.watch(integration);
        let mut watch = watch.lock().await;
        if watch.stale(now) {
            match self.breakers.read(&key(integration)).await {
                Ok(state) => watch.saw(state.unwrap_or_default(), now),
                Err(_) => watch.unreachable(now),
            }
        }
        match watch.state.phase.entry(breaker, hold, 0, now) {
            BreakerEntry::Free => Ok(false),
            BreakerEntry::Probe(_) => Ok(true),
            BreakerEntry::Wait(after) => Err(Deferral { after, why: DeferralReason::BreakerOpen }),
        }
    }

    /// Becomes a probe of the round that is returned, or `None` if the breaker has closed meanwhile and the call need
    /// not be a probe.
    pub(super) async fn probe(
        &self,
        integration: &str,
        breaker: &Breaker,
        hold: Duration,
        chance: &dyn Chance,
        now: Timestamp,
    ) -> Result<Option<u64>, Deferral> {
        let watch = self.watch(integration);
        let mut watch = watch.lock().await;
        let new_round = chance.bits();
        let entered = |phase: &Phase| match phase.entry(breaker, hold, new_round, now) {
            BreakerEntry::Probe(next) => Some(next),
            _ => None,
        };
        let sent = self.turn(integration, &mut watch, entered, chance, now).await.is_some();
        match (&watch.state.phase, watch.state.phase.entry(breaker, hold, new_round, now)) {
            (Phase::HalfOpen { round, .. }, _) if sent => Ok(Some(*round)),
            (_, BreakerEntry::Free) => Ok(None),
            (_, BreakerEntry::Wait(after)) => Err(Deferral { after, why: DeferralReason::BreakerOpen }),
            (_, BreakerEntry::Probe(_)) => Err(Deferral { after: CROWDED, why: DeferralReason::BreakerOpen }),
        }
    }

    /// Records the result of a probe.
    pub(super) async fn probed(
        &self,
        integration: &str,
        round: u64,
        ended: CallEnd,
        breaker: &Breaker,
        chance: &dyn Chance,
        now: Timestamp,
    ) -> Option<BreakerChange> {
        let watch = self.watch(integration);
        let mut watch = watch.lock().await;
        let probed = |phase: &Phase| phase.probed(round, ended, breaker, now);
        self.turn(integration, &mut watch, probed, chance, now).await?
    }

    /// Counts a call that was no probe, and reports it if the partner is failing.
    pub(super) async fn count(
        &self,
        integration: &str,
        ended: CallEnd,
        breaker: &Breaker,
        chance: &dyn Chance,
        now: Timestamp,
    ) -> Option<BreakerChange> {
        if ended == CallEnd::Neutral {
            return None;
        }
        let watch = self.watch(integration);
        let mut watch = watch.lock().await;
        watch.count(ended == CallEnd::Failure, breaker, now);
        let (window, more) = watch.report(breaker, now)?;
        let counted = |phase: &Phase| phase.counted(window, more, breaker, now);
        let change = self.turn(integration, &mut watch, counted, chance, now).await?;
        watch.told(now);
        change
    }

    /// Opens a closed breaker at once, without counting.
    pub(super) async fn open(
        &self,
        integration: &str,
        breaker: &Breaker,
        chance: &dyn Chance,
        now: Timestamp,
    ) -> Option<BreakerChange> {
        let watch = self.watch(integration);
        let mut watch = watch.lock().await;
        let opened = |phase: &Phase| phase.is_closed().then_some(Phase::Open { until: now + breaker.open_for });
        self.turn(integration, &mut watch, opened, chance, now).await?
    }

    /// Writes the phase that `next` makes of the current one. `None` if there is no next phase, or
    /// if other containers were faster at every try.
    ///
    /// While the table does not answer, the container's own copy stands for it. Its version is one
    /// that the table does not have, so the first write afterwards fails and returns the stored state.
    async fn turn(
        &self,
        integration: &str,
        watch: &mut BreakerView,
        next: impl Fn(&Phase) -> Option<Phase>,
        chance: &dyn Chance,
        now: Timestamp,
    ) -> Option<Option<BreakerChange>> {
        for _ in 0..MAX_TRIES {
            let seen = watch.state.clone();
            let state = BreakerState { version: chance.bits().max(1), phase: next(&seen.phase)? };
            let change = change(&seen.phase, &state.phase);
            if watch.alone(now) {
                watch.adopt(state);
                return Some(change);
            }
            match self.breakers.swap(&key(integration), seen.version, &state, now).await {
                Ok(Swapped::Written) => {
                    watch.saw(state, now);
                    return Some(change);
                }
                Ok(Swapped::Moved(found)) => watch.saw(found.unwrap_or_default(), now),
                Err(_) => watch.unreachable(now),
            }
        }
        None
    }

    /// The watch of an integration. Every change of the map is whole, so a panic elsewhere leaves nothing half done.
    fn watch(&self, integration: &str) -> Arc<AsyncMutex<BreakerView>> {
        let mut watches = self.watches.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(watches.entry(integration.to_owned()).or_default())
    }
}

fn change(seen: &Phase, next: &Phase) -> Option<BreakerChange> {
    match next {
        Phase::Open { .. } => Some(BreakerChange::Opened),
        Phase::Closed { .. } if !seen.is_closed() => Some(BreakerChange::Closed),
        _ => None,
    }
}

fn key(integration: &str) -> String {
    format!("breaker/{integration}")
}
