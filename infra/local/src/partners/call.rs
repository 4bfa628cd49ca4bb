//! A call to the partner stub, as it came in and as it is logged.

use std::collections::BTreeMap;

use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::token_endpoint::TOKEN_STEP;

/// A call to a partner: one line of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartnerCall {
    /// The number of the call in the log, from 1.
    pub seq: usize,
    /// When the stub decided on it, RFC 3339 with milliseconds.
    pub time: String,
    /// The first segment of the path.
    pub integration: String,
    /// The HTTP method.
    pub method: String,
    /// The whole path, with its query.
    pub path: String,
    /// The caller's `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// The caller's trace.
    pub traceparent: Option<String>,
    /// Whether it had the credentials that the integration asks for. The log never holds them.
    pub authorized: bool,
    /// The content type of the body.
    #[serde(default)]
    pub content_type: Option<String>,
    /// The body: as JSON, else as the fields of a form, else as text.
    pub body: Value,
    /// The status of the answer, or `null` where there was none.
    pub status: Option<u16>,
    /// What the stub did, in a word: `ok`, `status`, `hang`, `reset`, `hold`, `slow`, `slow_body`, `unauthorized`.
    pub mode: String,
    /// Whether the effect happened at the partner.
    pub applied: bool,
    /// Whether the answer was that of an earlier call with the same key.
    pub replayed: bool,
    /// How many calls of the integration were not answered yet when it came, itself included.
    #[serde(default)]
    pub open: usize,
}

impl PartnerCall {
    /// The fault of this call, in a few words; nothing where it had none.
    pub fn fault(&self) -> Option<String> {
        let happened = if self.applied || self.replayed { " after the effect" } else { "" };
        match (self.mode.as_str(), self.status) {
            ("ok", _) => None,
            ("status", Some(status @ 200..300)) => Some(format!("{status} with another body{happened}")),
            ("status", Some(status)) => Some(format!("{status}{happened}")),
            ("slow_body", _) => Some("slow body".into()),
            (mode, _) => Some(format!("{mode}{happened}")),
        }
    }
}

/// A call as it came in.
#[derive(Clone, Debug, Default)]
pub(super) struct IncomingCall {
    /// When it came.
    pub(super) at: jiff::Timestamp,
    pub(super) integration: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) idempotency_key: Option<String>,
    pub(super) traceparent: Option<String>,
    /// The header fields, under lower-case names.
    pub(super) headers: BTreeMap<String, String>,
    /// The body, as it came.
    pub(super) raw: Vec<u8>,
    /// The body, as it is read.
    pub(super) body: Value,
    /// How many calls of the integration are not answered yet, itself included.
    pub(super) open: usize,
}

impl IncomingCall {
    pub(super) fn new(parts: &Parts, body: &[u8]) -> Self {
        let segment = parts.uri.path().split('/').nth(1).unwrap_or_default();
        let text = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        let headers: BTreeMap<String, String> = parts.headers.iter().filter_map(text).collect();
        let call = Self {
            at: jiff::Timestamp::now(),
            integration: segment.to_owned(),
            method: parts.method.to_string(),
            path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            ..Self::default()
        };
        call.with(headers, body)
    }

    /// The call with these header fields, under lower-case names, and this body.
    pub(super) fn with(self, headers: BTreeMap<String, String>, body: &[u8]) -> Self {
        let is_form = headers.get("content-type").is_some_and(|kind| kind.starts_with(FORM));
        let header = |name: &str| headers.get(name).cloned();
        Self {
            idempotency_key: header("idempotency-key"),
            traceparent: header("traceparent"),
            raw: body.to_owned(),
            body: if is_form { fields(&String::from_utf8_lossy(body)) } else { readable(body) },
            headers,
            ..self
        }
    }

    /// A call with a body of JSON or of a form.
    pub(super) fn of_text(integration: &str, method: &str, path: &str, body: &str) -> Self {
        let read = serde_json::from_str(body).unwrap_or_else(|_| fields(body));
        let (integration, method, path) = (integration.to_owned(), method.to_owned(), path.to_owned());
        Self { integration, method, path, body: read, ..Self::default() }
    }

    /// Whether the call is one to the integration's token end-point.
    pub(super) fn asks_for_token(&self) -> bool {
        self.path.split(['/', '?']).nth(2) == Some(TOKEN_STEP)
    }

    /// The values of the query, by their names.
    pub(super) fn query(&self) -> Value {
        fields(self.path.split_once('?').map_or("", |(_, query)| query))
    }

    /// Whether a question wants this value, or does not care.
    pub(super) fn asks(&self, name: &str, value: &Value) -> bool {
        let query = self.query();
        query[name].is_null() || query[name] == *value
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

fn readable(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}

/// The fields of a form or a query. One that stands twice is a list.
fn fields(text: &str) -> Value {
    let decoded = |part: &str| percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
    let mut fields = Map::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = Value::String(decoded(value));
        match fields.entry(decoded(name)) {
            serde_json::map::Entry::Vacant(free) => drop(free.insert(value)),
            serde_json::map::Entry::Occupied(mut taken) => match taken.get_mut() {
                Value::Array(values) => values.push(value),
                one => *one = Value::Array(vec![one.take(), value]),
            },
        }
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms_and_queries_are_read() {
        let read = fields("To=%2B1555&Body=a+b%26c&MediaUrl=x&MediaUrl=y&items[0][price]=p&empty=");
        let expected =
            json!({"To": "+1555", "Body": "a b&c", "MediaUrl": ["x", "y"], "items[0][price]": "p", "empty": ""});
        assert_eq!(read, expected);
        let call = IncomingCall { path: "/sms/Messages.json?To=%2B1555".into(), ..IncomingCall::default() };
        assert!(call.asks("To", &json!("+1555")) && call.asks("From", &json!("x")) && !call.asks("To", &json!("+1")));
    }
}
