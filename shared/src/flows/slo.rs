//! Service levels in flow files: how quickly events are settled, and how many are.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::Flow;
use crate::base::time::DurationText;
use crate::base::wrong::Wrong;

/// The service level of a flow. Each event is judged once, when it comes to an end for the first time: it is good if it was
/// settled within `p95` of its receipt, and bad if that took longer, or if it is dead.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// The time within which 95 of 100 events are settled, from their receipt.
    #[serde(with = "DurationText")]
    pub p95: Duration,
    /// The share of the events that do not die.
    pub success: Percent,
}

/// A share, as `99.9%`. It is kept in millionths, so that it is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Percent(u32);

/// A whole, in millionths.
const WHOLE: u32 = 1_000_000;

/// What a slow event spends: of 20 events one may be slow.
const SLOW: u32 = 20;

impl TryFrom<String> for Percent {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let number = text.strip_suffix('%').filter(|number| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
        let (whole, part) = number.map_or(("", ""), |number| number.split_once('.').unwrap_or((number, "")));
        let digits = format!("{whole}{part:0<4}");
        let read = digits.parse().ok().filter(|_| !whole.is_empty() && whole.len() <= 3 && part.len() <= 4);
        read.map(Percent).ok_or_else(|| format!("`{text}` is no percentage; write `99.9%`"))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10_000.0)
    }
}

impl Slo {
    /// What a settled event spends of the flow's budget for slow events, if it was slow. One is what each event may spend.
    pub fn spent_by_settling(&self, took: Duration) -> Option<u32> {
        (took > self.p95).then_some(SLOW)
    }

    /// What a dead event spends of the flow's budget for dead events: 1000 where one of a thousand may die.
    pub fn spent_by_dying(&self) -> u32 {
        let may_die = WHOLE.saturating_sub(self.success.0).max(1);
        (WHOLE + may_die / 2) / may_die
    }
}

/// The mistakes in a flow's service level.
pub(super) fn check(flow: &Flow) -> Vec<Wrong> {
    let Some(Slo { p95, success }) = &flow.slo else { return Vec::new() };
    let mut wrong = Vec::new();
    if p95.is_zero() || *p95 > flow.max_age {
        let what = "slo.p95 must be more than nothing and at most the flow's max_age: an older event is given up on";
        wrong.push(Wrong::at("/slo/p95", what));
    }
    if !(500_000..=999_990).contains(&success.0) {
        let what = format!("slo.success must be from 50% to 99.999%: {success} cannot be held or watched");
        wrong.push(Wrong::at("/slo/success", what).hint("write `99.9%`: of a thousand events one may die"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(text: &str) -> Result<Percent, String> {
        text.to_owned().try_into()
    }

    #[test]
    fn percentages_are_read_exactly() {
        for (text, millionths) in [("99.9%", 999_000), ("95%", 950_000), ("99.99%", 999_900), ("100%", WHOLE)] {
            let read = percent(text).expect(text);
            assert_eq!((read, read.to_string().as_str()), (Percent(millionths), text));
        }
        for bad in ["", "%", "99.9", "0.999", "1e2%", "-5%", "99.99999%", ".5%", "99,9%", "9.9.9%"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_spent_is_one_for_each_event_where_just_so_many_are_bad_as_may_be() {
        let slo = |success: &str| Slo { p95: Duration::from_secs(2), success: percent(success).expect("a percentage") };
        let dying = |success| slo(success).spent_by_dying();
        assert_eq!([dying("99.9%"), dying("99%"), dying("99.99%"), dying("97%")], [1000, 100, 10_000, 33]);
        let settling = |millis| slo("99.9%").spent_by_settling(Duration::from_millis(millis));
        assert_eq!((settling(2000), settling(2001)), (None, Some(20)));
    }
}
