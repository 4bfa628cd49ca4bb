//! Rejections as RFC 9457 problem details.

use serde_json::{Value, json};
use shared::arrival::key::KeyError;
use shared::base::trace::Trace;

use crate::rejection::Rejection;

/// A problem's stable name, its HTTP status, its title, and what the sender can do.
pub(crate) struct ProblemDetails {
    pub(crate) status: u16,
    pub(crate) name: &'static str,
    title: &'static str,
    detail: &'static str,
}

/// The name of a sender's rate limit in its headers.
pub(crate) const POLICY: &str = "sender";

/// The delay that a sender is asked for when a port did not answer.
const RETRY_AFTER_SECONDS: u32 = 5;

impl ProblemDetails {
    pub(crate) fn of(rejection: &Rejection) -> Self {
        let (status, name, title, detail) = match rejection {
            Rejection::Malformed => (400, "malformed", "Malformed body", "The body is not what its content type says."),
            Rejection::NotABatch => (400, "not-a-batch", "Not a batch", "Send a JSON array of 1 to 100 events."),
            Rejection::Unkeyed(KeyError::HeaderMissing) => {
                (400, "key-missing", "Key missing", "This event needs the header Idempotency-Key.")
            }
            Rejection::Unkeyed(KeyError::HeaderMalformed) => {
                (400, "key-malformed", "Key malformed", "Idempotency-Key must have 1 to 255 visible characters.")
            }
            Rejection::BadSignature(_) => (
                401,
                "bad-signature",
                "Not verified",
                "The signature was rejected. Check the secret, your clock, and that you sign the body as you send it.",
            ),
            Rejection::Unauthorized => {
                (401, "unauthorized", "Not authorized", "Send your receipts token as a bearer token.")
            }
            Rejection::UnknownSource => {
                (404, "unknown-source", "Unknown source", "No such source is configured. Check the path.")
            }
            Rejection::NoReceipt => {
                (404, "no-receipt", "No such receipt", "You have sent no event with this id, or it is forgotten.")
            }
            Rejection::TooLarge => {
                (413, "too-large", "Body too large", "The body is larger than this source may send. Send less at once.")
            }
            Rejection::UnsupportedMediaType => {
                (415, "unsupported-media-type", "Unsupported form", "Send JSON, or a form if this source posts forms.")
            }
            Rejection::NoBatches => (
                422,
                "no-batches",
                "No batches here",
                "This source's deliveries hold several events by themselves. Send each to the path without /batch.",
            ),
            Rejection::NoEvents => {
                (422, "no-events", "No events", "A list that holds this source's events is missing, empty or too long.")
            }
            Rejection::BadHandshake => {
                (401, "bad-handshake", "Not verified", "The handshake's token was rejected. Check it on both sides.")
            }
            Rejection::UnknownType => (422, "unknown-type", "Unknown event type", "No flow takes events of this type."),
            Rejection::TypeMismatch(_) => (
                422,
                "type-mismatch",
                "Types differ",
                "The path names another type than the signed body. Send it to the path of its own type.",
            ),
            Rejection::UnknownVersion => {
                (422, "unknown-version", "Unknown version", "The flow does not know this version of its schema.")
            }
            Rejection::Invalid(_) => (
                422,
                "invalid-event",
                "Invalid event",
                "The event does not match its schema, or cannot be kept as it is. Correct the fields in `errors`.",
            ),
            Rejection::Unkeyed(KeyError::NotPlain(_) | KeyError::NoMoment(_) | KeyError::NoId) => {
                (422, "invalid-event", "Invalid event", "A field that identifies the event is missing or not usable.")
            }
            Rejection::Unkeyed(KeyError::MomentAhead) => {
                (422, "moment-ahead", "Moment ahead", "The event says that it happens more than 24 hours from now.")
            }
            Rejection::Unkeyed(KeyError::MomentForgotten) => (
                422,
                "moment-forgotten",
                "Moment forgotten",
                "The event is older than the events of its key that are remembered. Whether it was accepted is unknown.",
            ),
            Rejection::KeyReused => {
                (422, "key-reused", "Key reused", "This Idempotency-Key was used for another payload. Use a new one.")
            }
            Rejection::Throttled(_) => (
                429,
                "too-many",
                "Too many events",
                "You are over your rate. Wait as Retry-After says, sign it anew, and send the same event again.",
            ),
            Rejection::Unavailable(_) => (
                503,
                "unavailable",
                "Try again",
                "It may not have been accepted. Sign it anew, and send the same event again.",
            ),
        };
        ProblemDetails { status, name, title, detail }
    }

    /// The stable `type` of the problem.
    pub(crate) fn urn(&self) -> String {
        format!("urn:ledgerline:problem:{}", self.name)
    }

    pub(crate) fn body(&self, rejection: &Rejection, trace: &Trace) -> Value {
        let mut body = json!({
            "type": self.urn(),
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "trace_id": trace.id(),
        });
        match rejection {
            Rejection::Invalid(violations) => body["errors"] = json!(violations),
            Rejection::Unkeyed(KeyError::NotPlain(field) | KeyError::NoMoment(field)) => {
                body["errors"] = json!([{"pointer": format!("/{}", field.replace('.', "/")), "rule": "key"}]);
            }
            Rejection::TypeMismatch(pointer) => {
                body["errors"] = json!([{"pointer": pointer, "rule": "path"}]);
            }
            _ => (),
        }
        body
    }

    /// The header fields that belong to the problem.
    pub(crate) fn headers(&self, rejection: &Rejection) -> Vec<(&'static str, String)> {
        match rejection {
            Rejection::Unavailable(_) => vec![("retry-after", RETRY_AFTER_SECONDS.to_string())],
            Rejection::Throttled(denied) => denied.headers(POLICY),
            Rejection::Unauthorized => vec![("www-authenticate", "Bearer".into())],
            _ => Vec::new(),
        }
    }
}
