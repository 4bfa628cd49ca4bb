//! Requests to a partner: our credentials, a token that is rejected, and the time that is left.

use std::time::Duration;

use futures::future::{Either, join, select};
use shared::arrival::signature::Secret;
use shared::effects::body::RequestBody;
use shared::effects::clue::{Mask, clue};
use shared::effects::outcome::NoAnswer;
use shared::effects::request::PartnerRequest;
use shared::flows::{Integration, Meaning, PartnerAnswer};
use shared::ledger::{CallError, Clue, Row};
use shared::limits::pressure::{CallEnd, SLOW};

use crate::call_spans::AskedQuestion;
use crate::credentials::{NoCredentials, credentials, renewed, secret_vars, until_credentials_are_right};
use crate::hindrance::Hindrance;
use crate::permits::{enter, leave};
use crate::work::{LAST_WRITES, Work};

/// A question to a partner that belongs to no effect.
pub(crate) struct PartnerQuestion<'q> {
    /// The id of the enrichment that it is asked for; empty for the question to a human.
    pub(crate) about: &'q str,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Option<serde_json::Value>,
}

/// The reason why a question has no answer.
pub(crate) enum NotAnswered {
    /// The partner cannot be asked now.
    Hindered(Hindrance),
    /// The partner did not take our credentials.
    CredentialsRejected {
        /// What it answered.
        error: String,
        /// What the event waits for.
        hindrance: Hindrance,
    },
    /// The partner did not answer the question.
    Failed(String),
}

/// Asks a partner a question that belongs to no effect. Any status but 2xx is an error.
pub(crate) async fn ask(
    work: &Work<'_>,
    row: &Row,
    name: &str,
    question: PartnerQuestion<'_>,
) -> Result<PartnerAnswer, NotAnswered> {
    let failed = |error: &str| Err(NotAnswered::Failed(error.to_owned()));
    let Some(partner) = work.processor.flows.integration(name) else { return failed("no integration") };
    let permit = enter(work, name, partner).await.map_err(NotAnswered::Hindered)?;
    let asked = AskedQuestion {
        integration: name,
        base_url: &partner.base_url,
        method: question.method,
        about: question.about,
    };
    let (answer, end) = match request(work, name, partner, question).await {
        Err(no_credentials) => {
            let (hindrance, end) = no_credentials.hindrance(work, name);
            (Err(NotAnswered::Hindered(hindrance)), end)
        }
        Ok((request, mut secrets)) => match send_asked(work, partner, &asked, request, &mut secrets).await {
            Ok(answer) if (200..=299).contains(&answer.status) => (Ok(answer), CallEnd::Success),
            Ok(answer) => {
                let meaning = work.processor.flows.read_question(partner, &answer).meaning;
                let error = CallError::from(format!("answered {}", answer.status));
                let error = error.with_clue(said(work, row, name, &Ok(answer), &secrets));
                not_answered(work, name, meaning, &error)
            }
            Err(error) => (failed(&error.to_string()), CallEnd::Failure),
        },
    };
    leave(work, name, permit, end).await;
    answer
}

async fn send_asked(
    work: &Work<'_>,
    partner: &Integration,
    asked: &AskedQuestion<'_>,
    request: PartnerRequest,
    secrets: &mut Vec<Secret>,
) -> Result<PartnerAnswer, NoAnswer> {
    let began = work.now();
    let answer = send_renewing(work, asked.integration, partner, request, secrets, |_| true).await;
    work.export_asked(asked, &answer, began);
    answer
}

/// What becomes of a question that was answered with an error, and what that says of the partner's health. Who answers
/// that there is no such thing is well.
fn not_answered(
    work: &Work<'_>,
    name: &str,
    meaning: Meaning,
    error: &CallError,
) -> (Result<PartnerAnswer, NotAnswered>, CallEnd) {
    let (told, end) = (
        error.to_string(),
        match meaning {
            Meaning::CredentialsRejected => CallEnd::CredentialsRejected,
            Meaning::Failed => CallEnd::Success,
            _ => CallEnd::Failure,
        },
    );
    if meaning != Meaning::CredentialsRejected {
        return (Err(NotAnswered::Failed(told)), end);
    }
    let hindrance = until_credentials_are_right(work, name, error);
    (Err(NotAnswered::CredentialsRejected { error: told, hindrance }), end)
}

