//! The deterministic simulation: the three real handlers over models, on a virtual clock, with whatever
//! can go wrong drawn from a seed.
//!
//! Several containers of each function run at once, as futures that the scheduler polls one step at a
//! time. Every call of a port is a step of its own, before and after it; the next step is drawn from the
//! seed among all that are due. So a seed is a run: the same one each time, line by line.
//!
//! The flows are the user's. A [`Scenario`] holds them as data, beside how their events are made and who is known;
//! a [`Simulation`] runs seeds of it, and a [`RunReport`] says which invariant was broken, if one was:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use serde_json::json;
//! use shared::base::time::Timestamp;
//! use shared::flows::{File, Flows};
//! use sim::{EventRecipe, FieldValue, FlowsVersion, Scenario, Simulation};
//!
//! # let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
//! # let files = [
//! #     file("sources.yaml", "shop: {scheme: shopify, max_body: 64KiB, rate: 10/s, type_at: type}"),
//! #     file("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}"),
//! #     file("flows/paid.yaml", r#"
//! # name: paid
//! # version: 1
//! # on: {source: shop, type: paid}
//! # schema:
//! #   type: object
//! #   required: [order, customer]
//! #   properties: {order: {type: string}, customer: {type: string}}
//! # key: {version: 1, fields: [order]}
//! # order_by: customer
//! # ttl: 24h
//! # max_age: 1h
//! # effects:
//! #   - id: tell
//! #     integration: crm
//! #     guarantee: native
//! #     request: {method: POST, path: "/orders/{{ event.order }}"}
//! # retry: {strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 4}
//! # "#),
//! # ];
//! let flows = Flows::parse(&files)?;
//! let paid = EventRecipe::of(json!({"order": "", "customer": ""}))
//!     .with("/order", FieldValue::text("order-{event}"))
//!     .with("/customer", FieldValue::text("customer-{entity}"));
//! let simulation = Simulation::new(Scenario {
//!     versions: vec![FlowsVersion::of(flows)],
//!     events: BTreeMap::from([("paid".to_owned(), paid)]),
//!     listings: BTreeMap::new(),
//!     entities: 4,
//!     contacts: Vec::new(),
//!     starts_at: Timestamp::from_secs(1_794_819_600),
//! })?;
//! let report = simulation.run_seed(7);
//! assert_eq!(report.violation, None, "{}", report.timeline);
//! assert!(report.calls > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//!
//! The modules stand in the order in which a reader needs them: what goes in, what happens, what judges it.
//!
//! - `scenario`: what is simulated, as data: the flows, their events, the contacts.
//! - `recipe`: how the events of a flow are made: a payload, and what differs in it from event to event.
//! - `run`: a simulation, one run of it, and what came of the run.
//! - `seeds`: what a seed stands for: which events, how many containers and operators, which faults.
//! - `faults`: what can go wrong with a call, how often, or once at one call.
//! - `stores`: what queues and tables bear, and what is wrong with single items.
//! - [`mutation`]: the hook for a protocol with one step broken.
//! - `world`: one run from its first event to its rest; the modules up to `presses` take part in it.
//! - `containers`: the three functions, which start, work on one invocation at a time, and go down.
//! - `wiring`: the models outside of a container, its ports over them, and the function that gets the ports.
//! - `senders`: senders post events until they are told that we have them, and some post again.
//! - `polling`: the event source mappings receive batches, invoke, and delete what was done.
//! - `operators`: operators look at what is parked, resolve, replay, approve, reject and drop.
//! - `lane`: the schedule, and operators who open batches, stop them, plan and apply.
//! - `switching`: operators pause flows and partners, turn safe mode on, and change retry policies.
//! - `cloud`: versions come and go, queues deliver twice, the table deletes what has expired.
//! - `presses`: people press the buttons below a question, more than once and late.
//! - `ports`: the ports as containers see them: the models, with turns and faults.
//! - `partner`: the partners: how they misbehave, and what they keep promising.
//! - `oracle`: the invariants, judged with each write and each call, and at the end.
//! - `scheduler`: virtual time, and whose turn it is.
//! - `timeline`: what happened in a run, to be read and to be compared.
//! - [`stage`]: the same functions without chance and without judges, for whoever directs them.
//!
//! Deliberately absent: any name of a flow, a field or a payload. Whoever calls the library hands them in.
//!
//! What the numbers assume: clocks of two containers differ by a second at most (`faults::MAX_SKEW` each
//! way), a partner does what it did not answer to within six seconds, so that a flow's `lookup.after` is longer, a
//! client that stood still past its time-out does not send any more, and a flow gives up on an event after a day at
//! most (`RunSetup::rest_within`).
//!
//! # To add
//!
//! - **a fault** of any call: a variant of [`Fault`], its place in [`Fault::ALL`], and what it does in
//!   `ports::Seat::call`. One of partners: a variant of [`Conduct`]. One of the world outside: a
//!   `scheduler::Actor`, put on the agenda in `SimWorld::open`.
//! - **an invariant**: a constant with its sentence in `oracle`, and a check where it can be seen: a write
//!   in `oracle/rows.rs`, a call in `oracle/calls.rs`, the end in `oracle/ends.rs`. Then a mutant that breaks it.
//! - **a port**: an implementation in `ports` that wraps its model in `Seat::call`, a field of
//!   [`mutation::ContainerPorts`] and one of [`mutation::Models`].
//! - **a state** of the ledger: its transitions in `oracle::rows::follows`, and whether an event may end in it
//!   in `Oracle::settled`.
//! - **a kind of value** in events: a variant of [`FieldValue`], and what it becomes in `FieldValue::of`.
//! - **an act** of operators: a variant of [`OperatorAct`], and what it does in `SimWorld::perform`.
//! - **a mutant**: it stands with the tests, which keep the list. It wraps a port, writes rows by its own rules,
//!   handles batches in another way or changes the flows; the product has no hook for it.

mod scenario;
mod recipe;
mod run;
mod seeds;
mod faults;
mod stores;
pub mod mutation;

mod world;
mod containers;
mod wiring;
mod senders;
mod polling;
mod operators;
mod lane;
mod switching;
mod cloud;
mod presses;

mod ports;
mod partner;
mod oracle;
mod scheduler;
mod timeline;

pub mod stage;

#[cfg(test)]
mod tests;

pub use containers::{LEASE, MAX_RECEIVES, PROCESSOR_TIMEOUT, VISIBILITY};
pub use faults::{Fault, FaultPlan, FaultProfile, PlannedFault};
pub use lane::{SCHEDULED_EVERY, WOKEN_EVERY};
pub use operators::{OperatorAct, OperatorShift};
pub use oracle::STATED_RESULT;
pub use partner::{Conduct, OpeningConduct, PartnerOutage};
pub use recipe::{EventRecipe, FieldValue};
pub use run::{BrokenInvariant, Pace, RunReport, RunSetup, Simulation};
pub use scenario::{FlowsVersion, KnownContact, ListedField, Listing, Scenario, ScenarioError};
pub use seeds::SteadyLoad;
pub use stores::{FaultyItem, ItemFault, Stores};
pub use timeline::Timeline;
