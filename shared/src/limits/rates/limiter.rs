//! The limiter: it admits from the container's own shares first, from the shared buckets next.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::gcra::Tat;
use super::rate::Rate;
use super::share::{Share, ShareAsk, ShareStep};
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;
use crate::limits::rates::{Drawn, Limits};

/// The limiter's decision on an event, and what its sender should know about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The event is admitted.
    Admitted {
        /// The rate that applies.
        rate: Rate,
        /// The number of events that would be admitted at once now, as far as this container knows.
        remaining: u32,
        /// The time until that is one more.
        reset: Duration,
    },
    /// The event is throttled.
    Throttled {
        /// The rate that applies.
        rate: Rate,
        /// The time until it is worth another try.
        retry_after: Duration,
    },
}

/// The limiter: it admits as many events as a rate allows, over all containers together.
///
/// When the buckets do not answer, [`Limiter::admit`] is an error, at once for the next five
/// seconds: no event waits twice for a table that is down. The caller decides what that means.
/// - The intake admits. The sender has proven itself, so no stranger gets in, and the event still
///   has to pass the ledger, which lives on the same service and is the gate that counts. To throttle
///   would turn the outage of a convenience into an outage of the intake.
/// - The processor defers. The event is safe on the queue, and the partner is not ours to
///   overload.
pub struct Limiter {
    limits: Box<dyn Limits>,
    local: Mutex<Local>,
}

#[derive(Default)]
struct Local {
    shares: HashMap<String, Share>,
    outage: Option<(Timestamp, Unavailable)>,
}

/// The most shares that a container keeps. Senders and partners are configured, so there are few.
const MAX_SHARES: usize = 1024;

/// The number of tries to draw. Each failed draw shows a bucket with fewer tokens than before: after this many,
/// other containers have emptied it.
const MAX_DRAWS: usize = 4;

impl Limiter {
    /// A limiter over these buckets, with no share of any.
    pub fn new(limits: Box<dyn Limits>) -> Self {
        Self { limits, local: Mutex::default() }
    }

    /// Admits one event of this key, or throttles it.
    ///
    /// It costs no write while a lease lasts, and none while the bucket is known to be empty.
    pub async fn admit(&self, key: &str, rate: &Rate, now: Timestamp) -> Result<Decision, Unavailable> {
        let bucket = rate.bucket(key);
        let mut step = self.of(&bucket, |share| share.step(rate, now));
        if let ShareStep::Ask(ask) = step {
            let (tokens, tat) = self.draw(&bucket, rate, ask, now).await?;
            step = self.of(&bucket, |share| share.drew(ask.want, tokens, tat, rate, now));
        }
        if let ShareStep::Deny(retry_after) = step {
            return Ok(Decision::Throttled { rate: *rate, retry_after });
        }
        let (remaining, reset) = self.of(&bucket, |share| share.remaining(rate, now));
        Ok(Decision::Admitted { rate: *rate, remaining, reset })
    }

    /// Draws tokens; returns how many, and the bucket as it is now.
    ///
    /// The lock is not held meanwhile, so two tasks of one container may draw at once. Then the
    /// container has the tokens of two leases, all of them paid for.
    async fn draw(
        &self,
        bucket: &str,
        rate: &Rate,
        mut ask: ShareAsk,
        now: Timestamp,
    ) -> Result<(u32, Tat), Unavailable> {
        self.reachable(now)?;
        for _ in 0..MAX_DRAWS {
            let Some((tokens, draw)) = ask.draw(rate, now) else { break };
            match self.limits.draw(bucket, &draw).await {
                Ok(Drawn::Taken(tat)) => return Ok((tokens, tat)),
                Ok(Drawn::Moved(found)) => ask = ask.knowing(found),
                Err(unavailable) => return Err(self.unreachable(unavailable, now)),
            }
        }
        Ok((0, ask.seen))
    }

    fn of<T>(&self, bucket: &str, act: impl FnOnce(&mut Share) -> T) -> T {
        let mut local = self.local();
        if let Some(share) = local.shares.get_mut(bucket) {
            return act(share);
        }
        // A share that is dropped has lost a lease, not its place in the bucket.
        if local.shares.len() >= MAX_SHARES {
            let stalest = local.shares.iter().min_by_key(|(_, share)| share.used_at()).map(|(name, _)| name.clone());
            stalest.map(|name| local.shares.remove(&name));
        }
        act(local.shares.entry(bucket.to_owned()).or_default())
    }

    fn reachable(&self, now: Timestamp) -> Result<(), Unavailable> {
        match &self.local().outage {
            Some((until, unavailable)) if now < *until => Err(unavailable.clone()),
            _ => Ok(()),
        }
    }

    fn unreachable(&self, unavailable: Unavailable, now: Timestamp) -> Unavailable {
        self.local().outage = Some((now + Unavailable::BACK_OFF, unavailable.clone()));
        unavailable
    }

    /// The container's shares. Every change of a share is whole, so a panic elsewhere leaves nothing half done.
    fn local(&self) -> MutexGuard<'_, Local> {
        self.local.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
