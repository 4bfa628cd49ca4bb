//! The deterministic simulation of the crate `sim`, over the shipped flows and flows of its own.
//!
//! # Layout
//!
//! - [`flows`]: the flows: the shipped ones, and our own under `flows/`, in three versions.
//! - [`events`]: how the events of each flow are made.
//! - [`contacts`]: whom the events are about.
//! - [`seeds`]: which flows a seed is about, and which mutant takes the product's place.
//! - [`campaign`]: many seeds.
//! - [`sweep`]: every fault at every call, one at a time.
//! - [`cost`]: the calls of all ports that one event of a plain flow makes.
//! - [`slow_partner`]: a partner that hangs on every call, beside one that does not.
//! - [`long_waits`]: thousands of events that wait for the morning, for an operator, for a partner that is down.
//! - [`mutants`]: the protocol with one step broken: each must be caught.
//!
//! # To add
//!
//! - **a flow**: a file under `flows/flows`. Lines that start with `#v2 ` are deployed while events are on
//!   their way. Shipped flows take part by themselves; each needs a payload under `events/`, and its
//!   route in `events::PAYLOADS`. A lookup that reads a list needs a line in `events::listings`.
//! - **a field** that differs from event to event: a line in `events::fields`.
//! - **a mutant**: a line in `mutants::ALL`. It wraps a port, writes rows by its own rules, handles batches in
//!   another way or changes the flows; the product has no hook for it.
//! - **a fault, an invariant, a port or a state**: see the crate `sim`.

mod flows;
mod events;
mod contacts;
mod seeds;

mod campaign;
mod sweep;
mod cost;
mod slow_partner;
mod long_waits;
mod mutants;
