//! The ids of an event's spans.

use super::id::{EventId, Parts};
use super::trace::{SpanId, Trace};

/// The ids of an event's spans, each a hash of what the span stands for: every worker computes the same, and so does who
/// reads the row after the worker was lost.
///
/// What is done under a claim is known by the claim's number, the epoch, and not by the attempt's: an attempt that a
/// partner's outage spent, or that was never made, is given back, and its number comes again.
///
/// Trace and event are hashed once, to a number that each id's own hash begins with: it fits into one block.
#[derive(Clone, Copy, Debug)]
pub struct SpanIds(u64);

impl SpanIds {
    /// The ids of the spans of this event in this trace.
    pub fn of(trace: &Trace, event: &EventId) -> Self {
        let parts = Parts::new("spans").and_bytes(&trace.trace_id().to_be_bytes()).and(event.as_str());
        SpanIds(parts.first_bytes())
    }

    /// The span in which the event was put on the queue under these numbers: accepted, replayed, or woken. It is the
    /// parent of all that is done with its message.
    pub fn sent(&self, replay: u32, wake: u32) -> SpanId {
        self.hash("sent", &[replay.into(), wake.into()], "")
    }

    /// The span of a worker's work under a claim.
    pub fn worked(&self, claim: u64) -> SpanId {
        self.hash("worked", &[claim], "")
    }

    /// The span of the claim itself.
    pub fn claimed(&self, claim: u64) -> SpanId {
        self.hash("claimed", &[claim], "")
    }

    /// The span of a guard that was asked under a claim, by its place in the flow.
    pub fn guarded(&self, claim: u64, place: usize) -> SpanId {
        self.hash("guarded", &[claim, place as u64], "")
    }

    /// The span of an effect's call under a claim.
    pub fn called(&self, claim: u64, effect: &str) -> SpanId {
        self.hash("called", &[claim], effect)
    }

    /// The span of the question, under a claim, whether an effect happened.
    pub fn looked_up(&self, claim: u64, effect: &str) -> SpanId {
        self.hash("looked_up", &[claim], effect)
    }

    /// The span of a question, under a claim, that belongs to no effect: for an enrichment, by its id.
    pub fn asked(&self, claim: u64, about: &str) -> SpanId {
        self.hash("asked", &[claim], about)
    }

    /// The span of a request for an integration's token under a claim, by how many the claim's worker has made.
    pub fn token_fetched(&self, claim: u64, earlier: u64, integration: &str) -> SpanId {
        self.hash("token_fetched", &[claim, earlier], integration)
    }

    /// The span of a wait that began in this line of the history. Only who reads the row has it.
    pub(crate) fn waited(&self, line: usize) -> SpanId {
        self.hash("waited", &[line as u64], "")
    }

    /// The span of an end that no worker made.
    pub(crate) fn ended(&self, claim: u64) -> SpanId {
        self.hash("ended", &[claim], "")
    }

    fn hash(&self, what: &str, numbers: &[u64], name: &str) -> SpanId {
        let parts = Parts::new(what).and_bytes(&self.0.to_be_bytes());
        let parts = numbers.iter().fold(parts, |parts, number| parts.and_bytes(&number.to_be_bytes()));
        SpanId::new(parts.and(name).first_bytes())
    }
}
