//! Actions of effects: a call, an invocation, an upsert, a decision; and the lookup of whether a call happened.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use shared::base::errors::{Unavailable, WriteError};
use shared::effects::contact::{ContactUpsert, Upserted};
use shared::effects::invocation::{Purpose, read_answer, read_ask};
use shared::effects::outcome::{LookupOutcome, Outcome, classify, read_lookup};
use shared::effects::request::{RequestParts, idempotency_key};
use shared::flows::template::TemplateError;
use shared::flows::{Action, Call, Decide, Effect, Flow, Invoke, Lookup, Meaning, Upsert};
use shared::ledger::timeline::SpanEnd;
use shared::ledger::{Doubt, Row, SignOff};
use shared::limits::pressure::{CallEnd, Deferral, DeferralReason};
use shared::operate::metric::CallOutcome;
use shared::operate::requeue::RequeueError;
use shared::operate::span::export_sent;
use shared::operate::{approval, stale_guard};
use tracing::{debug, warn};

use crate::call_spans::TriedCall;
use crate::credentials::{NoCredentials, credentials, deferral_of, secret_vars, until_secrets_are_read};
use crate::function::{function_request, send_to_function};
use crate::let_go::{may_let_go, wait_within_share};
use crate::partner::{said, send_renewing};
use crate::work::{Processor, Work};

/// The result of an effect's action.
pub(crate) enum Performed {
    /// The action was done, or at least tried.
    Answered(Outcome),
    /// The action was not tried, because something of ours did not answer. That is no attempt.
    Deferred(Deferral),
    /// The action must not be tried any more, because a newer event of the entity was.
    Overtaken(String),
    /// The action was not tried, because a secret of ours is missing or cannot be used. It may be done later.
    NotReady(String),
    /// The request could not be made from this event.
    NotRendered(TemplateError),
    /// The call took long, and was let go: other batches wait for the same partner. It may have happened, and the partner
    /// knows it again.
    LetGo,
}

/// The error of a call that was let go.
pub(crate) const LET_GO: &str = "no answer: the partner is slow, and other batches wait for it";

impl Performed {
    /// The result's meaning for the partner's health.
    pub(crate) fn call_end(&self, effect: &Effect) -> CallEnd {
        match self {
            Performed::Answered(Outcome::Done(_) | Outcome::Terminal(_)) => CallEnd::Success,
            Performed::Answered(Outcome::Retryable { doubt: Doubt::ResultMissing, .. }) => CallEnd::Success,
            Performed::Answered(Outcome::Unknown { doubt: Doubt::ResultMissing, .. }) => CallEnd::Success,
            Performed::Answered(Outcome::Unknown { .. }) if effect.asked_after().is_none() => CallEnd::LostEvent,
            Performed::Answered(Outcome::Retryable { .. } | Outcome::Unknown { .. }) => CallEnd::Failure,
            Performed::Answered(Outcome::CredentialsRejected(_)) | Performed::NotReady(_) => {
                CallEnd::CredentialsRejected
            }
            Performed::Deferred(_) | Performed::Overtaken(_) | Performed::NotRendered(_) | Performed::LetGo => {
                CallEnd::Neutral
            }
        }
    }

    /// The result as its span tells it, if anything was tried.
    pub(crate) fn tried(&self, status: Option<u16>) -> Option<TriedCall> {
        let (end, error) = match self {
            Performed::Answered(Outcome::Done(_)) => (SpanEnd::Done, None),
            Performed::Answered(Outcome::Retryable { error, .. }) => (SpanEnd::Failed, Some(error)),
            Performed::Answered(Outcome::Terminal(error) | Outcome::CredentialsRejected(error)) => {
                (SpanEnd::Failed, Some(error))
            }
            Performed::Answered(Outcome::Unknown { error, .. }) => (SpanEnd::Unknown, Some(error)),
            Performed::LetGo => (SpanEnd::Unknown, None),
            _ => return None,
        };
        let said = error.map(|error| error.told().to_owned());
        Some(TriedCall { end, outcome: self.call_outcome().as_str(), said, status })
    }

