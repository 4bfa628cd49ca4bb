//! Named calls: requests that a partner's file writes once, with what is known of them.

mod check;
mod inline;

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{AnswerRule, Guarantee, Lookup, Request, ResultAt};

/// A call that a partner's file names. Its templates read `with`, `vars`, `key`, `flow` and `now`: what an event looks
/// like is each flow's own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct CatalogCall {
    /// What it does, and where that is documented.
    #[serde(default)]
    pub about: Option<String>,
    /// The request that is sent.
    pub request: Request,
    /// The names in an effect's `with`, each `required` or `optional`. What is optional and not given is left out.
    #[serde(default)]
    pub takes: BTreeMap<String, Takes>,
    /// The parts of the answer that are kept. An effect's own go before them.
    #[serde(default)]
    pub result: BTreeMap<String, ResultAt>,
    /// The partner's guarantee for a call whose outcome is unknown, unless the effect says another one.
    #[serde(default)]
    pub guarantee: Guarantee,
    /// The lookup that tells whether a call happened, unless the effect has its own.
    #[serde(default)]
    pub lookup: Option<Lookup>,
    /// The meanings of the answers to this call, after those of the effect and before those of the integration.
    #[serde(default)]
    pub answers: Vec<AnswerRule>,
}

/// Whether an effect has to give something to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Takes {
    /// The call needs it.
    Required,
    /// The call leaves it out where it is not given.
    Optional,
}
