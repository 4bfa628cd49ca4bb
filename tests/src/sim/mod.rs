//! The deterministic simulation: the three real handlers over models, on a virtual clock, with whatever
//! can go wrong drawn from a seed.
//!
//! Several containers of each function run at once, as futures that [`scheduler`] polls one step at a
//! time. Every call of a port is a step of its own, before and after it; the next step is drawn from the
//! seed among all that are due. So a seed is a run: the same one each time, line by line.
//!
//! | module | what |
//! |---|---|
//! | [`seeds`] | what a seed stands for: flows, events, containers, operators, a profile of faults |
//! | [`world`] | one run from its first event to its rest; [`containers`], [`polling`], [`senders`], [`presses`], [`operators`], [`lane`], [`switching`] and [`contacts`] take part |
//! | [`ports`] | the ports as containers see them: the models, with turns and faults |
//! | [`partner`] | the partners: how they misbehave, and what they keep promising |
//! | [`faults`] | what can go wrong, how often, or once at one call |
//! | [`oracle`] | the invariants, judged with each write and each call, and at the end |
//! | [`campaign`], [`sweep`] | many seeds; every fault at every call, one at a time |
//! | [`mutants`] | the protocol with one step broken: each must be caught |
//!
//! What the numbers assume: clocks of two containers differ by a second at most (`faults::MAX_SKEW` each
//! way), a partner does what it did not answer to within six seconds, and a client that stood still past
//! its time-out does not send any more.
//!
//! # To add
//!
//! - **a fault** of any call: a variant of `faults::Fault`, its place in `Fault::ALL`, and what it does in
//!   `ports::Seat::call`. One of partners: a variant of `partner::Conduct`. One of the world outside: an
//!   `scheduler::Actor`, put on the agenda in `World::open`.
//! - **an invariant**: a constant with its sentence in [`oracle`], and a check where it can be seen: a write
//!   in `oracle/rows.rs`, a call in `oracle/calls.rs`, the end in `oracle/ends.rs`. Then a mutant that breaks it.
//! - **a port**: an implementation in [`ports`] that wraps its model in `Seat::call`, a field of
//!   `containers::Ports` and one of `containers::Models`.
//! - **a state** of the ledger: its transitions in `oracle::rows::follows`, and whether an event may end in it
//!   in `Oracle::settled`.
//! - **a mutant**: a line in `mutants::ALL`. It wraps a port, writes rows by its own rules, handles batches in
//!   another way or changes the flows; the product has no hook for it.
//! - **a flow**: a file under `flows/flows`. Lines that start with `#v2 ` are deployed while events are on
//!   their way. Shipped flows take part by themselves; each needs a payload of its type under `events/`.

mod campaign;
mod contacts;
mod containers;
mod faults;
mod flows;
mod lane;
mod mutants;
mod operators;
mod oracle;
mod partner;
mod polling;
mod ports;
mod presses;
mod scheduler;
mod seeds;
mod senders;
mod sweep;
mod switching;
mod timeline;
mod world;

pub(crate) use containers::{LEASE, MAX_RECEIVES, PROCESSOR_TIMEOUT, VISIBILITY};
pub(crate) use lane::SCHEDULED_EVERY;