    /// The result as it is counted.
    pub(crate) fn call_outcome(&self) -> CallOutcome {
        match self {
            Performed::Answered(Outcome::Done(_)) => CallOutcome::Done,
            Performed::Answered(Outcome::Retryable { .. }) | Performed::LetGo => CallOutcome::Retry,
            Performed::Answered(Outcome::Terminal(_)) => CallOutcome::Failed,
            Performed::Answered(Outcome::Unknown { .. }) => CallOutcome::InDoubt,
            Performed::Answered(Outcome::CredentialsRejected(_)) => CallOutcome::CredentialsRejected,
            Performed::Deferred(_) | Performed::Overtaken(_) | Performed::NotReady(_) | Performed::NotRendered(_) => {
                CallOutcome::NotMade
            }
        }
    }
}

/// Does the effect's action, once. Its intent must be recorded in the row. Beside what came of it stands the status that
/// a partner answered.
pub(crate) async fn perform(work: &Work<'_>, flow: &Flow, row: &Row, effect: &Effect) -> (Performed, Option<u16>) {
    let done = match &effect.action {
        Action::Call(call) => {
            let called = call_partner(work, row, effect, call).await;
            return called.unwrap_or_else(|held_back| (held_back, None));
        }
        Action::Invoke(invoke) => return (invoke_function(work, flow, row, effect, invoke).await, None),
        Action::Upsert(upsert) => upsert_contact(work, flow, row, effect, upsert).await,
        Action::Decide(decide) => decide_question(work, row, effect, decide).await,
    };
    (done.unwrap_or_else(Performed::NotRendered), None)
}

/// Calls the effect's partner. The error is what came of an effect whose partner was not called.
async fn call_partner(
    work: &Work<'_>,
    row: &Row,
    effect: &Effect,
    call: &Call,
) -> Result<(Performed, Option<u16>), Performed> {
    let tried = row.entry(effect).map_or(row.received_at, |entry| entry.since);
    let parts = request_parts(work, row, effect, call, Purpose::Do).await.map_err(|error| match error {
        NoCredentials::BadSecret(error) => Performed::NotReady(error),
        NoCredentials::NoSecretStore(error) => Performed::Deferred(until_secrets_are_read(work, &error)),
        NoCredentials::NoToken(no_token) => Performed::Deferred(deferral_of(&no_token)),
    })?;
    let (partner, mut secrets) = (parts.integration, parts.secrets());
    let request = parts.request().map_err(Performed::NotRendered)?;
    if let Some(held_back) = announce(work, row, effect).await {
        return Err(held_back);
    }
    let flows = &work.processor.flows;
    let rejects = |answer: &_| flows.read_answer(effect, answer).meaning == Meaning::CredentialsRejected;
    let sent = send_renewing(work, &call.integration, partner, request, &mut secrets, rejects);
    let may_let_go = may_let_go(work, row, effect);
    let answer =
        wait_within_share(work, (&call.integration, partner), may_let_go, sent).await.ok_or(Performed::LetGo)?;
    let now = work.now();
    let outcome = classify(&answer, flows, effect, flows.trust(effect, tried, now), now);
    let status = answer.as_ref().map(|answer| answer.status).ok();
    if outcome.is_done() {
        return Ok((Performed::Answered(outcome), status));
    }
    let outcome = outcome.with_clue(said(work, row, &call.integration, &answer, &secrets));
    Ok((Performed::Answered(outcome), status))
}

async fn invoke_function(work: &Work<'_>, flow: &Flow, row: &Row, effect: &Effect, invoke: &Invoke) -> Performed {
    let tried = row.entry(effect).map_or(row.received_at, |entry| entry.since);
    let request = match function_request(work, flow, row, effect, invoke, Purpose::Do) {
        Ok(request) => request,
        Err(error) => return Performed::NotRendered(error),
    };
    if let Some(held_back) = announce(work, row, effect).await {
        return held_back;
    }
    let document = request.document.clone();
    let answer = send_to_function(work, request).await;
    let guarantee = work.processor.flows.trust(effect, tried, work.now());
    Performed::Answered(read_answer(answer, &document, effect, guarantee))
}

