//! The request that an effect sends, made from its templates and the event.

use async_trait::async_trait;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::outcome::NoAnswer;
use crate::arrival::event::Event;
use crate::arrival::signature::Secret;
use crate::flows::template::{Body, Path, TemplateError};
use crate::flows::{Call, Effect, Integration, Lookup, PartnerAnswer, Request, ResultAt};
use crate::ledger::Row;

/// A request to a partner, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct PartnerRequest {
    /// The HTTP method.
    pub method: &'static str,
    /// The integration's name.
    pub integration: String,
    /// The integration's base URL.
    pub base_url: String,
    /// The path below the base URL, encoded.
    pub path: String,
    /// The header fields, without the authorization.
    pub headers: Vec<(String, String)>,
    /// The bearer token that authenticates us to the partner.
    pub bearer: Option<Secret>,
    /// The JSON body.
    pub body: Option<Value>,
    /// The longest wait for the answer.
    pub timeout: Duration,
}

/// The parts of which a request is made. `row` has the results of the effects before it.
#[derive(Clone, Debug)]
pub struct RequestParts<'o> {
    /// The effect that is called or looked up.
    pub effect: &'o Effect,
    /// The call of the effect.
    pub call: &'o Call,
    /// The partner of the effect.
    pub integration: &'o Integration,
    /// The event that the effect is done for.
    pub event: &'o Event,
    /// The event's row.
    pub row: &'o Row,
    /// The id of the request's span.
    pub span: u64,
    /// The bearer token that authenticates us to the partner.
    pub bearer: Option<Secret>,
}

impl RequestParts<'_> {
    /// The request that calls the effect, under the same key each time, replays included.
    pub fn request(self) -> Result<PartnerRequest, TemplateError> {
        let Request { method, path, body } = &self.call.request;
        let key = format!("{}/{}", self.event.id, self.row.name_of(self.effect));
        // A partner that takes no key gets no header.
        let header = Some(&self.integration.idempotency_header).filter(|name| !name.is_empty());
        let header = header.map(|name| (name.clone(), key));
        self.render(method.as_str(), path, body.as_ref(), header)
    }

    /// The request that asks the partner whether the effect happened.
    pub fn lookup(self, lookup: &Lookup) -> Result<PartnerRequest, TemplateError> {
        self.render("GET", &lookup.request.path, None, None)
    }

    fn render(
        self,
        method: &'static str,
        path: &Path,
        body: Option<&Body>,
        key: Option<(String, String)>,
    ) -> Result<PartnerRequest, TemplateError> {
        let scope = self.row.scope(self.event, self.effect);
        Ok(PartnerRequest {
            method,
            integration: self.call.integration.clone(),
            base_url: self.integration.base_url.clone(),
            path: path.render(&scope)?,
            headers: key.into_iter().chain(self.event.trace_headers(self.span)).collect(),
            body: body.map(|body| body.render(&scope)).transpose()?,
            bearer: self.bearer,
            timeout: self.integration.timeout,
        })
    }
}

/// The values at these pointers, under their names. What is not there, or too long for the ledger's row, is left out.
pub fn pick_values(result: &BTreeMap<String, String>, answer: &Value) -> Value {
    let kept = result.iter().filter_map(|(name, pointer)| {
        let value = answer.pointer(pointer)?;
        (value.to_string().len() <= ResultAt::MAX_BYTES).then(|| (name.clone(), value.clone()))
    });
    Value::Object(kept.collect())
}

/// The partners' APIs, as one port.
#[async_trait]
pub trait Partners: Send + Sync {
    /// Sends one request and waits for its answer, no longer than the request's timeout.
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer>;
}
