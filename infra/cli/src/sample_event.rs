//! Sample events from files: a body alone, or `{"headers": {…}, "body": {…}}`.

use std::borrow::Cow;

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use shared::arrival::event::Event;
use shared::arrival::key::{self, KeyError, Names};
use shared::arrival::window::Sighting;
use shared::base::time::Timestamp;
use shared::base::trace::Trace;
use shared::flows::contract::Contracts;
use shared::flows::{Flow, Flows, IdAt};

/// An event as a sender sends it.
#[derive(Debug)]
pub(crate) struct SampleEvent {
    pub(crate) body: Value,
    headers: Map<String, Value>,
}

/// Why the intake would not accept an event. It names no value.
#[derive(Debug)]
pub(crate) struct NotAccepted(pub(crate) String);

impl SampleEvent {
    /// Reads an event from its JSON.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let body: Value = serde_json::from_str(text).context("the event is not JSON")?;
        Ok(match body {
            Value::Object(mut both) if is_wrapped(&both) => {
                let headers = both.remove("headers").and_then(|headers| headers.as_object().cloned());
                SampleEvent { body: both.remove("body").unwrap_or_default(), headers: headers.unwrap_or_default() }
            }
            body => SampleEvent { body, headers: Map::new() },
        })
    }

    /// The flows that take an event of this type.
    pub(crate) fn flows<'f>(&self, flows: &'f Flows) -> Vec<&'f Flow> {
        let takes = |flow: &&Flow| {
            let source = flows.source(&flow.on.source);
            source.and_then(|source| source.type_of(&self.body)).is_some_and(|name| name == flow.on.event_type)
        };
        flows.all().filter(takes).collect()
    }

    /// The event that the intake would make of it for a flow: validated, trimmed, keyed.
    pub(crate) fn event(&self, flow: &Flow, flows: &Flows, now: Timestamp) -> Result<Event, NotAccepted> {
        let admitted = Contracts::of_flow(flow).admit(flow, self.body.clone());
        let (version, payload) = admitted.map_err(|why| NotAccepted(why.to_string()))?;
        let id = self.id(flow, flows);
        let made = Event::new(flow, version, payload, self.names(id.as_deref()), now, Trace::start(0, 0, 0));
        made.map_err(|error| NotAccepted(error.to_string()))
    }

    /// The place in time of the event that was made of it, where its key has a window.
    pub(crate) fn sighting(&self, flow: &Flow, flows: &Flows, made: &Event) -> Result<Option<Sighting>, KeyError> {
        let id = self.id(flow, flows);
        key::sighting(flow, &made.payload, self.names(id.as_deref()), made.received_at)
    }

    fn names<'n>(&'n self, id: Option<&'n str>) -> Names<'n> {
        Names { id, idempotency_key: self.header("idempotency-key"), in_batch: None }
    }

    fn id(&self, flow: &Flow, flows: &Flows) -> Option<String> {
        let source = flows.source(&flow.on.source)?;
        match source.id_at.as_ref()? {
            IdAt::Field(_) => source.id_in(&self.body).map(Cow::into_owned),
            IdAt::Header { header } => self.header(header).map(str::to_owned),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))?.1.as_str()
    }
}

fn is_wrapped(fields: &Map<String, Value>) -> bool {
    fields.len() == 2 && fields.contains_key("body") && fields.get("headers").is_some_and(Value::is_object)
}
