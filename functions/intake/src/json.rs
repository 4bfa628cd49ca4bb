//! Strict JSON.
//!
//! Two fields of one name in one object are an error: verification, ledger and effects must all see
//! the same event, and parsers differ in which of the two they take.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads one JSON value. `None` says that the bytes are not one, without a hint at the cause.
pub(crate) fn parse(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Strict>(bytes).ok().map(|Strict(value)| value)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = fields.next_entry::<String, Strict>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a field stands twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_json() {
        let text = r#"{"a": [1, -2, 2.5, null, true, "ü\u0000"], "b": {"a": {}}}"#;
        assert_eq!(parse(text.as_bytes()), serde_json::from_str(text).ok());
    }

    #[test]
    fn refuses_what_parsers_differ_about() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        for bad in [
            &br#"{"a": 1, "a": 2}"#[..],
            br#"[{"x": {"a": 1, "\u0061": 2}}]"#,
            b"1e400",
            b"{} {}",
            b"",
            b"NaN",
            b"\"\xff\xfe\"",
            b"\xef\xbb\xbf{}",
            deep.as_bytes(),
        ] {
            assert_eq!(parse(bad), None, "{}", String::from_utf8_lossy(&bad[..bad.len().min(40)]));
        }
    }
}
