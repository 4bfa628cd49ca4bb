//! An accepted event, as it travels on the queue.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::{self, KeyError, Names};
use super::window::Sighting;
use crate::base::format::{self, FORMAT};
use crate::base::id::EventId;
use crate::base::span_ids::SpanIds;
use crate::base::time::Timestamp;
use crate::base::trace::{SpanId, Trace, TraceState};
use crate::flows::Flow;

/// An event whose sender is verified and whose payload is trimmed to its schema.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The format of the message. One of the version before formats had numbers has none.
    #[serde(default = "format::unnumbered")]
    pub format: u32,
    /// The event's id, derived from its key.
    pub id: EventId,
    /// The flow that acts on the event.
    pub flow: String,
    /// The version of the schema that the payload matched.
    pub version: u32,
    /// The source that sent the event.
    pub source: String,
    /// The moment when the intake received the event.
    pub received_at: Timestamp,
    /// The trace that the event belongs to.
    pub trace: Trace,
    /// What the systems above the sender's span want to be handed on, if they said so.
    #[serde(default, skip_serializing_if = "TraceState::is_empty")]
    pub tracestate: TraceState,
    /// The message group: events of one group are processed in order.
    pub group: String,
    /// The number of times that the event was sent through the queue again: replayed, or approved.
    #[serde(default)]
    pub replay: u32,
    /// The number of times that the event was woken since it was accepted or last replayed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wake: u32,
    /// The hash of the payload, by which the ledger knows it. A message of an older version has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The names of the effects that the flow had when it accepted the event. A replay does no others unless an operator
    /// says so. A message of an older version names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Vec<String>>,
    /// The fields that the flow's schema lists.
    pub payload: Value,
}

crate::base::masked::prints_only!(Event as "Event", id, flow, version, source, received_at, replay, wake);

/// The reason why a message or a kept payload is not worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReadable {
    /// It is no event.
    Malformed,
    /// A newer version of the code sent it, in this format. Only that version may go on with it.
    NewerFormat(u32),
}

impl Event {
    /// Keys a trimmed payload of this version.
    pub fn new(
        flow: &Flow,
        version: u32,
        payload: Value,
        names: Names<'_>,
        received_at: Timestamp,
        trace: Trace,
    ) -> Result<Self, KeyError> {
        Self::sighted(flow, version, payload, names, received_at, trace).map(|(event, _)| event)
    }

    /// The same, with the event's place in time, where its key has a window: its id is that of the first one in it.
    pub fn sighted(
        flow: &Flow,
        version: u32,
        payload: Value,
        names: Names<'_>,
        received_at: Timestamp,
        trace: Trace,
    ) -> Result<(Self, Option<Sighting>), KeyError> {
        let (id, sighting) = key::id_and_sighting(flow, &payload, names, received_at)?;
        let event = Event {
            format: FORMAT,
            id,
            flow: flow.name.clone(),
            version,
            source: flow.on.source.clone(),
            received_at,
            trace,
            tracestate: TraceState::default(),
            group: key::group(flow, version, &payload)?,
            replay: 0,
            wake: 0,
            fingerprint: Some(key::fingerprint(&payload)),
            effects: Some(flow.effects.iter().map(|effect| effect.ledger_name().to_owned()).collect()),
            payload,
        };
        Ok((event, sighting))
    }

    /// The event that stands for a message which is no event, so that a record can be kept of it.
    pub fn malformed(message_id: &str, body: &str, now: Timestamp) -> Self {
        Event {
            format: FORMAT,
            id: EventId::named(message_id),
            flow: "(malformed)".into(),
            version: 0,
            source: "(unknown)".into(),
            received_at: now,
            trace: Trace::start(0, 0, 0),
            tracestate: TraceState::default(),
            group: message_id.to_owned(),
            replay: 0,
            wake: 0,
            fingerprint: None,
            effects: None,
            payload: Value::String(keepable(body)),
        }
    }

