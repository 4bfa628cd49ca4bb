//! Enrichments in flow files: what is looked up about an event before its effects.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::template::{Body, Path};
use super::{Flow, Flows};
use crate::base::suggest::suggest;
use crate::base::time::DurationText;
use crate::base::wrong::Wrong;

/// An enrichment. It is looked up once for an event, and the ledger keeps its result: a retry must not
/// send another body under the same key.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[cfg_attr(feature = "schema", serde(into = "Written"))]
#[serde(try_from = "Written")]
pub struct Enrich {
    /// The enrichment's name: templates read `enrich.<id>`.
    pub id: String,
    /// The origin of the result.
    pub from: Origin,
    /// How long a container reuses the result for other events.
    pub cache: Duration,
    /// The fate of the event when the lookup fails.
    pub on_error: OnError,
}

/// The origin of an enrichment's result.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A partner's answer.
    Partner {
        /// The partner's name.
        integration: String,
        /// The path below the partner's base URL.
        path: Path,
        /// The parts of the answer that are kept: a name and a JSON pointer each.
        result: BTreeMap<String, String>,
    },
    /// The database of places, by an IP address.
    Geoip(Body),
}

/// The fate of an event when an enrichment fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// The event goes on without the result: `enrich.<id>` is empty.
    Continue,
    /// The event is tried again, as its policy says.
    #[default]
    Retry,
    /// The event is a dead letter.
    Dead,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
struct Written {
    /// The enrichment's name: templates read `enrich.<id>`.
    id: String,
    /// The partner that is asked, by its name in integrations.yaml.
    integration: Option<String>,
    /// The path below the partner's base URL.
    path: Option<Path>,
    /// The parts of the answer that are kept: a name and a JSON pointer each.
    #[serde(default)]
    result: BTreeMap<String, String>,
    /// The IP address to look up in the database of places, instead of a partner.
    geoip: Option<Body>,
    /// How long a container reuses the result for other events.
    #[serde(default, with = "DurationText")]
    cache: Duration,
    /// The fate of the event when the lookup fails.
    #[serde(default)]
    on_error: OnError,
}

#[cfg(feature = "schema")]
impl From<Enrich> for Written {
    fn from(Enrich { id, from, cache, on_error }: Enrich) -> Self {
        let (integration, path, result, geoip) = match from {
            Origin::Partner { integration, path, result } => (Some(integration), Some(path), result, None),
            Origin::Geoip(ip) => (None, None, BTreeMap::new(), Some(ip)),
        };
        Written { id, integration, path, result, geoip, cache, on_error }
    }
}

impl TryFrom<Written> for Enrich {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written { id, integration, path, result, geoip, cache, on_error } = written;
        let from = match (integration, path, geoip) {
            (Some(integration), Some(path), None) => Origin::Partner { integration, path, result },
            (None, None, Some(ip)) if result.is_empty() => Origin::Geoip(ip),
            (None, None, Some(_)) => return Err(format!("enrich `{id}`: geoip takes no result: it has its own")),
            _ => return Err(format!("enrich `{id}` needs an integration and a path, or geoip")),
        };
        Ok(Enrich { id, from, cache, on_error })
    }
}

/// The mistakes in a flow's enrichments.
pub(super) fn check(flow: &Flow, all: &Flows) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for (index, enrich) in flow.enrich.iter().enumerate() {
        let at = |field: &str| format!("/enrich/{index}{field}");
        if flow.enrich[..index].iter().any(|other| other.id == enrich.id) {
            wrong.push(Wrong::at(at("/id"), format!("two things to find out are called `{}`", enrich.id)));
        }
        match &enrich.from {
            Origin::Partner { integration, .. } if all.integration(integration).is_none() => {
                let what =
                    format!("enrich `{}` asks `{integration}`, which integrations.yaml does not have", enrich.id);
                let known = all.integrations.keys().map(String::as_str);
                wrong.push(Wrong::at(at("/integration"), what).hint(suggest(integration, known)));
            }
            Origin::Partner { result, .. } if result.is_empty() => {
                wrong.push(Wrong::at(at(""), format!("enrich `{}` keeps nothing of the answer", enrich.id)));
            }
            Origin::Partner { .. } | Origin::Geoip(_) => (),
        }
    }
    wrong
}
