//! The timeline of an event: what was done for it and when it waited, rebuilt from its row.
//!
//! A worker that is killed takes with it what it knew. The row has its intents, and the history has a line for every
//! claim: so the ledger can tell of a crash, and long after every collector has forgotten the trace. What the history
//! has no room for is not made up: the timeline says how many lines are missing, and where.

mod line;
mod numbers;
mod scale;

use serde::{Deserialize, Serialize};

use line::{Close, HistoryLine, TriedLine, TriedOutcome};
use numbers::{RowNumbers, numbers};

use super::{Progress, Row, State, unquoted};
use crate::base::id::EventId;
use crate::base::span_ids::SpanIds;
use crate::base::time::Timestamp;
use crate::base::trace::SpanId;

pub use scale::Scale;

pub(super) use line::{left_out, lines_left_out, lost_with};

/// What was done for an event, and when it waited, in the order in which it began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventTimeline {
    /// The event's id.
    pub event: EventId,
    /// The flow that acts on the event.
    pub flow: String,
    /// The event's state.
    pub state: State,
    /// The trace's id.
    pub trace_id: String,
    /// The spans.
    pub spans: Vec<TimelineSpan>,
    /// Where lines of the history are missing, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
}

/// Lines that the history had no room for: it keeps its beginning and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// How many lines are missing.
    pub lines: u32,
    /// The moment of the last line before the gap.
    pub after: Timestamp,
    /// The moment of the first line behind it.
    pub before: Timestamp,
}

/// One span of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineSpan {
    /// The span's id. A worker that exports the span gives it the same.
    pub id: SpanId,
    /// The span that it belongs to.
    pub parent: SpanId,
    /// What was done, or waited for.
    #[serde(flatten)]
    pub kind: SpanKind,
    /// The moment when it began.
    pub began: Timestamp,
    /// Whether it may have begun later: the row does not say when.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub began_later: bool,
    /// The moment when it ended, unless it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub end: SpanEnd,
    /// How it ended, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
}

/// What was done, or waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SpanKind {
    /// The intake accepted the event.
    Accepted,
    /// The event waited for this.
    Waited {
        /// What it waited for, in words.
        waited_for: String,
    },
    /// A worker had the event, under this claim.
    Worked {
        /// The claim's number: the row's epoch.
        claim: u64,
    },
    /// An effect was tried.
    Called {
        /// The effect's id.
        effect: String,
        /// The number of the attempt since the event was accepted or last replayed.
        attempt: u32,
    },
    /// A partner was asked whether an effect happened.
    LookedUp {
        /// The effect's id.
        effect: String,
    },
    /// The event was sent through the queue again.
    Replayed {
        /// The number of the replay.
        replay: u32,
        /// Who did it, and why.
        by: String,
    },
    /// A human approved what was asked.
    Approved {
        /// The number under which the event was sent again.
        replay: u32,
        /// Who did it, and why.
        by: String,
    },
    /// The event was woken.
    Woken {
        /// The number of the wake.
        wake: u32,
        /// Who did it, and why, if an operator did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The event was ended while no worker had it.
    Ended,
}

/// How a span ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanEnd {
    /// It goes on.
    Open,
    /// Well.
    Done,
    /// In vain: it is tried again, or given up.
    Failed,
    /// Nobody knows how: its worker was lost, or its answer.
    Unknown,
}

impl SpanEnd {
    /// The end's name.
    pub fn as_str(self) -> &'static str {
        match self {
            SpanEnd::Open => "open",
            SpanEnd::Done => "done",
            SpanEnd::Failed => "failed",
            SpanEnd::Unknown => "unknown",
        }
    }
}

impl SpanKind {
    /// Whether nothing was done meanwhile.
    pub fn is_waiting(&self) -> bool {
        matches!(self, SpanKind::Waited { .. })
    }
}

impl EventTimeline {
    /// The timeline of an event, as of now.
    pub fn of(row: &Row, now: Timestamp) -> Self {
        let whats: Vec<&str> = row.history.iter().map(|moment| moment.what.as_str()).collect();
        Self::read(row, &whats, now)
    }

