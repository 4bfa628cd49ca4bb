//! Retry policies that operators change at run time.
//!
//! An override names the fields that it changes and leaves the others to the flow: `{"max_attempts": 5}`. It is
//! merged over the flow's policy, and the result must pass the same checks as a policy in a flow file.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::BadBoard;
use crate::base::time::duration;
use crate::flows::Flow;
use crate::flows::retry::{Jitter, Policy, Strategy};
use crate::limits::budget::Budget;

/// An operator's override of a flow's policy. A field that is absent stays as the flow has it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Override {
    #[serde(deserialize_with = "some")]
    strategy: Option<Strategy>,
    #[serde(deserialize_with = "some_duration")]
    base: Option<Duration>,
    #[serde(deserialize_with = "some")]
    multiplier: Option<f64>,
    #[serde(deserialize_with = "some_duration")]
    max_delay: Option<Duration>,
    #[serde(deserialize_with = "some")]
    jitter: Option<Jitter>,
    #[serde(deserialize_with = "some")]
    max_attempts: Option<u32>,
    /// The contact's budget. `null` takes the flow's budget away.
    #[serde(deserialize_with = "some")]
    budget_per_contact: Option<Option<Budget>>,
}

/// The flow's policy under an override, or `None` where it overrides nothing.
pub(super) fn merged(flow: &Flow, change: &Map<String, Value>) -> Result<Option<Policy>, BadBoard> {
    let change =
        Override::deserialize(Value::Object(change.clone())).map_err(|error| BadBoard(vec![error.to_string()]))?;
    if change == Override::default() {
        return Ok(None);
    }
    let policy = change.over(&flow.retry);
    let mut wrong: Vec<String> = policy.check().into_iter().map(|wrong| wrong.what).collect();
    // A retry that outlives the key would run an event that its sender may send anew.
    if wrong.is_empty() && flow.ttl <= policy.horizon() {
        wrong.push("all retries together must be shorter than the flow's ttl".into());
    }
    if wrong.is_empty() { Ok(Some(policy)) } else { Err(BadBoard(wrong)) }
}

impl Override {
    fn over(self, policy: &Policy) -> Policy {
        Policy {
            strategy: self.strategy.unwrap_or(policy.strategy),
            base: self.base.unwrap_or(policy.base),
            multiplier: self.multiplier.unwrap_or(policy.multiplier),
            max_delay: self.max_delay.unwrap_or(policy.max_delay),
            jitter: self.jitter.unwrap_or(policy.jitter),
            max_attempts: self.max_attempts.unwrap_or(policy.max_attempts),
            budget_per_contact: self.budget_per_contact.unwrap_or(policy.budget_per_contact),
        }
    }
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

/// Reads a value, `null` included: only a field that is absent is `None`.
fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::flows::{File, Flows};

    const INTEGRATIONS: &str = "
crm: {base_url: https://api.crm.example.com/v2, auth: bearer, timeout: 3s}
analytics: {base_url: https://collect.analytics.example.com/v1, auth: bearer, timeout: 2s}
";
    const FILES: [(&str, &str); 3] = [
        (
            "sources.yaml",
            "
web-forms: {scheme: standard-webhooks, max_body: 128KiB, rate: 100/s, type_at: type, id_at: {header: webhook-id}}
storefront: {scheme: shopify, max_body: 64KiB, rate: 50/s, type_at: type, id_at: cart_id}
",
        ),
        ("integrations.yaml", INTEGRATIONS),
        ("flows/lead-routing.yaml", include_str!("../../../../infra/flows/flows/lead-routing.yaml")),
    ];

    /// The shipped flow for leads, with its sources, and the integrations that it needs.
    pub(in crate::operate::switchboard) fn flows() -> Flows {
        let files = FILES.map(|(path, text)| File { path: path.into(), text: text.into() });
        Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// The shipped flow for leads with a policy of 2 s, doubled, 3 attempts, 5 an hour and contact.
    fn flow() -> Flow {
        let mut flow = flows().flow("lead-routing").expect("the flow").clone();
        flow.retry = Policy {
            strategy: Strategy::Exponential,
            base: Duration::from_secs(2),
            multiplier: 2.0,
            max_delay: Duration::from_secs(120),
            jitter: Jitter::Full,
            max_attempts: 3,
            budget_per_contact: Some(Budget { count: 5, window: Duration::from_secs(3600) }),
        };
        flow
    }

    fn change(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).expect("an object")
    }

    fn merge(flow: &Flow, text: &str) -> Result<Option<Policy>, BadBoard> {
        merged(flow, &change(text))
    }

    #[test]
    fn what_is_absent_stays_as_the_flow_has_it() {
        let attempts = Policy { max_attempts: 5, ..flow().retry };
        assert_eq!(merge(&flow(), r#"{"max_attempts": 5}"#), Ok(Some(attempts)));
        let whole = r#"{"strategy": "fixed", "base": "1s", "multiplier": 3, "max_delay": "2s", "jitter": "none",
            "max_attempts": 2, "budget_per_contact": {"count": 1, "window": "10m"}}"#;
        let policy = Policy {
            strategy: Strategy::Fixed,
            base: Duration::from_secs(1),
            multiplier: 3.0,
            max_delay: Duration::from_secs(2),
            jitter: Jitter::None,
            max_attempts: 2,
            budget_per_contact: Some(Budget { count: 1, window: Duration::from_secs(600) }),
        };
        assert_eq!(merge(&flow(), whole), Ok(Some(policy)));
    }

    #[test]
    fn null_takes_the_budget_away_and_nothing_takes_the_override_back() {
        let unbounded = Policy { budget_per_contact: None, ..flow().retry };
        assert_eq!(merge(&flow(), r#"{"budget_per_contact": null}"#), Ok(Some(unbounded)));
        assert_eq!(merge(&flow(), "{}"), Ok(None));
    }

    #[test]
    fn a_bad_override_is_refused_with_reasons() {
        for bad in [r#"{"attempts": 5}"#, r#"{"base": "soon"}"#, r#"{"base": null}"#, r#"{"jitter": null}"#] {
            assert!(merge(&flow(), bad).is_err(), "{bad}");
        }
        let refused = |text: &str| merge(&flow(), text).expect_err("refused").to_string();
        assert_eq!(refused(r#"{"max_attempts": 99}"#), "retry.max_attempts must be from 1 to 20");
        assert_eq!(
            refused(r#"{"base": "121s", "multiplier": 0}"#),
            "retry.multiplier must be from 1 to 10; retry.base must be more than nothing and at most retry.max_delay",
            "all of it at once"
        );
    }

    #[test]
    fn retries_never_outlive_the_key() {
        let flow = Flow { ttl: Duration::from_secs(3600), ..flow() };
        let slow = r#"{"strategy": "fixed", "base": "30m", "max_delay": "30m"}"#;
        assert_eq!(
            merge(&flow, slow),
            Err(BadBoard(vec!["all retries together must be shorter than the flow's ttl".into()]))
        );
        assert!(merge(&Flow { ttl: Duration::from_secs(3601), ..flow }, slow).is_ok());
    }
}
