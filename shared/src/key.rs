//! The key: what makes two deliveries the same event.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::flow::{Field, Flow, KeyField, Normalizer};

/// An event's id: the SHA-256 of its key, in hex.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(String);

impl EventId {
    /// Derives the id of an event of this flow. The flow's name and its key's version are part of it.
    pub fn derive(flow: &Flow, payload: &Value) -> Result<Self, KeyError> {
        let mut hash = Parts::new("event").and(&flow.name).and(&flow.key.version.to_string());
        for key in &flow.key.fields {
            hash = hash.and(&part(key, payload)?);
        }
        Ok(EventId(hash.hex()))
    }

    /// Takes an id that somebody names. It may not exist.
    pub fn named(id: impl Into<String>) -> Self {
        EventId(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A field that the key needs has no value that can be part of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` must be a text, a number or a boolean")]
pub struct KeyError(pub String);

/// The queue's message group of an event: its ordering entity, hashed, because it may be an email.
pub fn group(flow: &Flow, payload: &Value) -> Result<String, KeyError> {
    let entity = text(&flow.order_by, payload)?;
    let mut group = Parts::new("group").and(&flow.name).and(&entity).hex();
    group.truncate(32);
    Ok(group)
}

/// The hash of a payload: whether two deliveries under one key say the same.
pub fn fingerprint(payload: &Value) -> String {
    let mut fingerprint = Parts::new("payload").and(&payload.to_string()).hex();
    fingerprint.truncate(32);
    fingerprint
}

fn part<'v>(key: &KeyField, payload: &'v Value) -> Result<Cow<'v, str>, KeyError> {
    let value = text(&key.field, payload)?;
    Ok(key.normalize.iter().fold(value, |value, step| normalize(*step, value)))
}

fn text<'v>(field: &Field, payload: &'v Value) -> Result<Cow<'v, str>, KeyError> {
    match field.of(payload) {
        Some(Value::String(text)) => Ok(Cow::Borrowed(text)),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Cow::Owned(value.to_string())),
        _ => Err(KeyError(field.to_string())),
    }
}

fn normalize(step: Normalizer, value: Cow<'_, str>) -> Cow<'_, str> {
    match step {
        Normalizer::Trim => Cow::Owned(value.trim().to_owned()),
        Normalizer::Lower => Cow::Owned(value.to_lowercase()),
        Normalizer::Sha256 => Cow::Owned(hex(&Sha256::digest(value.as_bytes()))),
    }
}

/// Texts hashed one after another, each behind its length, so that `ab`+`c` is not `a`+`bc`.
struct Parts(Sha256);

impl Parts {
    /// Starts with what is hashed, so that no id is ever a group.
    fn new(purpose: &str) -> Self {
        Parts(Sha256::new()).and(purpose)
    }

    fn and(mut self, part: &str) -> Self {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part.as_bytes());
        self
    }

    fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}
