//! Batches of replays: the operator's request, and how far the lane has got with it.
//!
//! A batch names its events by a filter, and its checkpoint is the ledger itself: an event that was replayed
//! is not dead any more, and an event that was replayed or parked after the batch began is not part of it. So
//! a batch goes on after a crash where it was, and repeats nothing.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Declined, Reason, Row, SignOff, State};
use crate::base::document::Document;
use crate::base::time::Timestamp;

/// A filter on parked events. A field that is absent lets every event through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// The flow of the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The reason for which the events are dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The state of the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// A text that the events' last error contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The most replays that the events have had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replays: Option<u32>,
    /// The moment from which on the events were parked: in milliseconds since 1970, or in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "moment")]
    pub since: Option<Timestamp>,
}

/// Reads a moment as the ledger stores it, or as people write it.
fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Millis(Timestamp),
        Text(String),
    }
    match Option::<Written>::deserialize(from)? {
        None => Ok(None),
        Some(Written::Millis(at)) => Ok(Some(at)),
        Some(Written::Text(text)) => {
            // Digits alone could be seconds or milliseconds.
            let parsed = Timestamp::parse(&text).filter(|_| text.contains('-'));
            parsed
                .map(Some)
                .ok_or_else(|| D::Error::custom("`since` must be a moment: milliseconds since 1970, or RFC 3339"))
        }
    }
}

impl Filter {
    /// The most events that one answer lists, plans or decides.
    pub const MAX_LISTED: u32 = 100;

    /// The most parked events that a list looks through, the newest first. Older events are found by their id, by a
    /// batch, or once newer ones are settled.
    pub const MAX_SCANNED: usize = 5000;

    /// Whether the filter lets a parked row through.
    pub fn takes(&self, row: &Row) -> bool {
        let death = row.death.as_ref();
        self.flow.as_ref().is_none_or(|flow| *flow == row.flow)
            && self.reason.is_none_or(|reason| death.is_some_and(|death| death.reason == reason))
            && self.state.is_none_or(|state| state == row.state)
            && self.error.as_ref().is_none_or(|error| death.is_some_and(|death| death.error.contains(error)))
            && self.replays.is_none_or(|most| row.replay <= most)
            && self.since.is_none_or(|since| row.listed_at.is_some_and(|at| at >= since))
    }
}

/// A batch of replays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The batch's id.
    pub id: String,
    /// The filter on the events that the batch replays.
    pub filter: Filter,
    /// The most events that the batch replays.
    pub max: u32,
    /// The replay rate of each integration, in events a minute.
    pub per_minute: u32,
    /// The operator who asked for the batch.
    pub by: String,
    /// The operator's reason for the batch.
    pub why: String,
    /// The moment when the batch began. An event that was parked or replayed later is not part of it.
    pub started_at: Timestamp,
    /// The number of events that the batch has replayed, the one that it is about to send included.
    pub replayed: u32,
    /// The batch's cursor: it has dealt with the events that were parked before then. The oldest come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Timestamp>,
    /// Whether the batch is running, stopped or done.
    pub progress: BatchProgress,
    /// The operator who stopped the batch, and the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
}

/// Whether a batch is running, stopped or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchProgress {
    /// The batch has events left to replay.
    Running,
    /// An operator stopped the batch.
    Stopped,
    /// The batch has no events left to replay, or has replayed as many as its `max` allows.
    Done,
}

impl Batch {
    /// The largest `max` of a batch, in events.
    pub const MAX_EVENTS: u32 = 10_000;

    /// The `max` of a batch, unless the operator names another.
    pub const DEFAULT_MAX: u32 = 20;

    /// The highest replay rate of one integration, in events a minute.
    pub const MAX_RATE: u32 = 600;

    /// The replay rate of one integration, in events a minute, unless the operator names another.
    pub const DEFAULT_RATE: u32 = 5;

    /// Whether a parked row is part of the batch, and can be replayed.
    pub fn takes(&self, row: &Row) -> bool {
        let before = row.listed_at.is_some_and(|at| at <= self.started_at) && row.queued_at <= self.started_at;
        before && self.filter.takes(row) && row.may_replay().is_ok()
    }

