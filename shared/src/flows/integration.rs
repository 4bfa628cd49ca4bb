//! Integrations: the partners that effects call, as `integrations.yaml` and the catalogue write them.
//!
//! Both write the same fields. What `integrations.yaml` says goes before what the catalogue says, field by field:
//! variables, header fields, query values and calls by their names, rows of `answers` by their order.

mod base_url;
mod check;
mod resolve;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

pub(super) use base_url::is_authority;
pub(super) use resolve::{KEY_WINDOW, Resolved, resolve};

use super::answers::check_pointer;
use super::maybe_known::{KeyWindow, MaybeKnown};
use super::vars::{Vars, WrittenVar};
use super::written_breaker::WrittenBreaker;
use super::{AnswerRule, Auth, CatalogCall, Format, FunctionName, HeaderTemplates, QueryTemplates};
use crate::base::time::optional_duration;
use crate::base::wrong::Wrong;
use crate::limits::pressure::Pressure;
use crate::limits::rates::Rate;

/// An integration: a partner that effects call.
#[derive(Clone, Debug, Default)]
pub struct Integration {
    /// The partner of the catalogue that it uses, if it uses one.
    pub uses: Option<String>,
    /// Where the facts about the partner come from.
    pub about: Option<About>,
    /// The variables that templates read.
    pub vars: Vars,
    /// The base URL of the partner's API. Only this names a host: an event never does. A function has none.
    pub base_url: String,
    /// The Lambda function of the team's own that the integration stands for, instead of a partner's API.
    pub function: Option<FunctionName>,
    /// The way in which we authenticate to the partner.
    pub auth: Auth,
    /// The header fields of every request.
    pub headers: HeaderTemplates,
    /// The query of every request.
    pub query: QueryTemplates,
    /// The form in which bodies are sent.
    pub format: Format,
    /// Where the partner's answers say what is wrong.
    pub error: ErrorAt,
    /// The longest time of one call.
    pub timeout: Duration,
    /// The header under which the partner takes our idempotency key.
    pub idempotency_header: String,
    /// How long the partner remembers our key. Afterwards a `native` effect has no more guarantee than any other.
    pub key_window: Duration,
    /// The limits on calls to the partner.
    pub pressure: Pressure,
    /// The fields of which the files say that they are not known.
    pub not_known: Vec<&'static str>,
    /// The meanings of this partner's answers, where they differ from the defaults. The first row that fits decides.
    pub answers: Vec<AnswerRule>,
    /// The calls that effects may name.
    pub calls: BTreeMap<String, CatalogCall>,
    /// Whether all of it could be read: the file of the partner that it uses, too.
    pub(super) is_whole: bool,
}

/// Where a partner's answer says what is wrong: what a dead letter may quote. Without it, the usual places are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct ErrorAt {
    /// A JSON pointer to the partner's code of the error.
    #[serde(default)]
    pub code: Option<String>,
    /// A JSON pointer to the partner's sentence.
    #[serde(default)]
    pub message: Option<String>,
}

impl ErrorAt {
    /// The mistakes in it.
    pub(super) fn check(&self) -> Vec<Wrong> {
        let code = self.code.iter().filter_map(|pointer| check_pointer("/error/code", pointer));
        let message = self.message.iter().filter_map(|pointer| check_pointer("/error/message", pointer));
        code.chain(message).collect()
    }
}

/// An integration as it is written, here or in the catalogue. Serde's `flatten` would lose the place of a mistake in it.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenIntegration {
    /// The partner of the catalogue that it uses: `catalog/partners/<name>.yaml`. What stands here goes before it, field
    /// by field.
    uses: Option<String>,
    /// Where the facts of a catalogue file come from.
    about: Option<About>,
    /// The variables that templates read as `vars.<name>`: a value, or `{secret: true}`.
    #[serde(default)]
    vars: BTreeMap<String, WrittenVar>,
    /// The base URL of the partner's API. It may read `vars`.
    base_url: Option<String>,
    /// The Lambda function of the team's own that the integration stands for, instead of a partner's API.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    invoke: Option<FunctionName>,
    /// The way in which we authenticate to the partner.
    auth: Option<Auth>,
    /// The header fields of every request. Their templates may read `vars`.
    #[serde(default)]
    headers: HeaderTemplates,
    /// The query of every request. Its templates may read `vars`.
    #[serde(default)]
    query: QueryTemplates,
    /// The form in which bodies are sent: `json`, `form` or `text`.
    format: Option<Format>,
    /// Where the partner's answers say what is wrong: what a dead letter may quote.
    error: Option<ErrorAt>,
    /// The longest time of one call.
    #[serde(default, deserialize_with = "optional_duration")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::base::time::DurationText"),
        serde(serialize_with = "super::schema::some", skip_serializing_if = "Option::is_none")
    )]
    timeout: Option<Duration>,
    /// The header under which the partner takes our idempotency key; empty where it takes none. Without it,
    /// `Idempotency-Key`.
    idempotency_header: Option<String>,
    /// How long the partner remembers our key. Without it, 24h. What is `not known` counts as 1h.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    key_window: Option<MaybeKnown<KeyWindow>>,
    /// The highest rate of calls. What is `not known` is no limit.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    rate: Option<MaybeKnown<Rate>>,
    /// The most calls at once.
    concurrency: Option<u32>,
    /// The circuit breaker: when calls stop, and for how long. Without it, a standard one is in force; `off` takes that
    /// away.
    breaker: Option<WrittenBreaker>,
    /// The meanings of this partner's answers, where they differ from the defaults. The first row that fits decides.
    #[serde(default)]
    answers: Vec<AnswerRule>,
    /// Calls that effects name: `call: <integration>.<name>`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "BTreeMap::is_empty"))]
    calls: BTreeMap<String, CatalogCall>,
}

/// Where the facts of a catalogue file come from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The pages that were read, as addresses or titles.
    pub docs: String,
    /// The month in which they were read: `2026-11`.
    pub checked: String,
    /// What the requests were checked against.
    pub against: CheckedAgainst,
    /// What was not found out, or holds only in part.
    #[serde(default)]
    pub note: Option<String>,
}

/// What a file of the catalogue was checked against: the requests to a partner, or the scheme of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum CheckedAgainst {
    /// The partner's published description of its API.
    Openapi,
    /// The partner's own client library.
    Library,
    /// A signature that the sender publishes with its secret.
    Vector,
    /// The partner's documentation only.
    #[default]
    Documentation,
}

impl WrittenIntegration {
    /// The partner of the catalogue that it uses.
    pub(super) fn uses(&self) -> Option<&str> {
        self.uses.as_deref()
    }

    /// Whether a field, or an item of it, is written.
    fn has(&self, field: &str, item: Option<&str>) -> bool {
        let item = item.unwrap_or_default();
        match field {
            "uses" => self.uses.is_some(),
            "about" => self.about.is_some(),
            "vars" => self.vars.contains_key(item),
            "base_url" => self.base_url.is_some(),
            "invoke" => self.invoke.is_some(),
            "auth" => self.auth.is_some(),
            "headers" => self.headers.contains(item),
            "query" => self.query.0.contains_key(item),
            "format" => self.format.is_some(),
            "error" => self.error.is_some(),
            "timeout" => self.timeout.is_some(),
            "idempotency_header" => self.idempotency_header.is_some(),
            "key_window" => self.key_window.is_some(),
            "rate" => self.rate.is_some(),
            "concurrency" => self.concurrency.is_some(),
            "breaker" => self.breaker.is_some(),
            "calls" => self.calls.contains_key(item),
            _ => false,
        }
    }
}
