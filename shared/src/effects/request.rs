//! The request that an effect sends, made from its templates and the event.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::body::{self, RequestBody};
use super::credentials::Credentials;
use super::outcome::NoAnswer;
use crate::arrival::event::Event;
use crate::arrival::signature::Secret;
use crate::base::trace::SpanId;
use crate::flows::template::{Scope, TemplateError, Values};
use crate::flows::{
    Call, Effect, HeaderTemplates, Integration, LookedUpCall, Lookup, PartnerAnswer, QueryTemplates, Request, ResultAt,
};
use crate::ledger::Row;

/// A request to a partner, ready to be sent.
#[derive(Clone, PartialEq)]
pub struct PartnerRequest {
    /// The HTTP method.
    pub method: &'static str,
    /// The integration's name; of a request for a token, with `/_token` behind it.
    pub integration: String,
    /// The integration's base URL.
    pub base_url: String,
    /// The path below the base URL with its query, encoded.
    pub path: String,
    /// The header fields, without our credentials and the content type.
    pub headers: Vec<(String, String)>,
    /// Our credentials.
    pub credentials: Credentials,
    /// The body.
    pub body: Option<RequestBody>,
    /// The longest wait for the answer.
    pub timeout: Duration,
}

impl PartnerRequest {
    /// A question that belongs to no effect, with the query and the header fields of all requests to its integration.
    pub fn with_fields_of(
        mut self,
        integration: &Integration,
        event: &Event,
        secrets: &SecretVars,
    ) -> Result<PartnerRequest, TemplateError> {
        if integration.query.is_empty() && integration.headers.is_empty() {
            return Ok(self);
        }
        let flow = json!({"name": event.flow, "version": event.version});
        let (now, vars) = (event.received_at.to_string(), Some(Value::Object(integration.vars.plain())));
        let values = with_secrets(Scope { flow, now, vars, ..Scope::of(&Value::Null) }, secrets);
        self.path = path(self.path, &QueryTemplates::default(), integration, &values)?;
        self.headers.extend(HeaderTemplates::default().render(&integration.headers, &values)?);
        Ok(self)
    }

    /// The body as JSON, if there is one and it is JSON.
    pub fn json(&self) -> Option<Value> {
        self.body.as_ref()?.json()
    }
}

/// Says nothing of what is in it: a path, a header or a body holds values of an event, and may hold a secret.
impl fmt::Debug for PartnerRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let PartnerRequest { method, integration, base_url, credentials, body, timeout, .. } = self;
        write!(f, "{method} {base_url}… ({integration}, {headers:?}, {credentials:?}, {body:?}, {timeout:?})")
    }
}

/// The secret variables of an integration, by name.
pub type SecretVars = BTreeMap<String, Secret>;

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
    pub span: SpanId,
    /// Our credentials.
    pub credentials: Credentials,
    /// The partner's secret variables.
    pub secret_vars: SecretVars,
}

impl RequestParts<'_> {
    /// The request that calls the effect, under the same key each time, replays included.
    pub fn request(self) -> Result<PartnerRequest, TemplateError> {
        // A partner that takes no key gets no header.
        let header = Some(&self.integration.idempotency_header).filter(|name| !name.is_empty());
        let header = header.map(|name| (name.clone(), self.key()));
        let request = &self.call.request;
        self.render(request, header)
    }

    /// The request that asks the partner whether the effect happened.
    pub fn lookup(self, lookup: &Lookup) -> Result<PartnerRequest, TemplateError> {
        self.render(&lookup.request, None)
    }

    /// Every text that the partner must not be quoted with.
    pub fn secrets(&self) -> Vec<Secret> {
        self.credentials.secrets().into_iter().chain(self.secret_vars.values().cloned()).collect()
    }

    /// What a lookup may read of the call. The body is rendered only where the lookup reads it.
    pub fn looked_up(&self, lookup: &Lookup) -> Result<LookedUpCall, TemplateError> {
        let scope = self.scope()?;
        let sent = if lookup.reads_sent() { self.call.request.tree(&Values::from(&scope))? } else { None };
        Ok(LookedUpCall { sent, key: self.key(), now: scope.now })
    }

    fn key(&self) -> String {
        idempotency_key(self.row, self.effect)
    }

    /// The values that the path, the query and the header fields are rendered from: secret variables are among them.
    pub fn open_values(&self) -> Result<Values, TemplateError> {
        Ok(with_secrets(self.scope()?, &self.secret_vars))
    }

    /// The values that the body is rendered from.
    pub fn values(&self) -> Result<Values, TemplateError> {
        Ok(Values::from(&self.scope()?))
    }

    /// The values that the request's templates may read. Secrets are not among them.
    fn scope(&self) -> Result<Scope<'_>, TemplateError> {
        self.call.inner_scope(self.call.outer_scope(self.row.scope(self.event, self.effect), self.key()))
    }

    fn render(self, request: &Request, key: Option<(String, String)>) -> Result<PartnerRequest, TemplateError> {
        let scope = self.scope()?;
        let values = Values::from(&scope);
        let body = body::render(request, &values)?;
        // A secret has its place in a path, a query or a header, and no way into a body.
        let open = if self.secret_vars.is_empty() { values } else { with_secrets(scope, &self.secret_vars) };
        let headers = key.into_iter().chain(self.event.trace_headers(self.span));
        Ok(PartnerRequest {
            method: request.method.as_str(),
            integration: self.call.integration.clone(),
            base_url: self.integration.base_url.clone(),
            path: path(request.path.render_from(&open)?, &request.query, self.integration, &open)?,
            headers: headers.chain(request.headers.render(&self.integration.headers, &open)?).collect(),
            body,
            credentials: self.credentials,
            timeout: self.integration.timeout,
        })
    }
}

/// Our idempotency key for an effect: the same for each try, replays included, under the effect's oldest name. An event
/// that comes after the `ttl` of its key has another.
pub fn idempotency_key(row: &Row, effect: &Effect) -> String {
    format!("{}/{}", row.known_as(), row.name_of(effect))
}

/// A path with the query of a request, over that of its integration.
fn path(
    path: String,
    query: &QueryTemplates,
    integration: &Integration,
    values: &Values,
) -> Result<String, TemplateError> {
    let query = query.render(&integration.query, values)?;
    Ok(match query.is_empty() {
        true => path,
        false if path.contains('?') => format!("{path}&{query}"),
        false => format!("{path}?{query}"),
    })
}

fn with_secrets(scope: Scope<'_>, secrets: &SecretVars) -> Values {
    let secrets = secrets.iter().map(|(name, secret)| (name.as_str(), secret.expose().to_owned()));
    Values::from(&scope.with_vars(secrets))
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

#[cfg(test)]
mod tests;
