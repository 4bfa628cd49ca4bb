//! The operator after the load: lists what is parked, resolves unknown outcomes, replays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use shared::flows::Flows;
use shared::ledger::WORKER_LOST;
use tokio::time::sleep;

use super::partner_control::{PartnerControl, path};
use crate::lambda::{InvocationOutcome, Lambda};
use crate::partners::PartnerCall;

/// How many requests the operator has under way at once.
const PARALLEL_REQUESTS: usize = 8;

/// What the ledger says of a call that was not answered in time. On a slow machine that is one that the partner has
/// answered, too.
const TIMED_OUT: &str = "no answer: timed out after ";

/// How often one request is sent to the replay function at most.
const TRIES: usize = 5;

/// The counts of what the operator found and did.
#[derive(Debug, Default)]
pub(super) struct OperatorResults {
    /// Dead letters, by reason.
    pub(super) dead: BTreeMap<String, usize>,
    /// How many replays were sent.
    pub(super) replayed: usize,
    /// How many were dropped, because a newer event had made them out of date.
    pub(super) dropped: usize,
    /// Unknown outcomes where the partner's log shows why.
    pub(super) ambiguous: usize,
    /// Unknown outcomes of processors that were lost between intent and record.
    pub(super) lost_workers: usize,
    /// Unknown outcomes of calls that the partner got, and whose answers the processor did not wait for any longer.
    pub(super) late: usize,
    /// Unknown outcomes with none of them.
    pub(super) unexplained: usize,
    /// Unknown outcomes that had happened.
    pub(super) happened: usize,
    /// The operations that the replay function declined, as sentences.
    pub(super) declined: Vec<String>,
    /// The calls of unknown outcome that the list had, by the path of the call.
    pub(super) listed: BTreeSet<String>,
}

/// The operator, who works through the list of parked events.
pub(super) struct ChaosOperator<'o> {
    /// The client that invokes the replay function.
    pub(super) lambda: &'o Lambda,
    /// The replay function's name.
    pub(super) replay: &'o str,
    /// The partners, whose records say what happened.
    pub(super) partners: &'o PartnerControl,
    /// The flows, which say what is called for an event.
    pub(super) flows: &'o Flows,
    /// The senders' ids of the events, by our ids.
    pub(super) events: &'o HashMap<&'o str, &'o str>,
}

