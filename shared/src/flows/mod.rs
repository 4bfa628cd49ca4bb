//! The flow language: sources, integrations and flows, as data.
//!
//! Flows are YAML under `infra/flows`, reviewed like code and shipped beside it. [`Flows::parse`]
//! rejects a bad file with its name, line and reason, so that it never reaches an event.

pub mod catalog;
pub mod contract;
pub mod retry;
pub mod template;

mod field;
mod text_or_map;
mod written_breaker;
mod key;
mod order;
mod handshake;
mod scheme;
mod signature;
mod source;
mod split;

mod answers;
mod approval;
mod auth;
mod calls;
mod contact;
mod effect;
mod enrich;
mod format;
mod guard;
mod headers;
mod integration;
mod invoke;
mod log;
mod lookup;
mod maybe_known;
mod query;
mod request;
mod safe_mode;
mod slo;
mod vars;

mod fit;
mod parse;
mod template_reads;
mod warnings;
#[cfg(feature = "schema")]
pub mod schema;
mod parse_error;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

pub use answers::{
    AnswerExpression, AnswerPlace, AnswerRule, LookedUpCall, Meaning, PartnerAnswer, Reading, ResultAt, RetryAfterAt,
    Statuses, default_answers, default_meaning,
};
pub use approval::{Approval, Channel};
pub use auth::{
    Auth, BasicAuth, BodyAuth, ClientCredentials, ClientSecretPlace, HeaderAuth, JwtBearer, QueryAuth, TokenGrant,
};
pub use calls::{CatalogCall, Takes};
pub(crate) use contact::MAX_FIELD_NAME;
pub use contact::{ContactRef, RESERVED_FIELDS, is_field_name, normal_email};
pub use effect::{Action, Call, Decide, Effect, Guarantee, NamedCall, Upsert};
pub use enrich::{Enrich, OnError, Origin};
pub use field::{Field, FieldStep};
pub use fit::{AROUND_A_CALL, OverlongTimeout};
pub use format::{FormLists, Format};
pub use guard::{Cap, Consent, Expression, Guard, QuietHours};
pub use handshake::{Asked, Handshake, HandshakeMethod};
pub use headers::HeaderTemplates;
pub use integration::{About, CheckedAgainst, ErrorAt, Integration};
pub use invoke::{FunctionName, Invoke, LONGEST_RUN};
pub use key::{Bucket, Header, Key, KeyField, Normalizer, Part, Window};
pub use log::LoggedField;
pub use lookup::{Lookup, LookupPlace, UnreadableAnswer};
pub use order::OrderBy;
pub use parse::{File, Problem, Problems, read_yaml, unreadable};
pub use query::QueryTemplates;
pub use request::{ContentType, GraphQl, Method, Request};
pub use safe_mode::{SafeMode, TightCap};
pub use scheme::{CarriedToken, Scheme};
pub use signature::{
    Algorithm, Encoding, HeaderNames, Layout, Piece, Proof, ProofPlace, SecretForm, Signature, Stamp, TimeUnit,
};
pub use slo::{Percent, Slo};
pub use source::{BodyFormat, Envelope, IdAt, MAX_SPLIT_BODY, OtherTypes, SenderRetries, Source};
pub use split::{PartPlace, Split};
pub use vars::{Var, Vars};

use crate::base::retention::{SettledRetention, UNSETTLED_RETENTION};
use crate::base::time::DurationText;
use crate::base::wrong::Wrong;
use crate::flows::retry::Policy;

/// The content of the flows folder: sources, integrations and flows.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    sources: BTreeMap<String, Source>,
    integrations: BTreeMap<String, Integration>,
    flows: BTreeMap<String, Flow>,
    /// The integrations that stand for functions which integrations.yaml does not name.
    unwritten_functions: BTreeSet<String>,
}

