//! Rates: how often a sender may send, and how often we may call a partner. All containers share them.
//!
//! A bucket is one number, [`Tat`]: the moment when it will be full again. A container draws tokens from it in
//! small leases, one conditional write each ([`Draw`]), and spends them without asking again.
//! [`Limiter`] is all of it together.
//!
//! The guarantees, for any number of containers and any schedule:
//! - leases never add up to more than `burst + rate · t` in any time `t`;
//! - a lease lapses [`Rate::lease_life`] after it was drawn, so the admitted events never add up to
//!   more than `burst + rate · (t + lease_life)`;
//! - a sender that sends rarely gets leases of one token, and is admitted as if there were one container.
//!
//! Deliberately absent: a read before the write; giving tokens back (a bucket that was full
//! meanwhile has made up for them already, and would overflow); floating point.

mod draw;
mod gcra;
mod headers;
mod limiter;
#[cfg(test)]
mod properties;
mod rate;
mod share;

pub use draw::{Draw, Drawn, Limits};
pub use gcra::{RateVerdict, Tat, decide};
pub use limiter::{Decision, Limiter};
pub use rate::{BadRate, Rate};
