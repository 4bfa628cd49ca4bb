//! Pressure on partners: a rate, a number of calls at once, and a circuit breaker, each
//! shared by all containers.
//!
//! The processor asks the [`Gate`] before each call. The gate gives a [`Permit`], or says how long to wait and
//! why: a [`Deferral`], which is not an attempt. The permit is given back with the result
//! of the call.
//!
//! | configured | a call costs |
//! |---|---|
//! | `breaker: off` | nothing while the partner is quick; a slow one as `concurrency` does, once a batch, see [`SLOW`] |
//! | `rate` | no write while a lease of tokens lasts, see [`limit`](crate::limits::rates) |
//! | `concurrency` | a write to take a slot and one to give it back, see [`SlotLeases`] |
//! | `breaker` | a read each three seconds and container; writes only in trouble, see [`BreakerState`] |
//! | no `breaker` | the standard one is in force: reads and writes only in trouble |
//!
//! When the table does not answer:
//! - a rate or a slot defers, for five seconds at a time. The event is safe on the queue, and the
//!   partner is not ours to overload. Nothing else would get far: the ledger lives on the same service;
//! - a breaker goes on in each container alone, by the state that it saw last and the calls that it counts itself.
//!   It judges the partner's health, which our table's does not change, and a breaker that could neither
//!   be read nor closed would stop everything for ever.
//!
//! Deliberately absent: a queue of waiters (the events wait on theirs), jitter (the processor adds it when it defers
//! an event), and the runtime switch that pauses an integration (it is checked before the gate).

mod breaker;
mod container_breakers;
mod config;
mod failure_run;
mod gate;
mod health;
#[cfg(test)]
mod properties;
mod slots;
mod container_slots;
mod slow_partners;
mod breaker_view;

pub use breaker::{Breaker, BreakerState, Breakers, Phase, Swapped};
pub use config::Pressure;
pub use failure_run::FailureRun;
pub use gate::{BreakerChange, CallEnd, Deferral, DeferralReason, Gate, Permit, Standing};
pub use health::PartnerHealth;
pub use slots::{SlotLeases, Slots, TakeSlot, Taken};
pub use slow_partners::{BATCHES_HELD, SLOW, SLOW_FOR};
