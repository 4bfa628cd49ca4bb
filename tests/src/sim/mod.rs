//! The deterministic simulation: the three real handlers over models, on a virtual clock, with whatever
//! can go wrong drawn from a seed.

mod campaign;
mod containers;
mod faults;
mod flows;
mod mutants;
mod operators;
mod oracle;
mod partner;
mod polling;
mod ports;
mod scheduler;
mod seeds;
mod senders;
mod sweep;
mod timeline;
mod world;
