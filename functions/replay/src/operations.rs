//! What operators ask for: one JSON request each.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::ledger::batch::{Batch, Filter};
use shared::ledger::{Declined, Row, SignOff};
use shared::operate::approval::{self, ApprovalAnswer, Question};
use shared::operate::requeue::{Record, RequeueError, end, find};
use tracing::{info, warn};

use crate::lists::{self, MAX_LIMIT};
use crate::plans::{self, PlanSeen};
use crate::schedule;
use crate::switches::{self, Span};
use crate::{Replay, lane, send, version, view};

/// An operator's request.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// The newest parked events.
    List {
        /// How many at most.
        #[serde(default = "default_limit")]
        limit: usize,
        /// Which.
        #[serde(default)]
        only: Filter,
    },
    /// What parked events died of, and how many.
    Reasons {
        /// Which.
        #[serde(default)]
        only: Filter,
    },
    /// What a replay would do for each event and each effect.
    Plan {
        /// Of these events; without any, of what is taken by `only`.
        #[serde(default)]
        ids: Vec<EventId>,
        /// Which.
        #[serde(default)]
        only: Filter,
        /// How many at most.
        #[serde(default = "default_limit")]
        max: usize,
    },
    /// Replays exactly what a plan said.
    Apply {
        /// The plan's events, each with its hash.
        events: Vec<PlanSeen>,
        /// Who wants it.
        by: String,
        /// Why.
        reason: String,
    },
    /// Replays many, slowly: the lane takes them one after the other.
    Batch {
        /// Which.
        #[serde(default)]
        only: Filter,
        /// How many at most.
        #[serde(default = "default_max")]
        max: u32,
        /// How many a minute for each integration.
        #[serde(default = "default_rate")]
        rate: u32,
        /// Who wants it.
        by: String,
        /// Why.
        reason: String,
    },
    /// Stops a batch.
    Stop {
        /// The batch's id.
        batch: String,
        /// Who wants it.
        by: String,
        /// Why.
        reason: String,
    },
    /// What the schedule does: lets questions lapse, and replays what may have healed.
    Schedule,
    /// Everything about one event.
    Show {
        /// Its id.
        id: EventId,
    },
    /// Sends one event through the queue again.
    Replay {
        /// Its id.
        id: EventId,
        /// Who wants it.
        by: String,
        /// Why.
        reason: String,
        /// The version of the row that was looked at; it is refused if the row has changed since.
        version: Option<String>,
    },
    /// Holds calls back: of a flow, of an integration, or all of them.
    Pause {
        /// The flow.
        flow: Option<String>,
        /// Or the integration.
        integration: Option<String>,
        /// For how long, as `30m`; without it, until it is resumed.
        r#for: Option<Span>,
        /// Who wants it.
        by: String,
        /// Why.
        reason: String,
    },
    /// Lets calls go on.
    Resume {
        /// The flow.
        flow: Option<String>,
        /// Or the integration.
        integration: Option<String>,
        /// Who wants it.
        by: String,
        /// Why.
        reason: String,
    },
    /// Turns a flow's safe mode on, or that of all flows; for no time at all, off.
    SafeMode {
        /// The flow.
        flow: Option<String>,
        /// For how long, as `30m`.
        r#for: Span,
        /// Who wants it.
        by: String,
        /// Why.
        reason: String,
    },
    /// Changes a flow's retry policy, in what is named; in nothing, it is the flow's own again.
    Policy {
        /// The flow.
        flow: String,
        /// What is changed: `{"max_attempts": 5}`.
        retry: Map<String, Value>,
        /// Who wants it.
        by: String,
        /// Why.
        reason: String,
    },
    /// The positions of all switches.
    Status,
    /// Approves what awaits it: what each of these would do, as it was seen.
    Approve {
        /// The events, each with the hash of its plan.
        questions: Vec<QuestionSeen>,
        /// Who approves.
        by: String,
        /// Why.
        reason: String,
    },
    /// Says no to what awaits approval.
    Reject {
        /// The events, each with the hash of its plan.
        questions: Vec<QuestionSeen>,
        /// Who rejects.
        by: String,
        /// Why.
        reason: String,
    },
    /// Gives up on a dead letter for good.
    Drop {
        /// Its id.
        id: EventId,
        /// Who signs for it.
        by: String,
        /// Why it is not worth another try.
        reason: String,
        /// The version of the row that was looked at; it is refused if the row has changed since.
        version: Option<String>,
    },
    /// Says of an effect whether it happened, where nobody could know.
    Resolve {
        /// The event's id.
        id: EventId,
        /// The effect's.
        effect: String,
        /// What a look into the partner's own records showed.
        verdict: EffectVerdict,
        /// Who looked.
        by: String,
        /// Why it is so.
        reason: String,
        /// The version of the row that was looked at; it is refused if the row has changed since.
        version: Option<String>,
    },
}

