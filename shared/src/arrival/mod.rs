//! Arrival: how a delivery is verified and becomes an event.

pub mod business_ids;
pub mod delivery;
pub mod event;
pub mod invalid;
pub mod key;
pub mod secrets;
pub mod signature;
pub mod window;
