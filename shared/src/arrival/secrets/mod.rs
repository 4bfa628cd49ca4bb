//! How long a secret is believed.
//!
//! A store of secrets is slow, throttled and sometimes down, and a sender waits. So what was read is
//! believed for minutes. Whoever rotates a secret need not wait for that: a signature that does not
//! verify asks the store again, though not more often than a flood of forgeries should be able to.
//! While the store is down, what was known last goes on being believed, up to a bound.
//!
//! No path through here turns "I cannot know" into a secret: what is not known is an error.

mod cached;

use async_trait::async_trait;
use std::collections::HashMap;
use std::time::Duration;

pub use cached::CachedSecrets;

use crate::arrival::signature::Secret;
use crate::base::errors::Unavailable;
use crate::base::time::Timestamp;

/// How long the store's answer is believed without asking again. A secret that was taken away is
/// good for so long, at most.
const FRESH_FOR: Duration = Duration::from_secs(300);

/// How long it is believed while the store is down.
const BELIEVED_FOR: Duration = Duration::from_secs(3600);

/// How long it is believed that there is no secret. Whoever puts the first one there should not wait,
/// and whoever knocks at a source without one should not reach the store each time.
const EMPTY_FOR: Duration = Duration::from_secs(5);

/// How long between two refreshes that signatures cause, and between two tries while the store is
/// down: nobody should wait for it over and over.
const PAUSE: Duration = Duration::from_secs(60);

/// What the store said, and when. It is handed the time and asks nobody.
#[derive(Debug, Default)]
pub struct SecretCache(HashMap<String, Known>);

/// What is known of one path.
#[derive(Debug, Default)]
struct Known {
    secrets: Vec<Secret>,
    /// When the store was asked for them.
    read_at: Option<Timestamp>,
    /// When the store last failed to answer.
    missed_at: Option<Timestamp>,
    /// When a signature last caused a refresh.
    renewed_at: Option<Timestamp>,
}

impl SecretCache {
    /// The secrets that need no question: fresh ones, and older ones while the store is known to be down.
    pub fn believed(&self, path: &str, now: Timestamp) -> Option<Vec<Secret>> {
        let known = self.0.get(path)?;
        let down = within(known.missed_at, PAUSE, now);
        known.younger_than(if down { BELIEVED_FOR } else { FRESH_FOR }, now)
    }

    /// Takes in the store's answer to a question asked at `asked_at`. It replaces all that was known:
    /// a secret that is gone is no longer live. An answer that a later one overtook is dropped.
    pub fn learn(&mut self, path: &str, secrets: &[Secret], asked_at: Timestamp) {
        let known = self.0.entry(path.to_owned()).or_default();
        if known.read_at.is_some_and(|read_at| read_at > asked_at) {
            return;
        }
        *known = Known { secrets: secrets.to_vec(), read_at: Some(asked_at), missed_at: None, ..*known };
    }

    /// Takes in that the store did not answer. What was known last goes on, unless it is too old.
    pub fn miss(&mut self, path: &str, now: Timestamp) -> Option<Vec<Secret>> {
        let known = self.0.get_mut(path)?;
        known.missed_at = Some(now);
        known.younger_than(BELIEVED_FOR, now)
    }

    /// Whether a signature may cause a refresh now. A yes counts, whatever comes of it.
    pub fn renewal(&mut self, path: &str, now: Timestamp) -> Renewal {
        let known = self.0.entry(path.to_owned()).or_default();
        if within(known.missed_at, PAUSE, now) {
            return Renewal::Down;
        }
        if within(known.renewed_at, PAUSE, now) {
            return Renewal::TooSoon;
        }
        known.renewed_at = Some(now);
        Renewal::Ask
    }
}

/// What to do about a signature that does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Ask the store.
    Ask,
    /// Nothing: it was asked for another signature a moment ago.
    TooSoon,
    /// Nothing: it did not answer a moment ago. Nobody can know whether the secret has changed.
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

/// Secrets by their path below the prefix: `sources/<name>` or `integrations/<name>`.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// Every live secret at this path, as of some minutes ago. None at all is an empty list, not an error.
    async fn live(&self, path: &str) -> Result<Vec<Secret>, Unavailable>;

    /// Every live secret at this path as of now, for whoever was refused with the older ones. `None`
    /// says that it is too soon to ask again.
    async fn renewed(&self, path: &str) -> Result<Option<Vec<Secret>>, Unavailable>;
}

/// Where secrets are kept. Asked seldom: [`CachedSecrets`](crate::secrets::CachedSecrets) stands before it.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// Every secret at this path, now.
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
    fn that_there_is_none_is_believed_for_a_moment() {
        let mut cache = SecretCache::default();
        cache.learn(PATH, &[], at(0));
        assert_eq!(cache.believed(PATH, at(4)), Some(vec![]));
        assert_eq!(cache.believed(PATH, at(5)), None);
        assert_eq!(cache.miss(PATH, at(5)), None, "and never in the place of an answer");
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