impl Operation {
    /// The event that the operation is about, where it is about one.
    fn event(&self) -> Option<&EventId> {
        match self {
            Operation::Show { id }
            | Operation::Replay { id, .. }
            | Operation::Drop { id, .. }
            | Operation::Resolve { id, .. } => Some(id),
            _ => None,
        }
    }
}

/// An event that awaits approval, and what somebody saw that it would do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionSeen {
    /// The event.
    pub id: EventId,
    /// The hash of what would be done.
    pub hash: String,
}

/// An operator's word on an effect.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EffectVerdict {
    /// It happened, with this result for the effects after it.
    Happened(Value),
    /// It did not.
    DidNotHappen,
}

fn default_limit() -> usize {
    20
}

fn default_max() -> u32 {
    Batch::DEFAULT_MAX
}

fn default_rate() -> u32 {
    Batch::DEFAULT_RATE
}

/// The longest result that an operator may state. It lives in the ledger's row.
const MAX_RESULT: usize = 256;

const HOW: &str = r#"write {"op": "list"}, {"op": "show", "id": "…"}, {"op": "replay", "id": "…", "by": "…", "reason": "…"}, {"op": "resolve", "id": "…", "effect": "…", "verdict": "did_not_happen" or {"happened": {…}}, "by": "…", "reason": "…"}, {"op": "pause", "flow": "…", "for": "30m", "by": "…", "reason": "…"}, or the ops reasons, plan, apply, batch, stop, approve, reject, drop, resume, safe_mode, policy and status"#;

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It must not be done; the sentence says why.
    #[error(transparent)]
    Declined(#[from] Declined),
    /// The ledger or the queue did not answer. A change may have been made, or a part of it.
    #[error("{0}; nothing is lost: see how things stand before you try again")]
    Unavailable(#[from] Unavailable),
}

impl Failure {
    /// The failure as an answer. Whoever asked for a change must look before they ask again where it says
    /// `unavailable`; a declined changes nothing.
    pub(crate) fn answer(&self) -> Value {
        match self {
            Failure::Declined(_) => json!({"error": self.to_string()}),
            Failure::Unavailable(_) => json!({"error": self.to_string(), "unavailable": true}),
        }
    }

    /// The failure as what became of one of several events. It is logged, for the operation goes on.
    pub(crate) fn answer_for(&self, id: &EventId) -> Value {
        warn!(event = %id, error = %self, "the operation was not done for this event; it goes on with the others");
        let mut answer = self.answer();
        answer["id"] = json!(id);
        answer
    }
}

impl From<RequeueError> for Failure {
    fn from(error: RequeueError) -> Self {
        match error {
            RequeueError::Declined(declined) => declined.into(),
            RequeueError::Write(error) => error.into(),
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Fenced => decline("somebody else changed it meanwhile: look again before you decide"),
            WriteError::Unavailable(unavailable) => unavailable.into(),
        }
    }
}

pub(crate) fn decline(why: impl Into<String>) -> Failure {
    Declined(why.into()).into()
}

pub(crate) async fn handle(replay: &Replay, payload: Value) -> Value {
    let name = payload["op"].as_str().unwrap_or_default().to_owned();
    let done = match serde_json::from_value(payload) {
        Ok(operation) => attempt(replay, &name, operation).await,
        Err(error) => Err(decline(format!("{error}; {HOW}"))),
    };
    done.unwrap_or_else(|failure| failure.answer())
}

/// Does what an operator asks for by this name, and logs that it was not done.
pub(crate) async fn attempt(replay: &Replay, name: &str, operation: Operation) -> Result<Value, Failure> {
    let event = operation.event().cloned();
    operate(replay, operation).await.inspect_err(|error| {
        warn!(op = name, event = event.as_ref().map(EventId::as_str), %error, "the operation was not done");
    })
}

/// Does what an operator asks for.
pub async fn operate(replay: &Replay, operation: Operation) -> Result<Value, Failure> {
    match operation {
        Operation::List { limit, only } => lists::list(replay, limit, &only).await,
        Operation::Reasons { only } => lists::reasons(replay, &only).await,
        Operation::Plan { ids, only, max } => plans::plan_for_operator(replay, ids, &only, max).await,
        Operation::Apply { events, by, reason } => plans::apply(replay, &events, SignOff::new(&by, &reason)?).await,
        Operation::Batch { only, max, rate, by, reason } => {
            lane::open(replay, only, max, rate, SignOff::new(&by, &reason)?).await
        }
        Operation::Stop { batch, by, reason } => lane::stop(replay, &batch, SignOff::new(&by, &reason)?).await,
        Operation::Schedule => schedule::run_schedule(replay).await,
        Operation::Show { id } => show(replay, &id).await,
        Operation::Replay { id, by, reason, version } => {
            replay_one(replay, &id, SignOff::new(&by, &reason)?, version.as_deref()).await
        }
        Operation::Resolve { id, effect, verdict, by, reason, version } => {
            resolve(replay, &id, &effect, verdict, SignOff::new(&by, &reason)?, version.as_deref()).await
        }
        Operation::Approve { questions, by, reason } => {
            decide(replay, questions, ApprovalAnswer::Approve, SignOff::new(&by, &reason)?).await
        }
        Operation::Reject { questions, by, reason } => {
            decide(replay, questions, ApprovalAnswer::Reject, SignOff::new(&by, &reason)?).await
        }
        Operation::Drop { id, by, reason, version } => {
            drop_event(replay, &id, SignOff::new(&by, &reason)?, version.as_deref()).await
        }
        Operation::Status => switches::status(replay).await,
        switch => switches::turn(replay, switch).await,
    }
}

async fn show(replay: &Replay, id: &EventId) -> Result<Value, Failure> {
    let Record { row, event } = Record::read(&*replay.records, id).await?;
    Ok(view::page(&row, event.as_ref()))
}

/// Sends one event through the queue again.
async fn replay_one(
    replay: &Replay,
    id: &EventId,
    sign_off: SignOff<'_>,
    seen: Option<&str>,
) -> Result<Value, Failure> {
    let now = replay.clock.now();
    let next = send::send_again(replay, id, seen, |row| row.replayed(sign_off, now)).await?;
    info!(event = %id, replay = next.replay, by = sign_off.by, "the event is on its way through the queue again");
    Ok(json!({"id": id, "state": next.state.as_str(), "replay": next.replay}))
}

/// Answers many questions. Each has its own fate: one that is refused does not hold back the others.
async fn decide(
    replay: &Replay,
    questions: Vec<QuestionSeen>,
    answer: ApprovalAnswer,
    sign_off: SignOff<'_>,
) -> Result<Value, Failure> {
    if questions.is_empty() || questions.len() > MAX_LIMIT {
        return Err(decline(format!("name 1 to {MAX_LIMIT} questions: {{\"id\": \"…\", \"hash\": \"…\"}} each")));
    }
    let mut answered = Vec::new();
    for QuestionSeen { id, hash } in questions {
        let question = Question { id: id.clone(), hash };
        let Replay { records, queue, flows, clock, .. } = replay;
        let decided = approval::decide(&**records, &**queue, flows, &question, answer, sign_off, clock.now()).await;
        answered.push(match decided.map_err(Failure::from) {
            Ok(row) => json!({"id": id, "state": row.state}),
            Err(failure) => failure.answer_for(&id),
        });
    }
    info!(count = answered.len(), by = sign_off.by, ?answer, "questions were answered");
    Ok(json!({"answered": answered}))
}

async fn drop_event(
    replay: &Replay,
    id: &EventId,
    sign_off: SignOff<'_>,
    seen: Option<&str>,
) -> Result<Value, Failure> {
    let now = replay.clock.now();
    let dropped = |row: Row| {
        version::check(&row, seen)?;
        let ttl = replay.flows.remembered(&row.flow);
        row.dropped(sign_off, ttl, now)
    };
    let next = end(&*replay.records, id, dropped).await?;
    info!(event = %id, by = sign_off.by, "the event was dropped");
    Ok(json!({"id": id, "state": next.state}))
}

/// Writes an operator's word down. The event stays parked: a replay takes it on from there.
async fn resolve(
    replay: &Replay,
    id: &EventId,
    effect: &str,
    verdict: EffectVerdict,
    sign_off: SignOff<'_>,
    seen: Option<&str>,
) -> Result<Value, Failure> {
    let happened = match verdict {
        EffectVerdict::Happened(result) if result.to_string().len() > MAX_RESULT => {
            return Err(decline(format!("the result must be at most {MAX_RESULT} bytes: name an id, not a record")));
        }
        EffectVerdict::Happened(result) => Some(result),
        EffectVerdict::DidNotHappen => None,
    };
    let row = find(&*replay.records, id).await?;
    version::check(&row, seen)?;
    let next = row.clone().resolved(effect, happened, sign_off, replay.clock.now())?;
    replay.records.replace(Some(&row), &next).await?;
    info!(event = %id, effect, by = sign_off.by, "an unknown effect was resolved");
    Ok(view::page(&next, None))
}
