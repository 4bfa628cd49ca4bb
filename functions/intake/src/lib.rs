//! The intake function: it accepts each genuine event once, and answers at once.
//!
//! It never waits for anything downstream. An event that it answers with 202 is in the ledger and on the queue.

mod accept;
mod envelope;
mod http;
mod json;
mod problem;
mod signature;
mod receipts;
mod rejection;

pub use accept::{Contracts, Intake, Receipt, accept, accept_batch};
pub use http::handle;
pub use receipts::receipt;
pub use rejection::Rejection;
