//! Frequency caps: at most so many events reach one entity on one channel in any stretch of time.
//!
//! A counter lists the events that reached the entity lately. It is written in the transaction that
//! records the intent, under its version, so that "at most 3 a day" holds under races and crashes. An
//! event holds one place however often it is tried, and each try moves its place to the time of the try: the
//! last try is the one that reaches the entity.

use async_trait::async_trait;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::errors::{Unavailable, WriteError};
use crate::base::id::{EventId, Parts};
use crate::base::time::Timestamp;
use crate::ledger::Lease;

/// The counter of one entity on one channel: the events that reached it lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The number of writes; 0 where the counter was never written.
    pub version: u64,
    /// The places that are taken.
    pub places: Vec<CapPlace>,
}

/// The place of one event under a cap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapPlace {
    /// The event's id.
    pub by: EventId,
    /// The moment of the event's last try.
    pub at: Timestamp,
}

/// The cap's answer that all places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The moment when the first place will be free.
    pub free_at: Timestamp,
}

/// A counter to be written in the place of the version before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The counter's name.
    pub key: String,
    /// The counter itself.
    pub counter: Counter,
    /// The end of the counter's life, in seconds since the Unix epoch.
    pub expires_at: i64,
}

/// The name of an entity's counter on a channel. The entity is a person, so the name holds its hash.
pub fn key(channel: &str, entity: &str) -> String {
    format!("cap/{}", Parts::new("cap").and(channel).and(entity).hex())
}

/// The most places that are kept: more than the largest limit of a cap, so that no cap misses one.
const MAX_PLACES: usize = 64;

impl Counter {
    /// Whether a place is free for this event under one cap. Several caps may share the counter, each with a window of
    /// its own.
    pub fn has_room(&self, limit: u32, per: Duration, by: &EventId, now: Timestamp) -> Result<(), Full> {
        let others = self.places.iter().filter(|place| place.by != *by);
        let mut moments: Vec<Timestamp> = others.map(|place| place.at).collect();
        moments.sort_unstable_by(|one, other| other.cmp(one));
        // The newest places decide: one is free when the last of as many as the limit has left the window.
        let last = usize::try_from(limit).unwrap_or(usize::MAX).checked_sub(1);
        match last.map_or(Some(now), |last| moments.get(last).copied()) {
            Some(at) if at + per > now => Err(Full { free_at: at + per }),
            _ => Ok(()),
        }
    }

    /// The counter with a place for this event. It keeps the places of the longest window that any cap on it has.
    #[must_use]
    pub fn with_place(&self, longest: Duration, by: &EventId, now: Timestamp) -> Counter {
        let lately = |place: &&CapPlace| place.at + longest > now && place.by != *by;
        let mut places: Vec<CapPlace> = self.places.iter().filter(lately).cloned().collect();
        places.push(CapPlace { by: by.clone(), at: now });
        places.sort_by_key(|place| place.at);
        places.drain(..places.len().saturating_sub(MAX_PLACES));
        Counter { version: self.version + 1, places }
    }
}

impl Count {
    /// A counter to be written, for a cap that looks back so long.
    pub fn new(key: String, counter: Counter, per: Duration, now: Timestamp) -> Self {
        Count { key, counter, expires_at: (now + per).secs() + 1 }
    }
}

/// The reason why a count was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// Another worker wrote the counter meanwhile. Nothing was written, and the count may be tried again.
    #[error("another worker wrote the counter meanwhile; nothing was written")]
    Moved,
    /// The row was not written, and neither was a count.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The counters of frequency caps.
#[async_trait]
pub trait Caps: Send + Sync {
    /// The counter as it is now.
    async fn read(&self, key: &str) -> Result<Counter, Unavailable>;

    /// Records the lease's progress and the counts, all or nothing.
    async fn record(&self, lease: &Lease, counts: &[Count]) -> Result<(), CountError>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(1_794_819_600) + Duration::from_secs(secs)
    }

    fn id(n: u32) -> EventId {
        EventId::named(n.to_string())
    }

    /// The counter after an event found a place under the only cap.
    fn taken(counter: &Counter, limit: u32, per: Duration, by: &EventId, now: Timestamp) -> Result<Counter, Full> {
        counter.has_room(limit, per, by, now)?;
        Ok(counter.with_place(per, by, now))
    }

    #[test]
    fn a_short_window_takes_no_place_from_a_long_one() {
        let hour = Duration::from_secs(3600);
        let mut counter = Counter::default();
        for n in 0..3 {
            let now = at(0) + hour * 2 * n;
            assert_eq!(counter.has_room(1, hour, &id(n), now), Ok(()), "one an hour");
            counter = counter.with_place(DAY, &id(n), now);
        }
        assert_eq!(counter.has_room(3, DAY, &id(9), at(0) + hour * 6), Err(Full { free_at: at(0) + DAY }));
        assert_eq!(counter.has_room(0, hour, &id(9), at(0) + DAY * 2), Err(Full { free_at: at(0) + DAY * 2 + hour }));
    }

    #[test]
    fn a_counter_stays_small() {
        let counter = (0..1000).fold(Counter::default(), |counter, n| counter.with_place(DAY, &id(n), at(n.into())));
        assert_eq!(counter.places.len(), MAX_PLACES);
        assert!(counter.has_room(50, DAY, &id(9999), at(1000)).is_err(), "the newest are kept");
    }

    #[test]
    fn the_fourth_of_a_day_finds_no_place_until_the_first_is_a_day_old() {
        let mut counter = Counter::default();
        for n in 0..3 {
            counter = taken(&counter, 3, DAY, &id(n), at(u64::from(n))).expect("a place");
        }
        assert_eq!(taken(&counter, 3, DAY, &id(9), at(10)), Err(Full { free_at: at(0) + DAY }));
        assert!(taken(&counter, 3, DAY, &id(9), at(0) + DAY).is_ok());
    }

    #[test]
    fn an_event_that_is_tried_again_moves_its_own_place() {
        let counter = taken(&Counter::default(), 1, DAY, &id(1), at(0)).expect("a place");
        let moved = taken(&counter, 1, DAY, &id(1), at(3600)).expect("its own");
        assert_eq!(moved.places, [CapPlace { by: id(1), at: at(3600) }]);
        assert_eq!(taken(&moved, 1, DAY, &id(2), at(3601)), Err(Full { free_at: at(3600) + DAY }));
    }

    proptest! {
        /// However they come, no stretch of time as long as the window has more than the limit.
        #[test]
        fn no_window_has_more_than_the_limit(
            limit in 1u32..5,
            gaps in proptest::collection::vec((0u64..2000, 0u32..30), 1..60),
        ) {
            let (mut counter, mut now, mut reached) = (Counter::default(), 0, Vec::<(u32, u64)>::new());
            for (gap, event) in gaps {
                now += gap;
                if let Ok(next) = taken(&counter, limit, Duration::from_secs(3600), &id(event), at(now)) {
                    counter = next;
                    reached.retain(|(other, _)| *other != event);
                    reached.push((event, now));
                    let lately = reached.iter().filter(|(_, then)| then + 3600 > now).count();
                    prop_assert!(lately <= limit as usize);
                }
            }
        }
    }
}
