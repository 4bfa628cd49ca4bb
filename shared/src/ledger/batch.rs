//! Batches of replays: what an operator asked for, and how far it got.
//!
//! A batch names what it replays by a filter, and its checkpoint is the ledger itself: what was replayed
//! is not dead any more, and what was replayed or parked after the batch began is not part of it. So a
//! batch that crashes goes on where it was, and repeats nothing.

use async_trait::async_trait;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Declined, Reason, Row, SignOff, State};
use crate::base::document::Stored;
use crate::base::errors::{Unavailable, WriteError};
use crate::base::time::Timestamp;

/// Which parked events are meant. What is not named is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Those of this flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// Those that are dead for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Those in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Those whose last error has this in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Those that were replayed no more often than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replays: Option<u32>,
    /// Those that were parked then or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Filter {
    /// The most that one answer lists, plans or decides.
    pub const MAX_LISTED: u32 = 100;

    /// How many of the newest parked events are looked through. What is older is found by its id, by a batch, or
    /// once newer ones are settled.
    pub const MAX_SCANNED: usize = 5000;

    /// Whether a parked row is meant.
    pub fn takes(&self, row: &Row) -> bool {
        let death = row.death.as_ref();
        self.flow.as_ref().is_none_or(|flow| *flow == row.flow)
            && self.reason.is_none_or(|reason| death.is_some_and(|death| death.reason == reason))
            && self.state.is_none_or(|state| state == row.state)
            && self.error.as_ref().is_none_or(|error| death.is_some_and(|death| death.error.contains(error)))
            && self.replays.is_none_or(|most| row.replay <= most)
            && self.since.is_none_or(|since| row.parked_at.is_some_and(|at| at >= since))
    }
}

/// A batch of replays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Its id.
    pub id: String,
    /// What it replays.
    pub filter: Filter,
    /// How many at most.
    pub max: u32,
    /// How many a minute for each integration.
    pub per_minute: u32,
    /// Who asked for it.
    pub by: String,
    /// Why.
    pub why: String,
    /// When it began. What was parked or replayed later is not part of it.
    pub started_at: Timestamp,
    /// How many were replayed, or were about to be.
    pub replayed: u32,
    /// It has come as far as what was parked then. The oldest come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Timestamp>,
    /// Where it is.
    pub progress: BatchProgress,
    /// Who stopped it, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchProgress {
    /// It goes on.
    Running,
    /// Somebody stopped it.
    Stopped,
    /// There is nothing more to replay, or it has replayed as many as it may.
    Done,
}

impl Batch {
    /// The most that one may replay.
    pub const MAX_EVENTS: u32 = 10_000;

    /// How many one replays, unless the operator says otherwise.
    pub const DEFAULT_MAX: u32 = 20;

    /// The most that an integration gets a minute.
    pub const MAX_RATE: u32 = 600;

    /// How many a minute an integration gets, unless the operator says otherwise.
    pub const DEFAULT_RATE: u32 = 5;

    /// Whether a parked row is part of the batch, and can be replayed.
    pub fn takes(&self, row: &Row) -> bool {
        let before = row.parked_at.is_some_and(|at| at <= self.started_at) && row.queued_at <= self.started_at;
        before && self.filter.takes(row) && row.may_replay().is_ok()
    }

    /// The row as the batch replays it, if it still takes it: it was read a while ago.
    ///
    /// Whatever this container's clock says, the replay comes after the batch began, so that the batch does
    /// not take it again when it dies.
    pub fn again(&self, row: Row, now: Timestamp) -> Result<Row, Declined> {
        if !self.takes(&row) {
            return Err(Declined(format!("{} is not part of the batch any more", row.id)));
        }
        let after = now.max(self.started_at + Duration::from_millis(1));
        let by = format!("{} (batch {})", self.by, self.id);
        row.replayed(SignOff { by: &by, why: &self.why }, after)
    }

    /// Counts one more, which was parked then, if the batch goes on and may replay another.
    pub fn count(&mut self, parked_at: Option<Timestamp>) -> Result<(), Declined> {
        if self.left() == 0 {
            return Err(Declined(format!("the batch {} has replayed as many as it may", self.id)));
        }
        self.pass(parked_at)?;
        self.replayed += 1;
        Ok(())
    }

    /// Comes as far as what was parked then.
    pub fn pass(&mut self, parked_at: Option<Timestamp>) -> Result<(), Declined> {
        self.goes_on()?;
        self.passed = self.passed.max(parked_at);
        Ok(())
    }

    /// Brings the batch to its end.
    pub fn end(&mut self) -> Result<(), Declined> {
        self.goes_on()?;
        self.progress = BatchProgress::Done;
        Ok(())
    }

    /// Ends the batch before its time.
    pub fn stop(&mut self, sign_off: SignOff<'_>) -> Result<(), Declined> {
        self.goes_on()?;
        self.progress = BatchProgress::Stopped;
        self.stopped_by = Some(sign_off.to_string());
        Ok(())
    }

    fn goes_on(&self) -> Result<(), Declined> {
        match self.progress {
            BatchProgress::Running => Ok(()),
            BatchProgress::Stopped => Err(Declined(format!("the batch {} is stopped", self.id))),
            BatchProgress::Done => Err(Declined(format!("the batch {} is done", self.id))),
        }
    }

    /// How many may still be replayed.
    pub fn left(&self) -> u32 {
        self.max.saturating_sub(self.replayed)
    }
}

/// The newest batches, in one small document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batches(Vec<Batch>);

/// How many batches are remembered.
const MAX_BATCHES: usize = 20;

impl Batches {
    /// Reads the document. What is not readable is forgotten: the ledger knows what was replayed.
    pub fn read(text: &str) -> Batches {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The document as JSON.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// All of them, the newest first.
    pub fn all(&self) -> &[Batch] {
        &self.0
    }

    /// The oldest that goes on: one after the other.
    pub fn running(&self) -> Option<&Batch> {
        self.0.iter().rev().find(|batch| batch.progress == BatchProgress::Running)
    }

    /// With one more.
    #[must_use]
    pub fn with(mut self, batch: Batch) -> Batches {
        self.0.insert(0, batch);
        while self.0.len() > MAX_BATCHES {
            // What goes on is never forgotten; a crowd of running batches is refused before it comes to this.
            match self.0.iter().rposition(|batch| batch.progress != BatchProgress::Running) {
                Some(oldest) => drop(self.0.remove(oldest)),
                None => break,
            }
        }
        self
    }

    /// With one of them changed, unless it is not there or `change` refuses.
    pub fn changed(
        mut self,
        id: &str,
        change: impl FnOnce(&mut Batch) -> Result<(), Declined>,
    ) -> Result<Batches, Declined> {
        let batch = self.0.iter_mut().find(|batch| batch.id == id);
        change(batch.ok_or_else(|| Declined(format!("there is no batch {id}")))?)?;
        Ok(self)
    }
}

/// Where batches of replays are kept.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// The document, now.
    async fn read(&self) -> Result<Option<Stored>, Unavailable>;

    /// Writes the document in the place of the version that was seen, 0 where there was none, and says its
    /// version. Fenced if somebody else wrote another one meanwhile.
    async fn put(&self, batches: &Batches, seen: u64) -> Result<u64, WriteError>;
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
        assert_eq!(Batches::read(&stopped.text()), stopped);
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
}