    /// The same in our own words alone: without the names and the words of operators, and those of partners.
    pub fn unquoted(row: &Row, now: Timestamp) -> Self {
        let whats: Vec<String> = row.history.iter().map(|moment| unquoted(&moment.what)).collect();
        Self::read(row, &whats.iter().map(String::as_str).collect::<Vec<_>>(), now)
    }

    fn read(row: &Row, whats: &[&str], now: Timestamp) -> Self {
        let lines: Vec<HistoryLine<'_>> = whats.iter().map(|what| HistoryLine::read(what)).collect();
        let mut reader = Reader {
            row,
            ids: SpanIds::of(&row.trace, &row.id),
            spans: Vec::new(),
            phase: Phase::Ended,
            this_replay: 0,
            line: 0,
            at: row.received_at,
            numbers: RowNumbers::default(),
        };
        let mut gap = None;
        for (place, (line, numbers)) in lines.iter().zip(numbers(row, &lines)).enumerate() {
            let before = std::mem::replace(&mut reader.at, row.history[place].at);
            (reader.line, reader.numbers) = (place, numbers);
            if let HistoryLine::LeftOut(lines) = line {
                let next = row.history.get(place + 1).map_or(now, |next| next.at);
                gap = Some(Gap { lines: *lines, after: before, before: next });
            }
            reader.read(line);
        }
        reader.close(now);
        let Reader { spans, .. } = reader;
        EventTimeline {
            event: row.id.clone(),
            flow: row.flow.clone(),
            state: row.state,
            trace_id: row.trace.id(),
            spans,
            gap,
        }
    }
}

/// What an event is in while its history is read.
enum Phase {
    /// It waits, since this moment, which is that of this line.
    Waiting { since: Timestamp, line: usize, on: String },
    /// A worker has it, under this claim.
    Working { since: Timestamp, claim: u64, known: bool },
    /// It is settled, or nothing is known of it.
    Ended,
}

/// Reads a history line by line.
struct Reader<'r> {
    row: &'r Row,
    ids: SpanIds,
    spans: Vec<TimelineSpan>,
    /// The first span since the event was accepted or last replayed: attempts are counted anew from there.
    this_replay: usize,
    phase: Phase,
    /// The line that is read: its place, its moment, and the row's numbers after it.
    line: usize,
    at: Timestamp,
    numbers: RowNumbers,
}

impl Reader<'_> {
    fn read(&mut self, line: &HistoryLine<'_>) {
        match *line {
            HistoryLine::Accepted => {
                let (id, parent) = (self.ids.sent(0, 0), self.row.trace.parent());
                self.push(id, parent, SpanKind::Accepted, self.row.received_at, SpanEnd::Done, "");
                self.wait("a worker");
            }
            HistoryLine::Claimed => {
                self.leave(SpanEnd::Unknown, LOST);
                self.phase = Phase::Working { since: self.at, claim: self.numbers.epoch, known: true };
            }
            HistoryLine::Tried(tried) => self.tried(&tried),
            HistoryLine::Closed(close, said) => self.closed(close, said),
            HistoryLine::Dead(reason) => {
                // A worker that buried its event did so under its own claim; whoever else did raised the epoch.
                let lost =
                    matches!(self.phase, Phase::Working { claim, known: true, .. } if claim < self.numbers.epoch);
                let (end, said) =
                    if lost { (SpanEnd::Unknown, LOST.into()) } else { (SpanEnd::Failed, format!("dead: {reason}")) };
                self.leave_as_worker(end, &said);
                self.wait("an operator");
            }
            HistoryLine::Replayed(replay, by) => self.sent(SpanKind::Replayed { replay, by: by.into() }),
            HistoryLine::Approved(by) => {
                let replay = self.numbers.replay;
                self.sent(SpanKind::Approved { replay, by: by.into() });
            }
            HistoryLine::Woken(wake, by) => self.sent(SpanKind::Woken { wake, by: by.map(str::to_owned) }),
            HistoryLine::Ended(said) => {
                self.leave(SpanEnd::Done, "");
                let (id, parent) = (self.ids.ended(self.numbers.epoch), self.parent());
                self.push(id, parent, SpanKind::Ended, self.at, SpanEnd::Done, said);
                self.phase = Phase::Ended;
            }
            HistoryLine::LeftOut(_) => {
                self.leave(SpanEnd::Unknown, "lines of the history are missing");
                self.phase = Phase::Working { since: self.at, claim: self.numbers.epoch, known: false };
            }
            HistoryLine::Parked | HistoryLine::Note => (),
        }
    }
}

