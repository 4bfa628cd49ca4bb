//! Actions of effects: a call, an upsert, a decision; and the lookup of whether a call happened.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use shared::base::errors::Unavailable;
use shared::effects::contact::{ContactUpsert, Upserted};
use shared::effects::outcome::{LookupOutcome, Outcome, classify, read_lookup};
use shared::effects::request::RequestParts;
use shared::flows::template::TemplateError;
use shared::flows::{Action, Call, Decide, Effect, Flow, Lookup, Upsert};
use shared::ledger::{Doubt, Row, SignOff};
use shared::limits::pressure::{CallEnd, Deferral, DeferralReason};
use shared::operate::requeue::RequeueError;
use shared::operate::{approval, stale_guard};
use tracing::info;

use crate::partner::{send, token};
use crate::work::{Processor, Work};

/// The result of an effect's action.
pub(crate) enum Performed {
    /// The action was done, or at least tried.
    Answered(Outcome),
    /// The action was not tried, because something of ours did not answer. That is no attempt.
    Deferred(Deferral),
    /// The action must not be tried any more, because a newer event of the entity was.
    Overtaken(String),
    /// The action was not tried, because a token of ours was missing or not readable. It may be done later.
    NotReady(String),
    /// The request could not be made from this event.
    NotRendered(TemplateError),
}

impl Performed {
    /// The result's meaning for the partner's health.
    pub(crate) fn call_end(&self) -> CallEnd {
        match self {
            Performed::Answered(Outcome::Done(_) | Outcome::Terminal(_)) => CallEnd::Success,
            Performed::Answered(Outcome::Retryable { doubt: Doubt::ResultMissing, .. }) => CallEnd::Success,
            Performed::Answered(Outcome::Unknown { doubt: Doubt::ResultMissing, .. }) => CallEnd::Success,
            Performed::Answered(Outcome::Retryable { .. } | Outcome::Unknown { .. }) => CallEnd::Failure,
            Performed::Answered(Outcome::CredentialsRejected(_)) => CallEnd::CredentialsRejected,
            Performed::Deferred(_) | Performed::Overtaken(_) | Performed::NotReady(_) | Performed::NotRendered(_) => {
                CallEnd::Neutral
            }
        }
    }
}

/// Does the effect's action, once. Its intent must be recorded in the row.
pub(crate) async fn perform(work: &Work<'_>, flow: &Flow, row: &Row, effect: &Effect) -> Performed {
    let done = match &effect.action {
        Action::Call(call) => return call_partner(work, row, effect, call).await,
        Action::Upsert(upsert) => upsert_contact(work, flow, row, effect, upsert).await,
        Action::Decide(decide) => decide_question(work, row, effect, decide).await,
    };
    done.map_or_else(Performed::NotRendered, Performed::Answered)
}

async fn call_partner(work: &Work<'_>, row: &Row, effect: &Effect, call: &Call) -> Performed {
    let tried = row.entry(effect).map_or(row.received_at, |entry| entry.since);
    let parts = match request_parts(work, row, effect, call).await {
        Ok(parts) => parts,
        Err(error) => return Performed::NotReady(error),
    };
    let request = match parts.request() {
        Ok(request) => request,
        Err(error) => return Performed::NotRendered(error),
    };
    let latest = &*work.processor.latest;
    match stale_guard::announce(latest, effect, work.event, row.received_at, work.now()).await {
        Ok(None) => (),
        Ok(Some(reason)) => return Performed::Overtaken(reason),
        Err(Unavailable { .. }) => {
            let (after, why) = (Unavailable::BACK_OFF, DeferralReason::LimitsUnavailable);
            return Performed::Deferred(Deferral { after, why });
        }
    }
    let answer = send(work, request).await;
    let (flows, now) = (&work.processor.flows, work.now());
    Performed::Answered(classify(answer, flows, effect, flows.trust(effect, tried, now), now))
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
) -> Result<Outcome, TemplateError> {
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
                Outcome::Done(json!({"id": id, "created": created}))
            }
            Err(error) => Outcome::Retryable { error: error.to_string(), retry_after: None, doubt: Doubt::None },
        },
        Err(bad) => Outcome::Terminal(bad.to_string()),
    })
}

fn log_overtaken(work: &Work<'_>, overtaken: &BTreeSet<String>) {
    if !overtaken.is_empty() {
        let (event, flow, trace_id) = work.ids();
        info!(event, flow, trace_id, fields = ?overtaken, "the contact keeps these fields as a newer event set them");
    }
}

/// Applies a human's answer to the event that awaits it. An answer that comes too late, or twice, is done
/// with: there is nothing to try again.
async fn decide_question(
    work: &Work<'_>,
    row: &Row,
    effect: &Effect,
    decide: &Decide,
) -> Result<Outcome, TemplateError> {
    let scope = row.scope(work.event, effect);
    let (question, answer) = (decide.question.text(&scope)?, decide.answer.text(&scope)?);
    let by = decide.by.text(&scope)?;
    Ok(match bring_answer(work, &question, &answer, &by).await {
        Ok(row) => Outcome::Done(json!({"id": row.id, "state": row.state})),
        Err(RequeueError::Declined(declined)) => Outcome::Done(json!({"refused": declined.to_string()})),
        Err(RequeueError::Write(error)) => {
            Outcome::Retryable { error: error.to_string(), retry_after: None, doubt: Doubt::None }
        }
    })
}

async fn bring_answer(work: &Work<'_>, question: &str, answer: &str, by: &str) -> Result<Row, RequeueError> {
    let Processor { records, queue, flows, .. } = work.processor;
    let (question, answer) = (question.parse()?, answer.parse()?);
    let why = format!("answered through {}", work.event.flow);
    let sign_off = SignOff { by, why: &why };
    approval::decide(&**records, &**queue, flows, &question, answer, sign_off, work.now()).await
}

/// Asks the effect's partner whether the effect happened.
pub(crate) async fn ask_whether_done(work: &Work<'_>, row: &Row, effect: &Effect, lookup: &Lookup) -> LookupOutcome {
    let Action::Call(call) = &effect.action else {
        return LookupOutcome::CannotSay("the effect calls no partner".into());
    };
    let parts = match request_parts(work, row, effect, call).await {
        Ok(parts) => parts,
        Err(error) => return LookupOutcome::CannotSay(error),
    };
    match parts.lookup(lookup) {
        Ok(request) => read_lookup(send(work, request).await, &work.processor.flows, effect, lookup),
        Err(error) => LookupOutcome::CannotSay(error.to_string()),
    }
}

async fn request_parts<'p>(
    work: &'p Work<'_>,
    row: &'p Row,
    effect: &'p Effect,
    call: &'p Call,
) -> Result<RequestParts<'p>, String> {
    let Work { processor, event, .. } = work;
    let integration = processor.flows.integration(&call.integration).expect("parsed flows name their integrations");
    let bearer = token(work, &call.integration, integration).await?;
    Ok(RequestParts { effect, call, integration, event, row, span: processor.chance.bits(), bearer })
}
