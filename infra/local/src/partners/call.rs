//! A call to the partner stub, as it came in and as it is logged.

use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Whether it had an `Authorization` header. The log never holds its value.
    pub authorized: bool,
    /// The body: as JSON, else as text.
    pub body: Value,
    /// The status of the answer, or `null` where there was none.
    pub status: Option<u16>,
    /// What the stub did, in a word: `ok`, `status`, `hang`, `reset`, `slow`, `slow_body`.
    pub mode: String,
    /// Whether the effect happened at the partner.
    pub applied: bool,
    /// Whether the answer was that of an earlier call with the same key.
    pub replayed: bool,
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
pub(super) struct IncomingCall {
    pub(super) integration: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) idempotency_key: Option<String>,
    pub(super) traceparent: Option<String>,
    pub(super) authorized: bool,
    pub(super) body: Value,
}

impl IncomingCall {
    pub(super) fn new(parts: &Parts, body: &[u8]) -> Self {
        let header = |name| Some(parts.headers.get(name)?.to_str().ok()?.to_owned());
        let segment = parts.uri.path().split('/').nth(1).unwrap_or_default();
        Self {
            integration: segment.to_owned(),
            method: parts.method.to_string(),
            path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            idempotency_key: header("idempotency-key"),
            traceparent: header("traceparent"),
            authorized: parts.headers.contains_key("authorization"),
            body: readable(body),
        }
    }
}

fn readable(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}
