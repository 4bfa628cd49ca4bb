//! A token's state, as all containers share it, and how it changes.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::fetch::FetchFailure;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

/// What all containers share of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenState {
    /// The version: a number that no other write has drawn; zero if the state was never written.
    pub version: u64,
    /// The token, sealed.
    pub token: Option<SealedToken>,
    /// The moment until which a container fetches a token. If it is over and there is none, that container has crashed.
    pub lease_until: Timestamp,
    /// How many fetches in a row have failed.
    pub failures: u32,
    /// The moment of the next fetch, after one that failed.
    pub retry_at: Timestamp,
    /// Whether the token end-point rejected our credentials: a human must put them right.
    pub denied: bool,
    /// The moment when the partner last rejected a token that was then renewed.
    pub rejected_at: Timestamp,
}

/// A token that only who has our secret can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedToken {
    /// The token, encrypted, in base64.
    pub sealed: String,
    /// The moment when it was asked for.
    pub fetched_at: Timestamp,
    /// The moment when it ends.
    pub ends_at: Timestamp,
}

/// The result of a conditional write to a token's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSwap {
    /// The new state is written.
    Written,
    /// The version has changed. This is the state now, if the store returned it.
    Moved(Option<TokenState>),
}

/// The tokens that all containers share.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// The state as it is now.
    async fn read(&self, key: &str) -> Result<Option<TokenState>, Unavailable>;

    /// Writes `next` in the place of the version that was seen, where zero is none. One conditional write, no read. A
    /// write that lands twice counts as written.
    async fn swap(&self, key: &str, seen: u64, next: &TokenState, now: Timestamp) -> Result<TokenSwap, Unavailable>;
}

/// What a container does that has no good token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenStep {
    /// It takes the lease, and fetches one.
    Fetch,
    /// Another container fetches, for so long at most.
    Await(Duration),
    /// The last fetch failed: the next one is after so long.
    BackOff(Duration),
}

/// The time between two renewals that a partner's rejections cause.
const REJECTED_PAUSE: Duration = Duration::from_secs(60);

const LONG_AGO: Timestamp = Timestamp::from_millis(0);

impl Default for TokenState {
    fn default() -> Self {
        TokenState {
            version: 0,
            token: None,
            lease_until: LONG_AGO,
            failures: 0,
            retry_at: LONG_AGO,
            denied: false,
            rejected_at: LONG_AGO,
        }
    }
}

impl TokenState {
    pub(super) fn step(&self, now: Timestamp) -> TokenStep {
        if now < self.lease_until {
            TokenStep::Await(self.lease_until.since(now))
        } else if now < self.retry_at {
            TokenStep::BackOff(self.retry_at.since(now))
        } else {
            TokenStep::Fetch
        }
    }

    /// Whether a rejected token may be renewed: the last one that was renewed for that reason is a while ago.
    pub(super) fn may_renew_rejected(&self, now: Timestamp) -> bool {
        now.since(self.rejected_at) >= REJECTED_PAUSE
    }

    /// The state while this container fetches. A token that the partner rejected is of no use to others.
    pub(super) fn leased(&self, until: Timestamp, rejected: bool, version: u64, now: Timestamp) -> Self {
        let kept = self.token.clone().filter(|_| !rejected);
        let rejected_at = if rejected { now } else { self.rejected_at };
        TokenState { version, token: kept, lease_until: until, rejected_at, ..self.clone() }
    }

    /// The state with a new token.
    pub(super) fn fetched(&self, token: SealedToken, version: u64) -> Self {
        TokenState { version, token: Some(token), rejected_at: self.rejected_at, ..TokenState::default() }
    }

    /// The state after a fetch that failed.
    pub(super) fn failed(&self, failure: &FetchFailure, version: u64, now: Timestamp) -> Self {
        let failures = self.failures.saturating_add(1);
        let retry_at = now + failure.delay(failures);
        TokenState { version, failures, retry_at, denied: failure.denied, lease_until: LONG_AGO, ..self.clone() }
    }
}

/// The life of a token: from when it was asked for to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenLife {
    pub(super) fetched_at: Timestamp,
    pub(super) ends_at: Timestamp,
}

/// The longest time before its end at which a token is renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(120);

