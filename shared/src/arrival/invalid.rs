//! Events that broke their flow's schema, where the flow parks them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::event::Event;
use super::key::{KeyError, Names};
use super::window::Sighting;
use crate::base::format::FORMAT;
use crate::base::id::{EventId, Parts};
use crate::base::time::Timestamp;
use crate::base::trace::{Trace, TraceState};
use crate::flows::contract::{Contracts, Misfit};
use crate::flows::{Flow, Header, Part};

/// The body of an event that broke its flow's schema, whole, and the names that a key may read beside it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct InvalidBody {
    body: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_batch: Option<u32>,
}

crate::base::masked::prints_only!(InvalidBody as "InvalidBody", in_batch);

/// The reason why a body is no event of its flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEvent {
    /// The flow does not take its shape.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// It cannot be keyed.
    #[error(transparent)]
    Unkeyed(#[from] KeyError),
    /// What is kept is no such body.
    #[error("what is kept of the event cannot be read")]
    Unreadable,
}

impl NoEvent {
    /// Whether a flow could take the body in another version: by its schema, or by what its key makes of it.
    pub fn is_of_shape(&self) -> bool {
        matches!(self, NoEvent::Misfit(_) | NoEvent::Unkeyed(KeyError::NotPlain(_) | KeyError::NoMoment(_)))
    }
}

/// The event of a body by its flow's schema and key, and its place in time, where its key has a window.
pub fn event_of(
    contracts: &Contracts,
    flow: &Flow,
    body: Value,
    names: Names<'_>,
    received_at: Timestamp,
    trace: Trace,
) -> Result<(Event, Option<Sighting>), NoEvent> {
    let (version, payload) = contracts.admit(flow, body)?;
    Ok(Event::sighted(flow, version, payload, names, received_at, trace)?)
}

impl InvalidBody {
    /// A body as its sender sent it.
    pub fn new(body: Value, names: Names<'_>) -> Self {
        let [id, idempotency_key] = [names.id, names.idempotency_key].map(|name| name.map(str::to_owned));
        InvalidBody { body, id, idempotency_key, in_batch: names.in_batch }
    }

    /// The event that stands for the body until its flow takes it. It is never sent.
    pub fn into_event(self, flow: &Flow, received_at: Timestamp, trace: Trace) -> Event {
        let id = self.event_id(flow);
        Event {
            format: FORMAT,
            group: id.to_string(),
            id,
            flow: flow.name.clone(),
            version: flow.version,
            source: flow.on.source.clone(),
            received_at,
            trace,
            tracestate: TraceState::default(),
            replay: 0,
            wake: 0,
            fingerprint: None,
            effects: None,
            payload: json!(self),
        }
    }

    /// The id of the event that stands for the body: two deliveries of the same body are the same event, unless the
    /// flow's key reads a name in which they differ.
    fn event_id(&self, flow: &Flow) -> EventId {
        let reads_id = flow.key.fields.iter().any(|field| field.part == Part::Id);
        let id = self.id.as_deref().filter(|_| reads_id);
        let header = self.idempotency_key.as_deref().filter(|_| flow.key.header != Header::Ignored);
        let hash = Parts::new("invalid").and(&flow.name).and(&self.body.to_string());
        let hash = hash.and(id.unwrap_or_default()).and(header.unwrap_or_default());
        match self.in_batch.filter(|_| header.is_some()) {
            Some(place) => hash.and(&place.to_string()).id(),
            None => hash.id(),
        }
    }

    /// The event that a parked one stands for, if its flow takes it by now, and its place in time, where its key has a
    /// window. It was received when the parked one was.
    pub fn fitted(parked: &Event, flow: &Flow) -> Result<(Event, Option<Sighting>), NoEvent> {
        let kept: InvalidBody = serde_json::from_value(parked.payload.clone()).map_err(|_| NoEvent::Unreadable)?;
        let InvalidBody { body, id, idempotency_key, in_batch } = kept;
        let names = Names { id: id.as_deref(), idempotency_key: idempotency_key.as_deref(), in_batch };
        let trace = parked.trace.clone();
        let (event, sighting) = event_of(&Contracts::of_flow(flow), flow, body, names, parked.received_at, trace)?;
        Ok((Event { tracestate: parked.tracestate.clone(), ..event }, sighting))
    }
}
