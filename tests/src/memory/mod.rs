//! The three functions over the models, on a virtual clock.

mod answers;
mod console;
mod contacts;
mod contract;
mod effects;
mod faults;
mod flows;
mod hostile;
mod http;
mod intake;
mod invalid;
mod lane;
mod log;
mod misfit;
mod outages;
mod payload;
mod pressure;
mod processor;
mod receipts;
mod replay;
mod secrets;
mod stale;
mod switches;
mod versions;
mod waiting;
mod window;
mod world;

pub(crate) use console::{HOSTILE, hostile};
pub(crate) use effects::replace_effects;
pub(crate) use http::{BATCH, EVENT, HttpAnswer, HttpRequest, RECEIPT, TYPED};
pub(crate) use log::Log;
pub(crate) use world::{RECEIPTS_TOKEN, SECRET, World, flows_with, flows_without_breaker, policy, signed};
