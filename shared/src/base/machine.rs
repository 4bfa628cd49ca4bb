//! What the functions need from the machine that they run on: the time, chance, and sleep.

use std::time::Duration;

use async_trait::async_trait;

use super::time::Timestamp;

/// The time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// Chance.
pub trait Chance: Send + Sync {
    /// 64 random bits.
    fn bits(&self) -> u64;

    /// A number drawn evenly from 0 to 1.
    fn unit(&self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Short sleeps.
#[async_trait]
pub trait Sleep: Send + Sync {
    /// Sleeps for so long.
    async fn sleep(&self, time: Duration);
}
