//! The three functions over the models, on a virtual clock.

mod intake;
mod processor;
mod replay;
mod world;