impl Flows {
    /// The source of that name.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources.get(name)
    }

    /// The integration of that name.
    pub fn integration(&self, name: &str) -> Option<&Integration> {
        self.integrations.get(name)
    }

    /// The flow of that name.
    pub fn flow(&self, name: &str) -> Option<&Flow> {
        self.flows.get(name)
    }

    /// The names of results that an effect of this flow must have, by any name that the effect has or had.
    pub fn required_results(&self, flow: &str, effect: &str) -> Vec<&str> {
        let known = |known: &&Effect| known.names().any(|name| name == effect);
        let effect = self.flow(flow).and_then(|flow| flow.effects.iter().find(known));
        effect.into_iter().flat_map(Effect::required_results).collect()
    }

    /// How long an event of this flow is remembered after it is settled.
    pub fn remembered(&self, flow: &str) -> SettledRetention {
        self.flow(flow).map_or(UNSETTLED_RETENTION.into(), Flow::retention)
    }

    /// The flows that take events of this type from this source, in the order of their names.
    pub fn routes(&self, source: &str, event_type: &str) -> impl Iterator<Item = &Flow> {
        self.flows.values().filter(move |flow| flow.on.source == source && flow.on.event_type == event_type)
    }

    /// The first flow that takes events of this type from this source.
    pub fn route(&self, source: &str, event_type: &str) -> Option<&Flow> {
        self.routes(source, event_type).next()
    }

    /// The sources, by name.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources.iter().map(|(name, source)| (name.as_str(), source))
    }

    /// The integrations, by name.
    pub fn integrations(&self) -> impl Iterator<Item = (&str, &Integration)> {
        self.integrations.iter().map(|(name, integration)| (name.as_str(), integration))
    }

    /// The flows, by name.
    pub fn all(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values()
    }
}

/// A flow: one kind of event, its key, and what is done for it.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The flow's name, which is its file's name.
    pub name: String,
    /// The version of the flow's schema and effects. It travels with each event.
    pub version: u32,
    /// The events that the flow takes.
    pub on: On,
    /// JSON Schema 2020-12 of an event. Fields that it does not list are dropped.
    pub schema: Value,
    /// The field that names the version of the schema which the sender means. Without it, or without a
    /// value there, the event is of the flow's own version.
    #[serde(default)]
    pub version_at: Option<Field>,
    /// The schemas of older versions that senders may still use.
    #[serde(default)]
    pub older: BTreeMap<u32, Value>,
    /// What becomes of an event whose shape the schema does not take.
    #[serde(default)]
    pub on_invalid: OnInvalid,
    /// The key: two deliveries with the same key are the same event.
    pub key: Key,
    /// The field that names the entity: events that agree in it are processed in order. Without it, the contact is the
    /// entity.
    #[serde(default)]
    pub order_by: Option<OrderBy>,
    /// How long a key is remembered.
    #[serde(with = "DurationText")]
    pub ttl: Duration,
    /// How long people can see what became of a settled event. It is never shorter than `ttl`.
    #[serde(default = "keep", with = "DurationText")]
    pub keep: Duration,
    /// The greatest age of an event before it is given up on, counted from its acceptance or its replay.
    #[serde(default = "max_age", with = "DurationText")]
    pub max_age: Duration,
    /// The contact that an event is about.
    #[serde(default)]
    pub contact: Option<ContactRef>,
    /// The guards: conditions that must hold before anything is done.
    #[serde(default)]
    pub guards: Vec<Guard>,
    /// The enrichments: what is looked up before anything is done.
    #[serde(default)]
    pub enrich: Vec<Enrich>,
    /// The approval that a human must give first.
    #[serde(default)]
    pub approval: Option<Approval>,
    /// The changes to the flow in safe mode.
    #[serde(default)]
    pub safe_mode: Option<SafeMode>,
    /// Whether the schedule replays events whose attempts are spent, a few times: the partner may work again.
    #[serde(default = "auto_replay")]
    pub auto_replay: bool,
    /// Whether a newer event of the same entity (`order_by`) replaces what an older one says. Once a newer
    /// one is applied, the replay of an older one is held back.
    #[serde(default)]
    pub latest_wins: bool,
    /// The service level: how quickly events are settled, and how many of them are.
    #[serde(default)]
    pub slo: Option<Slo>,
    /// The business ids that the logs may tell of an event, by their names.
    #[serde(default)]
    pub log: BTreeMap<String, LoggedField>,
    /// The effects of an event: each after the one before it, unless it says what it `needs`.
    pub effects: Vec<Effect>,
    /// The retry policy of the effects.
    pub retry: Policy,
}

/// What becomes of an event of a verified sender whose shape the schema does not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum OnInvalid {
    /// Its sender is told, and nothing is stored.
    #[default]
    Reject,
    /// It is accepted and parked, to be replayed once the schema takes it.
    Park,
}

