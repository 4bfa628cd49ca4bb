//! Breakers, from one container's side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::lock::Mutex as AsyncMutex;

use super::breaker::{Breaker, BreakerEntry, BreakerState, Phase};
use super::breaker_view::BreakerView;
use super::failure_run::FailureRun;
use super::gate::{BreakerChange, CallEnd, Deferral, DeferralReason, Standing};
use crate::base::id::EventId;
use crate::base::machine::Chance;
use crate::base::time::Timestamp;
use crate::limits::pressure::{Breakers, Swapped};

/// The breakers as one container sees them: read seldom, written when a failure matters.
pub(super) struct ContainerBreakers {
    breakers: Box<dyn Breakers>,
    /// The views by integration; integrations are configured, so there are few. Each is behind a lock that is held
    /// while the table is asked: a second call meanwhile waits for the answer instead of asking, too.
    views: Mutex<HashMap<String, Arc<AsyncMutex<BreakerView>>>>,
}

/// The number of tries to write a breaker while other containers write it, too.
const MAX_TRIES: usize = 4;

/// How much sooner the mark of a slow partner may end than the newest slow call says: a write less for each.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// The delay of a call that wanted to be a probe when all tries failed.
const CROWDED: Duration = Duration::from_secs(1);

impl ContainerBreakers {
    pub(super) fn new(breakers: Box<dyn Breakers>) -> Self {
        Self { breakers, views: Mutex::default() }
    }

    /// Whether a call may be made; `true` says that it may only as a probe.
    pub(super) async fn look(
        &self,
        integration: &str,
        breaker: &Breaker,
        hold: Duration,
        now: Timestamp,
    ) -> Result<bool, Deferral> {
        let view = self.view(integration);
        let mut view = view.lock().await;
        if view.stale(breaker, now) {
            match self.breakers.read(&key(integration)).await {
                Ok(state) => view.saw(state.unwrap_or_default(), now),
                Err(_) => view.unreachable(now),
            }
        }
        match view.state.phase.entry(breaker, hold, 0, now) {
            BreakerEntry::Free => Ok(false),
            BreakerEntry::Probe(_) => Ok(true),
            BreakerEntry::Wait(after) => Err(Deferral { after, why: DeferralReason::BreakerOpen }),
        }
    }

    /// Whether a call may be made, as far as this container knows without asking the table.
    pub(super) fn is_free(&self, integration: &str, breaker: &Breaker, now: Timestamp) -> bool {
        let view = self.view(integration);
        view.try_lock().is_some_and(|view| !view.stale(breaker, now) && view.state.phase.is_closed())
    }

