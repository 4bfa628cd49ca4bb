//! Windows: deliveries of one key whose moments are close are the same event.
//!
//! The first delivery of an event leaves its moment behind, as an *anchor*. A later delivery of the same key belongs to
//! the nearest earlier anchor within the window, else to the nearest later one within it, else it is a new event:
//!
//! ```text
//!     anchor 09:00        09:03   09:04:59        anchor 09:06
//!  ──────┼──────────────────┼────────┼──────────────────┼──────▶   within 5m
//!        ◀── belongs to ────┴────────┘                  │
//!        09:05:30 is no more within 5m of 09:00: it belongs to 09:06
//! ```
//!
//! So two anchors of one key are always more than the window apart, and no delivery belongs to an anchor that is farther
//! from it than the window. An event's id is made of its key and its anchor: it is the same whoever computes it.
//!
//! The anchor is written before the row. A crash between the two leaves an anchor without a row; the sender got no
//! answer and sends again, and the repetition finds that anchor.

use std::time::Duration;

use async_trait::async_trait;

use crate::base::errors::Unavailable;
use crate::base::id::{EventId, Parts};
use crate::base::time::Timestamp;

/// One delivery among those of its key: when it happened, and how close is close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The hash of the key, without any time.
    pub key: String,
    /// The moment of the delivery, as the flow's window says.
    pub moment: Timestamp,
    /// How far apart two deliveries of one event may be.
    pub within: Duration,
    /// The end of the anchors' life, in seconds since the Unix epoch. Every row of the key ends before.
    pub expires_at: i64,
}

impl Sighting {
    /// Whether the moment lies too far ahead of its reception. That needs no look at the anchors.
    pub fn is_ahead(&self, received_at: Timestamp) -> bool {
        self.moment > received_at + MAX_AHEAD
    }

    /// The id of the event that has this anchor.
    pub fn id_at(&self, anchor: Timestamp) -> EventId {
        Parts::new("event").and("window").and(&self.key).and(&anchor.millis().to_string()).id()
    }

    /// The moment before which an anchor is no longer close.
    pub fn from(&self) -> Timestamp {
        self.moment - self.within
    }

    /// The moment after which an anchor is no longer close.
    pub fn until(&self) -> Timestamp {
        self.moment + self.within
    }
}

/// The most anchors that a key has. Their item stays below one kilobyte, which one write unit pays for.
pub const MAX_ANCHORS: usize = 64;

/// How many anchors are kept when there would be too many: the newest. Half of them, so that few events of a busy key
/// pay for it.
const KEPT_ANCHORS: usize = MAX_ANCHORS / 2;

/// The anchors of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anchors {
    /// The anchors, in the order of time.
    pub moments: Vec<Timestamp>,
    /// The newest anchor that made room for others. Nothing is known of what lies before it.
    pub forgotten: Option<Timestamp>,
    /// The number of writes so far.
    pub version: u64,
}

/// The place of a delivery among the anchors of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The delivery belongs to the event of this anchor.
    Of(Timestamp),
    /// The delivery is a new event: these are the anchors with its own.
    New(Anchors),
    /// The delivery is so old that its event, if it had one, is forgotten.
    Forgotten,
}

impl Anchors {
    /// Whether a sighting comes behind all anchors, and there is room for it. An adapter's condition says the same.
    pub fn end_before(&self, sighting: &Sighting) -> bool {
        self.moments.last().is_none_or(|newest| *newest < sighting.from()) && self.moments.len() < MAX_ANCHORS
    }

    /// The place of a delivery.
    pub fn place(&self, sighting: &Sighting) -> Placement {
        let earlier = |anchor: &&Timestamp| sighting.from() <= **anchor && **anchor <= sighting.moment;
        let later = |anchor: &&Timestamp| sighting.moment < **anchor && **anchor <= sighting.until();
        if let Some(anchor) = self.moments.iter().rfind(earlier).or_else(|| self.moments.iter().find(later)) {
            return Placement::Of(*anchor);
        }
        let next = self.with(sighting.moment);
        // A forgotten anchor may have been close, and an anchor that is forgotten at once would be of no use.
        match next.forgotten {
            Some(forgotten) if sighting.from() <= forgotten => Placement::Forgotten,
            _ => Placement::New(next),
        }
    }

    fn with(&self, moment: Timestamp) -> Anchors {
        let mut moments = self.moments.clone();
        moments.insert(moments.partition_point(|anchor| *anchor < moment), moment);
        let dropped = if moments.len() > MAX_ANCHORS { moments.len() - KEPT_ANCHORS } else { 0 };
        let forgotten = moments.drain(..dropped).next_back().or(self.forgotten);
        Anchors { moments, forgotten, version: self.version + 1 }
    }
}

/// The port of the anchors.
#[async_trait]
pub trait Windows: Send + Sync {
    /// Adds a sighting's moment behind all anchors of its key. One conditional write, no read. Where
    /// [`Anchors::end_before`] is false nothing is written, and these are the anchors.
    async fn append(&self, sighting: &Sighting) -> Result<Result<(), Anchors>, Unavailable>;

    /// Writes `next` in the place of the version before it. If that has changed, nothing is written, and these are the
    /// anchors now.
    async fn replace(&self, sighting: &Sighting, next: &Anchors) -> Result<Result<(), Anchors>, Unavailable>;
}

/// The reason why a delivery has no anchor. Nothing of it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAnchored {
    /// The moment lies too far ahead.
    Ahead,
    /// The moment lies so far back that its event, if it had one, is forgotten.
    Forgotten,
    /// The anchors did not answer, or others wrote them each time.
    Unavailable(Unavailable),
}

