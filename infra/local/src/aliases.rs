//! Which version of a function an alias runs.
//!
//! The emulator keeps an alias's weights, and sends everything to its first version. While a deploy shifts traffic, two
//! versions run side by side, and work on the same groups: so whoever invokes here asks for the version first.
//!
//! AWS draws a number for each invocation. This one spreads the versions evenly instead, so that what comes of them does
//! not depend on luck: with a weight of 0.1, each tenth invocation goes to the additional version.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::http::Method;
use serde::Deserialize;

use crate::aws::Endpoint;

/// How long an alias is believed. AWS, too, takes a moment until every invocation follows a change.
const BELIEVED_FOR: Duration = Duration::from_millis(500);

/// The aliases that were invoked, as they were last seen.
#[derive(Debug)]
pub(crate) struct Aliases {
    endpoint: Endpoint,
    seen: Mutex<BTreeMap<String, SeenAlias>>,
}

#[derive(Clone, Debug)]
struct SeenAlias {
    at: Instant,
    additional: Option<AdditionalVersion>,
    invocations: u64,
}

/// The second version of an alias, and its share of the invocations.
#[derive(Clone, Debug, PartialEq)]
struct AdditionalVersion {
    version: String,
    weight: f64,
}

impl Aliases {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, seen: Mutex::default() }
    }

    /// What to invoke for this qualifier: the alias itself, or the additional version where it is that one's turn.
    pub(crate) async fn qualifier(&self, function: &str, alias: &str) -> Result<String> {
        let key = format!("{function}:{alias}");
        if let Some(qualifier) = self.next(&key, alias) {
            return Ok(qualifier);
        }
        let additional = self.ask(function, alias).await?;
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let invocations = seen.get(&key).map_or(0, |seen| seen.invocations);
        let alias_seen = SeenAlias { at: Instant::now(), additional, invocations };
        let qualifier = seen.entry(key).insert_entry(alias_seen).get_mut().next(alias);
        Ok(qualifier)
    }

    /// The next one's qualifier, if the alias was seen a moment ago.
    fn next(&self, key: &str, alias: &str) -> Option<String> {
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let seen = seen.get_mut(key).filter(|seen| seen.at.elapsed() < BELIEVED_FOR)?;
        Some(seen.next(alias))
    }

    async fn ask(&self, function: &str, alias: &str) -> Result<Option<AdditionalVersion>> {
        let path = format!("/2015-03-31/functions/{function}/aliases/{alias}");
        let answer = self.endpoint.send("lambda", Method::GET, &path, &[], "").await?;
        // A number is a version, and the emulator knows whether there is one.
        if !answer.status.is_success() {
            return Ok(None);
        }
        Ok(serde_json::from_slice::<Alias>(&answer.body)?.additional())
    }
}

impl SeenAlias {
    fn next(&mut self, alias: &str) -> String {
        self.invocations += 1;
        let turn = self.additional.as_ref().filter(|additional| is_turn(self.invocations, additional.weight));
        turn.map_or(alias, |additional| additional.version.as_str()).to_owned()
    }
}

/// Whether the nth invocation, counted from 1, is one of the share.
fn is_turn(n: u64, weight: f64) -> bool {
    (n as f64 * weight).floor() > ((n - 1) as f64 * weight).floor()
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Alias {
    #[serde(default)]
    routing_config: RoutingConfig,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RoutingConfig {
    #[serde(default)]
    additional_version_weights: BTreeMap<String, f64>,
}

impl Alias {
    /// AWS takes one additional version at most.
    fn additional(self) -> Option<AdditionalVersion> {
        let (version, weight) = self.routing_config.additional_version_weights.into_iter().next()?;
        Some(AdditionalVersion { version, weight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qualifiers(additional: Option<(&str, f64)>) -> Vec<String> {
        let additional = additional.map(|(version, weight)| AdditionalVersion { version: version.into(), weight });
        let mut seen = SeenAlias { at: Instant::now(), additional, invocations: 0 };
        (0..10).map(|_| seen.next("live")).collect()
    }

    #[test]
    fn a_weight_is_the_additional_versions_share() {
        let share = |weight| qualifiers(Some(("8", weight))).iter().filter(|qualifier| *qualifier == "8").count();
        assert_eq!([0.0, 0.1, 0.5, 0.9, 1.0].map(share), [0, 1, 5, 9, 10]);
        assert_eq!(qualifiers(Some(("8", 0.5)))[..4], ["live", "8", "live", "8"], "they take turns");
        assert_eq!(qualifiers(None), ["live"; 10]);
    }

    #[test]
    fn an_alias_is_read_as_lambda_tells_it() {
        let read = |text| serde_json::from_str::<Alias>(text).expect("an alias").additional();
        let shifted =
            r#"{"Name": "live", "FunctionVersion": "7", "RoutingConfig": {"AdditionalVersionWeights": {"8": 0.1}}}"#;
        assert_eq!(read(shifted), Some(AdditionalVersion { version: "8".into(), weight: 0.1 }));
        assert_eq!(read(r#"{"Name": "live", "FunctionVersion": "7"}"#), None);
        assert_eq!(read(r#"{"Name": "live", "RoutingConfig": {}}"#), None);
    }
}
