//! A container's share of a bucket: a lease of tokens, and the bucket as it was last seen.

use std::time::Duration;

use super::draw::Draw;
use super::gcra::{RateVerdict, Tat, available, decide, wait};
use super::rate::Rate;
use crate::base::time::Timestamp;

/// A container's share of a bucket.
///
/// Its lease is what it will spend in half of the lease's life, by its pace so far: one token for
/// a sender that sends rarely, so that none lapses; several for a busy one.
///
/// Once the bucket is empty, the share draws whole leases or none, and does not ask before there
/// could be one. Drawing each single token would cost a write for each event, in every container,
/// just when there are most events. Nothing is lost by it: the tokens stay in the bucket.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// The bucket as it was last seen. It is never fuller than this says.
    seen: Tat,
    /// Whether other containers kept the bucket from being full then.
    crowded: bool,
    /// The tokens that are left of the lease.
    tokens: u32,
    /// The tokens of the lease, without those that lapsed.
    leased: u32,
    /// The tokens that the lease should have had.
    wanted: u32,
    /// The moment when the lease was drawn.
    leased_at: Timestamp,
    /// The moment of the first event for which no token was left.
    dry_at: Option<Timestamp>,
    /// How short the bucket is: zero until it is empty, then one, and one more each time that other containers
    /// were faster.
    hunger: u32,
    /// The moment until which every event is throttled without asking the bucket.
    quiet_until: Timestamp,
}

/// The share's next step for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShareStep {
    /// Admit the event: a token is spent.
    Admit,
    /// Throttle the event for this long.
    Deny(Duration),
    /// Draw from the bucket, then tell [`Share::drew`].
    Ask(ShareAsk),
}

/// A wish to draw from the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShareAsk {
    /// The tokens that the lease should have.
    pub(super) want: u32,
    /// The fewest tokens that are worth a write.
    least: u32,
    /// The last known state of the bucket.
    pub(super) seen: Tat,
    /// Whether other containers are likely to have drawn since.
    crowded: bool,
}

/// The longest pause before the bucket is asked again, however many containers were faster.
const LONGEST_QUIET: Duration = Duration::from_secs(2);

const LONG_AGO: Timestamp = Timestamp::from_millis(i64::MIN);

impl Default for Share {
    fn default() -> Self {
        Share {
            seen: Tat::LONG_AGO,
            crowded: false,
            tokens: 0,
            leased: 0,
            wanted: 0,
            leased_at: LONG_AGO,
            dry_at: None,
            hunger: 0,
            quiet_until: LONG_AGO,
        }
    }
}

impl Share {
    /// Spends a token of the lease, or says how to get one.
    pub(super) fn step(&mut self, rate: &Rate, now: Timestamp) -> ShareStep {
        if now.since(self.leased_at) >= rate.lease_life() {
            self.leased -= self.tokens;
            self.tokens = 0;
        }
        if self.tokens > 0 {
            self.tokens -= 1;
            return ShareStep::Admit;
        }
        self.dry_at.get_or_insert(now);
        if now < self.quiet_until {
            return ShareStep::Deny(self.quiet_until.since(now));
        }
        let want = self.want(rate, now);
        let least = if self.hunger > 0 { want } else { 1 };
        let ask = ShareAsk { want, least, seen: self.seen, crowded: self.crowded };
        if ask.draw(rate, now).is_some() {
            return ShareStep::Ask(ask);
        }
        self.hunger = self.hunger.max(1);
        self.deny(rate, want, now)
    }

    /// Takes a lease of `tokens`, the first of which is spent at once; or learns that there are too
    /// few. `tat` is the bucket now.
    pub(super) fn drew(&mut self, want: u32, tokens: u32, tat: Tat, rate: &Rate, now: Timestamp) -> ShareStep {
        self.seen = self.seen.max(tat);
        self.crowded = available(tat, rate, now).saturating_add(tokens) < rate.burst();
        if tokens == 0 {
            self.hunger = self.hunger.saturating_add(1);
            return self.deny(rate, want, now);
        }
        self.sate(rate, now);
        self.leased = self.tokens + tokens;
        self.tokens = self.leased - 1;
        self.wanted = want;
        self.leased_at = now;
        self.dry_at = None;
        ShareStep::Admit
    }