impl From<Unavailable> for NotAnchored {
    fn from(unavailable: Unavailable) -> Self {
        NotAnchored::Unavailable(unavailable)
    }
}

/// How far ahead of its reception a moment may lie: a sender that writes its local time as UTC is still taken.
/// Without a bound, silly moments would push the anchors out that matter.
pub const MAX_AHEAD: Duration = Duration::from_secs(24 * 3600);

/// How often a moment between two anchors is written, before the sender must try again: often enough for all events of
/// a batch that are admitted side by side. Each failure means that another delivery of the same key was placed meanwhile.
const MAX_TRIES: usize = 16;

/// Finds the anchor of a delivery, or makes it one.
///
/// A new event in order costs one write. So does a repetition: its write fails, and returns the anchors. A new event
/// that is older than the newest costs two.
pub async fn anchor(windows: &dyn Windows, sighting: &Sighting, now: Timestamp) -> Result<Timestamp, NotAnchored> {
    if sighting.is_ahead(now) {
        return Err(NotAnchored::Ahead);
    }
    let mut written = windows.append(sighting).await?;
    for _ in 0..MAX_TRIES {
        let Err(anchors) = written else { return Ok(sighting.moment) };
        match anchors.place(sighting) {
            Placement::Of(anchor) => return Ok(anchor),
            Placement::Forgotten => return Err(NotAnchored::Forgotten),
            Placement::New(next) => written = windows.replace(sighting, &next).await?,
        }
    }
    match written {
        Ok(()) => Ok(sighting.moment),
        Err(_) => Err(Unavailable { port: "the window", why: "others wrote it each time".into() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(300);

    fn sighting(secs: i64) -> Sighting {
        Sighting { key: "k".into(), moment: Timestamp::from_secs(secs), within: WITHIN, expires_at: 0 }
    }

    fn anchors(secs: impl IntoIterator<Item = i64>) -> Anchors {
        Anchors { moments: secs.into_iter().map(Timestamp::from_secs).collect(), ..Anchors::default() }
    }

    /// The anchor of a delivery, in seconds; its own moment if it is new.
    fn placed(anchors: &Anchors, secs: i64) -> i64 {
        match anchors.place(&sighting(secs)) {
            Placement::Of(anchor) => anchor.secs(),
            Placement::New(next) if next.moments.contains(&Timestamp::from_secs(secs)) => secs,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_nearest_earlier_anchor_comes_before_a_later_one() {
        let anchors = anchors([0, 360]);
        for (secs, anchor) in [(0, 0), (1, 0), (300, 0), (301, 360), (359, 360), (360, 360), (660, 360), (-300, 0)] {
            assert_eq!(placed(&anchors, secs), anchor, "{secs}");
        }
        for new in [-301, 661] {
            assert_eq!(placed(&anchors, new), new);
        }
    }

    #[test]
    fn anchors_do_not_chain() {
        let anchors = anchors([0]);
        assert_eq!(placed(&anchors, 240), 0);
        assert_eq!(placed(&anchors, 480), 480, "what belongs to an anchor is none");
    }

    #[test]
    fn the_oldest_make_room_and_what_is_as_old_is_forgotten() {
        let full = anchors((0..64).map(|n| n * 1000));
        assert!(!full.end_before(&sighting(64_000)), "there is no room");
        let Placement::New(next) = full.place(&sighting(64_000)) else { panic!("it is new") };
        assert_eq!(next.moments.len(), 32);
        assert_eq!(next.forgotten, Some(Timestamp::from_secs(32_000)));
        assert_eq!(next.place(&sighting(32_300)), Placement::Forgotten, "its anchor may have been 32000");
        assert_eq!(next.place(&sighting(5)), Placement::Forgotten);
        assert_eq!(placed(&next, 32_301), 32_301);
        assert_eq!(placed(&next, 33_001), 33_000);
    }

    #[test]
    fn an_anchor_that_would_be_forgotten_at_once_is_not_made() {
        let full = anchors((0..64).map(|n| n * 1000));
        assert_eq!(full.place(&sighting(10_500)), Placement::Forgotten);
        assert_eq!(placed(&full, 10_001), 10_000);
    }

    #[test]
    fn an_id_is_that_of_its_anchor() {
        let one = sighting(0).id_at(Timestamp::from_secs(0));
        assert_eq!(one, sighting(299).id_at(Timestamp::from_secs(0)));
        assert_ne!(one, sighting(0).id_at(Timestamp::from_secs(1)));
        assert_ne!(one, Sighting { key: "l".into(), ..sighting(0) }.id_at(Timestamp::from_secs(0)));
    }

    proptest! {
        /// In whatever order: anchors are more than the window apart, and no delivery is farther from its own.
        #[test]
        fn what_is_close_is_one_and_what_is_far_is_not(moments in prop::collection::vec(0i64..4000, 1..60)) {
            let mut anchors = Anchors::default();
            for secs in moments {
                let anchor = placed(&anchors, secs);
                prop_assert!((anchor - secs).abs() <= 300);
                prop_assert_eq!(placed(&anchors, secs), anchor);
                if let Placement::New(next) = anchors.place(&sighting(secs)) {
                    anchors = next;
                }
                prop_assert_eq!(placed(&anchors, secs), anchor, "a repetition has the same");
                prop_assert!(anchors.moments.windows(2).all(|two| two[1].secs() - two[0].secs() > 300));
            }
        }
    }
}
