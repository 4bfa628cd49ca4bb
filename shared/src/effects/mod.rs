//! Effects: guards, caps, requests to partners, and what their answers mean.

pub mod guard;

pub mod cap;
pub mod contact;
pub mod enrichment;

pub mod outcome;
pub mod request;
