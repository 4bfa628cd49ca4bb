//! A breaker as an integration's file writes it: its settings, `off`, or nothing, which is the standard one.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::limits::pressure::Breaker;

/// A breaker as it is written.
#[derive(Clone, Debug)]
pub(super) struct WrittenBreaker(pub(super) Option<Breaker>);

impl Default for WrittenBreaker {
    fn default() -> Self {
        WrittenBreaker(Some(Breaker::STANDARD))
    }
}

impl<'de> Deserialize<'de> for WrittenBreaker {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OffOrSettings)
    }
}

struct OffOrSettings;

impl<'de> Visitor<'de> for OffOrSettings {
    type Value = WrittenBreaker;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`off`, or `{window, min_calls, error_rate, open_for, probes}`")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<WrittenBreaker, E> {
        match word {
            "off" => Ok(WrittenBreaker(None)),
            word => Err(E::custom(format!("`{word}` is no breaker: write `off`, or its settings"))),
        }
    }

    /// Readers of YAML take the word `off` for false.
    fn visit_bool<E: Error>(self, on: bool) -> Result<WrittenBreaker, E> {
        if on { Ok(WrittenBreaker::default()) } else { Ok(WrittenBreaker(None)) }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WrittenBreaker, A::Error> {
        Breaker::deserialize(MapAccessDeserializer::new(map)).map(|breaker| WrittenBreaker(Some(breaker)))
    }
}
