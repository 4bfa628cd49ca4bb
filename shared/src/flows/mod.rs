//! What happens to an event, as data: sources, integrations and flows.
//!
//! They are YAML under `infra/flows`, reviewed like code and shipped beside it. [`Flows::parse`]
//! refuses a bad file with its name, line and reason, so that it never reaches an event.

pub mod contract;
pub mod retry;
pub mod template;

mod field;
mod forms;
mod hmac;
mod key;
mod source;

mod approval;
mod contact;
mod effect;
mod enrich;
mod guard;
mod safe;

mod parse;
mod reads;
#[cfg(feature = "schema")]
pub mod schema;
mod sentence;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

pub use approval::{Approval, Channel};
pub(crate) use contact::MAX_FIELD_NAME;
pub use contact::{ContactRef, RESERVED_FIELDS, is_field_name};
pub use effect::{Action, Call, Decide, Effect, Guarantee, Lookup, LookupRequest, Method, Request, Upsert};
pub use enrich::{Enrich, OnError, Origin};
pub use field::Field;
pub use guard::{Cap, Consent, Expression, Guard, QuietHours};
pub use hmac::{Algorithm, Encoding, Hmac, Layout, Piece, Stamp};
pub use key::{Bucket, Header, Key, KeyField, Normalizer, Part};
pub use parse::{File, Problem, Problems};
pub use safe::{SafeMode, TightCap};
pub use source::{IdAt, Scheme, Source};

use crate::base::retention::UNSETTLED_RETENTION;
use crate::base::time::DurationText;
use crate::flows::retry::Policy;
use crate::limits::pressure::{Breaker, Pressure};
use crate::limits::rates::Rate;

/// Everything that the flows folder says.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    sources: BTreeMap<String, Source>,
    integrations: BTreeMap<String, Integration>,
    flows: BTreeMap<String, Flow>,
}

impl Flows {
    /// The sender of that name.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources.get(name)
    }

    /// The partner of that name.
    pub fn integration(&self, name: &str) -> Option<&Integration> {
        self.integrations.get(name)
    }

    /// The flow of that name.
    pub fn flow(&self, name: &str) -> Option<&Flow> {
        self.flows.get(name)
    }

    /// How long the key of an event of this flow is remembered after the event has come to its end.
    pub fn remembered(&self, flow: &str) -> Duration {
        self.flow(flow).map_or(UNSETTLED_RETENTION, |flow| flow.ttl)
    }

    /// The flow that listens to events of this type from this source.
    pub fn route(&self, source: &str, event_type: &str) -> Option<&Flow> {
        self.flows.values().find(|flow| flow.on.source == source && flow.on.event_type == event_type)
    }

    /// All senders, by name.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources.iter().map(|(name, source)| (name.as_str(), source))
    }

    /// All partners, by name.
    pub fn integrations(&self) -> impl Iterator<Item = (&str, &Integration)> {
        self.integrations.iter().map(|(name, integration)| (name.as_str(), integration))
    }

    /// All flows, by name.
    pub fn all(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values()
    }
}

/// A partner that effects call.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(from = "WrittenIntegration")]
#[cfg_attr(feature = "schema", serde(into = "WrittenIntegration"))]
pub struct Integration {
    /// Where its API is. Only this names a host: an event never does.
    pub base_url: String,
    /// How we prove ourselves to it.
    pub auth: Auth,
    /// How long one call may take.
    pub timeout: Duration,
    /// The header under which it takes our idempotency key.
    pub idempotency_header: String,
    /// How long it remembers our key. Afterwards a `native` effect is to be trusted no more than any.
    pub key_window: Duration,
    /// How hard it may be pressed.
    pub pressure: Pressure,
}

/// An integration as it is written. Serde's `flatten` would lose the place of whatever is wrong in it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
struct WrittenIntegration {
    /// Where its API is.
    base_url: String,
    /// How we prove ourselves to it.
    #[serde(default)]
    auth: Auth,
    /// How long one call may take.
    #[serde(with = "DurationText")]
    timeout: Duration,
    /// The header under which it takes our idempotency key; empty where it takes none.
    #[serde(default = "idempotency_key")]
    idempotency_header: String,
    /// How long it remembers our key.
    #[serde(default = "key_window", with = "DurationText")]
    key_window: Duration,
    /// How often it may be called.
    rate: Option<Rate>,
    /// How many calls it may have at once.
    concurrency: Option<u32>,
    /// When it is left alone.
    breaker: Option<Breaker>,
}

