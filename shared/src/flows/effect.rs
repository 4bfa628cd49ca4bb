//! Effects in flow files: what is done for an event.

mod check;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

pub(super) use check::check;

use super::template::{Body, Condition, Path};
use super::{AnswerRule, Flows, Integration, ResultAt};
use crate::base::time::{DurationText, Timestamp};

/// One side effect.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(try_from = "Written")]
#[cfg_attr(feature = "schema", serde(into = "Written"))]
pub struct Effect {
    /// The effect's name within the flow. The ledger knows the effect by it, unless the effect was renamed.
    pub id: String,
    /// The names that the effect had before, the oldest first. The ledger and the partner go on knowing it by the oldest.
    pub was: Vec<String>,
    /// The renamed effects of the whole flow, each as a name in the ledger and the id of today: templates read results by
    /// the id of today. The parser fills it in.
    pub(in crate::flows) renamed: Vec<(String, String)>,
    /// The effect's action.
    pub action: Action,
    /// The condition under which the effect is done. For the effects that need it, a skipped effect counts as done.
    pub when: Option<Condition>,
    /// The effects that must be done before. Without a list, the one before it; with an empty list,
    /// none: such effects run side by side.
    pub needs: Option<Vec<String>>,
    /// The partner's guarantee for a call whose outcome is unknown.
    pub guarantee: Guarantee,
    /// The lookup that tells whether a call happened.
    pub lookup: Option<Lookup>,
    /// The parts of the answer that are kept, by name. Without one that is not optional, the effect is not done.
    pub result: BTreeMap<String, ResultAt>,
    /// The meanings of the answers to this effect, before those of its integration.
    pub answers: Vec<AnswerRule>,
}

/// The action of an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A call to a partner.
    Call(Call),
    /// An upsert of a contact. The same again changes nothing.
    Upsert(Upsert),
    /// A human's answer to an event that awaits approval. The same again changes nothing.
    Decide(Decide),
}

/// A human's answer, as templates over the event that brings it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The question: the value of the button that was pressed.
    pub question: Body,
    /// The answer: `approve` or `reject`.
    pub answer: Body,
    /// The name of the human who answered.
    pub by: Body,
}

/// A call to a partner.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The partner's name.
    pub integration: String,
    /// The request that is sent.
    pub request: Request,
}

/// An upsert of the flow's contact, as templates over the event.
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
    /// The effect's name within the flow. The ledger knows the effect by it, unless the effect was renamed.
    id: String,
    /// The names that the effect had before, the oldest first. It keeps its past and its key at the partner.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Vec::is_empty"))]
    was: Vec<String>,
    /// The partner that is called, by its name in integrations.yaml.
    integration: Option<String>,
    /// The request that is sent.
    request: Option<Request>,
    /// An upsert of the flow's contact, instead of a call.
    upsert: Option<Upsert>,
    /// A human's answer to an event that awaits approval, instead of a call.
    decide: Option<Decide>,
    /// The condition under which the effect is done: an expression such as `event.data.phone is defined`.
    when: Option<Condition>,
    /// The effects that must be done before. Without a list, the one above; with an empty list, none.
    needs: Option<Vec<String>>,
    /// The partner's guarantee for a call whose outcome is unknown.
    guarantee: Option<Guarantee>,
    /// The lookup that tells whether a call happened.
    lookup: Option<Lookup>,
    /// The parts of the answer that are kept, by name: a JSON pointer into the body, an expression over `status`,
    /// `headers` and `body` in braces, or `{at: …, optional: true}`.
    #[serde(default)]
    result: BTreeMap<String, ResultAt>,
    /// The meanings of the answers to this effect, before those of its integration. The first row that fits decides.
    #[serde(default)]
    answers: Vec<AnswerRule>,
}

impl TryFrom<Written> for Effect {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { id, was, integration, request, upsert, decide, when, needs, guarantee, lookup, result, answers } =
            written;
        let alone = guarantee.is_none() && lookup.is_none() && result.is_empty() && answers.is_empty();
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
                return Err(format!(
                    "effect `{id}` calls no partner: it takes no guarantee, lookup, result or answers"
                ));
            }
            _ => return Err(format!("effect `{id}` needs an integration and a request, or an upsert")),
        };
        // Upserts and decisions are idempotent by construction.
        let own = if matches!(action, Action::Call(_)) { Guarantee::None } else { Guarantee::Native };
        let guarantee = guarantee.unwrap_or(own);
        Ok(Effect { id, was, renamed: Vec::new(), action, when, needs, guarantee, lookup, result, answers })
    }
}

