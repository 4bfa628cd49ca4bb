//! Plans of replays: what a replay would do.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::arrival::key::fingerprint;
use shared::base::errors::Unavailable;
use shared::base::id::EventId;
use shared::flows::{Effect, Guarantee};
use shared::ledger::batch::Filter;
use shared::ledger::plan::{Fate, Plan};
use shared::ledger::{Entry, Row, SignOff, State};
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::requeue::Record;
use tracing::info;

use crate::lists::{MAX_LIMIT, oldest};
use crate::operations::{Failure, decline};
use crate::{Replay, invalid, row_version, send_again, view};

/// One event of a plan, as the operator saw it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSeen {
    /// The event's id.
    pub id: EventId,
    /// The hash of the event's plan, as of the row that was seen.
    pub hash: String,
}

/// The plan for one event, as of its row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlannedEvent {
    pub(crate) id: EventId,
    pub(crate) flow: String,
    state: State,
    version: String,
    pub(crate) steps: Vec<PlannedEffect>,
    /// The reason why the event would not be replayed.
    pub(crate) blocked: Option<String>,
    pub(crate) hash: String,
}

/// The fate of one effect.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlannedEffect {
    pub(crate) effect: String,
    pub(crate) fate: &'static str,
}

/// The events that a batch would take first: the oldest that can be replayed, and as far as there is room, those
/// that cannot. Returns also whether there may be newer ones.
pub(crate) async fn taken_first(replay: &Replay, filter: &Filter, max: usize) -> Result<(Vec<EventId>, bool), Failure> {
    let (mut rows, more) = oldest(replay, filter).await?;
    rows.sort_by_key(|row| row.may_replay().is_err());
    Ok((rows.into_iter().map(|row| row.id).take(max.clamp(1, MAX_LIMIT)).collect(), more))
}

/// Plans a replay, for each event and each effect. Nothing is replayed.
pub(crate) async fn plan(replay: &Replay, ids: &[EventId], with_new: bool) -> Result<Vec<PlannedEvent>, Failure> {
    if ids.len() > MAX_LIMIT {
        return Err(decline(format!("a plan takes at most {MAX_LIMIT} events: name fewer")));
    }
    let mut plan = Vec::new();
    for id in ids {
        let record = Record::read(&*replay.records, id).await?;
        let overtaken = send_again::overtaken(replay, &record).await?;
        plan.push(match record.row.is_invalid() {
            false => plan_of_event(replay, record, overtaken, with_new),
            true => plan_of_invalid(replay, record, overtaken).await?,
        });
    }
    Ok(plan)
}

/// A plan for operators, with one hash over all of it: of these events, or of those that a batch would take first.
pub(crate) async fn plan_for_operator(
    replay: &Replay,
    ids: Vec<EventId>,
    filter: &Filter,
    max: usize,
    with_new: bool,
) -> Result<Value, Failure> {
    let (ids, more) = if ids.is_empty() { taken_first(replay, filter, max).await? } else { (ids, false) };
    let plan = plan(replay, &ids, with_new).await?;
    let hashes: Vec<&str> = plan.iter().map(|event| event.hash.as_str()).collect();
    let mut answer = json!({"events": plan, "hash": fingerprint(&json!(hashes)), "more": more});
    if with_new {
        answer["with_new"] = json!(true);
    }
    Ok(answer)
}

/// Replays exactly what a plan said, or nothing at all.
pub(crate) async fn apply(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    seen: &[PlanSeen],
    with_new: bool,
    sign_off: SignOff<'_>,
) -> Result<Value, Failure> {
    if seen.is_empty() || seen.len() > MAX_LIMIT {
        return Err(decline(format!("name 1 to {MAX_LIMIT} events of a plan, each with its hash")));
    }
    let ids: Vec<EventId> = seen.iter().map(|event| event.id.clone()).collect();
    let plan = plan(replay, &ids, with_new).await?;
    let changed: Vec<&PlannedEvent> =
        plan.iter().zip(seen).filter(|(now, seen)| now.hash != seen.hash).map(|(now, _)| now).collect();
    if !changed.is_empty() {
        let why =
            "the events have changed since they were planned: nothing was replayed; see `changed`, and plan again";
        return Ok(json!({"error": why, "changed": changed}));
    }
    let mut applied = Vec::new();
    for planned in &plan {
        applied.push(match apply_one(replay, unit, planned, with_new, sign_off).await {
            Ok(row) => view::replayed(&planned.id, &row),
            Err(failure) => failure.answer_for(&planned.id),
        });
    }
    info!(count = applied.len(), by = sign_off.by, "a plan was applied");
    Ok(json!({"applied": applied}))
}

