//! The operators' requests: one JSON object each.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared::base::errors::{Unavailable, WriteError};
use shared::base::id::EventId;
use shared::base::masked::Masked;
use shared::base::suggest::suggest;
use shared::ledger::batch::{Batch, Filter};
use shared::ledger::timeline::EventTimeline;
use shared::ledger::{Declined, Line, Progress, Row, SignOff, missing};
use shared::operate::approval::{self, ApprovalAnswer, Question};
use shared::operate::log::LogLevel;
use shared::operate::metric::{Fact, WorkUnit};
use shared::operate::requeue::{Record, RequeueError, end, find};
use shared::operate::span::export_sent;
use tracing::{info, warn};

use crate::contacts::{self, ImportRow};
use crate::lists::{self, MAX_LIMIT};
use crate::plans::{self, PlanSeen};
use crate::schedule;
use crate::switches::{self, Span};
use crate::{Replay, lane, row_version, send_again, view, wake};

/// An operator's request.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Lists the newest parked events.
    List {
        /// The most events in the answer.
        #[serde(default = "default_limit")]
        limit: usize,
        /// The filter on the events.
        #[serde(default)]
        only: Filter,
    },
    /// Counts the parked events by flow and reason.
    Reasons {
        /// The filter on the events.
        #[serde(default)]
        only: Filter,
    },
    /// Plans a replay, for each event and each effect. Nothing is replayed.
    Plan {
        /// The events to plan for; without any, those that `only` takes.
        #[serde(default)]
        ids: Vec<EventId>,
        /// The filter on the events.
        #[serde(default)]
        only: Filter,
        /// The most events of the plan.
        #[serde(default = "default_limit")]
        max: usize,
        /// Whether the replay also does the effects that are new since the events were accepted.
        #[serde(default)]
        with_new: bool,
    },
    /// Replays exactly what a plan said.
    Apply {
        /// The plan's events, each with its hash.
        events: Vec<PlanSeen>,
        /// Whether the plan was made with the effects that are new since the events were accepted.
        #[serde(default)]
        with_new: bool,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Opens a batch: the lane replays its events slowly, one after the other.
    Batch {
        /// The filter on the events.
        #[serde(default)]
        only: Filter,
        /// The most events that the batch replays.
        #[serde(default = "default_max")]
        max: u32,
        /// The replay rate of each integration, in events a minute.
        #[serde(default = "default_rate")]
        rate: u32,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Stops a batch.
    Stop {
        /// The batch's id.
        batch: String,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Does the schedule's work: lets questions lapse, and replays events that may succeed now.
    Schedule,
    /// Wakes the waiting events that can go on.
    Wake,
    /// Shows one event in full.
    Show {
        /// The event's id.
        id: EventId,
    },
    /// Shows what was done for an event and when it waited, as spans.
    Trace {
        /// The event's id.
        id: EventId,
    },
    /// Sends one event through the queue again. One that waits is woken.
    Replay {
        /// The event's id.
        id: EventId,
        /// Whether the replay also does the effects that are new since the event was accepted.
        #[serde(default)]
        with_new: bool,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
        /// The version of the row that the operator saw; another one is declined.
        version: Option<String>,
    },
    /// Pauses calls: of a flow, of an integration, or all of them.
    Pause {
        /// The flow, if one is paused.
        flow: Option<String>,
        /// The integration, if one is paused.
        integration: Option<String>,
        /// The length of the pause, as `30m`; without it, an operator resumes the calls.
        r#for: Option<Span>,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Ends a pause.
    Resume {
        /// The flow, if one is resumed.
        flow: Option<String>,
        /// The integration, if one is resumed.
        integration: Option<String>,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Turns a flow's safe mode on, or that of all flows; with `0s`, off.
    SafeMode {
        /// The flow; without it, all flows.
        flow: Option<String>,
        /// The length of safe mode, as `30m`.
        r#for: Span,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Logs more or less of a flow for a while; for `0s`, as usual again.
    LogLevel {
        /// The flow's name.
        flow: String,
        /// The level: `error`, `warn`, `info` or `debug`.
        #[serde(default = "debug")]
        level: LogLevel,
        /// How long it is in force, as `30m`.
        r#for: Span,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Changes fields of a flow's retry policy; with none, the flow's own policy is in force again.
    Policy {
        /// The flow's name.
        flow: String,
        /// The changed fields: `{"max_attempts": 5}`.
        retry: Map<String, Value>,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Shows the switches and the newest batches.
    Status,
    /// Approves the plans of events that await it, as the operator saw them.
    Approve {
        /// The events, each with the hash of its plan.
        questions: Vec<QuestionSeen>,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Rejects the plans of events that await approval.
    Reject {
        /// The events, each with the hash of its plan.
        questions: Vec<QuestionSeen>,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Gives up on a parked event for good.
    Drop {
        /// The event's id.
        id: EventId,
        /// The name of the operator who signs off.
        by: String,
        /// The reason why the event is not worth another try.
        reason: String,
        /// The version of the row that the operator saw; another one is declined.
        version: Option<String>,
    },
    /// Records whether an effect happened, where an operator knows better than the ledger.
    Resolve {
        /// The event's id.
        id: EventId,
        /// The effect's id.
        effect: String,
        /// The verdict, from a look into the partner's own records.
        verdict: EffectVerdict,
        /// The name of the operator who looked.
        by: String,
        /// The grounds of the verdict.
        reason: String,
        /// The version of the row that the operator saw, as `show` tells it; another one is declined.
        version: String,
    },
    /// Shows a contact, with its values masked.
    ShowContact {
        /// The tenant that the contact belongs to.
        tenant: String,
        /// The contact's email.
        email: Masked<String>,
    },
    /// Sets and removes fields of a contact, as of now.
    SetContact {
        /// The tenant that the contact belongs to.
        tenant: String,
        /// The contact's email.
        email: Masked<String>,
        /// The fields to set; null removes one.
        fields: Masked<Map<String, Value>>,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
    /// Imports contacts, each row as of its own moment. The same import again changes nothing.
    ImportContacts {
        /// The rows.
        rows: Vec<ImportRow>,
        /// Whether nothing is written, and the answer says what an import would do.
        #[serde(default)]
        dry_run: bool,
        /// The operator's name.
        by: String,
        /// The operator's reason.
        reason: String,
    },
}

impl Operation {
    /// The event that the operation is about, where it is about one.
    fn event(&self) -> Option<&EventId> {
        match self {
            Operation::Show { id }
            | Operation::Trace { id }
            | Operation::Replay { id, .. }
            | Operation::Drop { id, .. }
            | Operation::Resolve { id, .. } => Some(id),
            _ => None,
        }
    }
}

/// An event that awaits approval, and the plan that the operator saw.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionSeen {
    /// The event's id.
    pub id: EventId,
    /// The hash of the plan.
    pub hash: String,
}

/// An operator's verdict on an effect.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EffectVerdict {
    /// The effect happened, with this result for the effects after it.
    Happened(Masked<Value>),
    /// The effect did not happen.
    DidNotHappen,
}

fn debug() -> LogLevel {
    LogLevel::Debug
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

/// The longest result that an operator may state, in bytes. It lives in the ledger's row.
const MAX_RESULT: usize = 1024;

const HOW: &str = concat!(
    r#"write a JSON object. To look: {"op": "list"}, {"op": "reasons"}, {"op": "show" or "trace", "id": "…"}, "#,
    r#"{"op": "plan", "ids": ["…"]}, {"op": "status"}, {"op": "show_contact", "tenant": "…", "email": "…"}. To change something, with "by": "…" and "reason": "…" besides: "#,
    r#"{"op": "replay", "id": "…"}, {"op": "apply", "events": [{"id": "…", "hash": "…"}]}, "#,
    r#"{"op": "batch", "only": {"flow": "…"}, "max": 20, "rate": 5}, {"op": "stop", "batch": "…"}, "#,
    r#"{"op": "approve" or "reject", "questions": [{"id": "…", "hash": "…"}]}, {"op": "drop", "id": "…"}, "#,
    r#"{"op": "resolve", "id": "…", "effect": "…", "verdict": "did_not_happen" or {"happened": {…}}, "version": "…"}, "#,
    r#"{"op": "pause", "flow" or "integration": "…", "for": "30m"}, {"op": "resume", "flow" or "integration": "…"}, "#,
    r#"{"op": "safe_mode", "flow": "…", "for": "2h"}, {"op": "policy", "flow": "…", "retry": {"max_attempts": 5}}, "#,
    r#"{"op": "log_level", "flow": "…", "level": "debug", "for": "30m"}, "#,
    r#"{"op": "set_contact", "tenant": "…", "email": "…", "fields": {"consent_email": false}}, "#,
    r#"{"op": "import_contacts", "rows": [{"line": 2, "tenant": "…", "email": "…", "at": "…", "fields": {…}}], "dry_run": true}"#,
);

/// The reason why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The operation is declined; the sentence says why.
    #[error(transparent)]
    Declined(#[from] Declined),
    /// The ledger or the queue did not answer. A change may have been made, or a part of it.
    #[error("{0}; a change may have been made, or a part of it: look at `show` or `status` before you try again")]
    Unavailable(Unavailable),
}

impl From<Unavailable> for Failure {
    fn from(unavailable: Unavailable) -> Self {
        WriteError::from(unavailable).into()
    }
}

impl Failure {
    /// The failure as an answer. With `unavailable`, the operator must look before they ask again; a declined
    /// operation has changed nothing.
    pub(crate) fn answer(&self) -> Value {
        match self {
            Failure::Declined(_) => json!({"error": self.to_string()}),
            Failure::Unavailable(_) => json!({"error": self.to_string(), "unavailable": true}),
        }
    }

    /// The failure as the fate of one of several events. It is logged, for the operation goes on.
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
            WriteError::Fenced => decline(
                "another operator or worker changed it meanwhile: this change was not made; look again before you decide",
            ),
            WriteError::NewerFormat => decline(
                "a newer version of Ledgerline wrote it: this change was not made, for it would lose what that version \
                 knows; finish the deploy, or ask again when the newer version is back",
            ),
            WriteError::Unavailable(unavailable) => Failure::Unavailable(unavailable),
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

/// The same for an approver, who answers questions and looks at them, and does nothing else.
pub(crate) async fn handle_for_approver(replay: &Replay, payload: Value) -> Value {
    match payload["op"].as_str() {
        Some("list" | "reasons" | "show" | "approve" | "reject") => handle(replay, payload).await,
        _ => decline("approvers may list, reasons, show, approve and reject: nothing was done").answer(),
    }
}

/// Does an operation that was asked for by this name, and logs if it was not done.
pub(crate) async fn attempt(replay: &Replay, name: &str, operation: Operation) -> Result<Value, Failure> {
    let event = operation.event().cloned();
    operate(replay, operation).await.inspect_err(|error| {
        warn!(op = name, event = event.as_ref().map(EventId::as_str), %error, "the operation was not done");
    })
}

/// Does an operation.
pub async fn operate(replay: &Replay, operation: Operation) -> Result<Value, Failure> {
    let unit = &WorkUnit::new(&*replay.metrics);
    match operation {
        Operation::List { limit, only } => lists::list(replay, limit, &only).await,
        Operation::Reasons { only } => lists::reasons(replay, &only).await,
        Operation::Plan { ids, only, max, with_new } => {
            plans::plan_for_operator(replay, ids, &only, max, with_new).await
        }
        Operation::Apply { events, with_new, by, reason } => {
            plans::apply(replay, unit, &events, with_new, SignOff::new(&by, &reason)?).await
        }
        Operation::Batch { only, max, rate, by, reason } => {
            lane::open(replay, only, max, rate, SignOff::new(&by, &reason)?).await
        }
        Operation::Stop { batch, by, reason } => lane::stop(replay, &batch, SignOff::new(&by, &reason)?).await,
        Operation::Schedule => schedule::run_schedule(replay, unit).await,
        Operation::Wake => wake::run_wakes(replay, unit).await,
        Operation::Show { id } => show(replay, &id).await,
        Operation::Trace { id } => trace(replay, &id).await,
        Operation::Replay { id, with_new, by, reason, version } => {
            replay_one(replay, unit, &id, with_new, SignOff::new(&by, &reason)?, version.as_deref()).await
        }
        Operation::Resolve { id, effect, verdict, by, reason, version } => {
            resolve(replay, &id, &effect, verdict, SignOff::new(&by, &reason)?, &version).await
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
        Operation::ShowContact { tenant, email } => contacts::show(replay, &tenant, &email).await,
        Operation::SetContact { tenant, email, fields, by, reason } => {
            contacts::set(replay, &tenant, &email, &fields, SignOff::new(&by, &reason)?).await
        }
        Operation::ImportContacts { rows, dry_run, by, reason } => {
            contacts::import(replay, &rows, dry_run, SignOff::new(&by, &reason)?).await
        }
        Operation::Status => switches::status(replay).await,
        switch => switches::turn(replay, unit, switch).await,
    }
}

async fn show(replay: &Replay, id: &EventId) -> Result<Value, Failure> {
    let Record { row, event } = Record::read(&*replay.records, id).await?;
    let mut page = view::page(&row, event.as_ref());
    say_needed_results(replay, &row, &mut page);
    page["timeline"] = json!(EventTimeline::of(&row, replay.clock.now()));
    let older = replay.records.older(id).await?;
    if !older.is_empty() {
        page["older"] = json!(older.iter().map(|row| view::page(row, None)).collect::<Vec<_>>());
    }
    Ok(page)
}

/// Says of each effect that is not done, or without a result, which results an operator has to state, should it have happened.
fn say_needed_results(replay: &Replay, row: &Row, page: &mut Value) {
    for (name, entry) in &row.effects {
        let needed = replay.flows.required_results(&row.flow, name);
        let lacking = match &entry.progress {
            Progress::Done { result } => missing(result, &needed),
            Progress::Skipped => Vec::new(),
            _ => needed.clone(),
        };
        if !lacking.is_empty() {
            page["effects"][name.as_str()]["needs"] = json!(needed);
        }
    }
}

/// What was done for an event and when it waited, rebuilt from its row.
async fn trace(replay: &Replay, id: &EventId) -> Result<Value, Failure> {
    let row = find(&*replay.records, id).await?;
    Ok(json!(EventTimeline::of(&row, replay.clock.now())))
}

/// Sends one event through the queue again.
async fn replay_one(
    replay: &Replay,
    unit: &WorkUnit<'_>,
    id: &EventId,
    with_new: bool,
    sign_off: SignOff<'_>,
    seen: Option<&str>,
) -> Result<Value, Failure> {
    let row = find(&*replay.records, id).await?;
    if row.stands_in_line() {
        row_version::check(&row, seen)?;
        let next = wake::wake_one(replay, &row, sign_off).await?;
        unit.count(&Fact::Woken(1));
        info!(event = %id, wake = next.wake, by = sign_off.by, "the waiting event was woken");
        return Ok(json!({"id": id, "state": next.state, "wake": next.wake}));
    }
    let now = replay.clock.now();
    let replayed = |row: Row| Ok(row.replayed(sign_off, now)?.and_what_is_new(with_new));
    let next = send_again::send_again(replay, unit, id, seen, replayed).await?;
    info!(event = %next.id, replay = next.replay, by = sign_off.by, "the event is on its way through the queue again");
    Ok(view::replayed(id, &next))
}

/// Answers questions. Each has its own fate: one that is declined does not hold back the others.
async fn decide(
    replay: &Replay,
    questions: Vec<QuestionSeen>,
    answer: ApprovalAnswer,
    sign_off: SignOff<'_>,
) -> Result<Value, Failure> {
    if questions.is_empty() || questions.len() > MAX_LIMIT {
        return Err(decline(format!("name 1 to {MAX_LIMIT} questions, each as {{\"id\": \"…\", \"hash\": \"…\"}}")));
    }
    let mut answered = Vec::new();
    for QuestionSeen { id, hash } in questions {
        let question = Question { id: id.clone(), hash };
        let Replay { records, queue, flows, clock, .. } = replay;
        let now = clock.now();
        let decided = approval::decide(&**records, &**queue, flows, &question, answer, sign_off, now).await;
        answered.push(match decided.map_err(Failure::from) {
            Ok(row) => {
                export_sent(&*replay.spans, &row, now, clock.now());
                json!({"id": id, "state": row.state})
            }
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
        row_version::check(&row, seen)?;
        let retention = replay.flows.remembered(&row.flow);
        row.dropped(sign_off, retention, now)
    };
    let kept = replay.records.kept(id).await?;
    let next = end(&*replay.records, id, dropped).await?;
    // Whoever stood behind it would find out that it is gone, at the cost of a read.
    if let Some((event, place)) = kept.as_ref().zip(next.in_line()) {
        replay.lines.leave(&Line::of(event), &place).await?;
    }
    info!(event = %id, by = sign_off.by, "the event was dropped");
    Ok(json!({"id": id, "state": next.state}))
}

/// Records an operator's verdict. The event stays parked: a replay goes on from there.
async fn resolve(
    replay: &Replay,
    id: &EventId,
    effect: &str,
    verdict: EffectVerdict,
    sign_off: SignOff<'_>,
    seen: &str,
) -> Result<Value, Failure> {
    let row = find(&*replay.records, id).await?;
    row_version::check(&row, Some(seen))?;
    let effect = known_effect(replay, &row, effect)?;
    let required = replay.flows.required_results(&row.flow, &effect);
    let happened = match verdict {
        EffectVerdict::Happened(result) if result.to_string().len() > MAX_RESULT => {
            return Err(decline(format!(
                "the result has more than {MAX_RESULT} bytes: state the partner's id, not its record"
            )));
        }
        EffectVerdict::Happened(Masked(result)) => Some(complete(result, &required)?),
        EffectVerdict::DidNotHappen => None,
    };
    let next = row.clone().resolved(&effect, happened, &required, sign_off, replay.clock.now())?;
    replay.records.replace(Some(&row), &next).await?;
    info!(event = %id, effect, by = sign_off.by, "an effect was resolved");
    Ok(view::page(&next, None))
}

/// The name under which the row knows an effect, if its flow or the row has it.
fn known_effect(replay: &Replay, row: &Row, effect: &str) -> Result<String, Failure> {
    let name = name_in_row(replay, row, effect);
    let of_flow =
        replay.flows.flow(&row.flow).into_iter().flat_map(|flow| &flow.effects).map(|known| known.id.as_str());
    let known: BTreeSet<&str> = of_flow.chain(row.effects.keys().map(String::as_str)).collect();
    if known.contains(name.as_str()) || known.is_empty() {
        return Ok(name);
    }
    Err(decline(format!("{} has no effect `{effect}`: {}", row.id, suggest(effect, known))))
}

/// The name under which the row knows an effect: operators may say the one that the flow has today.
fn name_in_row(replay: &Replay, row: &Row, effect: &str) -> String {
    let flow = replay.flows.flow(&row.flow).filter(|_| !row.effects.contains_key(effect));
    let known = flow.and_then(|flow| flow.effects.iter().find(|known| known.id == effect));
    known.map_or(effect, |known| row.name_of(known)).to_owned()
}

/// The result that an operator states, if it has what the effects after it need.
fn complete(result: Value, required: &[&str]) -> Result<Value, Failure> {
    let missing = missing(&result, required).join("`, `");
    if missing.is_empty() {
        return Ok(result);
    }
    Err(decline(format!(
        "the result lacks `{missing}`: state what the effects after it need, from the partner's records"
    )))
}