    /// The number of events that would be admitted now, and the time until it is one more, as far as this container
    /// knows.
    pub(super) fn remaining(&self, rate: &Rate, now: Timestamp) -> (u32, Duration) {
        let available = available(self.seen, rate, now);
        (self.tokens.saturating_add(available), wait(self.seen, rate, available.saturating_add(1), now))
    }

    /// The moment when this share was last of use.
    pub(super) fn used_at(&self) -> Timestamp {
        self.leased_at.max(self.quiet_until)
    }

    /// The number of tokens for half a lease's life. At most twice as many as the last time: two events in quick
    /// succession are not a pace.
    fn want(&self, rate: &Rate, now: Timestamp) -> u32 {
        let spent_in = self.dry_at.unwrap_or(now).since(self.leased_at).as_millis().max(1);
        let pace = u128::from(self.leased) * (rate.lease_life() / 2).as_millis() / spent_in;
        let most = self.wanted.saturating_mul(2).min(rate.max_lease()).max(1);
        u32::try_from(pace).unwrap_or(u32::MAX).clamp(1, most)
    }

    /// Adjusts the shortage after a lease was drawn. The bucket is not short any more once half of it is left; without
    /// that distance, a load just above the rate would be back at single tokens all the time.
    fn sate(&mut self, rate: &Rate, now: Timestamp) {
        let half_full = available(self.seen, rate, now) >= rate.burst().div_ceil(2);
        self.hunger = match self.hunger {
            _ if half_full => 0,
            0 | 1 => self.hunger,
            more => more - 1,
        };
    }

    /// Throttles until the bucket could hold a lease. Each time that others were faster, the pause is twice
    /// as long: one container that takes all is as good as ten that race for it.
    fn deny(&mut self, rate: &Rate, want: u32, now: Timestamp) -> ShareStep {
        let patience = 1 << self.hunger.saturating_sub(1).min(8);
        let lease = wait(self.seen, rate, want, now).saturating_mul(patience).min(LONGEST_QUIET);
        let quiet = wait(self.seen, rate, 1, now).max(lease);
        // The clock shows milliseconds. One too many is harmless; with one too few, the bucket would be asked in vain.
        self.quiet_until = now + quiet + Duration::from_micros(999);
        ShareStep::Deny(quiet)
    }
}

impl ShareAsk {
    /// The write that draws, and the number of its tokens; `None` if there are too few.
    ///
    /// In a crowd the bucket is rarely full, whatever was seen last. A wrong guess costs a write.
    pub(super) fn draw(&self, rate: &Rate, now: Timestamp) -> Option<(u32, Draw)> {
        match decide(self.seen, rate, self.want, now) {
            RateVerdict::Granted { tokens, .. } if tokens < self.least => None,
            RateVerdict::Granted { tokens, .. } if self.crowded => Some((tokens, Draw::from_rest(rate, tokens, now))),
            RateVerdict::Granted { tokens, .. } => Some((tokens, Draw::of(self.seen, rate, tokens, now))),
            RateVerdict::Denied { .. } => None,
        }
    }