/// How long people can see what became of an event, unless the flow says otherwise.
fn keep() -> Duration {
    Duration::from_secs(30 * 24 * 3600)
}

/// The longest time for which people can see what became of an event: a row holds results, and is paid for.
pub(crate) const MAX_KEEP: Duration = Duration::from_secs(400 * 24 * 3600);

/// The default maximum age. It is shorter than the queue's retention: a message that waits longer is lost.
fn max_age() -> Duration {
    Duration::from_secs(24 * 3600)
}

fn auto_replay() -> bool {
    true
}

impl Flow {
    /// The flow, whose effects know which of them were renamed.
    fn with_renamed(mut self) -> Self {
        let renamed =
            |effect: &Effect| effect.was.iter().map(|was| (was.clone(), effect.id.clone())).collect::<Vec<_>>();
        let renamed: Vec<(String, String)> = self.effects.iter().flat_map(renamed).collect();
        self.effects.iter_mut().for_each(|effect| effect.renamed.clone_from(&renamed));
        self
    }

    /// The integrations that an event of the flow asks: for its effects, its enrichments and its question.
    pub fn integrations(&self) -> impl Iterator<Item = &str> {
        let enriched = self.enrich.iter().filter_map(|enrich| match &enrich.from {
            Origin::Partner { integration, .. } => Some(integration.as_str()),
            Origin::Geoip(_) => None,
        });
        let approved = self.approval.iter().map(|approval| approval.integration.as_str());
        self.effects.iter().filter_map(Effect::integration).chain(enriched).chain(approved)
    }

    /// The flow over the integrations, which say what its requests themselves do not, and the mistakes in how its effects
    /// name their calls.
    fn resolve(&mut self, integrations: &BTreeMap<String, Integration>) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        for (index, effect) in self.effects.iter_mut().enumerate() {
            let at = format!("/effects/{index}");
            wrong.extend(effect.resolve(integrations).into_iter().map(|wrong| wrong.under(&at)));
        }
        for (id, request) in self.safe_mode.iter_mut().flat_map(|safe| &mut safe.requests) {
            let effect = self.effects.iter().find(|effect| effect.id == *id);
            let integration = effect.and_then(Effect::integration).and_then(|name| integrations.get(name));
            integration.into_iter().for_each(|integration| request.resolve(integration));
        }
        wrong
    }

    /// The flow without these effects: they are not done for an event.
    #[must_use]
    pub fn without(&self, left_out: &[&Effect]) -> Flow {
        let is_left_out = |id: &str| left_out.iter().any(|effect| effect.id == id);
        let mut flow = self.clone();
        flow.effects.retain(|effect| !is_left_out(&effect.id));
        for effect in &mut flow.effects {
            // Without a list an effect waits for the one before it, which may be gone: then for the one before that.
            effect.needs.iter_mut().for_each(|needs| needs.retain(|need| !is_left_out(need)));
        }
        flow
    }

    /// How long an event of the flow is remembered after it is settled.
    pub fn retention(&self) -> SettledRetention {
        SettledRetention { key: self.ttl, row: self.keep.max(self.ttl) }
    }

    /// The effects that an effect waits for: those that it names, or else the one before it.
    pub fn needs<'f>(&'f self, effect: &'f Effect) -> Vec<&'f str> {
        let before = self.effects.iter().take_while(|other| other.id != effect.id).last();
        match &effect.needs {
            Some(needs) => needs.iter().map(String::as_str).collect(),
            None => before.map(|before| before.id.as_str()).into_iter().collect(),
        }
    }

    /// Whether a guard, an enrichment or an approval stands before the first effect of an event.
    pub fn needs_preparation(&self) -> bool {
        !self.guards.is_empty() || !self.enrich.is_empty() || self.approval.is_some()
    }

    /// Whether a newer event of an entity replaces what an older one says: the flow says so, or an effect sets a whole
    /// resource.
    pub fn replaces_older(&self) -> bool {
        self.latest_wins || self.effects.iter().any(|effect| effect.guarantee == Guarantee::Idempotent)
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

    /// The schemas that a sender may use, by version.
    pub fn schemas(&self) -> impl Iterator<Item = (u32, &Value)> {
        let older = self.older.iter().map(|(version, schema)| (*version, schema));
        older.chain([(self.version, &self.schema)])
    }
}

/// The events that a flow takes.
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