/// The longest time before its end at which a token is not used any more: a call takes time, and clocks differ.
const UNUSED_BEFORE: Duration = Duration::from_secs(10);

impl TokenLife {
    fn time(self) -> Duration {
        self.ends_at.since(self.fetched_at)
    }

    /// Whether the token can be used.
    pub(super) fn is_usable(self, now: Timestamp) -> bool {
        now < self.ends_at - UNUSED_BEFORE.min(self.time() / 10)
    }

    /// Whether the token is worth a renewal.
    pub(super) fn is_due(self, now: Timestamp) -> bool {
        now >= self.ends_at - RENEWED_BEFORE.min(self.time() / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(1_794_819_600) + Duration::from_secs(secs)
    }

    fn sealed(from: u64, to: u64) -> SealedToken {
        SealedToken { sealed: "x".into(), fetched_at: at(from), ends_at: at(to) }
    }

    fn failure(denied: bool, retry_after: Option<u64>) -> FetchFailure {
        FetchFailure { why: "it answered 500".into(), denied, retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn a_token_is_renewed_before_it_ends_and_used_until_nearly_then() {
        for (life, due, unused) in [(3600, 3480, 3590), (60, 45, 54), (8, 6, 8)] {
            let token = TokenLife { fetched_at: at(0), ends_at: at(life) };
            let first = |holds: &dyn Fn(Timestamp) -> bool| (0..=life).find(|secs| holds(at(*secs)));
            assert_eq!(first(&|now| token.is_due(now)), Some(due), "{life}");
            assert_eq!(first(&|now| !token.is_usable(now)), Some(unused), "{life}");
        }
    }

    #[test]
    fn one_fetches_and_the_others_wait_for_as_long_as_its_lease() {
        let state = TokenState::default();
        assert_eq!(state.step(at(0)), TokenStep::Fetch);
        let leased = state.leased(at(8), false, 1, at(0));
        assert_eq!(leased.step(at(3)), TokenStep::Await(Duration::from_secs(5)));
        assert_eq!(leased.step(at(8)), TokenStep::Fetch, "its holder has crashed");
        let fetched = leased.fetched(sealed(0, 3600), 2);
        assert_eq!((fetched.step(at(1)), fetched.version), (TokenStep::Fetch, 2), "a renewal waits for nobody");
    }

    #[test]
    fn each_failure_makes_the_next_fetch_later_and_a_success_forgets_them() {
        let mut state = TokenState::default();
        let mut delays = Vec::new();
        for _ in 0..8 {
            state = state.leased(at(8), false, 1, at(0)).failed(&failure(false, None), 2, at(0));
            delays.push(state.retry_at.since(at(0)).as_secs());
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(state.step(at(10)), TokenStep::BackOff(Duration::from_secs(20)));
        assert_eq!(state.fetched(sealed(0, 10), 3).failures, 0);
    }

    #[test]
    fn the_end_point_says_how_long_to_wait_within_bounds() {
        let after = |failure: &FetchFailure| TokenState::default().failed(failure, 1, at(0)).retry_at.since(at(0));
        assert_eq!(after(&failure(false, Some(60))).as_secs(), 60);
        assert_eq!(after(&failure(false, Some(86_400))).as_secs(), 300);
        assert_eq!(after(&failure(true, None)).as_secs(), 30, "a human has to put our credentials right");
    }

    #[test]
    fn a_failed_renewal_leaves_the_token() {
        let state = TokenState { token: Some(sealed(0, 3600)), ..TokenState::default() };
        let failed = state.leased(at(3510), false, 1, at(3500)).failed(&failure(false, None), 2, at(3501));
        assert_eq!(failed.token, state.token);
    }

    #[test]
    fn a_rejected_token_is_nobodys_and_is_renewed_once_a_minute() {
        let state = TokenState { token: Some(sealed(0, 3600)), ..TokenState::default() };
        assert!(state.may_renew_rejected(at(5)));
        let leased = state.leased(at(10), true, 1, at(5));
        assert_eq!(leased.token, None);
        let renewed = leased.fetched(sealed(5, 3605), 2);
        assert!(!renewed.may_renew_rejected(at(64)));
        assert!(renewed.may_renew_rejected(at(65)));
    }
}
