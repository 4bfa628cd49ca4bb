//! The generic cell rate algorithm: a bucket of tokens as one number.

use std::time::Duration;

use super::rate::Rate;
use crate::base::time::Timestamp;

/// The moment when a bucket will be full again, in microseconds since the Unix epoch: the "theoretical arrival
/// time". Each token taken moves it one interval on; nothing ever moves it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tat(i64);

impl Tat {
    /// The number of a bucket that was never drawn from.
    pub const LONG_AGO: Tat = Tat(i64::MIN);

    /// The number from its stored form.
    pub const fn from_micros(micros: i64) -> Self {
        Tat(micros)
    }

    /// The number in its stored form.
    pub const fn micros(self) -> i64 {
        self.0
    }

    pub(super) fn at(now: Timestamp) -> Self {
        Tat(now.millis().saturating_mul(1000))
    }

    pub(super) fn plus(self, micros: i64) -> Self {
        Tat(self.0.saturating_add(micros))
    }

    fn since(self, earlier: Tat) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A bucket's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateVerdict {
    /// Tokens are granted.
    Granted {
        /// The bucket afterwards.
        tat: Tat,
        /// The number of tokens.
        tokens: u32,
    },
    /// The bucket is empty.
    Denied {
        /// The time until it has a token, if no other draw takes it.
        retry_after: Duration,
    },
}

/// Takes up to `want` tokens, and at least one.
///
/// A clock that goes back finds the bucket emptier, never fuller.
pub fn decide(tat: Tat, rate: &Rate, want: u32, now: Timestamp) -> RateVerdict {
    match available(tat, rate, now) {
        0 => RateVerdict::Denied { retry_after: wait(tat, rate, 1, now) },
        available => {
            let tokens = want.clamp(1, available);
            RateVerdict::Granted { tat: tat.max(Tat::at(now)).plus(cost(rate, tokens)), tokens }
        }
    }
}

/// The number of tokens in the bucket.
pub(super) fn available(tat: Tat, rate: &Rate, now: Timestamp) -> u32 {
    let owed = tat.since(Tat::at(now)).max(0);
    let left = cost(rate, rate.burst()).saturating_sub(owed) / rate.interval();
    u32::try_from(left.max(0)).unwrap_or(u32::MAX)
}

/// The time until `tokens` are in the bucket, if no other draw takes any: at most until it is full.
pub(super) fn wait(tat: Tat, rate: &Rate, tokens: u32, now: Timestamp) -> Duration {
    let missing = cost(rate, rate.burst().saturating_sub(tokens));
    let wait = tat.since(Tat::at(now)).saturating_sub(missing);
    Duration::from_micros(wait.max(0).unsigned_abs())
}

/// The amount by which so many tokens move the number, in microseconds.
pub(super) fn cost(rate: &Rate, tokens: u32) -> i64 {
    rate.interval().saturating_mul(i64::from(tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    #[test]
    fn a_full_bucket_gives_its_burst_and_then_a_token_an_interval() {
        let rate = Rate::new(10, Duration::from_secs(1), 3).expect("a good rate");
        let mut tat = Tat::LONG_AGO;
        let mut tokens = |millis| match decide(tat, &rate, 9, NOW + Duration::from_millis(millis)) {
            RateVerdict::Granted { tat: next, tokens } => {
                tat = next;
                Ok(tokens)
            }
            RateVerdict::Denied { retry_after } => Err(retry_after.as_millis()),
        };
        assert_eq!(tokens(0), Ok(3));
        assert_eq!(tokens(0), Err(100));
        assert_eq!(tokens(99), Err(1));
        assert_eq!(tokens(100), Ok(1));
        assert_eq!(tokens(350), Ok(2));
        assert_eq!(tokens(10_000), Ok(3), "no more than the burst, however long it waited");
    }
}