    /// How the partner stands after a failed call, judged by the answers since `tried`.
    pub(super) async fn standing(&self, integration: &str, tried: Option<Timestamp>, now: Timestamp) -> Standing {
        let view = self.view(integration);
        let view = view.lock().await;
        let answered = tried.is_some_and(|tried| tried < view.last_answer());
        match view.failing() {
            _ if !view.state.phase.is_closed() => Standing::Down { answered },
            _ if answered => Standing::Answering,
            failing => Standing::Silent(failing.unwrap_or(FailureRun::begun(None, now)).until_known(now)),
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
        let view = self.view(integration);
        let mut view = view.lock().await;
        let new_round = chance.bits();
        let entered = |state: &BreakerState| match state.phase.entry(breaker, hold, new_round, now) {
            BreakerEntry::Probe(next) => Some(state.in_phase(next, now)),
            _ => None,
        };
        let sent = self.turn(integration, &mut view, entered, chance, now).await.is_some();
        match (&view.state.phase, view.state.phase.entry(breaker, hold, new_round, now)) {
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
        let view = self.view(integration);
        let mut view = view.lock().await;
        if ended == CallEnd::Success {
            view.answered(now);
        }
        let probed = |state: &BreakerState| {
            state.phase.probed(round, ended, breaker, now).map(|phase| state.in_phase(phase, now))
        };
        self.turn(integration, &mut view, probed, chance, now).await?
    }

    /// Counts a call that was no probe, and reports it if the partner is failing. Rejected credentials and a token that
    /// cannot be had need no count: they open a closed breaker at once.
    pub(super) async fn count(
        &self,
        integration: &str,
        ended: CallEnd,
        event: Option<EventId>,
        breaker: &Breaker,
        chance: &dyn Chance,
        now: Timestamp,
    ) -> Option<BreakerChange> {
        if ended == CallEnd::Neutral {
            return None;
        }
        let view = self.view(integration);
        let mut view = view.lock().await;
        if matches!(ended, CallEnd::CredentialsRejected | CallEnd::NoToken) {
            let open = Phase::opened(breaker, now);
            let opened = |state: &BreakerState| state.phase.is_closed().then(|| state.in_phase(open.clone(), now));
            return self.turn(integration, &mut view, opened, chance, now).await?;
        }
        view.count(ended != CallEnd::Success, event, breaker, now);
        let report = view.report(breaker, now)?;
        let counted = |state: &BreakerState| state.counted(&report, breaker, now);
        let change = self.turn(integration, &mut view, counted, chance, now).await?;
        view.told(now);
        change
    }

    /// Whether some container found the partner slow, as this one last saw it.
    pub(super) fn is_slow(&self, integration: &str, now: Timestamp) -> bool {
        self.view(integration).try_lock().is_some_and(|view| now < view.state.slow_until)
    }

    /// Tells all containers that the partner is slow until then, unless they know it for nearly as long.
    pub(super) async fn mark_slow(&self, integration: &str, until: Timestamp, chance: &dyn Chance, now: Timestamp) {
        let view = self.view(integration);
        let mut view = view.lock().await;
        for _ in 0..MAX_TRIES {
            if view.state.slow_until + KNOWN_FOR >= until || view.alone(now) {
                return;
            }
            let (seen, version) = (view.state.version, chance.bits().max(1));
            let state = BreakerState { version, slow_until: until, ..view.state.clone() };
            match self.breakers.swap(&key(integration), seen, &state, now).await {
                Ok(Swapped::Written) => view.saw(state, now),
                Ok(Swapped::Moved(found)) => view.saw(found.unwrap_or_default(), now),
                Err(_) => view.unreachable(now),
            }
        }
    }

    /// Writes the state that `next` makes of the current one. `None` if there is no next state, or
    /// if other containers were faster at every try.
    ///
    /// While the table does not answer, the container's own copy stands for it. Its version is one
    /// that the table does not have, so the first write afterwards fails and returns the stored state.
    async fn turn(
        &self,
        integration: &str,
        view: &mut BreakerView,
        next: impl Fn(&BreakerState) -> Option<BreakerState>,
        chance: &dyn Chance,
        now: Timestamp,
    ) -> Option<Option<BreakerChange>> {
        for _ in 0..MAX_TRIES {
            let seen = view.state.clone();
            let state = BreakerState { version: chance.bits().max(1), ..next(&seen)? };
            let change = change(&seen.phase, &state.phase);
            if view.alone(now) {
                view.adopt(state);
                return Some(change);
            }
            match self.breakers.swap(&key(integration), seen.version, &state, now).await {
                Ok(Swapped::Written) => {
                    view.saw(state, now);
                    return Some(change);
                }
                Ok(Swapped::Moved(found)) => view.saw(found.unwrap_or_default(), now),
                Err(_) => view.unreachable(now),
            }
        }
        None
    }

    /// The view of an integration. Every change of the map is whole, so a panic elsewhere leaves nothing half done.
    fn view(&self, integration: &str) -> Arc<AsyncMutex<BreakerView>> {
        let mut views = self.views.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(views.entry(integration.to_owned()).or_default())
    }
}

fn change(seen: &Phase, next: &Phase) -> Option<BreakerChange> {
    match next {
        Phase::Open { .. } => Some(BreakerChange::Opened),
        Phase::Closed { .. } if !seen.is_closed() => Some(BreakerChange::Closed),
        _ => None,
    }
}

pub(super) fn key(integration: &str) -> String {
    format!("breaker/{integration}")
}