/// Tells the stale guard what is about to be done, and what holds it back, if anything does.
async fn announce(work: &Work<'_>, row: &Row, effect: &Effect) -> Option<Performed> {
    let latest = &*work.processor.latest;
    match stale_guard::announce(latest, effect, work.event, row.received_at, work.now()).await {
        Ok(None) => None,
        Ok(Some(reason)) => Some(Performed::Overtaken(reason)),
        Err(Unavailable { .. }) => {
            let (after, why) = (Unavailable::BACK_OFF, DeferralReason::LimitsUnavailable);
            Some(Performed::Deferred(Deferral { after, why }))
        }
    }
}

/// Creates or changes a contact. An upsert can be repeated without harm, so its failure leaves no doubt.
///
/// Its moment is the row's: that of the first delivery. A later copy of the event may be on the queue in its place.
async fn upsert_contact(
    work: &Work<'_>,
    flow: &Flow,
    row: &Row,
    effect: &Effect,
    upsert: &Upsert,
) -> Result<Performed, TemplateError> {
    let Work { processor, event, .. } = work;
    let scope = row.scope(event, effect);
    let contact = flow.contact.as_ref().expect("a parsed flow that upserts says whom");
    let (tenant, email) = contact.named(&scope)?;
    let fields: Map<String, Value> = upsert
        .fields
        .iter()
        .map(|(name, value)| Ok((name.clone(), value.render(&scope)?)))
        .collect::<Result<_, TemplateError>>()?;
    Ok(match ContactUpsert::new(&tenant, &email, &fields) {
        Ok(upsert) => match processor.contacts.upsert(&upsert, &event.id, row.received_at).await {
            Ok(Upserted { id, created, overtaken, .. }) => {
                log_overtaken(work, &overtaken);
                Performed::Answered(Outcome::Done(json!({"id": id, "created": created})))
            }
            Err(error) if error.is_lasting() => Performed::Answered(Outcome::Terminal(error.to_string().into())),
            Err(error) => not_reached(work, &error, DeferralReason::ContactsUnavailable),
        },
        Err(bad) => Performed::Answered(Outcome::Terminal(bad.to_string().into())),
    })
}

fn log_overtaken(work: &Work<'_>, overtaken: &BTreeSet<String>) {
    if !overtaken.is_empty() {
        let (event, flow, trace_id) = work.ids();
        debug!(event, flow, trace_id, fields = ?overtaken, "the contact keeps these fields as a newer event set them");
    }
}

/// Applies a human's answer to the event that awaits it. An answer that comes too late, or twice, is done
/// with: there is nothing to try again.
async fn decide_question(
    work: &Work<'_>,
    row: &Row,
    effect: &Effect,
    decide: &Decide,
) -> Result<Performed, TemplateError> {
    let scope = row.scope(work.event, effect);
    let (question, answer) = (decide.question.text(&scope)?, decide.answer.text(&scope)?);
    let by = decide.by.text(&scope)?;
    Ok(match bring_answer(work, &question, &answer, &by).await {
        Ok(row) => Performed::Answered(Outcome::Done(json!({"id": row.id, "state": row.state}))),
        Err(RequeueError::Declined(declined)) => {
            Performed::Answered(Outcome::Done(json!({"refused": declined.to_string()})))
        }
        Err(RequeueError::Write(WriteError::Unavailable(error))) => {
            not_reached(work, &error, DeferralReason::LimitsUnavailable)
        }
        Err(RequeueError::Write(error)) => Performed::Answered(Outcome::Retryable {
            error: error.to_string().into(),
            retry_after: None,
            doubt: Doubt::None,
            as_if_down: false,
        }),
    })
}

/// A table of ours did not answer: that is no attempt. Such an action can be repeated without harm.
fn not_reached(work: &Work<'_>, unavailable: &Unavailable, why: DeferralReason) -> Performed {
    let (event, flow, trace_id) = work.ids();
    warn!(event, flow, trace_id, %unavailable, "an effect of ours got no answer; the event is deferred, and it is done again");
    Performed::Deferred(Deferral { after: Unavailable::BACK_OFF, why })
}