/// How a worker's span ends that nobody closed.
const LOST: &str = "the worker was lost";

impl Reader<'_> {
    /// The event was put on the queue again, under the numbers of this line.
    fn sent(&mut self, kind: SpanKind) {
        self.leave(SpanEnd::Done, "");
        if !matches!(kind, SpanKind::Woken { .. }) {
            self.this_replay = self.spans.len();
        }
        let (id, parent) = (self.parent(), self.ids.sent(0, 0));
        self.push(id, parent, kind, self.at, SpanEnd::Done, "");
        self.wait("a worker");
    }

    fn closed(&mut self, close: Close, said: &str) {
        self.leave_as_worker(SpanEnd::Done, said);
        let behind = |mark: &str| said.split_once(mark).map_or(said, |(_, behind)| behind);
        match close {
            Close::Settled => self.phase = Phase::Ended,
            Close::Retry => self.wait("its next try"),
            Close::Deferred => self.wait(behind(": ")),
            Close::Waiting => self.wait(behind("waiting for ")),
            Close::AwaitingApproval => self.wait("an approval"),
        }
    }

    fn tried(&mut self, tried: &TriedLine<'_>) {
        let Phase::Working { since, claim, .. } = self.phase else { return };
        let end = match tried.outcome {
            TriedOutcome::NotTried => return,
            TriedOutcome::Lost(claim) => return self.lost(tried, claim),
            TriedOutcome::Done => SpanEnd::Done,
            TriedOutcome::Failed | TriedOutcome::FoundAbsent => SpanEnd::Failed,
            TriedOutcome::Unknown | TriedOutcome::FoundUnknown => SpanEnd::Unknown,
        };
        let effect = tried.effect;
        let (id, kind) = if self.is_answer_to_lookup(tried) {
            (self.ids.looked_up(claim, effect), SpanKind::LookedUp { effect: effect.into() })
        } else {
            (self.ids.called(claim, effect), SpanKind::Called { effect: effect.into(), attempt: tried.attempt })
        };
        // What is given up on is told once more: it was one call.
        if let Some(span) = self.spans.iter_mut().find(|span| span.id == id) {
            (span.end, span.said) = (end, tried.said.into());
            return;
        }
        let intended = self.row.effects.get(effect).map(|entry| entry.since);
        let intended = intended.filter(|at| matches!(kind, SpanKind::Called { .. }) && (since..=self.at).contains(at));
        self.push(id, self.ids.worked(claim), kind, intended.unwrap_or(since), end, tried.said);
        self.began_later(intended.is_none());
    }

    /// The attempt of a worker that was lost, which a later one wrote down.
    fn lost(&mut self, tried: &TriedLine<'_>, claim: u64) {
        let worked = self.ids.worked(claim);
        let over = self.spans.iter().find(|span| span.id == worked).map(|span| (span.began, span.ended));
        let (began, ended) = match self.phase {
            // Nobody has claimed the event since: it is parked.
            Phase::Working { since, claim: current, .. } if current == claim => (since, Some(self.at)),
            _ => over.unwrap_or((self.at, Some(self.at))),
        };
        let (effect, attempt) = (tried.effect, tried.attempt);
        let kind = SpanKind::Called { effect: effect.into(), attempt };
        self.push(self.ids.called(claim, effect), worked, kind, began, SpanEnd::Unknown, LOST);
        self.began_later(true);
        self.spans.iter_mut().last().into_iter().for_each(|span| span.ended = ended);
    }

    /// Whether a line tells what the partner said of an earlier attempt, and not of one of its own.
    fn is_answer_to_lookup(&self, tried: &TriedLine<'_>) -> bool {
        match tried.outcome {
            TriedOutcome::FoundAbsent | TriedOutcome::FoundUnknown => true,
            TriedOutcome::Done => tried.attempt == 0 || self.is_in_doubt(tried),
            _ => false,
        }
    }

    fn is_in_doubt(&self, tried: &TriedLine<'_>) -> bool {
        let same = |span: &&TimelineSpan| match &span.kind {
            SpanKind::Called { effect, attempt } => effect == tried.effect && *attempt == tried.attempt,
            _ => false,
        };
        let earlier = self.spans[self.this_replay..].iter().rev().find(same);
        earlier.is_some_and(|span| span.end == SpanEnd::Unknown)
    }

    fn wait(&mut self, on: &str) {
        self.phase = Phase::Waiting { since: self.at, line: self.line, on: on.to_owned() };
    }

    /// Leaves a phase at a line that its worker did not write.
    fn leave(&mut self, end: SpanEnd, said: &str) {
        match self.phase {
            // Behind a gap it is not known whether there was a worker.
            Phase::Working { known: false, .. } => (),
            Phase::Working { .. } => self.leave_as_worker(end, said),
            Phase::Waiting { .. } => self.leave_as_worker(SpanEnd::Done, ""),
            Phase::Ended => (),
        }
    }

    /// Leaves a phase at a line that its worker wrote, if one had the event.
    fn leave_as_worker(&mut self, end: SpanEnd, said: &str) {
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Working { since, claim, known } => {
                let (id, parent) = (self.ids.worked(claim), self.parent());
                self.push(id, parent, SpanKind::Worked { claim }, since, end, said);
                self.began_later(!known);
            }
            Phase::Waiting { since, line, on } => {
                let (id, parent) = (self.ids.waited(line), self.parent());
                self.push(id, parent, SpanKind::Waited { waited_for: on }, since, SpanEnd::Done, "");
            }
            Phase::Ended => (),
        }
    }

    /// The span in which the event was sent last.
    fn parent(&self) -> SpanId {
        self.ids.sent(self.numbers.replay, self.numbers.wake)
    }

    fn push(&mut self, id: SpanId, parent: SpanId, kind: SpanKind, began: Timestamp, end: SpanEnd, said: &str) {
        let (ended, said) = (Some(self.at.max(began)), said.to_owned());
        self.spans.push(TimelineSpan { id, parent, kind, began, began_later: false, ended, end, said });
    }

    fn began_later(&mut self, later: bool) {
        self.spans.iter_mut().last().into_iter().for_each(|span| span.began_later = later);
    }

    /// Closes what goes on. A worker whose lease has ended is lost, although nobody has come after it yet.
    fn close(&mut self, now: Timestamp) {
        let first_open = self.spans.len();
        let lost_at = self.row.lease_until.filter(|until| self.row.state == State::Running && *until < now);
        if let Phase::Working { since, claim, .. } = self.phase {
            self.intents(since, claim);
        }
        match self.phase {
            Phase::Waiting { .. } if self.row.state.is_settled() => (),
            _ => self.leave_as_worker(SpanEnd::Open, ""),
        }
        for span in &mut self.spans[first_open..] {
            (span.ended, span.end) = (lost_at, if lost_at.is_some() { SpanEnd::Unknown } else { SpanEnd::Open });
            span.said = if lost_at.is_some() { LOST.into() } else { String::new() };
        }
        self.spans.sort_by_key(|span| (span.began, span.kind.depth()));
    }

    /// The calls that the worker of this claim is about to make, or makes.
    fn intents(&mut self, since: Timestamp, claim: u64) {
        for (effect, entry) in &self.row.effects {
            if entry.progress == Progress::Intent && entry.at >= since {
                let kind = SpanKind::Called { effect: effect.clone(), attempt: entry.attempts };
                self.push(self.ids.called(claim, effect), self.ids.worked(claim), kind, entry.at, SpanEnd::Open, "");
            }
        }
    }
}

impl SpanKind {
    /// The depth of the span in the tree: what begins at one moment is in the order of it.
    fn depth(&self) -> u8 {
        match self {
            SpanKind::Accepted | SpanKind::Replayed { .. } | SpanKind::Approved { .. } | SpanKind::Woken { .. } => 0,
            SpanKind::Waited { .. } => 1,
            SpanKind::Worked { .. } => 2,
            SpanKind::Called { .. } | SpanKind::LookedUp { .. } => 3,
            SpanKind::Ended => 4,
        }
    }
}

#[cfg(test)]
mod tests;
