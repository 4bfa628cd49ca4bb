//! How a delivery is proven and becomes an event.

pub mod delivery;
pub mod event;
pub mod key;
pub mod secrets;
pub mod signature;