#[cfg(feature = "schema")]
impl From<Effect> for Written {
    fn from(effect: Effect) -> Self {
        let Effect { id, was, renamed: _, action, when, needs, guarantee, lookup, result, answers } = effect;
        let (call, upsert, decide) = match action {
            Action::Call(call) => (Some(call), None, None),
            Action::Upsert(upsert) => (None, Some(upsert), None),
            Action::Decide(decide) => (None, None, Some(decide)),
        };
        let guarantee = call.as_ref().map(|_| guarantee);
        let (integration, request) = call.map(|Call { integration, request }| (integration, request)).unzip();
        Written { id, was, integration, request, upsert, decide, when, needs, guarantee, lookup, result, answers }
    }
}

impl Effect {
    /// The name by which the ledger and the partner know the effect: its oldest one. A version from before the renaming
    /// may work on the same event, during the deploy or after a roll-back, and must find what was done.
    pub fn ledger_name(&self) -> &str {
        self.was.first().unwrap_or(&self.id)
    }

    /// Whether an event that was accepted with these effects did not have this one.
    pub fn is_new_since(&self, accepted: &[String]) -> bool {
        !self.names().any(|name| accepted.iter().any(|known| known == name))
    }

    /// The renamed effects of the effect's flow, each as a name in the ledger and the id of today.
    pub fn renamed(&self) -> &[(String, String)] {
        &self.renamed
    }

    /// Every name that the effect has or had.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.was.iter().chain([&self.id]).map(String::as_str)
    }

    /// The names of the effect's results.
    pub fn results(&self) -> impl Iterator<Item = &str> {
        let own: &[&str] = match self.action {
            Action::Call(_) => &[],
            Action::Upsert(_) => &["id", "created"],
            Action::Decide(_) => &["id", "state", "refused"],
        };
        self.result.keys().map(String::as_str).chain(own.iter().copied())
    }

    /// The integration that the effect calls, if it calls one.
    pub fn integration(&self) -> Option<&str> {
        match &self.action {
            Action::Call(call) => Some(&call.integration),
            Action::Upsert(_) | Action::Decide(_) => None,
        }
    }
}

/// The partner's guarantee for a call whose outcome is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Guarantee {
    /// The partner honours our idempotency key: the same call again is harmless.
    Native,
    /// The request itself may be repeated: it sets a whole resource, or it upserts. The stale guard keeps a late
    /// repetition from overwriting a newer event's.
    Idempotent,
    /// The partner can be asked whether the call happened.
    Lookup,
    /// The partner guarantees nothing: an unknown outcome is parked for an operator. The effect happens at most once.
    #[default]
    None,
}

/// A lookup: asks the partner whether a call happened.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// How long the partner needs until a call can be found. An earlier lookup would take a call that is
    /// under way for absent.
    #[serde(with = "DurationText")]
    pub after: Duration,
    /// The request of the lookup.
    pub request: LookupRequest,
    /// A JSON pointer into the answer: a value there says that the call happened.
    pub found: String,
}

/// The request of a lookup: it only reads.
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
    /// The method POST.
    Post,
    /// The method PUT.
    Put,
    /// The method PATCH.
    Patch,
    /// The method DELETE.
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

impl Guarantee {
    /// Whether a call that may have happened can simply be made again.
    pub fn allows_repetition(self) -> bool {
        matches!(self, Guarantee::Native | Guarantee::Idempotent)
    }
}

impl Flows {
    /// The partner that an effect calls, if it calls one.
    pub fn partner_of(&self, effect: &Effect) -> Option<&Integration> {
        effect.integration().and_then(|name| self.integration(name))
    }

    /// The partner's guarantee now, for a call whose outcome is unknown and that was first tried
    /// then. A partner that has forgotten our key does not honour it any more.
    pub fn trust(&self, effect: &Effect, first_tried: Timestamp, now: Timestamp) -> Guarantee {
        // Our own contacts remember for ever.
        let window = self.partner_of(effect).map_or(Duration::MAX, |partner| partner.key_window);
        match effect.guarantee {
            Guarantee::Native if now.since(first_tried) < window => Guarantee::Native,
            Guarantee::Idempotent => Guarantee::Idempotent,
            Guarantee::Native | Guarantee::Lookup if effect.lookup.is_some() => Guarantee::Lookup,
            Guarantee::Native | Guarantee::Lookup | Guarantee::None => Guarantee::None,
        }
    }
}
