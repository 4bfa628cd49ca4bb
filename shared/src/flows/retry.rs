//! Retry policies, as data: when a failed effect is tried again.

use std::time::Duration;

use serde::Deserialize;

use crate::base::time::DurationText;
use crate::base::wrong::Wrong;
use crate::limits::budget::Budget;

/// A flow's retry policy.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The way in which the delay grows with each attempt.
    pub strategy: Strategy,
    /// The ceiling of the first delay, and of every one where the strategy is fixed.
    #[serde(with = "DurationText")]
    pub base: Duration,
    /// The factor by which the ceiling grows with each attempt. A fixed strategy ignores it.
    #[serde(default = "doubling")]
    pub multiplier: f64,
    /// The longest ceiling, whatever the attempt.
    #[serde(with = "DurationText")]
    pub max_delay: Duration,
    /// The random part of the delay.
    #[serde(default)]
    pub jitter: Jitter,
    /// The most calls of one effect before the event is a dead letter.
    pub max_attempts: u32,
    /// The retries that all events of one contact share. Without it, each event has its own only.
    #[serde(default)]
    pub budget_per_contact: Option<Budget>,
}

fn doubling() -> f64 {
    2.0
}

/// The way in which the delay grows with each attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Each ceiling is the one before times the multiplier.
    Exponential,
    /// Every ceiling is the first.
    Fixed,
}

/// The random part of the delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Jitter {
    /// The whole delay is random: from zero to the ceiling, so that events that failed together come back apart.
    #[default]
    Full,
    /// Half of the delay is random: from half of the ceiling to all of it, where a partner needs a pause in any case.
    Equal,
    /// Nothing is random: events that failed together come back together.
    None,
}

impl Policy {
    /// The longest delay after attempt number `attempt`, counted from 1.
    pub fn ceiling(&self, attempt: u32) -> Duration {
        if self.strategy == Strategy::Fixed {
            return self.base.min(self.max_delay);
        }
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.base.as_secs_f64() * self.multiplier.powi(exponent);
        Duration::from_secs_f64(grown.clamp(0.0, self.max_delay.as_secs_f64()))
    }

    /// The delay after attempt number `attempt`. `chance` is drawn evenly from 0 to 1; the delay that the
    /// partner asked for in `Retry-After` is waited out in any case.
    pub fn delay(&self, attempt: u32, chance: f64, retry_after: Option<Duration>) -> Duration {
        let chance = chance.clamp(0.0, 1.0);
        let share = match self.jitter {
            Jitter::Full => chance,
            Jitter::Equal => 0.5 + chance / 2.0,
            Jitter::None => 1.0,
        };
        let delay = self.ceiling(attempt).mul_f64(share);
        retry_after.unwrap_or_default().min(MAX_RETRY_AFTER) + delay
    }

    /// The longest time that the retries of one effect can take together.
    pub fn horizon(&self) -> Duration {
        (1..self.max_attempts).map(|attempt| self.ceiling(attempt)).sum()
    }

    /// The mistakes in the policy.
    pub fn check(&self) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        if !(1..=MAX_ATTEMPTS).contains(&self.max_attempts) {
            wrong.push(Wrong::at("/max_attempts", format!("retry.max_attempts must be from 1 to {MAX_ATTEMPTS}")));
        }
        if !(1.0..=10.0).contains(&self.multiplier) {
            wrong.push(Wrong::at("/multiplier", "retry.multiplier must be from 1 to 10"));
        }
        if self.base.is_zero() || self.base > self.max_delay {
            wrong.push(Wrong::at("/base", "retry.base must be more than nothing and at most retry.max_delay"));
        }
        if self.max_delay > MAX_DELAY {
            wrong.push(Wrong::at("/max_delay", "retry.max_delay must be at most 1h"));
        }
        let budget = self.budget_per_contact.iter().flat_map(Budget::check);
        wrong.extend(budget.map(|wrong| wrong.under("/budget_per_contact")));
        wrong
    }
}

/// The most attempts of an effect.
const MAX_ATTEMPTS: u32 = 20;

