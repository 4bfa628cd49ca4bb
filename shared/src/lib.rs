//! The core that the three functions share, and its adapters.
//!
//! # Layout
//!
//! The rooms stand in the order in which an event meets them, and each knows only those above it. A port
//! stands in the room that needs it.
//!
//! - [`base`]: the types that every room stands on: the time, ids, traces, the errors of ports, mistakes in files.
//! - [`limits`]: limits: senders' rates, pressure on partners, a contact's retries.
//! - [`flows`]: the flow language: what an event is, how it is keyed, what is done for it.
//! - [`arrival`]: how a delivery is verified, keyed, and becomes an event.
//! - [`ledger`]: one row for each event: what was accepted, intended and done; and the queues beside it.
//! - [`effects`]: effects: guards, caps, requests to partners, and what their answers mean.
//! - [`operate`]: operations: switches, replays, approvals, the stale guard, metrics.
//! - [`adapters`]: the ports on AWS, over HTTP and on the machine.
//! - [`model`](model/index.html): the ports in memory, for tests and the simulation.
//!
//! Everything above `adapters` is the core: it does no I/O, is handed the time, and builds without the AWS SDK
//! (`cargo check -p shared --no-default-features`).
//!
//! Deliberately absent: a read before an admission or a claim (one conditional write decides), a
//! call to a partner without a recorded intent, and any knowledge of whether we run in AWS or on a
//! laptop.

pub mod base;
pub mod limits;

pub mod flows;

pub mod arrival;
pub mod ledger;

pub mod effects;
pub mod operate;

pub mod adapters;
#[cfg(feature = "model")]
pub mod model;
