//! How flow files say what is done for an event.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Flow, Flows, Integration, Wrong};
use crate::contact;
use crate::template::{Body, Condition, Path};
use crate::time::{Timestamp, duration};

/// One side effect.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
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
#[serde(deny_unknown_fields)]
pub struct Upsert {
    /// The fields to set; null removes one.
    #[serde(default)]
    pub fields: BTreeMap<String, Body>,
}

/// An effect as it is written: a call with `integration` and `request`, or an `upsert`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    integration: Option<String>,
    request: Option<Request>,
    upsert: Option<Upsert>,
    decide: Option<Decide>,
    when: Option<Condition>,
    needs: Option<Vec<String>>,
    guarantee: Option<Guarantee>,
    lookup: Option<Lookup>,
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

impl Effect {
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
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// How long the partner needs until what happened can be found. Asking earlier would take what is
    /// on its way for absent.
    #[serde(deserialize_with = "duration")]
    pub after: Duration,
    /// What is asked.
    pub request: LookupRequest,
    /// A JSON pointer into the answer: something there says that it happened.
    pub found: String,
}

/// What a lookup asks: it only reads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupRequest {
    /// The path below the integration's base URL.
    pub path: Path,
}

/// The request that an effect sends, as templates over the event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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

/// What is wrong with a flow's effects.
pub(super) fn check(flow: &Flow, all: &Flows) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if flow.effects.is_empty() {
        wrong.push(Wrong::at("/effects", "effects is empty: this flow would do nothing"));
    }
    for (index, effect) in flow.effects.iter().enumerate() {
        let before: Vec<&str> = flow.effects[..index].iter().map(|effect| effect.id.as_str()).collect();
        if matches!(effect.action, Action::Upsert(_)) && flow.contact.is_none() {
            let what = format!("effect `{}` upserts a contact, but the flow does not say which", effect.id);
            let wrong_here = Wrong::at(format!("/effects/{index}/upsert"), what);
            wrong.push(wrong_here.hint("add `contact: {tenant: …, email: …}` to the flow"));
        }
        wrong.extend(check_one(effect, &before, all).map(|wrong| wrong.under(&format!("/effects/{index}"))));
    }
    wrong
}

fn check_one<'c>(effect: &'c Effect, before: &'c [&str], all: &Flows) -> impl Iterator<Item = Wrong> + use<'c> {
    let unmet = effect.needs.iter().flatten().position(|need| !before.contains(&need.as_str()));
    let partner = all.partner_of(effect);
    let stranger = effect.integration().filter(|name| all.integration(name).is_none());
    let fields = match &effect.action {
        Action::Upsert(upsert) => upsert.fields.keys().find(|name| !contact::is_field_name(name)),
        Action::Call(_) | Action::Decide(_) => None,
    };
    let keyless = partner.is_some_and(|partner| partner.idempotency_header.is_empty());
    let wrong = |at: &str, what: String| Wrong::at(at, format!("effect `{}` {what}", effect.id));
    [
        before.contains(&effect.id.as_str()).then(|| wrong("/id", "has the name of another".into())),
        unmet.map(|index| {
            let need = effect.needs.iter().flatten().nth(index).map_or("", String::as_str);
            wrong(&format!("/needs/{index}"), format!("needs `{need}`, which does not stand before it"))
        }),
        stranger.map(|name| wrong("/integration", format!("calls `{name}`, which integrations.yaml does not have"))),
        fields.map(|name| {
            wrong(
                &format!("/upsert/fields/{name}"),
                format!("sets `{name}`, which no field of a contact can be called"),
            )
        }),
        (effect.guarantee == Guarantee::Native && keyless)
            .then(|| wrong("/guarantee", "is native, but its partner takes no key".into())),
        (effect.guarantee == Guarantee::Lookup && effect.lookup.is_none())
            .then(|| wrong("/guarantee", "has the guarantee lookup, but does not say how to look it up".into())),
    ]
    .into_iter()
    .flatten()
}
