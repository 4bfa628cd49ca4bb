//! Limits: rates, pressure on partners, and retry budgets, each shared by all containers.

pub mod budget;
pub mod pressure;
pub mod rates;
