//! Strict JSON.
//!
//! Two fields of one name in one object are an error: verification, ledger and effects must all see
//! the same event, and parsers differ in which of the two they take.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use shared::base::wrong::step;

/// Reads one JSON value. `None` says that the bytes are not one, without a hint at the cause.
pub(crate) fn parse(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Strict>(bytes).ok().map(|Strict(value)| value)
}

/// The JSON pointers of the numbers that would not be the same once written again: integers beyond 64 bits, and
/// decimals with more digits than a double holds. `value` is what [`parse`] read of these bytes.
pub(crate) fn changed_numbers(bytes: &[u8], value: &Value) -> Vec<String> {
    // Every number that changes was read as a double; most bodies have none.
    if !has_double(value) {
        return Vec::new();
    }
    Scanner { bytes, at: 0, path: Vec::new(), changed: Vec::new() }.scan()
}

fn has_double(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_double),
        Value::Object(fields) => fields.values().any(has_double),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// A walk over bytes that are known to be JSON.
struct Scanner<'b> {
    bytes: &'b [u8],
    at: usize,
    path: Vec<String>,
    changed: Vec<String>,
}

impl Scanner<'_> {
    fn scan(mut self) -> Vec<String> {
        self.value();
        self.changed
    }

    fn value(&mut self) {
        match self.peek() {
            b'{' => self.members(b'}', |scanner, _| {
                let name = scanner.text();
                scanner.peek();
                scanner.at += 1; // the colon
                name
            }),
            b'[' => self.members(b']', |_, index| index.to_string()),
            b'"' => drop(self.text()),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.at += self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count(),
        }
    }

    /// The members of an object or an array, each with its name or its index.
    fn members(&mut self, end: u8, name: impl Fn(&mut Self, usize) -> String) {
        self.at += 1;
        for index in 0.. {
            if self.peek() == end {
                break;
            }
            let name = name(self, index);
            self.path.push(name);
            self.value();
            self.path.pop();
            if self.peek() == b',' {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    fn text(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while self.bytes[self.at] != b'"' {
            self.at += if self.bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        serde_json::from_slice(&self.bytes[start..self.at]).unwrap_or_default()
    }

    fn number(&mut self) {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')).count();
        self.at += len;
        let written = std::str::from_utf8(&rest[..len]).unwrap_or_default();
        if !is_kept(written) {
            self.changed.push(self.path.iter().map(|name| step(name)).collect());
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> u8 {
        self.at += self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.bytes[self.at]
    }
}

/// Whether a number is the same once it was read and written again.
fn is_kept(written: &str) -> bool {
    if written.parse::<i64>().is_ok() || written.parse::<u64>().is_ok() {
        return true;
    }
    written.parse::<f64>().is_ok_and(|read| decimal(&format!("{read:e}")) == decimal(written))
}

/// A number's digits, without zeros at their ends, and the power of ten of the first of them.
fn decimal(written: &str) -> (String, i64) {
    let (mantissa, exponent) = written.split_once(['e', 'E']).unwrap_or((written, "0"));
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let significant = digits.trim_matches('0').to_owned();
    if significant.is_empty() {
        return (significant, 0);
    }
    let exponent: i64 = exponent.trim_start_matches('+').parse().unwrap_or(i64::MAX);
    let first = i64::try_from(whole.len()).unwrap_or(i64::MAX) - i64::try_from(zeros).unwrap_or(i64::MAX);
    (significant, exponent.saturating_add(first))
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

    fn changed(text: &str) -> Vec<String> {
        changed_numbers(text.as_bytes(), &parse(text.as_bytes()).expect("JSON"))
    }

    #[test]
    fn a_number_is_the_same_when_it_is_written_again() {
        let kept = r#"[0, -0, 1.0, 1.10, 25.50, 1e15, 1E+2, 0.1, 1e-7, 9007199254740993, 18446744073709551615,
            -9223372036854775808, 0.30000000000000004, 1.7976931348623157e308, 0.000, -12.5e-3]"#;
        assert_eq!(changed(kept), Vec::<String>::new());
    }

    #[test]
    fn a_number_that_would_change_is_told_by_its_place() {
        let text = r#"{"a": 18446744073709551616, "b": [1, {"c/d": 0.1234567890123456789}], "e\"": "12.5",
            "f": {"~": -99999999999999999999}, "g": 100000000000000000000, "h": [[], {}, [1.5]], "i": 1e-400}"#;
        // 10^20 is a double, digit by digit. What is smaller than any double becomes zero.
        assert_eq!(changed(text), ["/a", "/b/1/c~1d", "/f/~0", "/i"]);
    }
}