async fn bring_answer(work: &Work<'_>, question: &str, answer: &str, by: &str) -> Result<Row, RequeueError> {
    let Processor { records, queue, flows, .. } = work.processor;
    let (question, answer) = (question.parse()?, answer.parse()?);
    let why = format!("answered through {}", work.event.flow);
    let (sign_off, now) = (SignOff { by, why: &why }, work.now());
    let row = approval::decide(&**records, &**queue, flows, &question, answer, sign_off, now).await?;
    export_sent(&*work.processor.spans, &row, now, work.now());
    Ok(row)
}

/// Asks the effect's partner or function whether the effect happened. Beside the outcome stands the status that a partner
/// answered. The error says why nobody was asked.
pub(crate) async fn ask_whether_done(
    work: &Work<'_>,
    flow: &Flow,
    row: &Row,
    effect: &Effect,
) -> Result<(LookupOutcome, Option<u16>), NoCredentials> {
    match (&effect.action, &effect.lookup) {
        (Action::Call(call), Some(lookup)) => ask_partner(work, row, effect, call, lookup).await,
        (Action::Invoke(invoke), _) => Ok((ask_function(work, flow, row, effect, invoke).await, None)),
        _ => Ok((LookupOutcome::CannotSay("the effect calls no partner".into()), None)),
    }
}

async fn ask_partner(
    work: &Work<'_>,
    row: &Row,
    effect: &Effect,
    call: &Call,
    lookup: &Lookup,
) -> Result<(LookupOutcome, Option<u16>), NoCredentials> {
    let parts = request_parts(work, row, effect, call, Purpose::Ask).await?;
    let (partner, mut secrets) = (parts.integration, parts.secrets());
    let (read, request) = match parts.looked_up(lookup).and_then(|read| Ok((read, parts.lookup(lookup)?))) {
        Ok(both) => both,
        Err(error) => return Ok((LookupOutcome::CannotSay(error.to_string().into()), None)),
    };
    let answer = send_renewing(work, &call.integration, partner, request, &mut secrets, |_| true).await;
    let outcome = read_lookup(&answer, &work.processor.flows, effect, lookup, Some(&read));
    let status = answer.as_ref().map(|answer| answer.status).ok();
    if outcome.call_end() == CallEnd::Success {
        return Ok((outcome, status));
    }
    Ok((outcome.with_clue(said(work, row, &call.integration, &answer, &secrets)), status))
}

async fn ask_function(work: &Work<'_>, flow: &Flow, row: &Row, effect: &Effect, invoke: &Invoke) -> LookupOutcome {
    match function_request(work, flow, row, effect, invoke, Purpose::Ask) {
        Ok(request) => {
            let document = request.document.clone();
            read_ask(send_to_function(work, request).await, &document, effect)
        }
        Err(error) => LookupOutcome::CannotSay(error.to_string().into()),
    }
}

/// The parts of a request. A lookup has an id of its own, for a partner that knows requests by their ids.
async fn request_parts<'p>(
    work: &'p Work<'_>,
    row: &'p Row,
    effect: &'p Effect,
    call: &'p Call,
    purpose: Purpose,
) -> Result<RequestParts<'p>, NoCredentials> {
    let Work { processor, event, .. } = work;
    let integration = processor.flows.integration(&call.integration).expect("parsed flows name their integrations");
    let id = idempotency_key(row, effect);
    let (id, span) = match purpose {
        Purpose::Do => (id, work.span_ids().called(row.epoch, &effect.id)),
        Purpose::Ask => (id + "/lookup", work.span_ids().looked_up(row.epoch, &effect.id)),
    };
    let credentials = credentials(work, &call.integration, integration, id).await?;
    let secret_vars = secret_vars(work, &call.integration, integration).await?;
    Ok(RequestParts { effect, call, integration, event, row, span, credentials, secret_vars })
}
