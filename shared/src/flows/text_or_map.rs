//! Values that flow files write in a short form or a long one.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Reads a text as `T`, or a mapping as `M`. Serde's `untagged` would try both and lose the place and
/// the reason of a mistake in either.
pub(super) fn text_or_map<'de, D, T, M, V>(deserializer: D, expecting: &'static str) -> Result<V, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<String, Error = String> + Into<V>,
    M: Deserialize<'de> + Into<V>,
{
    deserializer.deserialize_any(TextOrMap::<T, M, V>(expecting, PhantomData))
}

struct TextOrMap<T, M, V>(&'static str, PhantomData<(T, M, V)>);

impl<'de, T, M, V> Visitor<'de> for TextOrMap<T, M, V>
where
    T: TryFrom<String, Error = String> + Into<V>,
    M: Deserialize<'de> + Into<V>,
{
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V, E> {
        T::try_from(text.to_owned()).map(Into::into).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V, A::Error> {
        M::deserialize(MapAccessDeserializer::new(map)).map(Into::into)
    }
}