    /// The event that stands in for this one, so that a record can be kept of its message although its own row cannot
    /// be read. It has the message's id, and the whole message as its payload, or as much of it as can be kept.
    pub fn stand_in(&self, message_id: &str, body: &str) -> Self {
        let (id, payload) = (EventId::named(message_id), Value::String(keepable(body)));
        Event { id, payload, fingerprint: None, replay: 0, wake: 0, ..self.clone() }
    }

    /// Reads a message.
    pub fn read(body: &str) -> Result<Event, NotReadable> {
        /// What a message of any later format has.
        #[derive(Deserialize)]
        struct Numbered {
            format: u32,
        }
        let newer = |format: u32| (format > FORMAT).then_some(NotReadable::NewerFormat(format));
        match serde_json::from_str::<Event>(body) {
            Ok(event) => newer(event.format).map_or(Ok(event), Err),
            Err(_) => {
                let numbered = serde_json::from_str::<Numbered>(body).ok();
                Err(numbered.and_then(|numbered| newer(numbered.format)).unwrap_or(NotReadable::Malformed))
            }
        }
    }

    /// The event as this version sends it again, under these numbers.
    #[must_use]
    pub fn again(&self, replay: u32, wake: u32) -> Event {
        Event { format: FORMAT, replay, wake, ..self.clone() }
    }

    /// Whether the event was sent through the queue again.
    pub fn is_replay(&self) -> bool {
        self.replay > 0
    }

    /// The ids of the event's spans.
    pub fn span_ids(&self) -> SpanIds {
        SpanIds::of(&self.trace, &self.id)
    }

    /// The header fields that make a request a span of the event's trace, with what the sender's systems handed on. A replay
    /// carries a mark: its trace is the first delivery's.
    pub fn trace_headers(&self, span: SpanId) -> Vec<(String, String)> {
        let parent = ("traceparent".to_owned(), self.trace.child(span).to_string());
        let state = match self.is_replay() {
            true => Cow::Owned(self.tracestate.with_own(&format!("replay:{}", self.replay))),
            false => Cow::Borrowed(&self.tracestate),
        };
        let state = (!state.is_empty()).then(|| ("tracestate".to_owned(), state.to_string()));
        [parent].into_iter().chain(state).collect()
    }

    /// The deduplication id of the event's message.
    ///
    /// SQS remembers an id for five minutes after delivery, too: a replay under the first id would
    /// be dropped with a success. So the id carries the replay number, and the wake number, because an event that an
    /// operator lets go on soon after it began to wait is woken within these five minutes; and that of a first message
    /// its payload's fingerprint, so that only the claim decides between two payloads.
    pub fn deduplication_id(&self) -> String {
        match (self.replay, self.wake, &self.fingerprint) {
            (0, 0, None) => self.id.to_string(),
            (0, 0, Some(fingerprint)) => format!("{}-{fingerprint}", self.id),
            (replay, 0, _) => format!("{}-r{replay}", self.id),
            (replay, wake, _) => format!("{}-r{replay}-w{wake}", self.id),
        }
    }
}

/// The longest text of a message that is kept, in bytes. Written as JSON, it may be twice as long, and an item of the
/// ledger takes 400 KB.
const MAX_TEXT: usize = 180 * 1024;

/// The text of a message that is no event of ours, or cannot be taken for one, as far as it can be kept.
fn keepable(body: &str) -> String {
    if body.len() <= MAX_TEXT {
        return body.to_owned();
    }
    format!("{}… ({} bytes in all)", &body[..body.floor_char_boundary(MAX_TEXT)], body.len())
}

/// Whether a number is zero, and so left out of what is stored.
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SQS takes messages of a megabyte, an item of the ledger 400 KB, and JSON writes two characters for a quote.
    #[test]
    fn of_a_message_that_is_too_long_to_be_kept_the_beginning_is() {
        let event = Event::malformed("m", &"\"é".repeat(350_000), Timestamp::from_secs(1));
        assert!(serde_json::to_string(&event).is_ok_and(|text| text.len() < 400_000));
        assert!(event.payload.as_str().is_some_and(|text| text.ends_with("… (1050000 bytes in all)")));
        assert_eq!(Event::malformed("m", "short", Timestamp::from_secs(1)).payload, "short");
    }
}