    /// The wish after a failed draw, which showed the bucket.
    pub(super) fn knowing(self, found: Option<Tat>) -> ShareAsk {
        ShareAsk { seen: found.unwrap_or(Tat::LONG_AGO), crowded: false, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);

    fn rate() -> Rate {
        Rate::new(50, Duration::from_secs(1), 50).expect("a good rate")
    }

    fn at(millis: u64) -> Timestamp {
        NOW + Duration::from_millis(millis)
    }

    /// A share and its bucket, which no other container draws from.
    #[derive(Default)]
    struct Alone {
        share: Share,
        bucket: Option<Tat>,
    }

    impl Alone {
        /// One event: the tokens that were drawn for it, or how long it is throttled.
        fn event(&mut self, millis: u64) -> Result<u32, u128> {
            let (rate, now) = (rate(), at(millis));
            let mut step = self.share.step(&rate, now);
            let mut drawn = 0;
            if let ShareStep::Ask(mut ask) = step {
                while let Some((tokens, draw)) = ask.draw(&rate, now) {
                    if let Some(tat) = draw.applied_to(self.bucket) {
                        (drawn, self.bucket) = (tokens, Some(tat));
                        break;
                    }
                    ask = ask.knowing(self.bucket);
                }
                step = self.share.drew(ask.want, drawn, self.bucket.unwrap_or(Tat::LONG_AGO), &rate, now);
            }
            match step {
                ShareStep::Deny(wait) => Err(wait.as_millis()),
                _ => Ok(drawn),
            }
        }

        /// The leases that so many events at this interval draw.
        fn leases(&mut self, start: u64, interval: u64, events: u64) -> Vec<u32> {
            let drawn = (0..events).map(|n| self.event(start + n * interval).expect("admitted"));
            drawn.filter(|tokens| *tokens > 0).collect()
        }
    }

    #[test]
    fn who_sends_rarely_draws_one_token_an_event() {
        assert_eq!(Alone::default().leases(0, 1001, 6), [1; 6]);
    }

    #[test]
    fn a_lease_grows_with_the_pace_and_shrinks_with_it() {
        let mut alone = Alone::default();
        assert_eq!(alone.leases(0, 20, 63), [1, 2, 4, 8, 16, 16, 16]);
        // Sixteen more were leased and lapse but one. What is spent in half a life is now four.
        assert_eq!(alone.leases(10_000, 250, 9), [1, 2, 4, 4]);
    }

    #[test]
    fn what_is_not_spent_lapses() {
        let mut alone = Alone::default();
        assert_eq!(alone.leases(0, 0, 4), [1, 2, 4]);
        assert_eq!(alone.event(1999), Ok(0), "the lease lives");
        assert_eq!(alone.event(2000), Ok(1), "two lapsed, and the pace was slow");
    }

    #[test]
    fn an_empty_bucket_is_not_asked_before_it_could_hold_a_lease() {
        let mut alone = Alone::default();
        alone.leases(0, 0, 50);
        assert_eq!(alone.event(0), Err(320), "16 tokens, 20 ms each");
        let before = alone.bucket;
        for millis in 1..320 {
            assert_eq!(alone.event(millis), Err(u128::from(320 - millis)));
        }
        assert_eq!(alone.bucket, before, "no draw was tried");
        assert_eq!(alone.event(320), Ok(16));
    }

    #[test]
    fn whoever_finds_others_faster_asks_less_and_less_but_asks() {
        let (rate, mut share) = (rate(), Share::default());
        let (mut now, mut waits) = (NOW, Vec::new());
        for _ in 0..9 {
            let ShareStep::Ask(ask) = share.step(&rate, now) else { panic!("it is time to ask") };
            let empty = Tat::from_micros((now + rate.refill()).millis() * 1000);
            let ShareStep::Deny(wait) = share.drew(ask.want, 0, empty, &rate, now) else { panic!("it is empty") };
            waits.push(wait.as_millis());
            now = now + wait;
        }
        assert_eq!(waits, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
    }

    #[test]
    fn tells_what_remains() {
        let mut alone = Alone::default();
        assert_eq!(alone.share.remaining(&rate(), at(0)), (50, Duration::ZERO));
        alone.leases(0, 0, 4);
        assert_eq!(alone.share.remaining(&rate(), at(0)), (46, Duration::from_millis(20)));
        assert_eq!(alone.share.remaining(&rate(), at(30)), (47, Duration::from_millis(10)));
    }
}
