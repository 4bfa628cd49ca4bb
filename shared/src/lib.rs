//! What the three functions have in common: the core, its ports, and their adapters.
//!
//! The modules stand in the order in which an event meets them. Everything up to [`secrets`] is the
//! core: it does no I/O, is handed the time, and builds without the AWS SDK
//! (`cargo check -p shared --no-default-features`). Adapters import the core, never the reverse.
//!
//! Deliberately absent: a read before an admission or a claim (one conditional write decides), a
//! call to a partner without a recorded intent, and any knowledge of whether we run in AWS or on a
//! laptop.

pub mod time;

pub mod flow;
pub mod template;

pub mod contract;
pub mod delivery;
pub mod event;
pub mod key;
pub mod latest;
pub mod limit;
pub mod signature;
pub mod trace;

pub mod approval;
pub mod batch;
pub mod budget;
pub mod cap;
pub mod contact;
pub mod found;
pub mod guard;
pub mod ledger;
pub mod mask;
pub mod metric;
pub mod outcome;
pub mod plan;
pub mod pressure;
pub mod request;
pub mod retry;
pub mod switchboard;

pub mod ports;
pub mod requeue;
pub mod secrets;

#[cfg(feature = "aws")]
pub mod adapters;
pub mod folder;
#[cfg(feature = "model")]
pub mod model;