    /// The row as the batch replays it, if the batch still takes it: the row was read a while ago.
    ///
    /// Whatever this container's clock says, the replay is dated after the batch began, so that the batch does
    /// not take the event again when it dies again.
    pub fn again(&self, row: Row, now: Timestamp) -> Result<Row, Declined> {
        if !self.takes(&row) {
            return Err(Declined(format!(
                "{} is not part of the batch any more: it has changed since the batch began",
                row.id
            )));
        }
        let after = now.max(self.started_at + Duration::from_millis(1));
        let by = format!("{} (batch {})", self.by, self.id);
        row.replayed(SignOff { by: &by, why: &self.why }, after)
    }

    /// Counts one more replay, of an event that was parked then, if the batch is running and may replay another.
    pub fn count(&mut self, parked_at: Option<Timestamp>) -> Result<(), Declined> {
        if self.left() == 0 {
            return Err(Declined(format!("the batch {} has replayed as many events as its `max` allows", self.id)));
        }
        self.pass(parked_at)?;
        self.replayed += 1;
        Ok(())
    }

    /// Moves the batch's cursor to the events that were parked then.
    pub fn pass(&mut self, parked_at: Option<Timestamp>) -> Result<(), Declined> {
        self.goes_on()?;
        self.passed = self.passed.max(parked_at);
        Ok(())
    }

    /// Ends the batch: no events are left to replay.
    pub fn end(&mut self) -> Result<(), Declined> {
        self.goes_on()?;
        self.progress = BatchProgress::Done;
        Ok(())
    }

    /// Stops the batch before its end, for an operator.
    pub fn stop(&mut self, sign_off: SignOff<'_>) -> Result<(), Declined> {
        self.goes_on()?;
        self.progress = BatchProgress::Stopped;
        self.stopped_by = Some(sign_off.to_string());
        Ok(())
    }

    fn goes_on(&self) -> Result<(), Declined> {
        match self.progress {
            BatchProgress::Running => Ok(()),
            BatchProgress::Stopped => {
                Err(Declined(format!("the batch {} is stopped already: nothing was changed", self.id)))
            }
            BatchProgress::Done => Err(Declined(format!("the batch {} is done already: nothing was changed", self.id))),
        }
    }

    /// The number of events that the batch may still replay.
    pub fn left(&self) -> u32 {
        self.max.saturating_sub(self.replayed)
    }
}

/// The newest batches, in one small document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batches(Vec<Batch>);

/// The number of batches that the document keeps.
const MAX_BATCHES: usize = 20;

