//! The way to a partner and back: the pause, the permit, the token, the time that is left.

use shared::arrival::signature::Secret;
use shared::effects::outcome::{Answer, NoAnswer};
use shared::effects::request::PartnerRequest;
use shared::flows::{Auth, Integration};
use shared::limits::pressure::{Deferral, Ended, Permit};
use shared::operate::metric::Fact;
use tracing::warn;

use crate::process::{MARGIN, Work};

impl Work<'_> {
    /// A permit to call a partner now, or how long to wait for one.
    pub(crate) async fn enter(&self, name: &str, partner: &Integration) -> Result<Permit, Deferral> {
        match self.paused(name) {
            Some(paused) => Err(paused),
            None => self.processor.gate.enter(name, &partner.pressure, partner.timeout, self.now()).await,
        }
    }

    /// Gives a permit back, and says how the partner is.
    pub(crate) async fn leave(&self, name: &str, permit: Permit, ended: Ended) {
        if let Some(change) = self.processor.gate.leave(permit, ended, self.now()).await {
            warn!(integration = name, ?change, "breaker");
            self.count(Fact::Breaker(name, change));
            self.breaker_changed(name, change).await;
        }
    }

    /// What proves us to a partner: its newest token, the last by name.
    pub(crate) async fn bearer(&self, name: &str, partner: &Integration) -> Result<Option<Secret>, String> {
        if partner.auth == Auth::None {
            return Ok(None);
        }
        let live = self.processor.secrets.live(&format!("integrations/{name}")).await;
        let live = live.map_err(|error| error.to_string())?;
        live.last().cloned().map(Some).ok_or_else(|| format!("there is no secret for `{name}`"))
    }

    /// Sends a request, and waits no longer than the invocation lasts.
    pub(crate) async fn send(&self, request: PartnerRequest) -> Result<Answer, NoAnswer> {
        let left = self.deadline.since(self.now()).saturating_sub(MARGIN);
        let timeout = request.timeout.min(left);
        self.processor.partners.call(PartnerRequest { timeout, ..request }).await
    }

    /// Asks a partner something that belongs to no effect. Anything but a 2xx is an error; the outer one
    /// says that it cannot be asked now.
    pub(crate) async fn ask(&self, name: &str, question: Question) -> Result<Result<Answer, String>, Deferral> {
        let Some(partner) = self.processor.flows.integration(name) else { return Ok(Err("no integration".into())) };
        let permit = self.enter(name, partner).await?;
        let (answer, ended) = match self.bearer(name, partner).await {
            // It is ours that is missing: the partner was not asked.
            Err(error) => (Err(error), Ended::Neutral),
            Ok(bearer) => match self.send(self.request(name, partner, question, bearer)).await {
                Ok(answer) if (200..=299).contains(&answer.status) => (Ok(answer), Ended::Success),
                Ok(answer) => (Err(format!("answered {}", answer.status)), Ended::Failure),
                Err(error) => (Err(error.to_string()), Ended::Failure),
            },
        };
        self.leave(name, permit, ended).await;
        Ok(answer)
    }

    fn request(&self, name: &str, partner: &Integration, question: Question, bearer: Option<Secret>) -> PartnerRequest {
        let Question { method, path, body } = question;
        PartnerRequest {
            method,
            integration: name.to_owned(),
            base_url: partner.base_url.clone(),
            path,
            headers: self.event.trace_headers(self.processor.chance.bits()),
            bearer,
            body,
            timeout: partner.timeout,
        }
    }
}

/// What a partner is asked that is no effect.
pub(crate) struct Question {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Option<serde_json::Value>,
}
