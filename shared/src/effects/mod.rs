//! What is done for an event, and what must be known before.

pub mod guard;

pub mod cap;
pub mod contact;
pub mod findings;

pub mod outcome;
pub mod request;
