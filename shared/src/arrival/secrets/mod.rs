//! Secrets, and how long a container uses them without reading them again.
//!
//! A store of secrets is slow, throttled and sometimes down, and a sender waits. So secrets that were read are
//! used for minutes. An operator who rotates a secret need not wait for that: a signature that does not
//! verify causes a read of the store, though not more often than a flood of forgeries should be able to.
//! While the store is down, the last known secrets stay in use, up to a bound.
//!
//! No path through here turns a missing answer into a secret: what is not known is an error.

mod cached;

use async_trait::async_trait;
use std::collections::HashMap;
use std::time::Duration;

pub use cached::CachedSecrets;

use crate::arrival::signature::Secret;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

/// How long the store's answer is used without reading again. A secret that was deleted stays valid for so long,
/// at most.
const FRESH_FOR: Duration = Duration::from_secs(300);

/// How long the store's last answer is used while the store is down.
const BELIEVED_FOR: Duration = Duration::from_secs(3600);

/// How long the cache remembers that there is no secret. An operator who adds the first one should not wait long, and
/// a stranger who asks for a source without one should not reach the store more often than forgeries do.
const EMPTY_FOR: Duration = PAUSE;

/// The time between two reads that signatures cause, and between two tries while the store is
/// down: deliveries should not wait for it over and over.
const PAUSE: Duration = Duration::from_secs(60);

/// By how much at most a container reads the store before an answer is no longer fresh.
const EARLY: Duration = Duration::from_secs(30);

/// The store's last answers, and their times. The cache is handed the time and does no I/O.
#[derive(Debug)]
pub struct SecretCache {
    known: HashMap<String, Known>,
    fresh_for: Duration,
}

impl Default for SecretCache {
    fn default() -> Self {
        SecretCache { known: HashMap::new(), fresh_for: FRESH_FOR }
    }
}

/// The cache's entry for one path.
#[derive(Debug, Default)]
struct Known {
    secrets: Vec<Secret>,
    /// The moment when the store was asked for the secrets.
    read_at: Option<Timestamp>,
    /// The moment when the store last failed to answer.
    missed_at: Option<Timestamp>,
    /// The moment when a signature last caused a read.
    renewed_at: Option<Timestamp>,
}

impl SecretCache {
    /// Reads the store before an answer is no longer fresh, by this part of [`EARLY`].
    fn read_early(&mut self, part: f64) {
        self.fresh_for = FRESH_FOR - EARLY.mul_f64(part.clamp(0.0, 1.0));
    }

    /// The secrets that need no read: fresh ones, and older ones while the store is known to be down.
    pub fn believed(&self, path: &str, now: Timestamp) -> Option<Vec<Secret>> {
        let known = self.known.get(path)?;
        let down = within(known.missed_at, PAUSE, now);
        known.younger_than(if down { BELIEVED_FOR } else { self.fresh_for }, now)
    }

    /// Takes in the store's answer to a read at `asked_at`. It replaces everything that was known:
    /// a secret that is gone is no longer live. An answer that a later one overtook is dropped.
    pub fn learn(&mut self, path: &str, secrets: &[Secret], asked_at: Timestamp) {
        let known = self.known.entry(path.to_owned()).or_default();
        if known.read_at.is_some_and(|read_at| read_at > asked_at) {
            return;
        }
        *known = Known { secrets: secrets.to_vec(), read_at: Some(asked_at), missed_at: None, ..*known };
    }

    /// Takes in that the store did not answer. Returns the last known secrets, unless they are too old.
    pub fn miss(&mut self, path: &str, now: Timestamp) -> Option<Vec<Secret>> {
        let known = self.known.get_mut(path)?;
        known.missed_at = Some(now);
        known.younger_than(BELIEVED_FOR, now)
    }

    /// Whether a signature may cause a read now. A yes counts, whatever comes of the read.
    pub fn renewal(&mut self, path: &str, now: Timestamp) -> Renewal {
        let known = self.known.entry(path.to_owned()).or_default();
        if within(known.missed_at, PAUSE, now) {
            return Renewal::Down;
        }
        let is_known_empty = known.secrets.is_empty() && within(known.read_at, EMPTY_FOR, now);
        if is_known_empty || within(known.renewed_at, PAUSE, now) {
            return Renewal::TooSoon;
        }
        known.renewed_at = Some(now);
        Renewal::Ask
    }
}

/// The next step for a signature that does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Read the store.
    Ask,
    /// Reject: the store was read for another signature a moment ago.
    TooSoon,
    /// Fail: the store did not answer a moment ago, so it is unknown whether the secret has changed.
    Down,
}

impl Known {
    fn younger_than(&self, age: Duration, now: Timestamp) -> Option<Vec<Secret>> {
        let age = if self.secrets.is_empty() { EMPTY_FOR } else { age };
        within(self.read_at, age, now).then(|| self.secrets.clone())
    }
}

/// Whether something happened, and less than `age` ago.
fn within(at: Option<Timestamp>, age: Duration, now: Timestamp) -> bool {
    at.is_some_and(|at| now.since(at) < age)
}

/// The secrets by their path below the prefix: `sources/<name>`, `integrations/<name>` or `integrations/<name>/vars/<var>`.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The live secrets at this path, as of some minutes ago. Without any, the list is empty, and not an error.
    async fn live(&self, path: &str) -> Result<Vec<Secret>, Unavailable>;

    /// The live secrets at this path as of now, for a delivery that the older ones did not verify. `None`
    /// says that it is too soon to ask again.
    async fn renewed(&self, path: &str) -> Result<Option<Vec<Secret>>, Unavailable>;
}

