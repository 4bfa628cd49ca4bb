//! An integration that the partner stub stands in for: the form of its answers, and the credentials that it asks for.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use base64::prelude::*;
use serde_json::Value;
use shared::arrival::signature::{Secret, standard_webhooks_signature};
use shared::flows::{Auth, BasicAuth, Flows};

use super::call::IncomingCall;
use super::form::PartnerForm;
use crate::journal::now_seconds;
use crate::partner_secrets::secret_for;

/// An integration of the flows folder, as its partner sees it.
#[derive(Clone, Default)]
pub struct StubIntegration {
    pub(super) form: PartnerForm,
    pub(super) auth: Auth,
    /// Our secret, in the form that `auth` wants.
    pub(super) secret: String,
    /// The secrets in variables.
    pub(super) vars: String,
}

/// It holds a secret.
impl std::fmt::Debug for StubIntegration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StubIntegration({:?})", self.form)
    }
}

/// How far the clock of a signature may be from ours, in seconds.
const TOLERANCE: i64 = 300;

impl StubIntegration {
    /// The integrations of a flows folder, with secrets that are made of this token.
    pub fn all(flows: &Flows, token: &str, state: &Path) -> Result<BTreeMap<String, Self>> {
        let known = |(name, integration): (&str, &shared::flows::Integration)| {
            let secret = secret_for(&integration.auth, token, state)?;
            let (form, auth) = (PartnerForm::of(integration.uses.as_deref()), integration.auth.clone());
            Ok((name.to_owned(), Self { form, auth, secret, vars: token.to_owned() }))
        };
        flows.integrations().map(known).collect()
    }

    /// An integration that answers in this form, and asks for no credentials.
    pub(super) fn of_form(form: PartnerForm) -> Self {
        Self { form, ..Self::default() }
    }

    /// Whether a call has the credentials that the integration asks for. `tokens` are those that its token end-point gave.
    pub(super) fn takes(&self, call: &IncomingCall, tokens: &BTreeMap<String, i64>) -> bool {
        let header = |name: &str| call.headers.get(&name.to_lowercase()).map(String::as_str);
        let secret = self.secret.as_str();
        let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
        match &self.auth {
            Auth::None => true,
            Auth::Bearer => header("authorization") == Some(&format!("Bearer {secret}")),
            Auth::Basic(BasicAuth { user: None }) => header("authorization") == Some(&basic(secret)),
            Auth::Basic(BasicAuth { user: Some(user) }) => {
                header("authorization") == Some(&basic(&format!("{user}:{secret}")))
            }
            Auth::Header(auth) => header(&auth.name) == Some(&format!("{}{secret}", auth.prefix)),
            Auth::Query(auth) => call.query()[&auth.name] == secret,
            Auth::Body(auth) => call.body[&auth.field] == secret,
            Auth::Signed => self.is_signed(call),
            Auth::Oauth2(_) | Auth::JwtBearer(_) => {
                let grant = self.auth.token_grant().and_then(|grant| grant.header().map(str::to_owned));
                let shown = match grant {
                    Some(name) => header(&name),
                    None => header("authorization").and_then(|value| value.strip_prefix("Bearer ")),
                };
                shown.and_then(|token| tokens.get(token)).is_some_and(|until| *until > now_seconds())
            }
        }
    }

    /// Whether the body is signed as Standard Webhooks, now.
    fn is_signed(&self, call: &IncomingCall) -> bool {
        let header = |name: &str| call.headers.get(name).map(String::as_str);
        let (Some(id), Some(at)) = (header("webhook-id"), header("webhook-timestamp")) else { return false };
        let Ok(at) = at.parse::<i64>() else { return false };
        let signature = standard_webhooks_signature(&Secret::new(self.secret.as_str()), id, at, &call.raw);
        (now_seconds() - at).abs() <= TOLERANCE && signature.as_deref() == header("webhook-signature")
    }

    /// The call as the log shows it.
    pub(super) fn without_secrets(&self, call: &IncomingCall) -> IncomingCall {
        let secrets = [&self.secret, &self.vars].map(|secret| secret.trim());
        let hidden = |text: &str| {
            let some = secrets.iter().filter(|secret| !secret.is_empty());
            some.fold(text.to_owned(), |text, secret| text.replace(secret, "***").replace(&encoded(secret), "***"))
        };
        IncomingCall { path: hidden(&call.path), body: without(&call.body, &hidden), ..IncomingCall::default() }
    }
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn without(value: &Value, hidden: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(hidden(text)),
        Value::Array(items) => items.iter().map(|item| without(item, hidden)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), without(field, hidden))).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn integration(auth: &str) -> StubIntegration {
        let auth: Auth = serde_saphyr::from_str(auth).expect(auth);
        let secret = secret_for(&auth, "token_abc", Path::new("unused")).expect("a secret");
        StubIntegration { auth, secret, ..StubIntegration::default() }
    }

    fn with_header(name: &str, value: &str) -> IncomingCall {
        IncomingCall { headers: [(name.to_owned(), value.to_owned())].into(), ..IncomingCall::default() }
    }

    #[test]
    fn credentials_are_checked_for_real() {
        let none = BTreeMap::new();
        let encode = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
        let signed = {
            let (id, at, raw) = ("msg_1", now_seconds(), b"{}".to_vec());
            let key = Secret::new(format!("whsec_{}", BASE64_STANDARD.encode("token_abc")));
            let signature = standard_webhooks_signature(&key, id, at, &raw).expect("a signature");
            let fields = [
                ("webhook-id", id.to_owned()),
                ("webhook-timestamp", at.to_string()),
                ("webhook-signature", signature),
            ];
            IncomingCall {
                headers: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                raw,
                ..IncomingCall::default()
            }
        };
        let query = IncomingCall { path: "/it/x?key=token_abc".into(), ..IncomingCall::default() };
        let body = IncomingCall { body: json!({"key": "token_abc"}), ..IncomingCall::default() };
        for (auth, good) in [
            ("bearer", with_header("authorization", "Bearer token_abc")),
            ("basic", with_header("authorization", &encode("demo:token_abc"))),
            ("{basic: {user: AC1}}", with_header("authorization", &encode("AC1:token_abc"))),
            ("{header: {name: X-Key, prefix: 'Key '}}", with_header("x-key", "Key token_abc")),
            ("{query: {name: key}}", query),
            ("{body: {field: key}}", body),
            ("signed", signed),
        ] {
            let integration = integration(auth);
            assert!(integration.takes(&good, &none), "{auth}");
            assert!(!integration.takes(&IncomingCall::default(), &none), "{auth}: nothing");
            let mut wrong = good.clone();
            wrong.headers.values_mut().for_each(|value| value.push('x'));
            wrong.path = wrong.path.replace("token_abc", "token_abd");
            wrong.body = json!({"key": "token_abd"});
            assert!(!integration.takes(&wrong, &none), "{auth}: wrong ones");
        }
        assert!(integration("none").takes(&IncomingCall::default(), &none));
    }

    #[test]
    fn the_log_shows_no_secret() {
        let call = IncomingCall {
            path: "/it/x?key=token_abc".into(),
            body: json!({"a": ["token_abc", {"key": "token_abc"}]}),
            ..IncomingCall::default()
        };
        let shown = integration("{query: {name: key}}").without_secrets(&call);
        assert_eq!((shown.path.as_str(), shown.body), ("/it/x?key=***", json!({"a": ["***", {"key": "***"}]})));
    }
}