impl From<WrittenIntegration> for Integration {
    fn from(written: WrittenIntegration) -> Self {
        let WrittenIntegration { base_url, auth, timeout, idempotency_header, key_window, .. } = written;
        let WrittenIntegration { rate, concurrency, breaker, .. } = written;
        let pressure = Pressure { rate, concurrency, breaker };
        Integration { base_url, auth, timeout, idempotency_header, key_window, pressure }
    }
}

fn idempotency_key() -> String {
    "Idempotency-Key".into()
}

/// Stripe's, and so many others'.
fn key_window() -> Duration {
    Duration::from_secs(24 * 3600)
}

/// How we prove ourselves to a partner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// Not at all.
    #[default]
    None,
    /// `Authorization: Bearer <token>`.
    Bearer,
}

/// What one kind of event is, how it is keyed, and what happens for it.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name, which is its file's name.
    pub name: String,
    /// The version of its schema and effects. It travels with each event.
    pub version: u32,
    /// Which events it takes.
    pub on: On,
    /// JSON Schema 2020-12 of an event. What it does not list is dropped.
    pub schema: Value,
    /// Which field names the version of the schema that the sender means. Without it, or without a
    /// value there, the event is of the flow's own version.
    #[serde(default)]
    pub version_at: Option<Field>,
    /// The schemas of older versions that senders may still use.
    #[serde(default)]
    pub older: BTreeMap<u32, Value>,
    /// What makes two deliveries the same event.
    pub key: Key,
    /// Events that agree in this field are processed in order.
    pub order_by: Field,
    /// How long a key is remembered.
    #[serde(with = "DurationText")]
    pub ttl: Duration,
    /// How old an event may get before it is given up on, counted from its acceptance or its replay.
    #[serde(default = "max_age", with = "DurationText")]
    pub max_age: Duration,
    /// Who an event is about.
    #[serde(default)]
    pub contact: Option<ContactRef>,
    /// What must be so before anything is done.
    #[serde(default)]
    pub guards: Vec<Guard>,
    /// What is found out before anything is done.
    #[serde(default)]
    pub enrich: Vec<Enrich>,
    /// What a human must see first.
    #[serde(default)]
    pub approval: Option<Approval>,
    /// What changes while the flow is careful.
    #[serde(default)]
    pub safe_mode: Option<SafeMode>,
    /// Whether the schedule replays what failed as often as the policy allows, a few times: it may have healed.
    #[serde(default = "auto_replay")]
    pub auto_replay: bool,
    /// Whether a newer event of the same entity (`order_by`) replaces what an older one says. Once a newer
    /// one is applied, the replay of an older one is held back.
    #[serde(default)]
    pub latest_wins: bool,
    /// What is done for an event: each after the one before it, unless it says what it `needs`.
    pub effects: Vec<Effect>,
    /// When a failed effect is tried again.
    pub retry: Policy,
}

/// Within what the queue keeps: a message that waits longer is lost to us.
fn max_age() -> Duration {
    Duration::from_secs(24 * 3600)
}

fn auto_replay() -> bool {
    true
}

impl Flow {
    /// The effects that an effect waits for: what it says it needs, or else the one before it.
    pub fn needs<'f>(&'f self, effect: &'f Effect) -> Vec<&'f str> {
        let before = self.effects.iter().take_while(|other| other.id != effect.id).last();
        match &effect.needs {
            Some(needs) => needs.iter().map(String::as_str).collect(),
            None => before.map(|before| before.id.as_str()).into_iter().collect(),
        }
    }

    /// Whether something is asked or found out before the first effect of an event.
    pub fn needs_preparation(&self) -> bool {
        !self.guards.is_empty() || !self.enrich.is_empty() || self.approval.is_some()
    }

    /// The effects that wait for none.
    pub fn first_stage(&self) -> Vec<&Effect> {
        self.effects.iter().filter(|effect| self.needs(effect).is_empty()).collect()
    }

    /// The version of the schema that the sender of this body means.
    pub fn version_of(&self, body: &Value) -> Option<u32> {
        match self.version_at.as_ref().and_then(|field| field.of(body)) {
            None => Some(self.version),
            Some(Value::String(version)) => version.parse().ok(),
            Some(version) => u32::try_from(version.as_u64()?).ok(),
        }
    }

    /// The schema of each version that a sender may use.
    pub fn schemas(&self) -> impl Iterator<Item = (u32, &Value)> {
        let older = self.older.iter().map(|(version, schema)| (*version, schema));
        older.chain([(self.version, &self.schema)])
    }
}

/// Which events a flow takes.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct On {
    /// The source's name.
    pub source: String,
    /// The event's type, as the source calls it.
    #[serde(rename = "type")]
    pub event_type: String,
}
