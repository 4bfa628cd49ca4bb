//! Draws: conditional writes that take tokens from a bucket.

use super::gcra::{Tat, cost};
use super::rate::Rate;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use async_trait::async_trait;

/// The largest difference between two containers' clocks.
const CLOCK_SLACK_SECONDS: i64 = 60;

/// A conditional write that takes tokens from a bucket.
///
/// Its condition is not that the bucket is as it was last seen, only that the decision still holds.
/// So two containers that draw at the same moment both succeed while there is enough for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// A draw from a bucket that is full, or that was never written.
    Full {
        /// The bucket is full if its number is not after this.
        now: Tat,
        /// The bucket's number after the draw.
        next: Tat,
    },
    /// A draw from a bucket that is not full.
    Rest {
        /// The bucket is not full if its number is after this.
        now: Tat,
        /// The bucket has enough tokens if its number is not after this.
        latest: Tat,
        /// The amount that is added to the bucket's number, in microseconds.
        cost: i64,
    },
}

impl Draw {
    /// The write that takes `tokens`, given the last known state of the bucket.
    pub fn of(seen: Tat, rate: &Rate, tokens: u32, now: Timestamp) -> Draw {
        if seen > Tat::at(now) {
            return Draw::from_rest(rate, tokens, now);
        }
        Draw::Full { now: Tat::at(now), next: Tat::at(now).plus(cost(rate, tokens)) }
    }

    /// The write that takes `tokens` from a bucket that is not full.
    pub fn from_rest(rate: &Rate, tokens: u32, now: Timestamp) -> Draw {
        let (now, cost, left) = (Tat::at(now), cost(rate, tokens), cost(rate, rate.burst().saturating_sub(tokens)));
        Draw::Rest { now, latest: now.plus(left), cost }
    }

    /// The moment from which on the bucket may be forgotten, in seconds since the Unix epoch: by then it is full
    /// on every clock, as a bucket is that was never written.
    pub fn expires_at(&self) -> i64 {
        let full = match *self {
            Draw::Full { next, .. } => next,
            Draw::Rest { latest, cost, .. } => latest.plus(cost),
        };
        full.micros().div_euclid(1_000_000).saturating_add(CLOCK_SLACK_SECONDS)
    }

    /// The bucket after the draw, or `None` if its condition fails. The adapters' conditions say
    /// the same.
    pub fn applied_to(&self, bucket: Option<Tat>) -> Option<Tat> {
        match (*self, bucket) {
            (Draw::Full { next, .. }, None) => Some(next),
            (Draw::Full { now, next }, Some(tat)) => (tat <= now).then_some(next),
            (Draw::Rest { .. }, None) => None,
            (Draw::Rest { now, latest, cost }, Some(tat)) => (now < tat && tat <= latest).then(|| tat.plus(cost)),
        }
    }
}

/// The result of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// The tokens are taken, and this is the bucket now.
    Taken(Tat),
    /// The bucket is not as the draw supposes. This is its state, if the store returned it.
    Moved(Option<Tat>),
}

/// The store of the buckets of tokens that all containers share.
#[async_trait]
pub trait Limits: Send + Sync {
    /// Takes tokens from a bucket. One conditional write, no read.
    ///
    /// A write that lands twice takes twice: the bucket is emptier than it should be, never fuller.
    async fn draw(&self, bucket: &str, draw: &Draw) -> Result<Drawn, Unavailable>;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    fn rate(count: u32, secs: u64, burst: u32) -> Rate {
        Rate::new(count, Duration::from_secs(secs), burst).expect("a good rate")
    }

    #[test]
    fn a_bucket_that_nobody_knows_is_full() {
        let draw = Draw::of(Tat::LONG_AGO, &rate(10, 1, 3), 2, NOW);
        assert_eq!(draw.applied_to(None), Some(Tat::at(NOW).plus(200_000)));
        assert_eq!(Draw::from_rest(&rate(10, 1, 3), 2, NOW).applied_to(None), None);
    }

    #[test]
    fn a_bucket_is_kept_until_it_is_full_on_every_clock() {
        let rate = rate(60, 60, 10);
        assert_eq!(Draw::of(Tat::LONG_AGO, &rate, 4, NOW).expires_at(), NOW.secs() + 4 + CLOCK_SLACK_SECONDS);
        assert_eq!(Draw::from_rest(&rate, 4, NOW).expires_at(), NOW.secs() + 10 + CLOCK_SLACK_SECONDS);
    }
}
