//! A run of failures: calls to a partner that failed, with none between them that is known to have been answered.
//!
//! A share of failures says nothing of a partner that is called a few times an hour. A run does, however slowly it
//! grows. It is local to a container until one of its failures is reported, and then part of the breaker's state: a
//! healthy partner costs no write by it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::id::EventId;
use crate::base::time::Timestamp;

/// The number of failures of a run at which a partner may count as down.
const ENOUGH: u32 = 3;

/// How long a run lasts at least when a partner counts as down. In less time, a single event can use up its attempts.
const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// The longest pause in a run. After that the failures before it say nothing: containers that had answers since may be
/// gone, and have told nobody.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The shortest delay of an event that shall show whether its partner is down.
const SOONEST: Duration = Duration::from_secs(30);

/// Failures in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRun {
    /// The moment of the first failure.
    pub since: Timestamp,
    /// The moment of the last failure.
    pub last: Timestamp,
    /// The number of failures.
    pub calls: u32,
    /// The event whose calls they were, if they were all of one. It may be that event which the partner does not take.
    #[serde(default)]
    pub only: Option<EventId>,
}

impl FailureRun {
    /// The run that begins with a failure now.
    pub(super) fn begun(event: Option<EventId>, now: Timestamp) -> Self {
        FailureRun { since: now, last: now, calls: 1, only: event }
    }

    /// The run with the failures that followed. A run that has paused for too long, or had an answer since its last
    /// failure, is over: the other one takes its place.
    pub(super) fn followed_by(self, more: FailureRun, answered_at: Timestamp) -> Self {
        if self.last <= answered_at || more.since.since(self.last) > LONGEST_PAUSE {
            return more;
        }
        let (since, last) = (self.since.min(more.since), self.last.max(more.last));
        let only = self.only.filter(|event| more.only.as_ref() == Some(event));
        FailureRun { since, last, calls: self.calls.saturating_add(more.calls), only }
    }

    /// Whether the partner counts as down: it has failed several events, often enough and for long enough.
    pub(super) fn shows_outage(&self) -> bool {
        self.only.is_none() && self.calls >= ENOUGH && self.last.since(self.since) >= LONG_ENOUGH
    }

    /// The delay after which another failure may show that the partner is down.
    pub(super) fn until_known(&self, now: Timestamp) -> Duration {
        LONG_ENOUGH.saturating_sub(now.since(self.since)).max(SOONEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Timestamp = Timestamp::from_millis(0);

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_794_819_600 + secs)
    }

    fn event(name: &str) -> Option<EventId> {
        Some(EventId::named(name))
    }

    /// The run of these failures, in turn of two events.
    fn run(failures: &[i64]) -> FailureRun {
        let ids = ["a", "b"].into_iter().cycle();
        let mut all = failures.iter().zip(ids).map(|(secs, id)| FailureRun::begun(event(id), at(*secs)));
        let first = all.next().expect("a failure");
        all.fold(first, |run, more| run.followed_by(more, BEFORE))
    }

    #[test]
    fn three_in_a_row_over_a_minute_show_an_outage() {
        for (failures, down) in [
            (&[0, 30, 60][..], true),
            (&[0, 600, 1200], true),
            (&[0, 20, 40, 59], false),
            (&[0, 60], false),
            (&[0, 3601, 3700], false),
        ] {
            assert_eq!(run(failures).shows_outage(), down, "{failures:?}");
        }
    }

    #[test]
    fn one_event_alone_shows_none() {
        let mut run = FailureRun::begun(event("a"), at(0));
        for minute in 1..100 {
            run = run.followed_by(FailureRun::begun(event("a"), at(60 * minute)), BEFORE);
            assert!(!run.shows_outage());
        }
        assert!(run.followed_by(FailureRun::begun(event("b"), at(6000)), BEFORE).shows_outage());
    }

    #[test]
    fn an_answer_ends_a_run() {
        let before = run(&[0, 30]);
        let more = FailureRun::begun(event("c"), at(60));
        assert_eq!(before.clone().followed_by(more.clone(), at(30)), more, "an answer after the last failure");
        assert!(before.followed_by(more, at(-1)).shows_outage(), "an answer before the run");
    }

    #[test]
    fn an_event_is_asked_to_come_back_when_it_can_be_known() {
        assert_eq!(run(&[0, 6]).until_known(at(6)), Duration::from_secs(54));
        assert_eq!(run(&[0, 60]).until_known(at(60)), SOONEST);
    }
}
