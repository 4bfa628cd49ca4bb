//! Effects: guards, caps, requests to partners and to functions, and what their answers mean.

pub mod guard;

pub mod cap;
pub mod contact;
pub mod enrichment;

pub mod body;
pub mod invocation;
pub mod clue;
pub mod outcome;
pub mod credentials;
pub mod request;
pub mod token;