/// Replays an event as it was planned a moment ago. An event that the plan holds back is not sent, even where a
/// replay could clear it up; and the row may have changed since, for others act while the first of many are sent.
async fn apply_one(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    planned: &PlannedEvent,
    with_new: bool,
    sign_off: SignOff<'_>,
) -> Result<Row, Failure> {
    if let Some(why) = &planned.blocked {
        unit.count(&Fact::ReplaysSkipped(1));
        return Err(decline(why));
    }
    let at = replay.clock.now();
    let replayed = |row: Row| Ok(row.replayed(sign_off, at)?.and_what_is_new(with_new));
    Ok(send_again::send_again(replay, unit, &planned.id, Some(&planned.version), replayed).await?)
}

/// The plan for an invalid event: that of the event that it stands for.
async fn plan_of_invalid(
    replay: &Replay,
    record: Record,
    overtaken: Option<String>,
) -> Result<PlannedEvent, Unavailable> {
    let (event, blocked) = match invalid::stands_for(replay, &record.row, record.event.as_ref()).await? {
        Ok(fit) => (Some(fit.event.clone()), fit.known_as(replay.clock.now()).or(overtaken)),
        Err(declined) => (None, Some(declined.to_string())),
    };
    // It is accepted by the flow of today, with all of its effects.
    Ok(plan_of_event(replay, Record { event, ..record }, blocked, true))
}

fn plan_of_event(
    replay: &Replay,
    Record { row, event }: Record,
    held_back: Option<String>,
    with_new: bool,
) -> PlannedEvent {
    let flow = replay.flows.flow(&row.flow);
    let held_back = held_back.or_else(|| flow.is_none().then(|| unknown_flow(&row.flow)));
    let plan = flow.zip(event.as_ref()).map(|(flow, event)| Plan::of(flow, event, &row));
    // What waits goes on by a wake, which is no replay: it does all that is deployed.
    let is_woken_with_it = row.state == State::Waiting && (row.replay == 0 || row.with_new);
    let effects = flow.into_iter().flat_map(|flow| &flow.effects);
    let steps = plan.iter().flat_map(|plan| &plan.steps);
    let accepted = event.as_ref().and_then(|event| event.effects.as_deref());
    let renamed = flow
        .filter(|_| row.state == State::Waiting && row.replay == 0)
        .map(|flow| row.maybe_renamed(flow, accepted))
        .unwrap_or_default();
    let fates = effects.zip(steps).map(|(effect, step)| match step.fate {
        _ if renamed.iter().any(|other| other.id == effect.id) => (&effect.id, Fate::New),
        Fate::Run if is_beyond_asking(replay, &row, effect) => (&effect.id, Fate::Unknown),
        Fate::New if with_new || is_woken_with_it => (&effect.id, Fate::Run),
        fate => (&effect.id, fate),
    });
    let unknown = fates.clone().find(|(_, fate)| *fate == Fate::Unknown).map(|(effect, _)| effect);
    let steps: Vec<PlannedEffect> =
        fates.map(|(effect, fate)| PlannedEffect { effect: effect.clone(), fate: fate.as_str() }).collect();
    let blocked = match (row.may_replay(), &event) {
        (Err(declined), _) => Some(declined.to_string()),
        (Ok(()), None) if held_back.is_none() => Some("its payload is not kept: it cannot be replayed now".to_owned()),
        (Ok(()), _) => held_back,
    };
    let blocked = blocked.or_else(|| {
        Some(format!("the outcome of `{}` is unknown: look in the partner's records, then `resolve` it", unknown?))
    });
    let version = row_version::of(&row);
    let hash = fingerprint(&json!([row.id, version, plan.as_ref().map(Plan::hash), steps, blocked]));
    PlannedEvent { id: row.id, flow: row.flow, state: row.state, version, steps, blocked, hash }
}

/// The sentence about an event whose flow this version does not have.
fn unknown_flow(flow: &str) -> String {
    format!("there is no flow `{flow}` in this version: deploy it and plan again, or `drop` the event")
}

/// Whether an earlier call of a failed effect may have happened, and its partner cannot be asked any more. A
/// replay would not call it.
fn is_beyond_asking(replay: &Replay, row: &Row, effect: &Effect) -> bool {
    let trust = |entry: &Entry| replay.flows.trust(effect, entry.since, replay.clock.now());
    row.entry(effect).is_some_and(|entry| entry.in_doubt() && trust(entry) == Guarantee::None)
}

/// Whether a replay would call every effect that is in doubt: no partner has forgotten our key.
pub(crate) fn may_call_again(replay: &Replay, row: &Row) -> bool {
    let flow = replay.flows.flow(&row.flow);
    flow.is_some_and(|flow| !flow.effects.iter().any(|effect| is_beyond_asking(replay, row, effect)))
}
