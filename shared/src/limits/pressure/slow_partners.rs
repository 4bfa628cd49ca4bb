//! Slow partners, from one container's side: how many batches each may hold.
//!
//! A batch returns when its slowest group is done. So one partner that hangs, with a call in each batch, would
//! hold every batch that the queue allows at once, and events of other partners would wait for theirs. A partner that
//! answers quickly holds nothing, and costs nothing here. One whose call is under way for [`SLOW`] counts as slow for
//! a while, in this container at once, and in all with their next read of its breaker. A slow partner is called in one
//! round a batch, and only while the container holds one of the partner's [`BATCHES_HELD`], which all containers share.
//! What exceeds that is deferred at once.
//!
//! It cannot see a partner that begins to hang: calls that began before the containers knew of it are in all batches. When
//! such a call is slow, its container asks for the share, too. Where others have it all, the call is let go if the partner
//! knows it again by our key, and its batch returns. A call that is not so holds its batch until its time-out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::lock::Mutex as AsyncMutex;

use super::gate::{Deferral, DeferralReason};
use super::slots::{Slots, TakeSlot, Taken};
use crate::base::errors::Unavailable;
use crate::base::machine::Chance;
use crate::base::time::Timestamp;

/// The most batches that calls to one slow partner may hold at once, of the ten that the template lets run.
pub const BATCHES_HELD: u32 = 3;

/// A call that is under way for this long is slow.
pub const SLOW: Duration = Duration::from_secs(2);

/// How long a partner counts as slow after a call was.
pub const SLOW_FOR: Duration = Duration::from_secs(30);

/// Calls that begin within this time of one another are one round: they hold their batch no longer than one of them.
const ROUND: Duration = Duration::from_secs(1);

/// The pause of a slow partner in a container after a round. It is over when the batch is: another round would hold
/// the same batch twice as long.
const PAUSE: Duration = Duration::from_secs(1);

/// The delay of a call that exceeds the share. A slow partner gives nothing back within less.
const WAIT: Duration = Duration::from_secs(5);

/// The deferral of what exceeds the share.
pub(super) const EXCEEDS: Deferral = Deferral { after: WAIT, why: DeferralReason::PartnerSlow };

/// The number of tries to take a batch while other containers take some, too.
const MAX_TRIES: usize = 4;

/// The slow partners that one container knows.
pub(super) struct SlowPartners {
    slots: Arc<dyn Slots>,
    /// The moments until which partners count as slow, as this container found them.
    found: Mutex<HashMap<String, Timestamp>>,
    /// The views by integration; integrations are configured, so there are few. Each is behind a lock that is held
    /// while the table is asked: a second call meanwhile waits for the answer instead of asking, too.
    views: Mutex<HashMap<String, Arc<AsyncMutex<SlowView>>>>,
}

/// A container's view of one partner.
#[derive(Default)]
struct SlowView {
    /// The round of calls that is under way.
    round: Option<Round>,
    /// The moment until which no round begins.
    paused_until: Option<Timestamp>,
}

struct Round {
    holder: String,
    began: Timestamp,
    /// The moment by which calls that have not come back are lost, as the holder's lease is.
    until: Timestamp,
    calls: u32,
}

impl SlowPartners {
    pub(super) fn new(slots: Arc<dyn Slots>) -> Self {
        Self { slots, found: Mutex::default(), views: Mutex::default() }
    }

    /// Whether this container found the partner slow.
    pub(super) fn knows(&self, integration: &str, now: Timestamp) -> bool {
        locked(&self.found).get(integration).is_some_and(|until| now < *until)
    }

    /// Learns that a call is slow. Returns the moment until which the partner counts as slow.
    pub(super) fn learn(&self, integration: &str, now: Timestamp) -> Timestamp {
        let until = now + SLOW_FOR;
        locked(&self.found).insert(integration.to_owned(), until);
        until
    }

    /// Takes part in a round of calls to a slow partner. A round holds its batch for at most `hold`.
    pub(super) async fn enter(
        &self,
        integration: &str,
        hold: Duration,
        chance: &dyn Chance,
        now: Timestamp,
    ) -> Result<(), Deferral> {
        let view = self.view(integration);
        let mut view = view.lock().await;
        if let Some(round) = view.round.as_mut().filter(|round| now < round.until) {
            let joins = now.since(round.began) < ROUND;
            round.calls += u32::from(joins);
            return if joins { Ok(()) } else { Err(EXCEEDS) };
        }
        if view.paused_until.is_some_and(|until| now < until) {
            return Err(EXCEEDS);
        }
        let holder = format!("{:016x}", chance.bits());
        let until = now + hold + ROUND;
        match self.take(integration, &holder, until, now).await {
            Ok(true) => {
                view.round = Some(Round { holder, began: now, until, calls: 1 });
                Ok(())
            }
            Ok(false) => {
                view.paused_until = Some(now + PAUSE);
                Err(EXCEEDS)
            }
            Err(_) => {
                view.paused_until = Some(now + Unavailable::BACK_OFF);
                Err(Deferral { after: Unavailable::BACK_OFF, why: DeferralReason::LimitsUnavailable })
            }
        }
    }

    /// Ends one call of a round. The last one gives the batch back; if the store does not answer, its lease lapses.
    pub(super) async fn leave(&self, integration: &str, now: Timestamp) {
        let view = self.view(integration);
        let mut view = view.lock().await;
        let Some(round) = &mut view.round else { return };
        round.calls = round.calls.saturating_sub(1);
        if round.calls > 0 {
            return;
        }
        let (holder, began) = (round.holder.clone(), round.began);
        view.round = None;
        view.paused_until = Some(now + PAUSE).filter(|_| now.since(began) >= ROUND);
        drop(self.slots.give(&key(integration), &holder).await);
    }

    /// Takes one of the partner's batches, in the place of a crashed holder if need be.
    async fn take(
        &self,
        integration: &str,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, Unavailable> {
        let mut take = Some(TakeSlot::blind(holder.to_owned(), until, BATCHES_HELD));
        for _ in 0..MAX_TRIES {
            let Some(this) = take else { break };
            match self.slots.take(&key(integration), &this).await? {
                Taken::Yours => return Ok(true),
                Taken::Moved(found) => take = this.knowing(found.as_ref(), BATCHES_HELD, now),
            }
        }
        Ok(false)
    }

    /// The view of an integration. Every change of the map is whole, so a panic elsewhere leaves nothing half done.
    fn view(&self, integration: &str) -> Arc<AsyncMutex<SlowView>> {
        Arc::clone(locked(&self.views).entry(integration.to_owned()).or_default())
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn key(integration: &str) -> String {
    format!("batches/{integration}")
}
