//! Rejections as RFC 9457 problem details.

use serde_json::{Value, json};
use shared::trace::Trace;

use crate::accept::Rejection;

/// A problem's stable name, its HTTP status, its title, and what the sender can do.
pub(crate) struct Problem {
    pub(crate) status: u16,
    name: &'static str,
    title: &'static str,
    detail: &'static str,
}

/// How long a sender should wait when we are at fault.
pub(crate) const RETRY_AFTER_SECONDS: u32 = 5;

impl Problem {
    pub(crate) fn of(rejection: &Rejection) -> Self {
        let (status, name, title, detail) = match rejection {
            Rejection::UnknownSource => (404, "unknown-source", "Unknown source", "No such source is configured."),
            Rejection::TooLarge => {
                (413, "too-large", "Body too large", "The body is larger than this source may send.")
            }
            Rejection::UnsupportedMediaType => {
                (415, "unsupported-media-type", "Not JSON", "Send the event as application/json.")
            }
            Rejection::Refused(_) => (401, "bad-signature", "Not verified", "The signature was not accepted."),
            Rejection::Malformed => (400, "malformed", "Malformed body", "The body is not valid JSON."),
            Rejection::UnknownType => (422, "unknown-type", "Unknown event type", "No flow takes events of this type."),
            Rejection::Invalid(_) => (422, "invalid-event", "Invalid event", "The event does not match its schema."),
            Rejection::Unkeyed(_) => {
                (422, "invalid-event", "Invalid event", "A field that identifies the event is not a plain value.")
            }
            Rejection::Unavailable(_) => (503, "unavailable", "Try again", "Nothing was accepted. Send it again."),
        };
        Problem { status, name, title, detail }
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
        if let Rejection::Invalid(violations) = rejection {
            body["errors"] = json!(violations);
        }
        body
    }
}
