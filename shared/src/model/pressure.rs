//! Slots and breakers in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;

use super::locked;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::limits::pressure::{BreakerState, Breakers, SlotLeases, Slots, Swapped, TakeSlot, Taken};

/// Slots and breakers in memory.
#[derive(Clone, Debug, Default)]
pub struct ModelPressure(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    slots: BTreeMap<String, SlotLeases>,
    breakers: BTreeMap<String, BreakerState>,
    reads: usize,
    writes: usize,
    down: bool,
}

impl ModelPressure {
    /// The number of reads of breakers.
    pub fn reads(&self) -> usize {
        locked(&self.0).reads
    }

    /// The number of writes that were tried, failed ones included: each is charged.
    pub fn writes(&self) -> usize {
        locked(&self.0).writes
    }

    /// Takes the table down, or brings it back.
    pub fn down(&self, down: bool) {
        locked(&self.0).down = down;
    }

    fn reached(&self) -> Result<MutexGuard<'_, Table>, Unavailable> {
        let table = locked(&self.0);
        if table.down {
            return Err(Unavailable { port: "the limits", why: "down".into() });
        }
        Ok(table)
    }

    fn written(&self) -> Result<MutexGuard<'_, Table>, Unavailable> {
        locked(&self.0).writes += 1;
        self.reached()
    }
}

#[async_trait]
impl Slots for ModelPressure {
    async fn take(&self, slots: &str, take: &TakeSlot) -> Result<Taken, Unavailable> {
        let mut table = self.written()?;
        let found = table.slots.get(slots);
        match take.applied_to(found) {
            Some(leases) => {
                table.slots.insert(slots.to_owned(), leases);
                Ok(Taken::Yours)
            }
            None if found.is_some_and(|leases| leases.held_by(&take.holder)) => Ok(Taken::Yours),
            None => Ok(Taken::Moved(found.cloned())),
        }
    }

    async fn give(&self, slots: &str, holder: &str) -> Result<(), Unavailable> {
        let mut table = self.written()?;
        table.slots.get_mut(slots).map(|leases| leases.give(holder));
        Ok(())
    }
}

#[async_trait]
impl Breakers for ModelPressure {
    async fn read(&self, breaker: &str) -> Result<Option<BreakerState>, Unavailable> {
        locked(&self.0).reads += 1;
        Ok(self.reached()?.breakers.get(breaker).cloned())
    }

    async fn swap(&self, breaker: &str, seen: u64, next: &BreakerState, _: Timestamp) -> Result<Swapped, Unavailable> {
        let mut table = self.written()?;
        let found = table.breakers.get(breaker);
        match found.map_or(0, |state| state.version) {
            version if version == next.version => Ok(Swapped::Written),
            version if version == seen => {
                table.breakers.insert(breaker.to_owned(), next.clone());
                Ok(Swapped::Written)
            }
            _ => Ok(Swapped::Moved(found.cloned())),
        }
    }
}
