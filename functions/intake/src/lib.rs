//! The intake function: accept what is genuine, once, and answer at once.
//!
//! It never waits for anything downstream. What it answers with 202 is in the ledger and on the queue.

mod accept;
mod http;
mod problem;

pub use accept::{Intake, Receipt, Rejection, accept};
pub use http::handle;
