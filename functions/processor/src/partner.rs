//! Requests to a partner: the token, and the time that is left.

use futures::future::{Either, join, select};
use shared::arrival::signature::Secret;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::PartnerRequest;
use shared::flows::{Auth, Integration, PartnerAnswer};
use shared::limits::pressure::{CallEnd, SLOW};

use crate::hindrance::Hindrance;
use crate::permits::{enter, leave};
use crate::work::{LAST_WRITES, Work};

/// A question to a partner that belongs to no effect.
pub(crate) struct PartnerQuestion {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Option<serde_json::Value>,
}

/// Asks a partner a question that belongs to no effect. Any status but 2xx is an error; the outer error
/// says that the partner cannot be asked now.
pub(crate) async fn ask(
    work: &Work<'_>,
    name: &str,
    question: PartnerQuestion,
) -> Result<Result<PartnerAnswer, String>, Hindrance> {
    let Some(partner) = work.processor.flows.integration(name) else { return Ok(Err("no integration".into())) };
    let permit = enter(work, name, partner).await?;
    let (answer, end) = match token(work, name, partner).await {
        // The token is missing on our side: the partner was not asked.
        Err(error) => (Err(error), CallEnd::Neutral),
        Ok(token) => match send(work, request(work, name, partner, question, token)).await {
            Ok(answer) if (200..=299).contains(&answer.status) => (Ok(answer), CallEnd::Success),
            Ok(answer) => (Err(format!("answered {}", answer.status)), CallEnd::Failure),
            Err(error) => (Err(error.to_string()), CallEnd::Failure),
        },
    };
    leave(work, name, permit, end).await;
    Ok(answer)
}

fn request(
    work: &Work<'_>,
    name: &str,
    partner: &Integration,
    question: PartnerQuestion,
    bearer: Option<Secret>,
) -> PartnerRequest {
    let PartnerQuestion { method, path, body } = question;
    PartnerRequest {
        method,
        integration: name.to_owned(),
        base_url: partner.base_url.clone(),
        path,
        headers: work.event.trace_headers(work.processor.chance.bits()),
        bearer,
        body,
        timeout: partner.timeout,
    }
}

/// The token that authenticates us to a partner: the newest, which is the last by name.
pub(crate) async fn token(work: &Work<'_>, name: &str, partner: &Integration) -> Result<Option<Secret>, String> {
    if partner.auth == Auth::None {
        return Ok(None);
    }
    let live = work.processor.secrets.live(&format!("integrations/{name}")).await;
    let live = live.map_err(|error| error.to_string())?;
    live.last().cloned().map(Some).ok_or_else(|| format!("there is no secret for `{name}`"))
}

/// Sends a request, and waits no longer than the invocation lasts. The gate learns of a call that takes
/// long while it does, so that no other batch waits for the same partner.
pub(crate) async fn send(work: &Work<'_>, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
    let left = work.deadline.since(work.now()).saturating_sub(LAST_WRITES);
    let timeout = request.timeout.min(left);
    let integration = request.integration.clone();
    let call = work.processor.partners.call(PartnerRequest { timeout, ..request });
    match select(call, work.processor.sleep.sleep(SLOW)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(((), call)) => join(call, learn_slow(work, &integration)).await.0,
    }
}

async fn learn_slow(work: &Work<'_>, name: &str) {
    if let Some(partner) = work.processor.flows.integration(name) {
        work.processor.gate.learn_slow(name, &partner.pressure, work.now()).await;
    }
}
