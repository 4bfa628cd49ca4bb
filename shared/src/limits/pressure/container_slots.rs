//! Slots, from one container's side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::gate::{Deferral, DeferralReason};
use super::slots::TakeSlot;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::limits::pressure::{Slots, Taken};

/// The slots as one container takes and gives them back. It does not ask for slots that are known to be taken.
pub(super) struct ContainerSlots {
    slots: Arc<dyn Slots>,
    /// The integrations whose slots are not asked for, until when and why. Integrations are configured, so there
    /// are few.
    quiet: Mutex<HashMap<String, (Timestamp, DeferralReason)>>,
}

/// The pause after no slot was free, unless this container gives one back: slots come back any moment.
const QUIET: Duration = Duration::from_millis(500);

/// The delay of a call without a slot: the queue delivers an event again after whole seconds.
const WAIT: Duration = Duration::from_secs(1);

/// The number of tries to take a slot while other containers take some, too.
const MAX_TRIES: usize = 4;

impl ContainerSlots {
    pub(super) fn new(slots: Arc<dyn Slots>) -> Self {
        Self { slots, quiet: Mutex::default() }
    }

    /// Whether it makes sense to ask for a slot now.
    pub(super) fn look(&self, integration: &str, now: Timestamp) -> Result<(), Deferral> {
        match self.quiet().get(integration) {
            Some((until, why)) if now < *until => Err(Deferral { after: until.since(now).max(WAIT), why: *why }),
            _ => Ok(()),
        }
    }

    /// Takes a slot, in the place of a crashed holder if need be.
    ///
    /// The first write supposes that there is room. A second one is needed only before the first slot was ever
    /// taken, after a holder has crashed, or if the leases changed meanwhile.
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

    /// Gives a slot back. If the store does not answer, the lease lapses.
    pub(super) async fn give(&self, integration: &str, holder: &str) {
        if self.slots.give(&key(integration), holder).await.is_ok() {
            self.quiet().remove(integration);
        }
    }

    fn quieten(&self, integration: &str, quiet: Duration, why: DeferralReason, now: Timestamp) -> Deferral {
        self.quiet().insert(integration.to_owned(), (now + quiet, why));
        Deferral { after: quiet.max(WAIT), why }
    }

    /// The paused integrations. Every change is whole, so a panic elsewhere leaves nothing half done.
    fn quiet(&self) -> MutexGuard<'_, HashMap<String, (Timestamp, DeferralReason)>> {
        self.quiet.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn key(integration: &str) -> String {
    format!("slots/{integration}")
}
