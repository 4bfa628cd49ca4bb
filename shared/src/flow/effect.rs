//! How flow files say what is done for an event.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Flow, Flows};
use crate::template::{Body, Path};
use crate::time::{Timestamp, duration};

/// One side effect: a call to a partner.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// Its name within the flow. The ledger knows it by this.
    pub id: String,
    /// The partner that is called.
    pub integration: String,
    /// The effects that must be done before. Without a word, the one before it; with an empty list,
    /// none: such effects run side by side.
    #[serde(default)]
    pub needs: Option<Vec<String>>,
    /// What the partner can be trusted with when nobody knows whether a call happened.
    #[serde(default)]
    pub guarantee: Guarantee,
    /// How to find out whether a call happened.
    #[serde(default)]
    pub lookup: Option<Lookup>,
    /// What is sent.
    pub request: Request,
    /// What is kept of the answer: a name and a JSON pointer each.
    #[serde(default)]
    pub result: BTreeMap<String, String>,
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
    /// What the partner can be trusted with now, if nobody knows whether a call happened that was first
    /// tried then. A partner that has forgotten our key honours it no more.
    pub fn trust(&self, effect: &Effect, first_tried: Timestamp, now: Timestamp) -> Guarantee {
        let window = self.integration(&effect.integration).map(|partner| partner.key_window).unwrap_or_default();
        match effect.guarantee {
            Guarantee::Native if now.since(first_tried) < window => Guarantee::Native,
            Guarantee::Native | Guarantee::Lookup if effect.lookup.is_some() => Guarantee::Lookup,
            Guarantee::Native | Guarantee::Lookup | Guarantee::None => Guarantee::None,
        }
    }
}

/// What is wrong with a flow's effects.
pub(super) fn check(flow: &Flow, all: &Flows) -> Vec<String> {
    let mut wrong = Vec::new();
    if flow.effects.is_empty() {
        wrong.push("effects is empty: this flow would do nothing".into());
    }
    for (index, effect) in flow.effects.iter().enumerate() {
        let before: Vec<&str> = flow.effects[..index].iter().map(|effect| effect.id.as_str()).collect();
        wrong.extend(check_one(effect, &before, all).map(|what| format!("effect `{}` {what}", effect.id)));
    }
    wrong
}

fn check_one<'c>(effect: &'c Effect, before: &'c [&str], all: &Flows) -> impl Iterator<Item = String> + use<'c> {
    let unmet = effect.needs.iter().flatten().find(|need| !before.contains(&need.as_str()));
    let partner = all.integration(&effect.integration);
    let keyless = partner.is_some_and(|partner| partner.idempotency_header.is_empty());
    [
        before.contains(&effect.id.as_str()).then(|| "has the name of another".to_owned()),
        unmet.map(|need| format!("needs `{need}`, which does not stand before it")),
        partner.is_none().then(|| format!("calls `{}`, which integrations.yaml does not have", effect.integration)),
        (effect.guarantee == Guarantee::Native && keyless)
            .then(|| "is native, but its partner takes no key".to_owned()),
        (effect.guarantee == Guarantee::Lookup && effect.lookup.is_none())
            .then(|| "has the guarantee lookup, but does not say how to look it up".to_owned()),
    ]
    .into_iter()
    .flatten()
}
