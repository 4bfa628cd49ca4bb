//! What a replay would do, before it does it.

use serde::Deserialize;
use serde_json::{Value, json};
use shared::batch::Filter;
use shared::event::Event;
use shared::key::EventId;
use shared::ledger::{Row, Word};
use shared::plan::{Fate, Plan};
use tracing::info;

use crate::Replay;
use crate::lists::{MAX_LIMIT, scan};
use crate::operations::{Failure, find, refuse};
use crate::{send, version};

/// One event of a plan, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSeen {
    /// The event.
    pub id: EventId,
    /// The hash of what would be done for it, as of the row that was seen.
    pub hash: String,
}

/// Says for each event and each effect what a replay would do. Nothing else happens.
pub(crate) async fn plan(replay: &Replay, ids: &[EventId], filter: &Filter, max: usize) -> Result<Value, Failure> {
    let ids = match ids {
        [] => scan(replay, filter).await?.0.into_iter().map(|row| row.id).take(max.clamp(1, MAX_LIMIT)).collect(),
        ids if ids.len() > MAX_LIMIT => return Err(refuse(format!("name at most {MAX_LIMIT} events"))),
        ids => ids.to_vec(),
    };
    let mut events = Vec::new();
    for id in ids {
        let row = find(replay, &id).await?;
        let kept = replay.records.kept(&id).await?;
        let overtaken = match &kept {
            Some(event) => send::overtaken(replay, event).await?,
            None => None,
        };
        events.push(of_one(replay, &row, kept.as_ref(), overtaken));
    }
    let hash = shared::key::fingerprint(&json!(events.iter().map(|event| &event["hash"]).collect::<Vec<_>>()));
    Ok(json!({"events": events, "hash": hash}))
}

/// Replays exactly what a plan said, or nothing at all.
pub(crate) async fn apply(replay: &Replay, seen: &[PlanSeen], word: Word<'_>) -> Result<Value, Failure> {
    if seen.is_empty() || seen.len() > MAX_LIMIT {
        return Err(refuse(format!("name 1 to {MAX_LIMIT} events of a plan, each with its hash")));
    }
    let ids: Vec<EventId> = seen.iter().map(|event| event.id.clone()).collect();
    let now = plan(replay, &ids, &Filter::default(), ids.len()).await?;
    let events = now["events"].as_array().cloned().unwrap_or_default();
    let changed: Vec<&Value> =
        events.iter().zip(seen).filter(|(event, seen)| event["hash"] != seen.hash.as_str()).map(|(e, _)| e).collect();
    if !changed.is_empty() {
        let why = "the plan is not true any more: nothing was replayed; look at what changed, and plan again";
        return Ok(json!({"error": why, "changed": changed}));
    }
    let mut applied = Vec::new();
    for (id, event) in ids.into_iter().zip(&events) {
        applied.push(match apply_one(replay, &id, event, word).await {
            Ok(row) => json!({"id": id, "state": row.state, "replay": row.replay}),
            Err(failure) => json!({"id": id, "error": failure.to_string()}),
        });
    }
    info!(count = applied.len(), by = word.by, "applied");
    Ok(json!({"applied": applied}))
}

/// Replays an event as it was planned a moment ago. What the plan holds back is not sent, even where a replay
/// could find out; and the row may have changed since, for others act while the first of many are sent.
async fn apply_one(replay: &Replay, id: &EventId, planned: &Value, word: Word<'_>) -> Result<Row, Failure> {
    if let Some(why) = planned["blocked"].as_str() {
        return Err(refuse(why));
    }
    let at = replay.clock.now();
    let replayed = |row: Row| {
        version::check(&row, planned["version"].as_str())?;
        row.replayed(word, at)
    };
    Ok(send::again(replay, id, replayed).await?)
}

fn of_one(replay: &Replay, row: &Row, kept: Option<&Event>, overtaken: Option<String>) -> Value {
    let (steps, plan_hash) = match (replay.flows.flow(&row.flow), kept) {
        (Some(flow), Some(event)) => {
            let plan = Plan::of(flow, event, row);
            let step = |step: &shared::plan::Step| json!({"effect": step.effect, "fate": step.fate.as_str()});
            (plan.steps.iter().map(step).collect(), plan.hash().to_owned())
        }
        _ => (Vec::new(), String::new()),
    };
    let blocked = match (row.may_replay(), kept) {
        (Err(refusal), _) => Some(refusal.to_string()),
        (Ok(()), None) => Some("its payload is not kept".to_owned()),
        (Ok(()), Some(_)) => overtaken,
    };
    let blocked = blocked.or_else(|| {
        let unknown = steps.iter().find(|step: &&Value| step["fate"] == Fate::Unknown.as_str());
        unknown.map(|step| format!("nobody knows whether {} happened", step["effect"]))
    });
    let version = version::of(row);
    let seen = json!([row.id, version, plan_hash, steps, blocked]);
    json!({
        "id": row.id, "flow": row.flow, "state": row.state, "version": version,
        "steps": steps, "blocked": blocked, "hash": shared::key::fingerprint(&seen),
    })
}
