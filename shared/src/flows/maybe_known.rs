//! Facts about a partner that may not be known: `not known` in their place.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};

use crate::base::time::duration;

/// A fact, or the word that nobody knows it. A file that says so has looked for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MaybeKnown<T> {
    /// It is this.
    Is(T),
    /// It is not published.
    NotKnown,
}

/// What stands for a fact that is not known.
pub(super) const NOT_KNOWN: &str = "not known";

impl<T> MaybeKnown<T> {
    /// The fact, if it is known.
    pub(super) fn known(self) -> Option<T> {
        match self {
            MaybeKnown::Is(known) => Some(known),
            MaybeKnown::NotKnown => None,
        }
    }

    /// Whether it is said that the fact is not known.
    pub(super) fn is_not_known(&self) -> bool {
        matches!(self, MaybeKnown::NotKnown)
    }
}

/// How long a partner remembers our key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KeyWindow(pub(super) Duration);

impl<'de> Deserialize<'de> for KeyWindow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        duration(deserializer).map(KeyWindow)
    }
}

/// Serde's `untagged` would lose the place and the reason of a mistake in the fact.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for MaybeKnown<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KnownVisitor(PhantomData))
    }
}

struct KnownVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for KnownVisitor<T> {
    type Value = MaybeKnown<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value, or `{NOT_KNOWN}`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MaybeKnown<T>, E> {
        if text == NOT_KNOWN {
            return Ok(MaybeKnown::NotKnown);
        }
        T::deserialize(text.into_deserializer()).map(MaybeKnown::Is)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MaybeKnown<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(MaybeKnown::Is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::rates::Rate;

    fn read<T: for<'de> Deserialize<'de>>(yaml: &str) -> Result<MaybeKnown<T>, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn a_fact_is_read_as_it_was_and_may_be_not_known() {
        assert_eq!(read::<KeyWindow>("24h"), Ok(MaybeKnown::Is(KeyWindow(Duration::from_secs(86_400)))));
        assert_eq!(read::<KeyWindow>("not known"), Ok(MaybeKnown::NotKnown));
        let rate = |yaml| read::<Rate>(yaml).expect(yaml).known().map(|rate| (rate.count(), rate.burst()));
        assert_eq!(rate("25/s"), Some((25, 25)));
        assert_eq!(rate("{limit: 600/min, burst: 50}"), Some((600, 50)));
        assert_eq!(rate("not known"), None);
        for (bad, why) in [("unknown", "is not a duration"), ("[1]", "a value, or `not known`")] {
            assert!(read::<KeyWindow>(bad).is_err_and(|error| error.contains(why)), "{bad}");
        }
        assert!(read::<Rate>("fast").is_err_and(|error| error.contains("is not a rate")));
    }
}
