//! Results in flow files: the parts of an answer that the ledger keeps.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::expression::AnswerExpression;
use super::{LookedUpCall, PartnerAnswer};
use crate::base::wrong::Wrong;
use crate::flows::template::expression;
use crate::flows::text_or_map::text_or_map;

/// A part of an answer that is kept: `/id`, `{{ headers['x-message-id'] }}`, or `{at: /note, optional: true}`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultAt {
    /// The place of the value.
    pub at: AnswerPlace,
    /// Whether the effect counts as done without it.
    pub optional: bool,
}

/// A place in an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPlace {
    /// A JSON pointer into the body.
    Pointer(String),
    /// An expression over the answer.
    Expression(AnswerExpression),
}

/// The long form of a result.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::flows) struct WrittenResult {
    /// A JSON pointer into the body, or an expression over the answer in braces.
    at: AnswerPlace,
    /// Whether the effect counts as done without it.
    #[serde(default)]
    optional: bool,
}

impl ResultAt {
    /// The longest value of a result, in bytes of JSON. Results live in the ledger's row, which every write of the event
    /// pays for.
    pub const MAX_BYTES: usize = 512;

    /// The value in an answer, if it is there and not too long for the ledger's row.
    pub fn of(&self, answer: &PartnerAnswer) -> Option<Value> {
        self.of_lookup(answer, None)
    }

    /// The value in the answer to a lookup, likewise. `sent` is the body of the call that is looked up.
    pub(in crate::flows) fn of_lookup(&self, answer: &PartnerAnswer, call: Option<&LookedUpCall>) -> Option<Value> {
        let value = match &self.at {
            AnswerPlace::Pointer(pointer) => answer.body.as_ref()?.pointer(pointer).filter(|v| !v.is_null()).cloned(),
            AnswerPlace::Expression(expression) => expression.value(answer, call),
        }?;
        (value.to_string().len() <= Self::MAX_BYTES).then_some(value)
    }

    /// The mistake in the place, if it is one.
    pub(in crate::flows) fn check(&self, at: impl Into<String>) -> Option<Wrong> {
        match &self.at {
            AnswerPlace::Pointer(pointer) => check_pointer(at, pointer),
            AnswerPlace::Expression(_) => None,
        }
    }
}

/// The mistake in a JSON pointer into an answer, if it is none.
pub(in crate::flows) fn check_pointer(at: impl Into<String>, pointer: &str) -> Option<Wrong> {
    if pointer.starts_with('/') {
        return None;
    }
    let steps = pointer.trim_start_matches(['$', '.']).replace('.', "/");
    let what = format!("`{pointer}` is not a JSON pointer into the answer");
    Some(Wrong::at(at, what).hint(format!("write `/{steps}`")))
}

impl TryFrom<String> for AnswerPlace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match expression(&text) {
            Some(inner) => AnswerExpression::try_from(inner.to_owned()).map(AnswerPlace::Expression),
            None => Ok(AnswerPlace::Pointer(text)),
        }
    }
}

impl<'de> Deserialize<'de> for AnswerPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AnswerPlace::try_from(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl From<AnswerPlace> for ResultAt {
    fn from(at: AnswerPlace) -> Self {
        ResultAt { at, optional: false }
    }
}

impl From<WrittenResult> for ResultAt {
    fn from(WrittenResult { at, optional }: WrittenResult) -> Self {
        ResultAt { at, optional }
    }
}

impl<'de> Deserialize<'de> for ResultAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let forms = "a place in the answer, as `/id`, `\"{{ headers['x-id'] }}\"` or `{at: /id, optional: true}`";
        text_or_map::<_, AnswerPlace, WrittenResult, _>(deserializer, forms)
    }
}