impl ChaosOperator<'_> {
    /// Replays every event on the list once; returns how many were on it.
    pub(super) async fn work_through_list(&self, results: &mut OperatorResults) -> Result<usize> {
        let list = self.ask(json!({"op": "list", "limit": 100})).await?;
        let parked = list["parked"].as_array().context("the replay function's list has no `parked`")?;
        let calls = self.partners.log().await?;
        let all: Vec<OperatorResults> = stream::iter(parked)
            .map(|line| self.resolve_and_replay(line, &calls))
            .buffer_unordered(PARALLEL_REQUESTS)
            .try_collect()
            .await?;
        for one in all {
            results.add(one);
        }
        Ok(parked.len())
    }

    async fn resolve_and_replay(&self, line: &Value, calls: &[PartnerCall]) -> Result<OperatorResults> {
        let mut results = OperatorResults::default();
        let id = line["id"].as_str().context("the replay function lists an event without an id")?;
        // A replay that was cut off leaves the event queued; the same request sends it.
        if line["state"] == "dead" {
            *results.dead.entry(line["reason"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
            self.resolve(id, calls, &mut results).await?;
        }
        let answer = self
            .ask(json!({"op": "replay", "id": id, "by": "chaos", "reason": "the partners are healthy again"}))
            .await?;
        match decline_reason(&answer) {
            None => results.replayed += 1,
            Some(why) if why.contains("is stale") => self.drop_overtaken(id, &mut results).await?,
            Some(why) => results.declined.push(format!("{id} was not replayed: {why}")),
        }
        Ok(results)
    }

    /// Gives up what a newer event has made out of date.
    async fn drop_overtaken(&self, id: &str, results: &mut OperatorResults) -> Result<()> {
        let said =
            self.ask(json!({"op": "drop", "id": id, "by": "chaos", "reason": "a newer one was applied"})).await?;
        match decline_reason(&said) {
            None => results.dropped += 1,
            Some(why) => results.declined.push(format!("{id} was not dropped: {why}")),
        }
        Ok(())
    }

    /// Resolves each effect with an unknown outcome by the partner's records.
    async fn resolve(&self, id: &str, calls: &[PartnerCall], results: &mut OperatorResults) -> Result<()> {
        let page = self.ask(json!({"op": "show", "id": id})).await?;
        let effects = page["effects"].as_object().into_iter().flatten();
        let mut version = page["version"].clone();
        for (effect, entry) in effects.filter(|(_, entry)| entry["state"] == "unknown") {
            let event_id = self.events.get(id).with_context(|| format!("no sender knows the event {id}"))?;
            let integration = self.integration(&page, effect)?;
            let called = path(integration, effect, event_id);
            results.explain(entry, &called, calls);
            results.listed.insert(called);
            let found = self.partners.find(integration, effect, event_id).await?;
            results.happened += usize::from(found.is_some());
            let verdict = found.map_or(json!("did_not_happen"), |body| json!({"happened": body}));
            let resolve = json!({
                "op": "resolve", "id": id, "effect": effect, "verdict": verdict, "version": version,
                "by": "chaos", "reason": "looked at the partner's records",
            });
            let said = self.ask(resolve).await?;
            results.declined.extend(decline_reason(&said).map(|why| format!("{id} was not resolved: {why}")));
            version = said["version"].clone();
        }
        Ok(())
    }

    fn integration(&self, page: &Value, effect: &str) -> Result<&str> {
        let flow = page["flow"]
            .as_str()
            .and_then(|name| self.flows.flow(name))
            .context("a parked event has a flow that the chaos flows do not have")?;
        let effect = flow
            .effects
            .iter()
            .find(|known| known.id == effect)
            .context("a parked event has an effect that its flow does not have")?;
        effect.integration().context("an effect that calls no partner has an unknown outcome, which cannot be")
    }

    async fn ask(&self, operation: Value) -> Result<Value> {
        for _ in 0..TRIES {
            match self.lambda.invoke(self.replay, &operation).await {
                Ok(InvocationOutcome::Answered(answer)) => return Ok(answer),
                _ => sleep(Duration::from_secs(1)).await,
            }
        }
        bail!(
            "the replay function gave no answer to {operation} in {TRIES} tries: look at its log in .local/chaos/logs"
        )
    }
}

impl OperatorResults {
    /// How many outcomes were unknown.
    pub(super) fn unknown(&self) -> usize {
        self.ambiguous + self.lost_workers + self.late + self.unexplained
    }

    /// Counts why an outcome is unknown: by the ledger's entry, or by the partner's log.
    fn explain(&mut self, entry: &Value, path: &str, calls: &[PartnerCall]) {
        let error = entry["error"].as_str().unwrap_or_default();
        let mut calls = calls.iter().filter(|call| call.path == path).peekable();
        let came = calls.peek().is_some();
        if error == WORKER_LOST {
            self.lost_workers += 1;
        } else if calls.any(may_leave_doubt) {
            self.ambiguous += 1;
        } else if came && error.contains(TIMED_OUT) {
            self.late += 1;
        } else {
            self.unexplained += 1;
        }
    }

    fn add(&mut self, other: Self) {
        for (reason, count) in other.dead {
            *self.dead.entry(reason).or_default() += count;
        }
        self.replayed += other.replayed;
        self.dropped += other.dropped;
        self.ambiguous += other.ambiguous;
        self.lost_workers += other.lost_workers;
        self.late += other.late;
        self.unexplained += other.unexplained;
        self.happened += other.happened;
        self.declined.extend(other.declined);
        self.listed.extend(other.listed);
    }
}

/// Why the function declined an operation. An event's own page has an `error`, too: the last that the event met.
fn decline_reason(answer: &Value) -> Option<&str> {
    answer["error"].as_str().filter(|_| answer.get("id").is_none())
}

/// Whether a call may leave its outcome unknown. A slow body comes in time or does not.
fn may_leave_doubt(call: &PartnerCall) -> bool {
    call.mode == "slow_body" || leaves_doubt(call)
}

/// Whether a call leaves its outcome unknown: no answer, one that does not say what happened, or a success without its
/// result.
pub(super) fn leaves_doubt(call: &PartnerCall) -> bool {
    let bare = call.mode == "status" && call.status == Some(200);
    bare || call.status.is_none_or(|status| matches!(status, 303 | 408 | 409 | 500..))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By what an outcome is explained, of which the ledger says this, and the partner got these calls.
    fn explained(error: &str, calls: &[PartnerCall]) -> [usize; 4] {
        let mut results = OperatorResults::default();
        results.explain(&json!({"error": error}), "/mail/mail/event1", calls);
        [results.ambiguous, results.lost_workers, results.late, results.unexplained]
    }

    #[test]
    fn every_doubt_has_a_reason_that_the_ledger_or_the_partner_tells() {
        let call = |path: &str, status: u16| -> PartnerCall {
            let call = json!({
                "seq": 1, "time": "2026-01-01T00:00:00.000Z", "integration": "mail", "method": "POST", "path": path,
                "authorized": false, "body": null, "status": status, "mode": if status == 201 { "ok" } else { "status" },
                "applied": true, "replayed": false,
            });
            serde_json::from_value(call).expect("a call")
        };
        let (own, other) = (call("/mail/mail/event1", 201), call("/mail/mail/event2", 201));
        let late = "no answer: timed out after 1000 ms";
        assert_eq!(explained("no answer: cut off", &[call("/mail/mail/event1", 503)]), [1, 0, 0, 0]);
        assert_eq!(explained(WORKER_LOST, &[]), [0, 1, 0, 0]);
        assert_eq!(explained(late, std::slice::from_ref(&own)), [0, 0, 1, 0]);
        assert_eq!(explained(late, &[other]), [0, 0, 0, 1], "the partner never got it");
        assert_eq!(explained("no answer: cut off", &[own]), [0, 0, 0, 1], "the partner answered, and nobody was late");
    }
}
