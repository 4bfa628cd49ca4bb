//! Slots, from one container's side.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::gate::{Deferral, DeferralReason};
use super::slots::TakeSlot;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::limits::pressure::{Slots, Taken};

/// Takes slots and gives them back, and does not ask for what is known to be taken.
pub(super) struct Turnstiles {
    slots: Box<dyn Slots>,
    /// Until when an integration's slots are not asked for, and why. They are configured, so there
    /// are few.
    quiet: Mutex<HashMap<String, (Timestamp, DeferralReason)>>,
}

/// Slots come back any moment. Whoever found none does not ask for this long, unless it gives one back.
const QUIET: Duration = Duration::from_millis(500);

/// The wait for a slot: the queue shows an event again after whole seconds.
const WAIT: Duration = Duration::from_secs(1);

/// Whoever is refused this often stands in a crowd.
const MAX_TRIES: usize = 4;

impl Turnstiles {
    pub(super) fn new(slots: Box<dyn Slots>) -> Self {
        Self { slots, quiet: Mutex::default() }
    }

    /// Whether it makes sense to ask for a slot.
    pub(super) fn look(&self, integration: &str, now: Timestamp) -> Result<(), Deferral> {
        match self.quiet().get(integration) {
            Some((until, why)) if now < *until => Err(Deferral { after: until.since(now).max(WAIT), why: *why }),
            _ => Ok(()),
        }
    }

    /// Takes a slot, over the leases of the crashed if need be.
    ///
    /// The first write supposes that there is room. It costs a second one only if nobody ever took a
    /// slot, if somebody has crashed, or if the leases changed meanwhile.
    pub(super) async fn take(
        &self,
        integration: &str,
        holder: String,
        limit: u32,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<String, Deferral> {
        let mut take = Some(TakeSlot::blind(holder.clone(), until, limit));
        for _ in 0..MAX_TRIES {
            let Some(this) = take else { break };
            match self.slots.take(&key(integration), &this).await {
                Ok(Taken::Yours) => return Ok(holder),
                Ok(Taken::Moved(found)) => take = this.knowing(found.as_ref(), limit, now),
                Err(_) => {
                    return Err(self.quieten(
                        integration,
                        Unavailable::BACK_OFF,
                        DeferralReason::LimitsUnavailable,
                        now,
                    ));
                }
            }
        }
        Err(self.quieten(integration, QUIET, DeferralReason::ConcurrencyFull, now))
    }

    /// Gives a slot back. If nobody hears it, the lease lapses.
    pub(super) async fn give(&self, integration: &str, holder: &str) {
        if self.slots.give(&key(integration), holder).await.is_ok() {
            self.quiet().remove(integration);
        }
    }

    fn quieten(&self, integration: &str, quiet: Duration, why: DeferralReason, now: Timestamp) -> Deferral {
        self.quiet().insert(integration.to_owned(), (now + quiet, why));
        Deferral { after: quiet.max(WAIT), why }
    }

    /// Every change is whole, so a panic elsewhere leaves nothing half done.
    fn quiet(&self) -> MutexGuard<'_, HashMap<String, (Timestamp, DeferralReason)>> {
        self.quiet.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn key(integration: &str) -> String {
    format!("slots/{integration}")
}
