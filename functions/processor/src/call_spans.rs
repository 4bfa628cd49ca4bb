//! The spans of requests: each call of an effect, each question, each request for a token.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use shared::base::time::Timestamp;
use shared::base::trace::SpanId;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::{Action, Effect, PartnerAnswer};
use shared::ledger::Row;
use shared::ledger::timeline::SpanEnd;
use shared::operate::span::{self, SpanSide, TraceSpan};

use crate::work::Work;

/// What came of a call or a question about an effect, in our own words.
pub(crate) struct TriedCall {
    pub(crate) end: SpanEnd,
    /// The outcome's name.
    pub(crate) outcome: &'static str,
    pub(crate) said: Option<String>,
    /// The status that was answered, if there was one.
    pub(crate) status: Option<u16>,
}

impl Work<'_> {
    /// Exports the span of an effect that was tried, if it was.
    pub(crate) fn export_call(
        &self,
        row: &Row,
        effect: &Effect,
        tried: impl FnOnce() -> Option<TriedCall>,
        began: Timestamp,
    ) {
        self.export(|| {
            let ids = self.span_ids();
            let ids = (ids.called(row.epoch, &effect.id), ids.worked(row.epoch));
            let attempt = row.entry(effect).map_or(1, |entry| entry.attempts);
            let span = self.tried(ids, format!("call {}", effect.id), effect, tried()?, began);
            Some(span.with(span::ATTEMPT, u64::from(attempt)))
        });
    }

    /// Exports the span of a question whether an effect happened.
    pub(crate) fn export_lookup(
        &self,
        row: &Row,
        effect: &Effect,
        found: impl FnOnce() -> TriedCall,
        began: Timestamp,
    ) {
        self.export(|| {
            let ids = self.span_ids();
            let ids = (ids.looked_up(row.epoch, &effect.id), ids.worked(row.epoch));
            Some(self.tried(ids, format!("look up {}", effect.id), effect, found(), began))
        });
    }

    fn tried(
        &self,
        ids: (SpanId, SpanId),
        name: String,
        effect: &Effect,
        tried: TriedCall,
        began: Timestamp,
    ) -> TraceSpan {
        let TriedCall { end, outcome, said, status } = tried;
        let side = if effect.integration().is_some() { SpanSide::Client } else { SpanSide::Internal };
        let mut span =
            self.span(ids, name, side, began).with(span::EFFECT, effect.id.clone()).with(span::END, end.as_str());
        span.attributes.extend(said.map(|said| (span::SAID, said.into())));
        if let Some(integration) = effect.integration() {
            span = span.with(span::INTEGRATION, integration.to_owned());
        }
        let partner = self.processor.flows.partner_of(effect);
        match &effect.action {
            Action::Call(call) => {
                let url = partner.map_or("", |partner| &partner.base_url);
                span.attributes.extend(span::request_to(url, call.request.method.as_str(), status));
            }
            Action::Invoke(_) => {
                let function = partner.and_then(|partner| Some(partner.function.as_ref()?.name().to_owned()));
                span.attributes.extend(function.map(|name| (span::FAAS_INVOKED_NAME, name.into())));
                span = span.with(span::FAAS_INVOKED_PROVIDER, "aws");
            }
            Action::Upsert(_) | Action::Decide(_) => (),
        }
        if end == SpanEnd::Done {
            return span;
        }
        span.with(span::ERROR_TYPE, outcome).or_error(Some(end.as_str()))
    }

    /// The span of a question that belongs to no effect.
    pub(crate) fn asked_span(&self, about: &str) -> SpanId {
        self.span_ids().asked(self.claim_number(), about)
    }

    /// Exports the span of a question that belongs to no effect. Of the answer, it has the status.
    pub(crate) fn export_asked(
        &self,
        question: &AskedQuestion<'_>,
        answer: &Result<PartnerAnswer, NoAnswer>,
        began: Timestamp,
    ) {
        self.export(|| {
            let AskedQuestion { integration, base_url, method, about } = question;
            let ids = (self.asked_span(about), self.own_span());
            let mut asked = self.span(ids, format!("ask {integration}"), SpanSide::Client, began);
            if !about.is_empty() {
                asked = asked.with(span::ENRICHMENT, (*about).to_owned());
            }
            Some(requested(asked, integration, (base_url, method), answer))
        });
    }
}

/// A question that belongs to no effect, as its span tells it.
pub(crate) struct AskedQuestion<'q> {
    pub(crate) integration: &'q str,
    pub(crate) base_url: &'q str,
    pub(crate) method: &'static str,
    pub(crate) about: &'q str,
}

/// The span of a request that was answered, or was not.
fn requested(
    span: TraceSpan,
    integration: &str,
    (base_url, method): (&str, &'static str),
    answer: &Result<PartnerAnswer, NoAnswer>,
) -> TraceSpan {
    let status = answer.as_ref().map(|answer| answer.status).ok();
    let mut span = span.with(span::INTEGRATION, integration.to_owned());
    span.attributes.extend(span::request_to(base_url, method, status));
    let error = match (answer, status) {
        (_, Some(200..=299)) => return span.with(span::END, SpanEnd::Done.as_str()),
        (Err(NoAnswer::NotSent(_)), _) => "not_sent".to_owned(),
        (Err(NoAnswer::Lost(_)), _) => "no_answer".to_owned(),
        (Ok(answer), _) => answer.status.to_string(),
    };
    let failed = SpanEnd::Failed.as_str();
    span.with(span::END, failed).with(span::ERROR_TYPE, error).or_error(Some(failed))
}

/// The end-point that gives tokens for an integration, as it is asked during the work on a message: each request is told
/// the trace, and has a span. Most work asks for no token, and pays nothing for this.
pub(crate) struct TokenEndpoint<'w> {
    pub(crate) work: &'w Work<'w>,
    pub(crate) integration: &'w str,
}

#[async_trait]
impl Partners for TokenEndpoint<'_> {
    async fn call(&self, mut request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        let TokenEndpoint { work, integration } = self;
        let earlier = work.token_requests.fetch_add(1, Ordering::Relaxed);
        let id = work.span_ids().token_fetched(work.claim_number(), earlier, integration);
        request.headers.extend(work.event.trace_headers(id));
        let (base_url, method, began) = (request.base_url.clone(), request.method, work.now());
        let answer = work.processor.partners.call(request).await;
        work.export(|| {
            let span = work.span((id, work.own_span()), format!("token {integration}"), SpanSide::Client, began);
            Some(requested(span, integration, (&base_url, method), &answer))
        });
        answer
    }
}
