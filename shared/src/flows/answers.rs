//! What a partner's answer means for the call: as the flow's author declares it, else the safe default.
//!
//! Few statuses surely say that nothing happened. A proxy answers 503 or 408 after the partner has acted, a 409 may
//! mean "exists already", a 303 that it is done. So the default is doubt, and whoever knows the partner better says so.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use super::{Effect, Flows};

/// The meaning of an answer for the call that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// The call happened.
    Done,
    /// The call surely did nothing. It is tried again, by the policy.
    Retry,
    /// The call surely did nothing, and will not.
    Failed,
    /// The call may have happened.
    InDoubt,
    /// The partner did not take our credentials: the call surely did nothing, and the fault is ours.
    #[serde(skip)]
    CredentialsRejected,
}

impl Meaning {
    /// The meaning in words, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Meaning::Done => "done",
            Meaning::Retry => "retry",
            Meaning::Failed => "failed",
            Meaning::InDoubt => "in doubt",
            Meaning::CredentialsRejected => "credentials rejected",
        }
    }
}

/// One row of the table from answers to meanings. The first row that fits decides.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct AnswerRule {
    /// The HTTP statuses that the row is about: `503`, `500..599`, or a list of these.
    pub status: Statuses,
    /// What such an answer means: `done`, `retry`, `failed` or `in_doubt`.
    pub means: Meaning,
}

/// HTTP statuses, as ranges with both ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Statuses(pub(super) Vec<RangeInclusive<u16>>);

impl Statuses {
    /// Whether a status is one of these.
    pub fn contain(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }
}

impl Flows {
    /// The meaning of a status for an effect's call: by the effect's table, then its integration's, then the default.
    pub fn meaning(&self, effect: &Effect, status: u16) -> Meaning {
        let partner = self.partner_of(effect).into_iter().flat_map(|partner| &partner.answers);
        let declared = effect.answers.iter().chain(partner).find(|rule| rule.status.contain(status));
        declared.map_or_else(|| default_meaning(status), |rule| rule.means)
    }

    /// The table in force for an effect's call, as one line: each meaning with its statuses. What it does not list is
    /// in doubt.
    pub fn answers_in_force(&self, effect: &Effect) -> String {
        let meanings = [Meaning::Done, Meaning::Retry, Meaning::Failed, Meaning::CredentialsRejected];
        let listed = meanings.into_iter().filter_map(|meaning| {
            let ranges = ranges((100..=599).filter(|status| self.meaning(effect, *status) == meaning));
            (!ranges.is_empty()).then(|| format!("{} {}", meaning.as_str(), ranges.join(", ")))
        });
        listed.chain(["in doubt all others".to_owned()]).collect::<Vec<_>>().join("; ")
    }
}

/// Statuses in a row, each as a number or a range with both ends.
fn ranges(statuses: impl Iterator<Item = u16>) -> Vec<String> {
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

/// The meaning of a status that no table names.
pub fn default_meaning(status: u16) -> Meaning {
    match status {
        200..=299 => Meaning::Done,
        429 => Meaning::Retry,
        401 | 403 => Meaning::CredentialsRejected,
        400 | 404 | 405 | 410 | 413 | 415 | 422 => Meaning::Failed,
        _ => Meaning::InDoubt,
    }
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
    fn what_nobody_declared_is_in_doubt_unless_it_is_surely_not() {
        for (statuses, meaning) in [
            (&[200, 201, 202, 204, 299][..], Meaning::Done),
            (&[429], Meaning::Retry),
            (&[400, 404, 405, 410, 413, 415, 422], Meaning::Failed),
            (&[401, 403], Meaning::CredentialsRejected),
            (&[101, 301, 303, 307, 402, 408, 409, 423, 425, 451, 500, 501, 502, 503, 504, 511, 599], Meaning::InDoubt),
        ] {
            for status in statuses {
                assert_eq!(default_meaning(*status), meaning, "{status}");
            }
        }
    }

    #[test]
    fn the_table_in_force_is_one_line() {
        let statuses = [200, 201, 202, 409, 503, 504];
        assert_eq!(ranges(statuses.into_iter()), ["200..202", "409", "503..504"]);
    }

    fn rules(yaml: &str) -> Result<Vec<AnswerRule>, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn a_status_is_a_number_a_range_or_a_list() {
        let rules = rules(
            "[{status: 503, means: retry}, {status: 500..504, means: in_doubt}, {status: [409, 410..411], means: done}]",
        );
        let rules = rules.expect("good rules");
        let seen: Vec<bool> = [503, 502, 410, 409]
            .iter()
            .zip([0, 1, 2, 2])
            .map(|(s, r): (&u16, usize)| rules[r].status.contain(*s))
            .collect();
        assert_eq!(seen, [true; 4]);
        assert!(!rules[1].status.contain(505) && !rules[2].status.contain(412));
    }

    #[test]
    fn what_is_no_status_or_no_meaning_is_an_error() {
        for bad in [
            "[{status: 99, means: retry}]",
            "[{status: 600, means: retry}]",
            "[{status: 504..500, means: retry}]",
            "[{status: 5xx, means: retry}]",
            "[{status: [], means: retry}]",
            "[{status: 500, means: credentials_rejected}]",
            "[{status: 500, means: maybe}]",
            "[{status: 500}]",
        ] {
            assert!(rules(bad).is_err(), "{bad}");
        }
    }
}