impl Document for Batches {
    const NAME: &'static str = "batches";

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Batches {
    /// Reads the document; the error says why it cannot be read. One that is not readable is never overwritten: it may
    /// hold batches that another version runs.
    pub fn read(text: &str) -> Result<Batches, String> {
        serde_json::from_str(text).map_err(|error| format!("the document of batches cannot be read: {error}"))
    }

    /// The batches, the newest first.
    pub fn all(&self) -> &[Batch] {
        &self.0
    }

    /// The oldest running batch: batches run one after the other.
    pub fn running(&self) -> Option<&Batch> {
        self.0.iter().rev().find(|batch| batch.progress == BatchProgress::Running)
    }

    /// The number of batches that run, or wait for their turn.
    pub fn open(&self) -> u64 {
        self.0.iter().filter(|batch| batch.progress == BatchProgress::Running).count() as u64
    }

    /// The number of batches that should have come to their end by now: the one that runs, if it has taken an hour more
    /// than twice what it and those before it take at their rates. The others only wait for it.
    pub fn stalled(&self, now: Timestamp) -> u64 {
        let Some(running) = self.running() else { return 0 };
        let before = self.0.iter().filter(|batch| batch.started_at <= running.started_at);
        let minutes: u64 = before.map(|batch| u64::from(batch.max / batch.per_minute.max(1)) + 1).sum();
        let allowed = Duration::from_secs(3600 + 2 * 60 * minutes);
        u64::from(now.since(running.started_at) > allowed)
    }

    /// The batches with one more.
    #[must_use]
    pub fn with(mut self, batch: Batch) -> Batches {
        self.0.insert(0, batch);
        while self.0.len() > MAX_BATCHES {
            // A running batch is never forgotten. A new batch is declined before this many are running.
            match self.0.iter().rposition(|batch| batch.progress != BatchProgress::Running) {
                Some(oldest) => drop(self.0.remove(oldest)),
                None => break,
            }
        }
        self
    }

    /// The batches with one of them changed, unless there is none of this id or `change` declines.
    pub fn changed(
        mut self,
        id: &str,
        change: impl FnOnce(&mut Batch) -> Result<(), Declined>,
    ) -> Result<Batches, Declined> {
        let batch = self.0.iter_mut().find(|batch| batch.id == id);
        change(batch.ok_or_else(|| Declined(format!("there is no batch {id}: `status` lists the newest")))?)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: SignOff<'static> = SignOff { by: "ada", why: "enough" };

    fn batch(id: &str, progress: BatchProgress) -> Batch {
        Batch {
            id: id.into(),
            filter: Filter::default(),
            max: 20,
            per_minute: 5,
            by: "ada".into(),
            why: "it is back".into(),
            started_at: Timestamp::from_secs(1000),
            replayed: 0,
            passed: None,
            progress,
            stopped_by: None,
        }
    }

    #[test]
    fn batches_go_one_after_the_other_and_the_oldest_that_ended_are_forgotten() {
        let mut batches = Batches::default();
        for n in 0..25 {
            let progress = if n == 1 || n == 3 { BatchProgress::Running } else { BatchProgress::Done };
            batches = batches.with(batch(&n.to_string(), progress));
        }
        assert_eq!(batches.all().len(), MAX_BATCHES);
        assert_eq!(batches.running().map(|batch| batch.id.as_str()), Some("1"));
        let stopped = batches.changed("1", |batch| batch.stop(ADA)).expect("it is there");
        assert_eq!(stopped.running().map(|batch| batch.id.as_str()), Some("3"));
        assert_eq!(Batches::read(&stopped.text()), Ok(stopped.clone()));
        assert!(Batches::read(r#"{"batches": []}"#).is_err(), "another version may know it");
        assert!(stopped.changed("99", |_| Ok(())).is_err(), "there is none");
    }

    #[test]
    fn a_batch_counts_no_more_than_it_may_and_nothing_after_its_end() {
        let mut batch = Batch { max: 2, ..batch("1", BatchProgress::Running) };
        let counted = [1, 3, 2].map(|secs| batch.count(Some(Timestamp::from_secs(secs))).is_ok());
        assert_eq!(counted, [true, true, false]);
        assert_eq!((batch.replayed, batch.passed), (2, Some(Timestamp::from_secs(3))));
        batch.max = 9;
        batch.stop(ADA).expect("it goes on");
        assert!(batch.count(None).is_err() && batch.end().is_err(), "it is stopped");
        assert_eq!((batch.replayed, batch.progress), (2, BatchProgress::Stopped));
    }

    #[test]
    fn since_is_taken_as_it_is_stored_and_as_people_write_it() {
        let since = |since: serde_json::Value| {
            let filter: Result<Filter, _> = serde_json::from_value(serde_json::json!({"since": since}));
            filter.map(|filter| filter.since.map(Timestamp::millis)).map_err(|error| error.to_string())
        };
        assert_eq!(since(1_794_819_600_000_i64.into()), Ok(Some(1_794_819_600_000)));
        assert_eq!(since("2026-11-16T09:00:00Z".into()), Ok(Some(1_794_819_600_000)));
        assert_eq!(since("2026-11-16T10:00:00.5+01:00".into()), Ok(Some(1_794_819_600_500)));
        assert_eq!(since(serde_json::Value::Null), Ok(None));
        assert_eq!(serde_json::from_str("{}").ok(), Some(Filter::default()));
        for bad in ["1794819600", "yesterday", ""] {
            assert!(since(bad.into()).is_err_and(|error| error.contains("RFC 3339")), "{bad}");
        }
    }
}
