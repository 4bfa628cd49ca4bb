//! The three functions over the models, on a virtual clock.

mod contract;
mod effects;
mod faults;
mod hostile;
mod http;
mod intake;
mod pressure;
mod processor;
mod replay;
mod secrets;
mod world;

pub(crate) use world::{SECRET, signed};
