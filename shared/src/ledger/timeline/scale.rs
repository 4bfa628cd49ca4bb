//! The scale by which a timeline is drawn.

use super::EventTimeline;
use crate::base::time::Timestamp;

/// The scale of a timeline: a call of milliseconds and a wait of days are both seen. What lies between two moments at
/// which something begins or ends is as wide as the logarithm of its time.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The moments, each with its place from 0 to 1.
    places: Vec<(Timestamp, f64)>,
}

impl Scale {
    /// The scale of a timeline, whose last moment is now.
    pub fn of(timeline: &EventTimeline, now: Timestamp) -> Self {
        let ends = timeline.spans.iter().flat_map(|span| [span.began, span.ended.unwrap_or(now.max(span.began))]);
        let mut moments: Vec<Timestamp> = ends.collect();
        moments.sort_unstable();
        moments.dedup();
        let mut width = 0.0;
        let mut places = Vec::with_capacity(moments.len());
        for (place, moment) in moments.iter().enumerate() {
            let before = place.checked_sub(1).map_or(*moment, |before| moments[before]);
            width += (1.0 + moment.since(before).as_secs_f64() * 1000.0).log2();
            places.push((*moment, width));
        }
        places.iter_mut().for_each(|(_, place)| *place /= width.max(f64::MIN_POSITIVE));
        Scale { places }
    }

    /// The place of a moment at which a span begins or ends, from 0 to 1. A moment between two of them is at the later.
    pub fn place(&self, moment: Timestamp) -> f64 {
        let at = self.places.partition_point(|(at, _)| *at < moment);
        self.places.get(at).or(self.places.last()).map_or(0.0, |(_, place)| *place)
    }
}
