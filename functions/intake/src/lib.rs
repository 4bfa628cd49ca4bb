//! The intake function: it accepts each genuine event once, and answers at once.
//!
//! It never waits for anything downstream. An event that it answers with 202 is in the ledger and on the queue, or
//! parked.

mod http;
mod accept;
mod signature;
mod handshake;
mod envelope;
mod json;
mod storable;
mod duplicate;
mod spans;
mod receipt;
mod receipt_lookup;
mod secret_match;
mod problem;
mod rejection;

pub use accept::{Intake, accept, accept_batch};
pub use envelope::MAX_PARTS;
pub use http::handle;
pub use receipt::{Accepted, Receipt};
pub use receipt_lookup::{LookedUp, receipt};
pub use rejection::Rejection;
