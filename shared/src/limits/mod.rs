//! How much is allowed: rates, what a partner bears, and retries, each shared by all containers.

pub mod budget;
pub mod pressure;
pub mod rates;
