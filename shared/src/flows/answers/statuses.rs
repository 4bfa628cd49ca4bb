//! HTTP statuses in flow files: numbers, ranges, lists.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// HTTP statuses, as ranges with both ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Statuses(pub(in crate::flows) Vec<RangeInclusive<u16>>);

impl Statuses {
    /// Whether a status is one of these.
    pub fn contain(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }
}

/// Statuses in a row, each as a number or a range with both ends.
pub(super) fn ranges(statuses: impl Iterator<Item = u16>) -> Vec<String> {
    let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
    for status in statuses {
        match ranges.last_mut() {
            Some(last) if *last.end() + 1 == status => *last = *last.start()..=status,
            _ => ranges.push(status..=status),
        }
    }
    let written = |range: &RangeInclusive<u16>| match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{}..{}", range.start(), range.end()),
    };
    ranges.iter().map(written).collect()
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StatusesVisitor)
    }
}

struct StatusesVisitor;

impl<'de> Visitor<'de> for StatusesVisitor {
    type Value = Statuses;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status as `503`, a range as `500..599`, or a list of these")
    }

    fn visit_u64<E: de::Error>(self, status: u64) -> Result<Statuses, E> {
        self.visit_str(&status.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Statuses, E> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let status = |text: &str| text.trim().parse::<u16>().ok().filter(|status| (100..=599).contains(status));
        match (status(first), status(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Statuses(vec![first..=last])),
            _ => Err(E::custom(format!("`{text}` is no HTTP status: write `503` or `500..599`, from 100 to 599"))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Statuses, A::Error> {
        let mut all = Vec::new();
        while let Some(Statuses(ranges)) = items.next_element()? {
            all.extend(ranges);
        }
        if all.is_empty() { Err(de::Error::custom("the list of statuses is empty")) } else { Ok(Statuses(all)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_in_a_row_are_written_as_ranges() {
        let statuses = [200, 201, 202, 409, 503, 504];
        assert_eq!(ranges(statuses.into_iter()), ["200..202", "409", "503..504"]);
    }
}
