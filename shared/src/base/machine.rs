//! The ports of the machine: the clock, randomness, and sleep.

use std::time::Duration;

use async_trait::async_trait;

use super::time::Timestamp;

/// The clock.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// Random numbers.
pub trait Chance: Send + Sync {
    /// 64 random bits.
    fn bits(&self) -> u64;

    /// A random number, drawn evenly from 0 to 1.
    fn unit(&self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Sleep, for short waits.
#[async_trait]
pub trait Sleep: Send + Sync {
    /// Sleeps for this long.
    async fn sleep(&self, time: Duration);
}