/// The longest delay. The queue hides a message for 12 hours at most, and counts the time that it was hidden before.
/// An hour leaves room for a `Retry-After` on top.
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// The longest `Retry-After` that is obeyed.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    /// The contact intake of the starting policies: 2 s, doubled, at most 120 s, 7 attempts.
    fn policy() -> Policy {
        Policy {
            strategy: Strategy::Exponential,
            base: Duration::from_secs(2),
            multiplier: 2.0,
            max_delay: Duration::from_secs(120),
            jitter: Jitter::Full,
            max_attempts: 7,
            budget_per_contact: None,
        }
    }

    fn read(yaml: &str) -> Result<Policy, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.without_snippet().to_string())
    }

    #[test]
    fn a_policy_reads_as_the_stories_tell_it() {
        let short = read("{strategy: exponential, base: 2s, max_delay: 120s, max_attempts: 7}");
        assert_eq!(short, Ok(policy()));
        let cart = read(
            "{strategy: fixed, base: 500ms, max_delay: 500ms, jitter: equal, max_attempts: 3, \
             budget_per_contact: {count: 5, window: 1h}}",
        );
        let cart = cart.expect("a policy");
        assert_eq!((cart.strategy, cart.jitter), (Strategy::Fixed, Jitter::Equal));
        assert_eq!(cart.budget_per_contact, Some(Budget { count: 5, window: Duration::from_secs(3600) }));
        assert_eq!(cart.check(), []);
        assert!(read("{strategy: linear, base: 2s, max_delay: 120s, max_attempts: 7}").is_err());
        assert!(read("{strategy: fixed, base: 2s, max_delay: 2s, max_attempts: 7, retries: 9}").is_err());
    }

    #[test]
    fn a_fixed_ceiling_does_not_grow() {
        let fixed = Policy { strategy: Strategy::Fixed, ..policy() };
        let ceilings: Vec<u64> = [1, 2, 7, u32::MAX].map(|n| fixed.ceiling(n).as_secs()).into();
        assert_eq!(ceilings, [2, 2, 2, 2]);
        assert_eq!(fixed.horizon(), Duration::from_secs(6 * 2));
    }

    #[test]
    fn ceilings_double_up_to_the_cap() {
        let ceilings: Vec<u64> = (1..=8).map(|n| policy().ceiling(n).as_secs()).collect();
        assert_eq!(ceilings, [2, 4, 8, 16, 32, 64, 120, 120]);
        assert_eq!(policy().ceiling(u32::MAX).as_secs(), 120);
    }

    #[test]
    fn full_jitter_spans_from_nothing_to_the_ceiling() {
        assert_eq!(policy().delay(3, 0.0, None), Duration::ZERO);
        assert_eq!(policy().delay(3, 0.5, None), Duration::from_secs(4));
        assert_eq!(policy().delay(3, 1.0, None), Duration::from_secs(8));
    }

    #[test]
    fn equal_jitter_spans_the_upper_half_and_none_nothing() {
        let delays =
            |jitter| [0.0, 0.5, 1.0].map(|chance| Policy { jitter, ..policy() }.delay(3, chance, None).as_secs());
        assert_eq!(delays(Jitter::Equal), [4, 6, 8]);
        assert_eq!(delays(Jitter::None), [8, 8, 8]);
    }

    #[test]
    fn retry_after_is_waited_out_and_bounded() {
        assert_eq!(policy().delay(1, 0.0, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert!(policy().delay(1, 1.0, Some(Duration::MAX)) <= MAX_RETRY_AFTER + policy().ceiling(1));
    }

    #[test]
    fn the_horizon_is_all_ceilings_together() {
        assert_eq!(policy().horizon(), Duration::from_secs(2 + 4 + 8 + 16 + 32 + 64));
    }

    #[test]
    fn a_policy_without_bounds_is_refused() {
        assert_eq!(policy().check(), []);
        assert_eq!(Policy { max_attempts: 0, ..policy() }.check().len(), 1);
        assert_eq!(Policy { max_attempts: 21, ..policy() }.check().len(), 1);
        assert_eq!(Policy { multiplier: f64::NAN, ..policy() }.check().len(), 1);
        assert_eq!(Policy { base: Duration::ZERO, ..policy() }.check().len(), 1);
        assert_eq!(Policy { max_delay: Duration::from_secs(7200), ..policy() }.check().len(), 1);
        let none = Some(Budget { count: 0, window: Duration::ZERO });
        assert_eq!(Policy { budget_per_contact: none, ..policy() }.check().len(), 2);
    }
}
