//! The processor function: run each event's effects, every one through the ledger.
//!
//! A batch may mix message groups. Groups run side by side, the messages of one group in order, and
//! one message's panic or bad body never touches another's.

mod batch;
mod call;
mod careful;
mod effect;
mod intend;
mod partner;
mod prepare;
mod process;
mod run;

pub use batch::{Received, handle, process_batch};
pub use process::{Processor, Verdict, process};