/// The request of a question, and every text that the partner must not be quoted with.
async fn request(
    work: &Work<'_>,
    name: &str,
    partner: &Integration,
    question: PartnerQuestion<'_>,
) -> Result<(PartnerRequest, Vec<Secret>), NoCredentials> {
    let PartnerQuestion { about, method, path, body } = question;
    let request = PartnerRequest {
        method,
        integration: name.to_owned(),
        base_url: partner.base_url.clone(),
        path,
        headers: work.event.trace_headers(work.asked_span(about)),
        credentials: credentials(work, name, partner, format!("{}/{name}", work.event.id)).await?,
        body: body.as_ref().map(RequestBody::of_json),
        timeout: partner.timeout,
    };
    let vars = secret_vars(work, name, partner).await?;
    let secrets = request.credentials.secrets().into_iter().chain(vars.values().cloned()).collect();
    let request = request.with_fields_of(partner, work.event, &vars);
    let request = request.map_err(|error| NoCredentials::BadSecret(error.to_string()))?;
    Ok((request, secrets))
}

/// Sends a request; where the partner rejects the token that was fetched for it, once more with another one. A request
/// whose token was rejected surely did nothing: `is_rejection` says whether an answer means that. The other token is
/// added to the secrets that the partner must not be quoted with.
pub(crate) async fn send_renewing(
    work: &Work<'_>,
    name: &str,
    partner: &Integration,
    request: PartnerRequest,
    secrets: &mut Vec<Secret>,
    is_rejection: impl Fn(&PartnerAnswer) -> bool,
) -> Result<PartnerAnswer, NoAnswer> {
    if partner.auth.token_grant().is_none() {
        return send(work, request).await;
    }
    let again = request.clone();
    let answer = send(work, request).await?;
    if answer.status != UNAUTHORIZED || !is_rejection(&answer) {
        return Ok(answer);
    }
    let Some(credentials) = renewed(work, name, partner, &again.credentials).await else { return Ok(answer) };
    secrets.extend(credentials.secrets());
    if work.deadline.since(work.now()) < partner.timeout + LAST_WRITES {
        return Err(NoAnswer::NotSent("there was no time for a call with the renewed token".into()));
    }
    send(work, PartnerRequest { credentials, ..again }).await
}

/// The status of an answer to a token that is not good, or no more.
const UNAUTHORIZED: u16 = 401;

/// What the partner said of its error, with everything masked that is the event's, ours, or was kept of other answers.
/// Nothing of it is logged.
pub(crate) fn said(
    work: &Work<'_>,
    row: &Row,
    name: &str,
    answer: &Result<PartnerAnswer, NoAnswer>,
    secrets: &[Secret],
) -> Option<Clue> {
    let (answer, partner) = (answer.as_ref().ok()?, work.processor.flows.integration(name)?);
    let values = [&work.event.payload].into_iter().chain(row.kept_values());
    clue(answer, &partner.error, &Mask::new(values, secrets))
}

/// Sends a request, and waits no longer than the invocation lasts.
async fn send(work: &Work<'_>, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
    let timeout = request.timeout.min(time_left(work));
    let integration = request.integration.clone();
    let call = work.processor.partners.call(PartnerRequest { timeout, ..request });
    tell_if_slow(work, &integration, call).await
}

/// The time that a call may take at most, whatever its own timeout.
pub(crate) fn time_left(work: &Work<'_>) -> Duration {
    work.deadline.since(work.now()).saturating_sub(LAST_WRITES)
}

/// Waits for a call. The gate learns of one that takes long while it does, so that no other batch waits for the same
/// partner.
pub(crate) async fn tell_if_slow<T>(work: &Work<'_>, integration: &str, call: impl Future<Output = T> + Unpin) -> T {
    match select(call, work.processor.sleep.sleep(SLOW)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(((), call)) => join(call, learn_slow(work, integration)).await.0,
    }
}

async fn learn_slow(work: &Work<'_>, name: &str) {
    if let Some(partner) = work.processor.flows.integration(name) {
        work.processor.gate.learn_slow(name, &partner.pressure, work.now()).await;
    }
}
