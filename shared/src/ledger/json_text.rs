//! Values of senders and partners, stored as JSON text.
//!
//! A store's numbers are not JSON's: DynamoDB returns 25 for 25.0, which makes another body under the same key
//! and another plan than a human approved, and it rejects 1e200.

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a value as JSON text.
pub(crate) fn serialize<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_string(value).map_err(|error| S::Error::custom(unquoted(&error)))?;
    serializer.serialize_str(&text)
}

/// Reads a value from JSON text.
pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    serde_json::from_str(&text).map_err(|error| D::Error::custom(unquoted(&error)))
}

/// The kind and place of a JSON error, without the error's own words: they quote what a sender wrote.
pub(crate) fn unquoted(error: &serde_json::Error) -> String {
    format!("{:?} at {} of its JSON", error.classify(), error.column())
}
