//! How flow files say what is done for an event.

mod check;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

pub(super) use check::check;

use super::template::{Body, Condition, Path};
use super::{Flows, Integration};
use crate::base::time::{DurationText, Timestamp};

/// One side effect.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(try_from = "Written")]
#[cfg_attr(feature = "schema", serde(into = "Written"))]
pub struct Effect {
    /// Its name within the flow. The ledger knows it by this.
    pub id: String,
    /// What is done.
    pub action: Action,
    /// Whether it is done at all for an event. What is not done counts as done for what needs it.
    pub when: Option<Condition>,
    /// The effects that must be done before. Without a word, the one before it; with an empty list,
    /// none: such effects run side by side.
    pub needs: Option<Vec<String>>,
    /// What the partner can be trusted with when nobody knows whether a call happened.
    pub guarantee: Guarantee,
    /// How to find out whether a call happened.
    pub lookup: Option<Lookup>,
    /// What is kept of the answer: a name and a JSON pointer each.
    pub result: BTreeMap<String, String>,
}

/// What an effect does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It calls a partner.
    Call(Call),
    /// It makes or changes a contact of ours. The same again changes nothing.
    Upsert(Upsert),
    /// It brings a human's answer to an event that awaits its approval. The same again changes nothing.
    Decide(Decide),
}

/// A human's answer, as templates over the event that brings it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// What was answered: the value of the button, as the question has it.
    pub question: Body,
    /// `approve` or `reject`.
    pub answer: Body,
    /// Who answered.
    pub by: Body,
}

/// A call to a partner.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The partner's name.
    pub integration: String,
    /// What is sent.
    pub request: Request,
}

/// What is to be known of the flow's contact, as templates over the event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Upsert {
    /// The fields to set; null removes one.
    #[serde(default)]
    pub fields: BTreeMap<String, Body>,
}

/// An effect as it is written: a call with `integration` and `request`, or an `upsert`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
struct Written {
    /// Its name within the flow. The ledger knows it by this.
    id: String,
    /// The partner that is called, by its name in integrations.yaml.
    integration: Option<String>,
    /// What is sent.
    request: Option<Request>,
    /// Instead of a call: what is to be known of a contact of ours.
    upsert: Option<Upsert>,
    /// Instead of a call: a human's answer to an event that awaits approval.
    decide: Option<Decide>,
    /// Whether it is done at all for an event: an expression such as `event.data.phone is defined`.
    when: Option<Condition>,
    /// The effects that must be done before. Without a word, the one above; with an empty list, none.
    needs: Option<Vec<String>>,
    /// What the partner can be trusted with when nobody knows whether a call happened.
    guarantee: Option<Guarantee>,
    /// How to find out whether a call happened.
    lookup: Option<Lookup>,
    /// What is kept of the answer: a name and a JSON pointer each.
    #[serde(default)]
    result: BTreeMap<String, String>,
}

impl TryFrom<Written> for Effect {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { id, integration, request, upsert, decide, when, needs, guarantee, lookup, result } = written;
        let alone = guarantee.is_none() && lookup.is_none() && result.is_empty();
        let ours = match (upsert, decide) {
            (Some(upsert), None) => Some(Action::Upsert(upsert)),
            (None, Some(decide)) => Some(Action::Decide(decide)),
            (None, None) => None,
            (Some(_), Some(_)) => return Err(format!("effect `{id}` does two things: make it two effects")),
        };
        let action = match (integration, request, ours) {
            (Some(integration), Some(request), None) => Action::Call(Call { integration, request }),
            (None, None, Some(ours)) if alone => ours,
            (None, None, Some(_)) => {
                return Err(format!("effect `{id}` calls no partner: it takes no guarantee, lookup or result"));
            }
            _ => return Err(format!("effect `{id}` needs an integration and a request, or an upsert")),
        };
        // What we do ourselves is idempotent by construction.
        let own = if matches!(action, Action::Call(_)) { Guarantee::None } else { Guarantee::Native };
        let guarantee = guarantee.unwrap_or(own);
        Ok(Effect { id, action, when, needs, guarantee, lookup, result })
    }
}

#[cfg(feature = "schema")]
impl From<Effect> for Written {
    fn from(effect: Effect) -> Self {
        let Effect { id, action, when, needs, guarantee, lookup, result } = effect;
        let (call, upsert, decide) = match action {
            Action::Call(call) => (Some(call), None, None),
            Action::Upsert(upsert) => (None, Some(upsert), None),
            Action::Decide(decide) => (None, None, Some(decide)),
        };
        let guarantee = call.as_ref().map(|_| guarantee);
        let (integration, request) = call.map(|Call { integration, request }| (integration, request)).unzip();
        Written { id, integration, request, upsert, decide, when, needs, guarantee, lookup, result }
    }
}

impl Effect {
    /// The names of what is kept of its answer.
    pub fn results(&self) -> impl Iterator<Item = &str> {
        let own: &[&str] = match self.action {
            Action::Call(_) => &[],
            Action::Upsert(_) => &["id", "created"],
            Action::Decide(_) => &["id", "state", "refused"],
        };
        self.result.keys().map(String::as_str).chain(own.iter().copied())
    }

    /// The partner that it calls, if it calls one.
    pub fn integration(&self) -> Option<&str> {
        match &self.action {
            Action::Call(call) => Some(&call.integration),
            Action::Upsert(_) | Action::Decide(_) => None,
        }
    }
}

/// What the partner can be trusted with when nobody knows whether a call happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Guarantee {
    /// It honours our idempotency key: the same call again is harmless.
    Native,
    /// It can be asked whether the call happened.
    Lookup,
    /// Nothing: an unknown outcome is parked for a human. The effect happens at most once.
    #[default]
    None,
}

/// A question to the partner: did it happen?
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// How long the partner needs until what happened can be found. Asking earlier would take what is
    /// on its way for absent.
    #[serde(with = "DurationText")]
    pub after: Duration,
    /// What is asked.
    pub request: LookupRequest,
    /// A JSON pointer into the answer: something there says that it happened.
    pub found: String,
}

/// What a lookup asks: it only reads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct LookupRequest {
    /// The path below the integration's base URL.
    pub path: Path,
}

/// The request that an effect sends, as templates over the event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// The path below the integration's base URL.
    pub path: Path,
    /// The JSON body.
    #[serde(default)]
    pub body: Option<Body>,
}

/// The HTTP methods that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// POST
    Post,
    /// PUT
    Put,
    /// PATCH
    Patch,
    /// DELETE
    Delete,
}

impl Method {
    /// The method's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }
}

impl Flows {
    /// The partner that an effect calls, if it calls one.
    pub fn partner_of(&self, effect: &Effect) -> Option<&Integration> {
        effect.integration().and_then(|name| self.integration(name))
    }

    /// What the partner can be trusted with now, if nobody knows whether a call happened that was first
    /// tried then. A partner that has forgotten our key honours it no more.
    pub fn trust(&self, effect: &Effect, first_tried: Timestamp, now: Timestamp) -> Guarantee {
        // Our own contacts remember for ever.
        let window = self.partner_of(effect).map_or(Duration::MAX, |partner| partner.key_window);
        match effect.guarantee {
            Guarantee::Native if now.since(first_tried) < window => Guarantee::Native,
            Guarantee::Native | Guarantee::Lookup if effect.lookup.is_some() => Guarantee::Lookup,
            Guarantee::Native | Guarantee::Lookup | Guarantee::None => Guarantee::None,
        }
    }
}