/// The store of secrets. It is read seldom: [`CachedSecrets`] stands before it.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// The secrets at this path, now.
    async fn read(&self, path: &str) -> Result<Vec<Secret>, Unavailable>;
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "sources/web-forms";

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_794_819_600 + secs)
    }

    fn secrets(texts: &[&str]) -> Vec<Secret> {
        texts.iter().copied().map(Secret::new).collect()
    }

    /// A cache that read `old` at 0 s.
    fn cache() -> SecretCache {
        let mut cache = SecretCache::default();
        cache.learn(PATH, &secrets(&["old"]), at(0));
        cache
    }

    #[test]
    fn what_was_read_is_believed_for_five_minutes() {
        let cache = cache();
        assert_eq!(cache.believed(PATH, at(0)), Some(secrets(&["old"])));
        assert_eq!(cache.believed(PATH, at(299)), Some(secrets(&["old"])));
        assert_eq!(cache.believed(PATH, at(300)), None);
        assert_eq!(cache.believed("sources/other", at(0)), None);
    }

    #[test]
    fn containers_that_started_together_read_the_store_at_moments_of_their_own() {
        let believed_until = |part: f64| {
            let mut cache = cache();
            cache.read_early(part);
            (0..=300).find(|secs| cache.believed(PATH, at(*secs)).is_none())
        };
        assert_eq!([0.0, 0.5, 1.0].map(believed_until), [Some(300), Some(285), Some(270)]);
    }

    #[test]
    fn an_answer_replaces_all_that_was_known() {
        let mut cache = cache();
        cache.learn(PATH, &secrets(&["new", "newer"]), at(10));
        assert_eq!(cache.believed(PATH, at(309)), Some(secrets(&["new", "newer"])));
        cache.learn(PATH, &[], at(20));
        assert_eq!(cache.believed(PATH, at(20)), Some(vec![]), "the last secret was taken away");
    }

    #[test]
    fn an_answer_that_a_later_one_overtook_is_dropped() {
        let mut cache = cache();
        cache.learn(PATH, &secrets(&["new"]), at(10));
        cache.learn(PATH, &secrets(&["old"]), at(9));
        assert_eq!(cache.believed(PATH, at(10)), Some(secrets(&["new"])));
    }

    #[test]
    fn that_there_is_none_is_believed_for_a_minute() {
        let mut cache = SecretCache::default();
        cache.learn(PATH, &[], at(0));
        assert_eq!(cache.believed(PATH, at(59)), Some(vec![]));
        assert_eq!(cache.renewal(PATH, at(59)), Renewal::TooSoon, "nor does a signature ask again");
        assert_eq!(cache.believed(PATH, at(60)), None);
        assert_eq!(cache.renewal(PATH, at(60)), Renewal::Ask);
        assert_eq!(cache.miss(PATH, at(60)), None, "and never in the place of an answer");
    }

    #[test]
    fn while_the_store_is_down_the_last_answer_stands_for_an_hour() {
        let mut cache = cache();
        assert_eq!(cache.miss(PATH, at(300)), Some(secrets(&["old"])));
        assert_eq!(cache.believed(PATH, at(359)), Some(secrets(&["old"])), "nobody asks for a minute");
        assert_eq!(cache.believed(PATH, at(360)), None, "then somebody does");
        assert_eq!(cache.miss(PATH, at(3599)), Some(secrets(&["old"])));
        assert_eq!(cache.believed(PATH, at(3600)), None);
        assert_eq!(cache.miss(PATH, at(3600)), None);
    }

    #[test]
    fn nothing_stands_for_a_store_that_never_answered() {
        assert_eq!(SecretCache::default().miss(PATH, at(0)), None);
    }

    #[test]
    fn an_outage_ends_with_the_next_answer() {
        let mut cache = cache();
        cache.miss(PATH, at(310));
        cache.learn(PATH, &secrets(&["new"]), at(320));
        assert_eq!(cache.believed(PATH, at(619)), Some(secrets(&["new"])));
        assert_eq!(cache.believed(PATH, at(620)), None, "it is fresh for as long as ever");
    }

    #[test]
    fn signatures_cause_one_refresh_a_minute_and_path() {
        let mut cache = cache();
        assert_eq!(cache.renewal(PATH, at(1)), Renewal::Ask, "however fresh the secrets are");
        assert_eq!(cache.renewal(PATH, at(1)), Renewal::TooSoon);
        assert_eq!(cache.renewal("sources/other", at(1)), Renewal::Ask);
        cache.learn(PATH, &secrets(&["new"]), at(2));
        assert_eq!(cache.renewal(PATH, at(60)), Renewal::TooSoon, "an answer does not start a new minute");
        assert_eq!(cache.renewal(PATH, at(61)), Renewal::Ask);
        assert_eq!(cache.renewal(PATH, at(62)), Renewal::TooSoon);
    }

    #[test]
    fn no_signature_asks_a_store_that_is_down() {
        let mut cache = cache();
        cache.miss(PATH, at(300));
        assert_eq!(cache.renewal(PATH, at(300)), Renewal::Down);
        assert_eq!(cache.renewal(PATH, at(359)), Renewal::Down);
        assert_eq!(cache.renewal(PATH, at(360)), Renewal::Ask, "it may be up again");
        cache.miss(PATH, at(360));
        assert_eq!(cache.renewal(PATH, at(361)), Renewal::Down);
        cache.learn(PATH, &secrets(&["new"]), at(362));
        assert_eq!(cache.renewal(PATH, at(362)), Renewal::TooSoon);
    }
}
